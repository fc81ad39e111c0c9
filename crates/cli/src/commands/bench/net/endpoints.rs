//! Both ends of a network path: which one is varied, and what is there.

use super::remote;
use crate::args::{integer, node};
use crate::commands::model::node_of_device;
use crate::failure::Failure;
use clap::{Args, ValueEnum};
use numaio_linux::io::tcp::{locate_interface, HostInfo, InterfaceLocation};
use numaio_machine::ids::NodeId;
use numaio_machine::near::{resolve, Handle, ResolveContext};
use numaio_machine::set::NodeSet;
use numaio_machine::workload::Direction;
use numaio_measure::engine::{RemoteEnd, RemotePlacement};
use numaio_measure::io::{self, Placements};
use numaio_measure::net::{home, End, NetOptions, Side};
use numaio_measure::IoOptions;
use numaio_schema::{IoDevice, IoRemoteEnd};

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Where streams run")]
pub struct EndpointArgs {
    /// Whose placement is varied; without it this machine's
    #[arg(long, value_name = "SIDE")]
    pub side: Option<SideArg>,
    /// Numbers of streams
    #[arg(long, value_name = "N,...", default_value = "1,2,4", value_delimiter = ',', value_parser = integer(1..=256))]
    pub streams: Vec<u32>,
    /// Nodes of the CPUs here; without --memory-nodes their buffers are local to them
    #[arg(long, value_name = "K,...", value_delimiter = ',', value_parser = node)]
    pub cpu_nodes: Vec<NodeId>,
    /// Nodes of the buffers here, each with every node of --cpu-nodes or, without it, every node
    /// with CPUs
    #[arg(long, value_name = "K,...", value_delimiter = ',', value_parser = node)]
    pub memory_nodes: Vec<NodeId>,
    /// Every pair of a node of CPUs and a node of buffers, at the end that is varied: local and
    /// remote to the interface
    #[arg(long, value_name = "MATRIX", value_parser = ["cpu-memory"])]
    pub matrix: Option<String>,
}

/// Whose placement is varied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SideArg {
    /// The end that sends
    Sender,
    /// The end that receives
    Receiver,
    /// One after the other
    Both,
}

/// What is at both ends.
pub struct Endpoints {
    /// The other end, for engines.
    pub far: RemoteEnd,
    /// The device here and there.
    pub devices: (IoDevice, Option<IoDevice>),
    home: NodeId,
    own_place: IoRemoteEnd,
}

impl Endpoints {
    /// Of a session. `device` is the one that was named here; without it, it is the interface that
    /// has the address by which the peer was reached.
    pub fn of(
        ground: ResolveContext,
        far: &remote::RemoteHost,
        args: &EndpointArgs,
        device: Option<&str>,
    ) -> Result<Self, Failure> {
        let about = far.peer.host();
        let name = device.or(far.peer.interface()).unwrap_or("network");
        let local_device = local_device(ground, name, far.peer.name());
        let home = home(ground.topology, local_device.node)
            .ok_or_else(|| Failure::new("no node has both CPUs and memory that this process may use"))?;
        let (cpus, memory) = about.default_placement();
        let own_nodes = about.nodes.iter().filter(|node| node.cpus.iter().any(|cpu| cpus.contains(cpu)));
        Ok(Self {
            far: RemoteEnd {
                peer: far.peer.name().to_owned(),
                host: far.host.clone(),
                places: remote_places(about, args.matrix.is_some()),
            },
            own_place: IoRemoteEnd {
                cpu_nodes: own_nodes.map(|node| node.node).collect(),
                memory: Some(memory),
                cpu_ns_per_byte: None,
            },
            devices: (local_device, remote_device(about)),
            home,
        })
    }

    /// What is to be measured in these directions.
    pub fn options(&self, args: &EndpointArgs, io: IoOptions, directions: &[Direction]) -> NetOptions {
        let endpoints = |direction: Direction| match args.side {
            None => vec![End::Local],
            Some(SideArg::Sender) => vec![Side::Sender.end(direction)],
            Some(SideArg::Receiver) => vec![Side::Receiver.end(direction)],
            Some(SideArg::Both) => vec![End::Local, End::Remote],
        };
        let varied = directions
            .iter()
            .flat_map(|direction| endpoints(*direction).into_iter().map(|end| (end, *direction)));
        NetOptions {
            varied: varied.collect(),
            places: local_places(args),
            home: self.home,
            streams: args.streams.clone(),
            own_place: self.own_place.clone(),
            io,
        }
    }
}

fn local_places(args: &EndpointArgs) -> Placements {
    let set = |nodes: &[NodeId]| nodes.iter().copied().collect::<NodeSet>();
    let (cpu_nodes, memory_nodes) = (set(&args.cpu_nodes), set(&args.memory_nodes));
    match args.matrix.is_none() && memory_nodes.is_empty() {
        true => Placements::Local(cpu_nodes),
        false => Placements::Pairs { cpu_nodes, memory_nodes },
    }
}

fn remote_places(about: &HostInfo, all_pairs: bool) -> Vec<RemotePlacement> {
    let with_cpus = about.nodes.iter().filter(|node| !node.cpus.is_empty());
    let pairs = with_cpus.flat_map(|cpus| about.nodes.iter().map(move |memory| (cpus, memory)));
    let wanted = pairs.filter(|(cpus, memory)| memory.memory && (all_pairs || cpus.node == memory.node));
    wanted
        .map(|(cpus, memory)| RemotePlacement {
            cpu_node: cpus.node,
            cpus: cpus.cpus.clone(),
            memory: memory.node,
        })
        .collect()
}

/// The device here, by the name of its interface; a loopback is on no node.
fn local_device(ground: ResolveContext, name: &str, peer: &str) -> IoDevice {
    let InterfaceLocation { device, node } = locate_interface(ground, name);
    let found = device.map_or_else(unknown, |device| io::device(device, None));
    IoDevice { name: name.to_owned(), node, reached_via: Some(peer.to_owned()), ..found }
}

fn remote_device(about: &HostInfo) -> Option<IoDevice> {
    let interface = about.interface.as_ref()?;
    let irqs = interface.irqs.clone();
    Some(IoDevice { name: interface.name.clone(), node: interface.node, irqs, ..unknown() })
}

fn unknown() -> IoDevice {
    IoDevice {
        name: String::new(),
        model: String::new(),
        pci: None,
        node: None,
        reached_via: None,
        irqs: Vec::new(),
    }
}

/// Finds out, before the other host is asked, whether a device that was named is there.
pub fn check_device(ground: ResolveContext, name: &str) -> Result<(), Failure> {
    match resolve(ground, &Handle::Name(name.to_owned())).is_unknown() {
        // It tells which devices there are.
        true => node_of_device(ground.topology, name).map(|_| ()),
        false => Ok(()),
    }
}
