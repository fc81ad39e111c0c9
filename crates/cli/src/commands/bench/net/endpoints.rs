//! Both ends of a network path: their devices, placements, and which is varied.

use super::remote;
use crate::commands::bench::shared::placements;
use crate::device_arguments::node_of_device;
use crate::failure::Failure;
use crate::options::{integer, node};
use clap::{Args, ValueEnum};
use numaio_linux::io::tcp::{locate_interface, HostInfo, InterfaceLocation};
use numaio_machine::ids::NodeId;
use numaio_machine::near::{resolve, Handle, ResolveContext};
use numaio_machine::network;
use numaio_machine::workload::Direction;
use numaio_measure::engine::{RemoteEnd, RemotePlacement};
use numaio_measure::io::{self, Placements};
use numaio_measure::net::{home, End, NetOptions, Side};
use numaio_measure::{IoOptions, PingOptions, Rule};
use numaio_schema::{IoDevice, IoRemoteEnd, NetworkSettings, PingRail};

/// Options of the placement of streams at both ends.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Where streams run")]
pub struct EndpointArgs {
    /// End whose placement is varied; default: this machine
    #[arg(long, value_name = "SIDE")]
    pub side: Option<SideArg>,
    /// Numbers of streams, each measured separately
    #[arg(long, value_name = "N,...", default_value = "1,2,4", value_delimiter = ',', value_parser = integer(1..=256))]
    pub streams: Vec<u32>,
    /// CPU nodes of this machine; without --memory-nodes, buffers are local to them
    #[arg(long, value_name = "K,...", value_delimiter = ',', value_parser = node)]
    pub cpu_nodes: Vec<NodeId>,
    /// Buffer nodes of this machine, each combined with every node of --cpu-nodes; default: every
    /// node with CPUs
    #[arg(long, value_name = "K,...", value_delimiter = ',', value_parser = node)]
    pub memory_nodes: Vec<NodeId>,
    /// Measure every pair of CPU node and buffer node of the varied end
    #[arg(long, value_name = "MATRIX", value_parser = ["cpu-memory"])]
    pub matrix: Option<String>,
}

/// The end whose placement is varied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SideArg {
    /// The sending end
    Sender,
    /// The receiving end
    Receiver,
    /// Both in turn
    Both,
    /// Both together: every placement of this machine with every one of the other
    Product,
}

/// Devices and placements of both ends.
pub struct Endpoints {
    /// The other end, for engines.
    pub far: RemoteEnd,
    /// The local and the remote device.
    pub devices: (IoDevice, Option<IoDevice>),
    home: NodeId,
    own_placement: IoRemoteEnd,
    network: NetworkSettings,
}

impl Endpoints {
    /// Describes the ends of a session.
    ///
    /// `device` is the requested local device; default: the interface with the address that reaches
    /// the peer.
    pub fn of(
        context: ResolveContext,
        far: &remote::RemoteHost,
        args: &EndpointArgs,
        device: Option<&str>,
    ) -> Result<Self, Failure> {
        let host = far.peer.host();
        let name = device.or(far.peer.interface()).unwrap_or("network");
        let local_device = local_device(context, name, far.peer.name());
        let home = home(context.topology, local_device.node).ok_or_else(|| {
            Failure::new("found no node with both CPUs and memory that this process may use")
        })?;
        let (cpus, memory) = host.default_placement();
        let own_nodes = host.nodes.iter().filter(|node| node.cpus.iter().any(|cpu| cpus.contains(cpu)));
        Ok(Self {
            far: RemoteEnd {
                peer: far.peer.name().to_owned(),
                host: far.host.clone(),
                places: remote_placements(host, args.matrix.is_some()),
            },
            own_placement: IoRemoteEnd {
                cpu_nodes: own_nodes.map(|node| node.node).collect(),
                memory: Some(memory),
                cpu_ns_per_byte: None,
            },
            network: network_settings(context, host, &local_device.name),
            devices: (local_device, remote_device(host)),
            home,
        })
    }

