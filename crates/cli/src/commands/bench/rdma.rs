//! `numaio bench rdma`: measures RDMA between two hosts by perftest from every node.

use super::net::endpoints::{check_device, EndpointArgs, Endpoints};
use super::net::remote::{self, RemoteArgs};
use super::net::{self, live, ping, sizes, Session, Sizes};
use super::shared::{BenchRecords, BoundsArgs};
use crate::failure::Failure;
use crate::machine::Machine;
use crate::options::{integer, Common};
use clap::{Args, ValueEnum};
use numaio_machine::discover::discover;
use numaio_machine::near::ResolveContext;
use numaio_measure::engine::perftest::Op;
use numaio_measure::engine::{Engine, Perftest};
use numaio_measure::{IoOptions, PingEngine};

/// Options of `numaio bench rdma`.
#[derive(Debug, Clone, Args)]
pub struct RdmaArgs {
    #[command(flatten)]
    pub far: RemoteArgs,
    /// RDMA device of this machine, for example mlx5_0; rdma link lists them
    #[arg(long, short, value_name = "DEV")]
    pub device: String,
    /// RDMA device of the other host; default: the same name
    #[arg(long, value_name = "DEV")]
    pub peer_device: Option<String>,
    /// Operation of this machine's device
    #[arg(long, value_name = "OP", default_value = "write")]
    pub op: RdmaOp,
    /// GID index of this machine's device, for RoCE; default: perftest's choice
    #[arg(long, value_name = "N", value_parser = integer(0..=u32::MAX))]
    pub gid: Option<u32>,
    /// GID index of the other host's device; default: that of --gid
    #[arg(long, value_name = "N", value_parser = integer(0..=u32::MAX))]
    pub peer_gid: Option<u32>,
    /// Measure latency instead of bandwidth, by ib_write_lat, ib_read_lat or ib_send_lat
    #[arg(long, conflicts_with_all = ["streams", "bytes", "window"])]
    pub ping: bool,
    /// Message sizes: a list such as 1K,64K, or a range such as 1K..1M of powers of two; default:
    /// 64K, with --ping 1,1K,64K,1M,8M
    #[arg(long, value_name = "SIZE,...", value_parser = sizes)]
    pub sizes: Option<Sizes>,
    #[command(flatten)]
    pub endpoints: EndpointArgs,
    #[command(flatten)]
    pub bounds: BoundsArgs,
}

/// RDMA operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RdmaOp {
    /// Write the other host's memory: a device write
    Write,
    /// Read the other host's memory: a device read
    Read,
    /// Send to the other host: a device write
    Send,
}

impl From<RdmaOp> for Op {
    fn from(op: RdmaOp) -> Self {
        match op {
            RdmaOp::Write => Self::Write,
            RdmaOp::Read => Self::Read,
            RdmaOp::Send => Self::Send,
        }
    }
}

/// Runs `numaio bench rdma`.
pub fn run(common: &Common, machine: &Machine, args: &RdmaArgs) -> Result<BenchRecords, Failure> {
    let remote_device = args.peer_device.as_deref().unwrap_or(&args.device);
    for device in [args.device.as_str(), remote_device] {
        check_device_name(device)?;
    }
    let kernel = live(machine)?;
    let topology = discover(machine);
    let context = ResolveContext { root: machine, locate: machine, topology: &topology };
    check_device(context, &args.device)?;
    let far = remote::connect_to(&args.far)?;
    let endpoints = Endpoints::of(context, &far, &args.endpoints, Some(&args.device))?;
    let op = Op::from(args.op);
    let default = if args.ping { net::default_sizes(true) } else { &[64 << 10] };
    let sizes = args.sizes.clone().map_or_else(|| default.to_vec(), |sizes| sizes.0);
    let engine = Perftest {
        far: endpoints.far.clone(),
        op,
        devices: [args.device.clone(), remote_device.to_owned()],
        gids: [args.gid, args.peer_gid.or(args.gid)],
    };
    if args.ping {
        let rule = args.bounds.rule(machine.time());
        let options =
            endpoints.ping_options(&args.endpoints, (Vec::new(), sizes), (args.bounds.window, rule));
        let session = Session::open(kernel, far);
        let engine = PingEngine::Perftest(engine);
        let record = ping::measure(common, machine, &topology, &args.bounds, &endpoints, (&engine, &options));
        drop(session);
        return record.map(|record| BenchRecords::Ping(Box::new(record)));
    }
    let io = IoOptions {
        block_bytes: sizes,
        operations: vec![Some(op.name().to_owned())],
        depth: 1,
        ..args.bounds.options(Default::default(), machine.time())
    };
    let options = endpoints.options(&args.endpoints, io, &[op.direction()]);
    let engines: [Box<dyn Engine>; 1] = [Box::new(engine)];
    let session = Session::open(kernel, far);
    let result = net::bench(common, machine, &topology, &args.bounds, &endpoints, (&engines, &options));
    drop(session);
    result.map(BenchRecords::Io)
}

/// Checks a device name.
///
/// The peer rejects other names, and perftest would read a leading dash as an option.
fn check_device_name(device: &str) -> Result<(), Failure> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b':');
    match (1..=64).contains(&device.len()) && device.bytes().all(is_allowed) {
        true => Ok(()),
        false => Err(Failure::usage(format!("invalid RDMA device '{device}'")).hint("rdma link lists them")),
    }
}
