//! Simulated fleets: hosts of a few specifications, with noise and injected faults.
//!
//! A fault changes the machine where a real one would: a halved link is a halved link of the
//! rendered machine, too. Figures are made one by one, because a fleet of 10,000 hosts has
//! millions.

use crate::noise::Random;
use crate::shapes;
use crate::spec::{DeviceSpec, NodeSpec, Spec};
use numaio_machine::ids::NodeId;
use std::ops::Range;

/// Seconds between two measurements of a host.
const ROUND_S: u64 = 86_400;
/// Time of the first measurement, in seconds since 1970.
const FIRST_ROUND: u64 = 1_700_000_000;
/// Quantities of each pair of nodes: name, unit, whether higher values are better.
const OF_PAIRS: [(&str, &str, bool); 4] = [
    ("copy-write", "B/s", true),
    ("latency", "ns", false),
    ("stream-triad", "B/s", true),
    ("copy-read", "B/s", true),
];

/// A fleet to simulate.
#[derive(Debug, Clone)]
pub struct FleetSpec {
    /// The hosts.
    pub groups: Vec<HostsSpec>,
    /// How values scatter.
    pub noise: FleetNoise,
    /// The kinds of faults, which faulty hosts get in turn.
    pub faults: Vec<FaultKind>,
    /// Smallest and greatest loss of a fault that has one, as a share.
    pub loss: (f64, f64),
    /// Measurements of each host before the newest.
    pub past: u32,
    /// The same seed yields the same fleet.
    pub seed: u64,
}

/// Hosts of one specification.
#[derive(Debug, Clone)]
pub struct HostsSpec {
    /// The machine.
    pub machine: Spec,
    /// Number of hosts.
    pub hosts: u32,
    /// Number of hosts with a fault.
    pub faulty: u32,
    /// Number of quantities measured for each pair of nodes, from 1 to 4.
    pub pair_quantities: usize,
    /// Whether devices are measured from each node.
    pub devices: bool,
}

/// Relative standard deviations of values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FleetNoise {
    /// Between hosts, common to all figures of a host.
    pub host: f64,
    /// Of each measurement.
    pub measurement: f64,
    /// Share of measurements with three times the deviation.
    pub glitches: f64,
}

/// The fault of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FaultKind {
    /// A device's link has half of its lanes; its bandwidth halves.
    HalvedLink,
    /// A memory module is missing: less memory, and lower bandwidth of the node.
    MissingModule,
    /// A device is in the slot of another node.
    MovedDevice,
    /// Firmware presents half as many nodes.
    OtherNodes,
    /// The memory of a node is slow, with nothing to see in its structure.
    SlowMemory,
    /// All figures are lower.
    Throttled,
    /// All figures decline over the measurements.
    Drifting,
}

/// A fault of a host.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fault {
    /// The kind.
    pub kind: FaultKind,
    /// The lost share, for faults that have one.
    pub loss: f64,
    /// The node whose memory is slow or missing.
    pub node: NodeId,
}

/// A simulated fleet.
#[derive(Debug, Clone)]
pub struct SimulatedFleet {
    /// The distinct machines; faults in structure have machines of their own.
    pub machines: Vec<Spec>,
    /// The hosts.
    pub hosts: Vec<SimulatedHost>,
    /// The distinct quantities.
    pub quantities: Vec<SimulatedQuantity>,
    /// The quantities of each machine.
    ranges: Vec<Range<u32>>,
    noise: FleetNoise,
    past: u32,
    seed: u64,
}

/// A simulated host.
#[derive(Debug, Clone, PartialEq)]
pub struct SimulatedHost {
    /// The name.
    pub name: String,
    /// Index of its machine.
    pub machine: usize,
    /// Its fault, if any.
    pub fault: Option<Fault>,
    /// Its quantities, by index.
    quantities: Range<u32>,
}