    /// Returns the options of a campaign in these directions.
    pub fn options(&self, args: &EndpointArgs, io: IoOptions, directions: &[Direction]) -> NetOptions {
        let endpoints = |direction: Direction| match args.side {
            None => vec![End::Local],
            Some(SideArg::Sender) => vec![Side::Sender.end(direction)],
            Some(SideArg::Receiver) => vec![Side::Receiver.end(direction)],
            Some(SideArg::Both) => vec![End::Local, End::Remote],
            Some(SideArg::Product) => vec![End::Both],
        };
        let varied = directions
            .iter()
            .flat_map(|direction| endpoints(*direction).into_iter().map(|end| (end, *direction)));
        NetOptions {
            varied: varied.collect(),
            duplex: false,
            places: local_placements(args),
            home: self.home,
            streams: args.streams.clone(),
            own_place: self.own_placement.clone(),
            network: self.network.clone(),
            io,
        }
    }
}

impl Endpoints {
    /// Returns the settings of the network, with the requested congestion control at both ends.
    pub fn network(&self, congestion: Option<&str>) -> NetworkSettings {
        let mut network = self.network.clone();
        if let Some(name) = congestion {
            network.congestion = Some(name.to_owned());
            network.remote_congestion = Some(name.to_owned());
        }
        network
    }

    /// Returns the options of a ping-pong campaign. The end that sends first counts as the sender.
    pub fn ping_options(
        &self,
        args: &EndpointArgs,
        (rails, sizes): (Vec<PingRail>, Vec<u64>),
        (window_ms, rule): (u32, Rule),
    ) -> PingOptions {
        let net = self.options(args, IoOptions::default(), &[Direction::Write]);
        PingOptions {
            ends: net.varied.into_iter().map(|(end, _)| end).collect(),
            places: net.places,
            home: net.home,
            own_place: net.own_place,
            sizes,
            rails,
            window_ms,
            slices: net.io.slices,
            rule,
        }
    }
}

/// Returns the placements of this machine's end.
pub fn local_placements(args: &EndpointArgs) -> Placements {
    placements(&args.cpu_nodes, &args.memory_nodes, args.matrix.is_some())
}

fn remote_placements(host: &HostInfo, all_pairs: bool) -> Vec<RemotePlacement> {
    let with_cpus = host.nodes.iter().filter(|node| !node.cpus.is_empty());
    let pairs = with_cpus.flat_map(|cpus| host.nodes.iter().map(move |memory| (cpus, memory)));
    let local_pairs = pairs.filter(|(cpus, memory)| memory.memory && (all_pairs || cpus.node == memory.node));
    local_pairs
        .map(|(cpus, memory)| RemotePlacement {
            cpu_node: cpus.node,
            cpus: cpus.cpus.clone(),
            memory: memory.node,
        })
        .collect()
}

/// Describes the local device by its interface; a loopback has no node.
pub fn local_device(context: ResolveContext, name: &str, peer: &str) -> IoDevice {
    let InterfaceLocation { device, node } = locate_interface(context, name);
    let found = device.map_or_else(unknown, |device| io::device(device, None));
    IoDevice { name: name.to_owned(), node, reached_via: Some(peer.to_owned()), ..found }
}

fn remote_device(host: &HostInfo) -> Option<IoDevice> {
    let interface = host.interface.as_ref()?;
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

/// Reads the settings of the network at both ends.
fn network_settings(context: ResolveContext, host: &HostInfo, interface: &str) -> NetworkSettings {
    NetworkSettings {
        congestion: network::default_congestion_control(context.root),
        remote_congestion: host.congestion.clone(),
        mtu: network::mtu(context.root, interface),
        remote_mtu: host.interface.as_ref().and_then(|interface| interface.mtu),
    }
}

/// Checks, before connecting, that a named device exists.
pub fn check_device(context: ResolveContext, name: &str) -> Result<(), Failure> {
    match resolve(context, &Handle::Name(name.to_owned())).is_unknown() {
        // Its error lists the devices.
        true => node_of_device(context.topology, name).map(|_| ()),
        false => Ok(()),
    }
}
