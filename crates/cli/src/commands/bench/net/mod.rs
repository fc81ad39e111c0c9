//! `numaio bench net`: measures TCP between two hosts from every node of either side.

pub mod endpoints;
mod irq_nodes;
pub mod ping;
pub mod remote;
pub mod serve;

use super::shared::{self, BenchRecords, BoundsArgs};
use crate::commands::measuring::{self, MeasuredMachine};
use crate::failure::Failure;
use crate::machine::Machine;
use crate::options::{address, integer, node, Common, Directions};
use crate::output;
use clap::{Args, ValueEnum};
use endpoints::{check_device, local_placements, EndpointArgs, Endpoints};
use numaio_linux::io::tcp::locate_interface;
use numaio_linux::Kernel;
use numaio_machine::discover::discover;
use numaio_machine::ids::NodeId;
use numaio_machine::near::ResolveContext;
use numaio_machine::topology::Topology;
use numaio_machine::units::parse_size;
use numaio_machine::workload::{IoPath, Rail, TcpPath};
use numaio_measure::engine::{Engine, Iperf3, Several, Tcp};
use numaio_measure::{AggregateOptions, IoOptions, NetOptions, PingEngine};
use numaio_report::{irq_nodes_text, net_text};
use numaio_schema::{AggregateRecord, IoEngine, IoRecord, Load, PingRail};
use numaio_transfer::ssh::ManagedProcess;
use remote::RemoteArgs;
use std::net::{IpAddr, Ipv6Addr};
use std::process::ExitCode;

/// Maximum number of message sizes.
const MAX_SIZES: usize = 64;
/// Maximum bytes of a message.
const MAX_BYTES: u64 = 64 << 20;

/// Options of `numaio bench net`.
#[derive(Debug, Clone, Args)]
pub struct NetArgs {
    #[command(flatten)]
    pub far: RemoteArgs,
    /// Serve numaio bench net --peer of another host until Ctrl-C
    #[arg(long, conflicts_with_all = ["peer", "machine"])]
    pub serve: bool,
    /// Address to listen on; default: all addresses of this host
    #[arg(long, value_name = "ADDRESS", value_parser = address, requires = "serve")]
    pub bind: Option<IpAddr>,
    /// Serve only the client that started this process, and end with it
    #[arg(long, hide = true, requires = "serve")]
    pub attached: bool,
    /// Engine that moves the data: tcp (built in), iperf3, or all to compare them
    #[arg(long, value_name = "ENGINE", default_value = "tcp")]
    pub engine: NetEngine,
    /// Congestion control of all streams, such as cubic or bbr; default: that of each machine
    #[arg(long, value_name = "NAME", value_parser = congestion, conflicts_with = "serve")]
    pub congestion: Option<String>,
    /// Measure latency instead of bandwidth: messages that the other host returns, one at a time
    #[arg(long, conflicts_with_all = ["serve", "engine", "congestion", "depth", "direction", "streams", "bytes"])]
    pub ping: bool,
    /// Local address and address of the other host of a rail; repeat it for each interface
    ///
    /// Measures each interface alone, all at the same time, and the sum. With --ping, messages are
    /// divided among all rails, evenly and by the measured bandwidth of each.
    #[arg(long, value_name = "ADDRESS=PEER", conflicts_with_all = ["serve", "device", "irq_nodes"], value_parser = ping::rail)]
    pub rail: Vec<Rail>,
    /// Measure with the interrupts of the interface on each of these nodes in turn; they return
    /// afterwards, after a crash by numaio undo. Requires root
    #[arg(long, value_name = "K,...", value_delimiter = ',', value_parser = node, conflicts_with_all = ["ping", "serve", "output"])]
    pub irq_nodes: Vec<NodeId>,
    /// Move interrupts although irqbalance is running and may move them again
    #[arg(long, requires = "irq_nodes")]
    pub despite_irqbalance: bool,
    /// Message sizes: a list such as 1K,64K, or a range such as 1K..1M of powers of two; default:
    /// 128K, with --ping 1,1K,64K,1M,8M
    #[arg(long, value_name = "SIZE,...", value_parser = sizes)]
    pub sizes: Option<Sizes>,
    /// Messages per stream buffer; a buffer larger than the cache is read from memory each time
    #[arg(long, value_name = "N", default_value = "1", value_parser = integer(1..=4096))]
    pub depth: u32,
    /// Direction of this machine's device: a device write sends
    #[arg(long, value_name = "DIRECTION", default_value = "both")]
    pub direction: Directions,
    /// Measure both directions at the same time, too: both rates and their sum
    #[arg(long, conflicts_with_all = ["direction", "ping", "rail", "serve"])]
    pub duplex: bool,
    /// Interface of this machine; default: the one with the address that reaches the peer
    #[arg(long, short, value_name = "DEV")]
    pub device: Option<String>,
    #[command(flatten)]
    pub endpoints: EndpointArgs,
    #[command(flatten)]
    pub bounds: BoundsArgs,
}