/// A measured quantity.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SimulatedQuantity {
    /// A stable name.
    pub name: &'static str,
    /// The node of the data's source.
    pub from: Option<NodeId>,
    /// The node of the data's destination.
    pub to: Option<NodeId>,
    /// The device; empty without one.
    pub device: String,
    /// The unit.
    pub unit: &'static str,
    /// Whether higher values are better.
    pub more_is_better: bool,
    /// Healthy value on its machine.
    bits: u64,
}

/// A simulated value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SimulatedFigure {
    /// Index of the host.
    pub host: u32,
    /// Index of the quantity.
    pub quantity: u32,
    /// Time of measurement in seconds since 1970.
    pub measured_at: u64,
    /// The value.
    pub value: f64,
    /// The 95 % interval of the value.
    pub interval: (f64, f64),
}

impl FaultKind {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::HalvedLink,
        Self::MissingModule,
        Self::MovedDevice,
        Self::OtherNodes,
        Self::SlowMemory,
        Self::Throttled,
        Self::Drifting,
    ];

    /// Returns whether the fault changes the machine's description.
    pub fn is_structural(self) -> bool {
        matches!(self, Self::HalvedLink | Self::MissingModule | Self::MovedDevice | Self::OtherNodes)
    }
}

impl SimulatedFleet {
    /// Creates the fleet of a specification.
    pub fn new(spec: &FleetSpec) -> Self {
        let mut fleet = Self {
            machines: Vec::new(),
            hosts: Vec::new(),
            quantities: Vec::new(),
            ranges: Vec::new(),
            noise: spec.noise,
            past: spec.past,
            seed: spec.seed,
        };
        let mut random = Random::of_run(spec.seed, u64::MAX);
        let mut kinds = spec.faults.iter().cycle().skip((spec.seed % 97) as usize);
        for group in &spec.groups {
            let healthy = fleet.add_machine(group.machine.clone(), group);
            let mut faulty: Vec<u32> = Vec::new();
            while faulty.len() < group.faulty.min(group.hosts) as usize {
                let host = (random.next() % u64::from(group.hosts)) as u32;
                if !faulty.contains(&host) {
                    faulty.push(host);
                }
            }
            for host in 0..group.hosts {
                let kind = faulty.contains(&host).then(|| kinds.next().copied()).flatten();
                let fault = kind.map(|kind| {
                    let loss = spec.loss.0 + (spec.loss.1 - spec.loss.0) * random.unit();
                    let nodes = &group.machine.nodes;
                    let node = nodes[(random.next() % nodes.len() as u64) as usize].id;
                    Fault { kind, loss, node }
                });
                fleet.add_host(group, healthy.clone(), fault);
            }
        }
        fleet
    }

    fn add_host(&mut self, group: &HostsSpec, healthy: Placed, fault: Option<Fault>) {
        let placed = match fault.filter(|fault| fault.kind.is_structural()) {
            Some(fault) => {
                let machine = faulty_machine(&group.machine, &fault);
                match self.machines.iter().position(|known| *known == machine) {
                    Some(known) => (known, self.ranges[known].clone()),
                    None => self.add_machine(machine, group),
                }
            }
            None => healthy,
        };
        let (machine, quantities) = placed;
        let name = format!("node{:05}", self.hosts.len() + 1);
        self.hosts.push(SimulatedHost { name, machine, fault, quantities });
    }

    /// Adds a machine with its quantities, each of which has its own healthy value.
    fn add_machine(&mut self, machine: Spec, group: &HostsSpec) -> Placed {
        let first = self.quantities.len() as u32;
        for (from, to) in pairs(&machine) {
            for (name, unit, more_is_better) in &OF_PAIRS[..group.pair_quantities.clamp(1, 4)] {
                let distance = f64::from(distance(&machine, from, to));
                let value = if *more_is_better { 4e11 / distance } else { 9.0 * distance };
                self.quantities.push(SimulatedQuantity {
                    name,
                    from: Some(machine.nodes[from].id),
                    to: Some(machine.nodes[to].id),
                    device: String::new(),
                    unit,
                    more_is_better: *more_is_better,
                    bits: value.to_bits(),
                });
            }
        }
        if group.devices {
            let devices = machine.devices.iter().filter(|device| !device.names.is_empty());
            devices.for_each(|device| self.quantities.extend(of_device(&machine, device)));
        }
        let range = first..self.quantities.len() as u32;
        self.machines.push(machine);
        self.ranges.push(range.clone());
        (self.machines.len() - 1, range)
    }

