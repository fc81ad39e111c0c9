//! `numaio bench net`: TCP between two hosts, from every node, with the placement of either end varied.

pub mod endpoints;
pub mod remote;
pub mod serve;

use super::shared::{self, BoundsArgs};
use crate::args::{integer, Common, Directions};
use crate::commands::measuring::{self, MeasuredMachine};
use crate::failure::Failure;
use crate::machine::Machine;
use crate::output;
use crate::ssh::ManagedProcess;
use clap::{Args, ValueEnum};
use endpoints::{check_device, EndpointArgs, Endpoints};
use numaio_linux::Kernel;
use numaio_machine::discover::discover;
use numaio_machine::near::ResolveContext;
use numaio_machine::topology::Topology;
use numaio_machine::units::parse_size;
use numaio_measure::engine::{Engine, Iperf3, Tcp};
use numaio_measure::{IoOptions, NetOptions};
use numaio_report::{io_agreement, net_text};
use numaio_schema::IoRecord;
use remote::RemoteArgs;
use std::net::{IpAddr, Ipv6Addr};
use std::process::ExitCode;

/// Sizes of messages, at most.
const MOST_SIZES: usize = 64;
/// Bytes of a message, at most.
const LARGEST: u64 = 64 << 20;

#[derive(Debug, Clone, Args)]
pub struct NetArgs {
    #[command(flatten)]
    pub far: RemoteArgs,
    /// Serve the other end, for numaio bench net --peer on another host; Ctrl-C ends it
    #[arg(long, conflicts_with_all = ["peer", "machine"])]
    pub serve: bool,
    /// Address to serve at; every one of this host without it
    #[arg(long, value_name = "ADDRESS", requires = "serve")]
    pub bind: Option<IpAddr>,
    /// Serve the one client that started this, and end with it
    #[arg(long, hide = true, requires = "serve")]
    pub attached: bool,
    /// What moves the data: tcp (built in), iperf3, or all, to check each other
    #[arg(long, value_name = "ENGINE", default_value = "tcp")]
    pub engine: NetEngine,
    /// Bytes of a message: sizes as 1K,64K, or 1K..1M for every power of two between
    #[arg(long, value_name = "SIZE,...", default_value = "128K", value_parser = sizes)]
    pub sizes: Sizes,
    /// Messages that a stream's buffer holds; more of them than a cache does come from memory each
    /// time
    #[arg(long, value_name = "N", default_value = "1", value_parser = integer(1..=4096))]
    pub depth: u32,
    /// Direction, named from this machine's device: a device write sends
    #[arg(long, value_name = "DIRECTION", default_value = "both")]
    pub direction: Directions,
    /// This machine's interface; without it the one that has the address by which the peer is
    /// reached
    #[arg(long, short, value_name = "DEV")]
    pub device: Option<String>,
    #[command(flatten)]
    pub sides: EndpointArgs,
    #[command(flatten)]
    pub bounds: BoundsArgs,
}

/// What moves data through a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum NetEngine {
    /// Built in
    Tcp,
    /// iperf3
    Iperf3,
    /// Both, one after the other
    All,
}

/// Sizes of messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sizes(pub Vec<u64>);

/// Serves the other end.
pub fn serve(common: &Common, args: &NetArgs) -> Result<ExitCode, Failure> {
    let bind = args.bind.unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED));
    let port = args.far.port.unwrap_or(0);
    match args.attached {
        true => serve::run_attached(common, bind, port),
        false => serve::run(common, bind, port),
    }
}

pub fn run(common: &Common, machine: &Machine, args: &NetArgs) -> Result<Vec<IoRecord>, Failure> {
    let kernel = live(machine)?;
    let topology = discover(machine);
    let ground = ResolveContext { root: machine, locate: machine, topology: &topology };
    args.device.as_deref().map_or(Ok(()), |name| check_device(ground, name))?;
    let far = remote::connect_to(&args.far)?;
    let endpoints = Endpoints::of(ground, &far, &args.sides, args.device.as_deref())?;
    let io = IoOptions {
        block_bytes: args.sizes.0.clone(),
        depth: args.depth,
        ..args.bounds.options(Default::default(), machine.time())
    };
    let options = endpoints.options(&args.sides, io, &args.direction.list());
    let engines = engines(args.engine, &endpoints);
    let session = Session::join(kernel, far);
    let done = bench(common, machine, &topology, &args.bounds, &endpoints, (&engines, &options));
    drop(session);
    done
}