/// Engines that move data through a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum NetEngine {
    /// Built in
    Tcp,
    /// iperf3
    Iperf3,
    /// Both in turn
    All,
}

/// Message sizes in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sizes(pub Vec<u64>);

/// Serves the measurements of another host.
pub fn serve(common: &Common, args: &NetArgs) -> Result<ExitCode, Failure> {
    let bind = args.bind.unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED));
    let port = args.far.port.unwrap_or(0);
    match args.attached {
        true => serve::run_attached(bind, port),
        false => serve::run(common, bind, port),
    }
}

/// Runs `numaio bench net`.
///
/// # Errors
/// See [`shared::bench`].
pub fn run(common: &Common, machine: &Machine, args: &NetArgs) -> Result<BenchRecords, Failure> {
    let kernel = live(machine)?;
    let topology = discover(machine);
    let context = ResolveContext { root: machine, locate: machine, topology: &topology };
    args.device.as_deref().map_or(Ok(()), |name| check_device(context, name))?;
    if !args.rail.is_empty() && !args.ping {
        check_rails(args)?;
    }
    let far = remote::connect_to(&args.far)?;
    let mut endpoints = Endpoints::of(context, &far, &args.endpoints, args.device.as_deref())?;
    let rails = match args.rail.as_slice() {
        [] => Vec::new(),
        rails => ping::rails(context, rails, far.peer.name())?,
    };
    if let Some(first) = rails.first() {
        endpoints.devices.0 = first.device.clone();
    }
    let sizes = args.sizes.clone().map_or_else(|| default_sizes(args.ping).to_vec(), |sizes| sizes.0);
    if args.ping {
        let engine = PingEngine::Tcp(endpoints.far.clone());
        let rule = args.bounds.rule(machine.time());
        let options = endpoints.ping_options(&args.endpoints, (rails, sizes), (args.bounds.window, rule));
        let session = Session::open(kernel, far);
        let record = ping::measure(common, machine, &topology, &args.bounds, &endpoints, (&engine, &options));
        drop(session);
        return record.map(|record| BenchRecords::Ping(Box::new(record)));
    }
    let io = IoOptions {
        block_bytes: sizes,
        depth: args.depth,
        ..args.bounds.options(Default::default(), machine.time())
    };
    if !rails.is_empty() {
        let options = rails_options(args, io);
        let session = Session::open(kernel, far);
        let records = bench_rails(common, (machine, &topology), args, &endpoints, (&rails, &options));
        drop(session);
        return records;
    }
    let mut options = endpoints.options(&args.endpoints, io, &args.direction.list());
    options.network = endpoints.network(args.congestion.as_deref());
    options.duplex = args.duplex;
    let engines = engines(args, &endpoints);
    if !args.irq_nodes.is_empty() {
        let records =
            run_irq_nodes(common, machine, (args, kernel, context), far, &endpoints, (&engines, &options));
        return records.map(BenchRecords::Io);
    }
    let session = Session::open(kernel, far);
    let result = bench(common, machine, &topology, &args.bounds, &endpoints, (&engines, &options));
    drop(session);
    result.map(BenchRecords::Io)
}