    /// Returns all figures, by host and time.
    pub fn figures(&self) -> impl Iterator<Item = SimulatedFigure> + '_ {
        (0..self.hosts.len())
            .flat_map(move |host| (0..=self.past).flat_map(move |round| self.round(host, round)))
    }

    /// Returns the figures of one measurement of a host.
    fn round(&self, host: usize, round: u32) -> impl Iterator<Item = SimulatedFigure> + '_ {
        let described = &self.hosts[host];
        let of_host = Random::of_run(!self.seed, host as u64).factor(self.noise.host);
        let run = host as u64 * u64::from(self.past + 1) + u64::from(round);
        let mut random = Random::of_run(self.seed, run);
        let progress = f64::from(round) / f64::from(self.past.max(1));
        described.quantities.clone().map(move |quantity| {
            let described = &self.quantities[quantity as usize];
            let glitch = random.unit() < self.noise.glitches;
            let deviation = self.noise.measurement * if glitch { 3.0 } else { 1.0 };
            let fault = self.hosts[host].fault.map_or(1.0, |fault| fault.factor(described, progress));
            let factor = of_host * random.factor(deviation) * fault;
            let healthy = f64::from_bits(described.bits);
            let value = if described.more_is_better { healthy * factor } else { healthy / factor };
            let half = 1.96 * self.noise.measurement * value;
            SimulatedFigure {
                host: host as u32,
                quantity,
                measured_at: FIRST_ROUND + u64::from(round) * ROUND_S,
                value,
                interval: (value - half, value + half),
            }
        })
    }
}

/// A machine and the range of its quantities.
type Placed = (usize, Range<u32>);

impl Fault {
    /// Returns the factor of a quantity, where the machine's description does not imply it.
    fn factor(&self, quantity: &SimulatedQuantity, progress: f64) -> f64 {
        let at_node = quantity.from == Some(self.node) || quantity.to == Some(self.node);
        match self.kind {
            FaultKind::SlowMemory | FaultKind::MissingModule if quantity.device.is_empty() && at_node => {
                1.0 - self.loss
            }
            FaultKind::Throttled => 1.0 - self.loss,
            FaultKind::Drifting => 1.0 - self.loss * progress,
            _ => 1.0,
        }
    }
}

fn pairs(machine: &Spec) -> impl Iterator<Item = (usize, usize)> {
    let nodes = machine.nodes.len();
    (0..nodes).flat_map(move |from| (0..nodes).map(move |to| (from, to)))
}

fn distance(machine: &Spec, from: usize, to: usize) -> u32 {
    let stated = machine.distances.get(from).and_then(|row| row.get(to)).copied();
    stated.unwrap_or(if from == to { 10 } else { 20 })
}

/// Returns the bandwidth of a device from each node, by its link and the distance of the node.
fn of_device<'a>(machine: &'a Spec, device: &'a DeviceSpec) -> impl Iterator<Item = SimulatedQuantity> + 'a {
    let link = device.link.map_or(4e9, |link| 0.8 * link.bytes_per_s());
    let at = machine.nodes.iter().position(|node| Some(node.id) == device.node).unwrap_or(0);
    machine.nodes.iter().enumerate().flat_map(move |(index, node)| {
        let value = link * (1.0 - 0.01 * f64::from(distance(machine, index, at) - 10));
        [("io-read", None, Some(node.id)), ("io-write", Some(node.id), None)].map(|(name, from, to)| {
            SimulatedQuantity {
                name,
                from,
                to,
                device: device.names[0].clone(),
                unit: "B/s",
                more_is_better: true,
                bits: value.to_bits(),
            }
        })
    })
}