/// A campaign of each engine between here and the other host.
///
/// # Errors
/// As [`shared::bench`].
pub fn bench(
    common: &Common,
    machine: &Machine,
    topology: &Topology,
    bounds: &BoundsArgs,
    endpoints: &Endpoints,
    (engines, options): (&[Box<dyn Engine>], &NetOptions),
) -> Result<Vec<IoRecord>, Failure> {
    let measure = |engine: &dyn Engine| {
        let setting = MeasuredMachine { root: machine, probe: machine, topology, source: machine.source() };
        let devices = endpoints.devices.clone();
        measuring::measure_net(common, setting, machine.time(), engine, &endpoints.far, devices, options)
    };
    let text = |records: &[IoRecord]| {
        let style = output::style(common);
        let mut text: String = records.iter().map(|record| net_text(record, &style)).collect();
        if let [one, other] = records {
            text.push_str(&io_agreement(one, other, &style));
        }
        text
    };
    shared::bench_by(common, machine, topology, bounds, engines, &measure, text)
}

/// This machine: no tape and no copied tree has a network.
pub fn live(machine: &Machine) -> Result<&Kernel, Failure> {
    machine.kernel().ok_or_else(|| {
        Failure::usage("a recorded machine has no network to measure").hint("leave --machine out")
    })
}

/// A session with the other host, which the kernel holds; when this is dropped it ends, and then
/// what was started for it.
pub struct Session<'a> {
    kernel: &'a Kernel,
    _started: Option<ManagedProcess>,
}

impl<'a> Session<'a> {
    /// Hands the session to the kernel.
    pub fn join(kernel: &'a Kernel, far: remote::RemoteHost) -> Self {
        kernel.add_peer(far.peer);
        Self { kernel, _started: far.started }
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        self.kernel.disconnect_peers();
    }
}

fn engines(wanted: NetEngine, endpoints: &Endpoints) -> Vec<Box<dyn Engine>> {
    let tcp = || Box::new(Tcp { far: endpoints.far.clone() }) as Box<dyn Engine>;
    let iperf3 = || Box::new(Iperf3 { far: endpoints.far.clone() }) as Box<dyn Engine>;
    match wanted {
        NetEngine::Tcp => vec![tcp()],
        NetEngine::Iperf3 => vec![iperf3()],
        NetEngine::All => vec![tcp(), iperf3()],
    }
}

/// Sizes, each alone or `FIRST..LAST`: every power of two times the first one up to the last.
pub fn sizes(text: &str) -> Result<Sizes, String> {
    let mut sizes = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once("..").unwrap_or((part, part));
        let (first, last) = (parse_size(first)?, parse_size(last.trim_start_matches('='))?);
        if first == 0 || last > LARGEST || first > last {
            return Err(format!("{part:?}: sizes go from 1 byte to 64 MiB, the smaller one first"));
        }
        sizes.extend(
            std::iter::successors(Some(first), |size| Some(size * 2)).take_while(|size| *size <= last),
        );
    }
    if sizes.len() > MOST_SIZES {
        return Err(format!("{} sizes; up to {MOST_SIZES} can be had", sizes.len()));
    }
    Ok(Sizes(sizes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_single_or_every_power_of_two_between() {
        assert_eq!(sizes("1k..8k"), Ok(Sizes(vec![1024, 2048, 4096, 8192])));
        assert_eq!(sizes("128K,1000,3K..7K"), Ok(Sizes(vec![131072, 1000, 3072, 6144])));
        assert_eq!(sizes("1k..1M").map(|sizes| sizes.0.len()), Ok(11));
        for wrong in ["", "0", "1k..", "..1k", "2k..1k", "1G", "x", "1k,,2k", "-1"] {
            assert!(sizes(wrong).is_err(), "{wrong}");
        }
        let many = ["1..64M"; 3].join(",");
        assert!(sizes(&many).is_err());
    }
}