/// Runs a campaign of each engine between this host and the other.
///
/// # Errors
/// See [`shared::bench`].
pub fn bench(
    common: &Common,
    machine: &Machine,
    topology: &Topology,
    bounds: &BoundsArgs,
    endpoints: &Endpoints,
    (engines, options): (&[Box<dyn Engine>], &NetOptions),
) -> Result<Vec<IoRecord>, Failure> {
    let measure = |engine: &dyn Engine, load: &[Load]| {
        let setting = MeasuredMachine::under(machine, topology, load);
        let devices = endpoints.devices.clone();
        measuring::measure_net(common, setting, machine.time(), engine, &endpoints.far, devices, options)
    };
    let text = |records: &[IoRecord]| {
        let style = output::style(common);
        let mut text: String = records.iter().map(|record| net_text(record, &style)).collect();
        text.extend(shared::compared(common, records));
        text
    };
    shared::bench_by(common, machine, topology, bounds, engines, &measure, text)
}

/// Rejects options that are not possible with several rails.
fn check_rails(args: &NetArgs) -> Result<(), Failure> {
    if args.endpoints.side.is_some() {
        return Err(Failure::usage("several rails are measured with placements of this machine only")
            .hint("omit --side"));
    }
    if args.engine != NetEngine::Tcp {
        return Err(Failure::usage("several rails are measured by the engine tcp only").hint("omit --engine"));
    }
    Ok(())
}

/// Returns the options of a campaign over rails, whose far end is not varied.
fn rails_options(args: &NetArgs, io: IoOptions) -> AggregateOptions {
    let places = local_placements(&args.endpoints);
    AggregateOptions::new(places, args.direction.list(), args.endpoints.streams.clone(), io)
}

/// Measures several interfaces, each alone and all at the same time.
fn bench_rails(
    common: &Common,
    (machine, topology): (&Machine, &Topology),
    args: &NetArgs,
    endpoints: &Endpoints,
    (rails, options): (&[PingRail], &AggregateOptions),
) -> Result<BenchRecords, Failure> {
    let path = |rail: &PingRail| {
        IoPath::Tcp(TcpPath {
            peer: endpoints.far.peer.clone(),
            peer_placement: None,
            congestion: args.congestion.clone(),
            rail: Some(rail.rail),
        })
    };
    let engine = Several { engine: IoEngine::Tcp, paths: rails.iter().map(path).collect() };
    let devices = rails.iter().map(|rail| rail.device.clone()).collect();
    let campaign = (&engine, devices, options);
    let network = endpoints.network(args.congestion.as_deref());
    let complete = |record: &mut AggregateRecord| record.method.network = Some(network);
    shared::bench_several(common, (machine, topology), &args.bounds, campaign, complete)
}

/// Measures with the interrupts of the interface on each requested node.
fn run_irq_nodes(
    common: &Common,
    machine: &Machine,
    (args, kernel, context): (&NetArgs, &Kernel, ResolveContext),
    far: remote::RemoteHost,
    endpoints: &Endpoints,
    (engines, options): (&[Box<dyn Engine>], &NetOptions),
) -> Result<Vec<IoRecord>, Failure> {
    let [engine] = engines else {
        return Err(Failure::usage("--irq-nodes needs one engine").hint("specify --engine tcp or iperf3"));
    };
    let (topology, name) = (context.topology, endpoints.devices.0.name.as_str());
    let device = locate_interface(context, name).device;
    let device = irq_nodes::check(topology, device, name, &args.irq_nodes)?;
    let session = Session::open(kernel, far);
    let load = args.bounds.load.at_once()?;
    let measure = |topology: &Topology| {
        let setting = MeasuredMachine::under(machine, topology, &load);
        let mut devices = endpoints.devices.clone();
        if let Some(moved) = topology.devices.iter().find(|found| found.path == device.path) {
            devices.0.irqs.clone_from(&moved.irqs);
        }
        measuring::measure_net(
            common,
            setting,
            machine.time(),
            engine.as_ref(),
            &endpoints.far,
            devices,
            options,
        )
    };
    let irqs = irq_nodes::IrqNodes {
        kernel,
        topology,
        device,
        nodes: &args.irq_nodes,
        despite_irqbalance: args.despite_irqbalance,
    };
    let records = irq_nodes::run(common, machine, &irqs, args.bounds.no_save, &measure);
    drop(session);
    let (nodes, records): (Vec<NodeId>, Vec<IoRecord>) = records?.into_iter().unzip();
    let text = |records: &[IoRecord]| {
        let style = output::style(common);
        let mut text: String = records.iter().map(|record| net_text(record, &style)).collect();
        text.push_str(&irq_nodes_text(&nodes, records, &style));
        text
    };
    shared::show(&args.bounds, records, text)
}