/// Returns the machine with a fault in its structure.
fn faulty_machine(machine: &Spec, fault: &Fault) -> Spec {
    let mut faulty = machine.clone();
    let device = faulty.devices.iter_mut().find(|device| !device.names.is_empty());
    match (fault.kind, device) {
        (FaultKind::HalvedLink, Some(device)) => {
            if let Some(link) = &mut device.link {
                link.lanes = (link.lanes / 2).max(1);
            }
        }
        (FaultKind::MovedDevice, Some(device)) => {
            let other = machine.nodes.iter().find(|node| Some(node.id) != device.node);
            (device.node, device.under) = (other.map(|node| node.id), None);
            device.pci.bus = device.pci.bus.wrapping_add(0x70);
        }
        (FaultKind::MissingModule, _) => {
            for node in faulty.nodes.iter_mut().filter(|node| node.id == fault.node) {
                (node.memory_bytes, node.free_bytes) = (node.memory_bytes / 8 * 7, node.free_bytes / 8 * 7);
            }
        }
        (FaultKind::OtherNodes, _) => faulty = with_merged_nodes(machine),
        _ => {}
    }
    faulty
}

/// Returns the machine with half as many nodes, each a package.
fn with_merged_nodes(machine: &Spec) -> Spec {
    let nodes = (machine.nodes.len() as u32 / 2).max(1);
    let cpus: usize = machine.nodes.iter().map(|node| node.cpus.len()).sum();
    let memory: u64 = machine.nodes.iter().map(|node| node.memory_bytes).sum();
    let merged = shapes::uniform(nodes, cpus as u32 / nodes);
    let bytes = memory / u64::from(nodes);
    let with_memory = |node: NodeSpec| NodeSpec { memory_bytes: bytes, free_bytes: bytes / 2, ..node };
    let moved = |device: &DeviceSpec| DeviceSpec {
        node: device.node.map(|node| NodeId(node.0 / 2)),
        io: None,
        ..device.clone()
    };
    Spec {
        name: machine.name.clone(),
        architecture: machine.architecture.clone(),
        vendor: machine.vendor.clone(),
        product: machine.product.clone(),
        cpu_model: machine.cpu_model.clone(),
        kernel: machine.kernel.clone(),
        devices: machine.devices.iter().map(moved).collect(),
        nodes: merged.nodes.iter().cloned().map(with_memory).collect(),
        ..merged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(seed: u64) -> FleetSpec {
        let hosts =
            HostsSpec { machine: shapes::dl585(), hosts: 40, faulty: 7, pair_quantities: 4, devices: true };
        FleetSpec {
            groups: vec![hosts],
            noise: FleetNoise { host: 0.01, measurement: 0.02, glitches: 0.0 },
            faults: FaultKind::ALL.to_vec(),
            loss: (0.1, 0.3),
            past: 2,
            seed,
        }
    }

    #[test]
    fn the_same_seed_yields_the_same_fleet() {
        let figures = |seed| SimulatedFleet::new(&spec(seed)).figures().collect::<Vec<_>>();
        assert_eq!(figures(1), figures(1));
        assert_ne!(figures(1), figures(2));
    }

    #[test]
    fn each_kind_of_fault_is_injected_once_and_every_machine_is_valid() {
        let fleet = SimulatedFleet::new(&spec(3));
        let mut kinds: Vec<FaultKind> =
            fleet.hosts.iter().filter_map(|host| Some(host.fault?.kind)).collect();
        kinds.sort();
        assert_eq!(kinds, FaultKind::ALL);
        assert!(fleet.machines.iter().all(|machine| machine.check().is_ok()), "{:?}", fleet.machines);
        assert_eq!(fleet.machines.len(), 5);
        assert_eq!(
            fleet.quantities.iter().filter(|quantity| quantity.device == "eth0").count(),
            2 * (4 * 8 + 4)
        );
    }
}
