//! `numaio bench rdma`: RDMA between two hosts by perftest, from every node.

use super::net::endpoints::{check_device, EndpointArgs, Endpoints};
use super::net::remote::{self, RemoteArgs};
use super::net::{self, live, sizes, Session, Sizes};
use super::shared::BoundsArgs;
use crate::args::Common;
use crate::failure::Failure;
use crate::machine::Machine;
use clap::{Args, ValueEnum};
use numaio_machine::discover::discover;
use numaio_machine::near::ResolveContext;
use numaio_measure::engine::perftest::Op;
use numaio_measure::engine::{Engine, Perftest};
use numaio_measure::IoOptions;
use numaio_schema::IoRecord;

#[derive(Debug, Clone, Args)]
pub struct RdmaArgs {
    #[command(flatten)]
    pub far: RemoteArgs,
    /// RDMA device of this machine, as mlx5_0; rdma link lists them
    #[arg(long, short, value_name = "DEV")]
    pub device: String,
    /// RDMA device of the other host, if it has another name
    #[arg(long, value_name = "DEV")]
    pub peer_device: Option<String>,
    /// What this machine's device does
    #[arg(long, value_name = "OP", default_value = "write")]
    pub op: RdmaOp,
    /// Index of the GID here, of RoCE; without it perftest's choice
    #[arg(long, value_name = "N")]
    pub gid: Option<u32>,
    /// Index of the GID there, if it is another one
    #[arg(long, value_name = "N")]
    pub peer_gid: Option<u32>,
    /// Bytes of a message: sizes as 1K,64K, or 1K..1M for every power of two between
    #[arg(long, value_name = "SIZE,...", default_value = "64K", value_parser = sizes)]
    pub sizes: Sizes,
    #[command(flatten)]
    pub sides: EndpointArgs,
    #[command(flatten)]
    pub bounds: BoundsArgs,
}

/// Operations of RDMA.
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

pub fn run(common: &Common, machine: &Machine, args: &RdmaArgs) -> Result<Vec<IoRecord>, Failure> {
    let remote_device = args.peer_device.as_deref().unwrap_or(&args.device);
    for device in [args.device.as_str(), remote_device] {
        is_name(device)?;
    }
    let kernel = live(machine)?;
    let topology = discover(machine);
    let ground = ResolveContext { root: machine, locate: machine, topology: &topology };
    check_device(ground, &args.device)?;
    let far = remote::connect_to(&args.far)?;
    let endpoints = Endpoints::of(ground, &far, &args.sides, Some(&args.device))?;
    let op = Op::from(args.op);
    let io = IoOptions {
        block_bytes: args.sizes.0.clone(),
        operations: vec![Some(op.name().to_owned())],
        depth: 1,
        ..args.bounds.options(Default::default(), machine.time())
    };
    let options = endpoints.options(&args.sides, io, &[op.direction()]);
    let engine = Perftest {
        far: endpoints.far.clone(),
        op,
        devices: [args.device.clone(), remote_device.to_owned()],
        gids: [args.gid, args.peer_gid.or(args.gid)],
    };
    let engines: [Box<dyn Engine>; 1] = [Box::new(engine)];
    let session = Session::join(kernel, far);
    let done = net::bench(common, machine, &topology, &args.bounds, &endpoints, (&engines, &options));
    drop(session);
    done
}

/// The peer lets no other name through, and perftest would take one that begins with a dash for an
/// option.
fn is_name(device: &str) -> Result<(), Failure> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b':');
    match (1..=64).contains(&device.len()) && device.bytes().all(plain) {
        true => Ok(()),
        false => Err(Failure::usage(format!("{device:?} is no RDMA device")).hint("rdma link lists them")),
    }
}