/// Returns the kernel of this machine; tapes and copied trees have no network.
pub fn live(machine: &Machine) -> Result<&Kernel, Failure> {
    machine.kernel().ok_or_else(|| {
        Failure::usage("cannot measure the network of a recorded machine")
            .hint("omit --machine and --sysroot")
    })
}

/// A session with the other host.
///
/// Dropping it disconnects the session, and then ends the started process.
pub struct Session<'a> {
    kernel: &'a Kernel,
    _started: Option<ManagedProcess>,
}

impl<'a> Session<'a> {
    /// Adds the session to the kernel's peers.
    pub fn open(kernel: &'a Kernel, far: remote::RemoteHost) -> Self {
        kernel.add_peer(far.peer);
        Self { kernel, _started: far.started }
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        self.kernel.disconnect_peers();
    }
}

fn engines(args: &NetArgs, endpoints: &Endpoints) -> Vec<Box<dyn Engine>> {
    let setting = || (endpoints.far.clone(), args.congestion.clone());
    let tcp = || {
        let (far, congestion) = setting();
        Box::new(Tcp { far, congestion }) as Box<dyn Engine>
    };
    let iperf3 = || {
        let (far, congestion) = setting();
        Box::new(Iperf3 { far, congestion }) as Box<dyn Engine>
    };
    match args.engine {
        NetEngine::Tcp => vec![tcp()],
        NetEngine::Iperf3 => vec![iperf3()],
        NetEngine::All => vec![tcp(), iperf3()],
    }
}

/// Returns the message sizes if none are requested: for latency from one byte to 8 MiB, as in
/// Moreaud and Goglin (2007).
pub fn default_sizes(ping: bool) -> &'static [u64] {
    match ping {
        true => &[1, 1 << 10, 64 << 10, 1 << 20, 8 << 20],
        false => &[128 << 10],
    }
}

/// Parses the name of a congestion control.
fn congestion(text: &str) -> Result<String, String> {
    let is_valid = numaio_machine::network::is_congestion_control(text);
    is_valid.then(|| text.to_owned()).ok_or_else(|| "expected a name such as cubic or bbr".to_owned())
}

/// Parses sizes and ranges `FIRST..LAST`, which stand for FIRST times all powers of two up to LAST.
pub fn sizes(text: &str) -> Result<Sizes, String> {
    let mut sizes = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once("..").unwrap_or((part, part));
        let (first, last) = (parse_size(first)?, parse_size(last.trim_start_matches('='))?);
        if first == 0 || last > MAX_BYTES || first > last {
            return Err(format!(
                "invalid size '{part}': expected sizes from 1 to 64M, the smaller one first"
            ));
        }
        sizes.extend(
            std::iter::successors(Some(first), |size| Some(size * 2)).take_while(|size| *size <= last),
        );
    }
    if sizes.len() > MAX_SIZES {
        return Err(format!("expected at most {MAX_SIZES} sizes, got {}", sizes.len()));
    }
    Ok(Sizes(sizes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_sizes_and_ranges() {
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
