//! Costs of interrupts by measurements with the interrupts of a network device on several nodes.

use numaio_machine::devices::{Device, Irq};
use numaio_machine::ids::NodeId;
use numaio_machine::set::{CpuSet, NodeSet};
use numaio_machine::topology::Topology;
use numaio_machine::workload::Direction;
use numaio_schema::{IoRecord, Loss};
use std::collections::BTreeMap;

/// Losses of a device with its interrupts on a node, compared with its own node.
#[derive(Debug, Clone, PartialEq)]
pub struct InterruptLoss {
    /// The device's node.
    pub own: NodeId,
    /// The node of the interrupts.
    pub current: NodeId,
    /// Loss of each measured direction, most costly first.
    pub losses: Vec<Loss>,
}

/// Returns a device's loss with its interrupts where they are, compared with its own node: by
/// the newest of these records for each, with the best placement of streams in each. `None` without
/// both measurements, or if CPUs of several nodes serve the interrupts.
pub fn interrupt_loss(topology: &Topology, records: &[IoRecord], device: &Device) -> Option<InterruptLoss> {
    let own = device.locality.node?;
    let current = single_node(topology, &device.irqs, Irq::delivery_cpus)?;
    let [near, far] = [own, current].map(|node| newest(topology, records, device, node));
    let (near, far) = (near?, far?);
    let loss = |direction: Direction| {
        let best = |record| by_node(record, direction).into_values().max_by(f64::total_cmp);
        let lost = (1.0 - best(far)? / best(near)?).max(0.0);
        Some(Loss { direction: Some(direction), low: lost, high: lost })
    };
    let mut losses: Vec<Loss> = [Direction::Write, Direction::Read].into_iter().filter_map(loss).collect();
    losses.sort_by(|a, b| b.high.total_cmp(&a.high));
    (!losses.is_empty()).then_some(InterruptLoss { own, current, losses })
}

/// Describes for each direction on which node streams were fastest with the interrupts where they
/// are, and what nodes with tasks reach of it (Li et al., ICPP 2013: node 6 is faster than node 7,
/// which serves the interrupts).
pub fn interrupt_notes(
    topology: &Topology,
    records: &[IoRecord],
    device: &Device,
    tasks: &NodeSet,
) -> Vec<String> {
    let Some(current) = single_node(topology, &device.irqs, Irq::delivery_cpus) else { return Vec::new() };
    let Some(record) = newest(topology, records, device, current) else { return Vec::new() };
    let note = |direction: Direction| {
        let values = by_node(record, direction);
        let (best, most) = values.iter().max_by(|a, b| a.1.total_cmp(b.1))?;
        let of_tasks = tasks.iter().filter(|node| node != best);
        let share = |node: NodeId| Some(format!("node {node} {:.0} %", values.get(&node)? / most * 100.0));
        let shares: Vec<String> = of_tasks.filter_map(share).collect();
        (!shares.is_empty()).then(|| {
            format!(
                "{}, {}, measured with its interrupts on node {current}: node {best} is fastest, {} of it",
                device.name(),
                direction.name(),
                shares.join(", ")
            )
        })
    };
    [Direction::Write, Direction::Read].into_iter().filter_map(note).collect()
}

/// Returns the node whose CPUs serve all interrupts, or `None` if several do.
fn single_node(topology: &Topology, irqs: &[Irq], cpus: impl Fn(&Irq) -> &CpuSet) -> Option<NodeId> {
    let node = |cpu| topology.cpu(cpu)?.node;
    let nodes: NodeSet = irqs.iter().flat_map(|irq| cpus(irq).iter().filter_map(node)).collect();
    nodes.first().filter(|_| nodes.len() == 1)
}

/// Returns the newest record of a device with its interrupts on a node; records are sorted newest
/// first.
fn newest<'a>(
    topology: &Topology,
    records: &'a [IoRecord],
    device: &Device,
    node: NodeId,
) -> Option<&'a IoRecord> {
    // The effective CPUs are those of the last interrupt, which may precede the move.
    let is_on = |record: &&IoRecord| {
        device.has_name(&record.device.name)
            && single_node(topology, &record.device.irqs, |irq| &irq.affinity) == Some(node)
    };
    records.iter().find(is_on)
}

/// Returns the highest median bandwidth of streams on each node with local buffers.
fn by_node(record: &IoRecord, direction: Direction) -> BTreeMap<NodeId, f64> {
    let mut best: BTreeMap<NodeId, f64> = BTreeMap::new();
    for cell in &record.cells {
        let placed = cell.placement().filter(|(cpus, memory, other)| cpus == memory && *other == direction);
        if let (Some((node, ..)), Some(median)) = (placed, cell.bytes_per_s.median()) {
            let value = best.entry(node).or_insert(median);
            *value = value.max(median);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{cell, record};
    use numaio_machine::ids::CpuId;

    /// The paper's machine, four cores a node, with an adapter on node 7.
    fn topology(irq_cpu: u32) -> Topology {
        let base = crate::placement::tests::machine(8, 4);
        let device = Device {
            name_classes: Default::default(),
            kind: numaio_machine::devices::DeviceKind::Network,
            names: vec!["eth0".into()],
            pci: None,
            path: String::new(),
            ids: None,
            class: None,
            model: String::new(),
            driver: None,
            locality: numaio_machine::devices::Locality { node: Some(NodeId(7)), ..Default::default() },
            link: None,
            upstream: Vec::new(),
            power: None,
            irqs: vec![irq(irq_cpu)],
            sriov: None,
            port_bits_per_s: None,
        };
        Topology { devices: vec![device], ..base }
    }

    fn irq(cpu: u32) -> Irq {
        Irq { number: 30, name: "eth0-0".into(), affinity: CpuSet::one(CpuId(cpu)), effective: None }
    }

    /// Bandwidths by node, with the interrupts on a CPU.
    fn measured(irq_cpu: u32, gbit: &[(u32, f64)]) -> IoRecord {
        let cells = gbit.iter().map(|(node, gbit)| cell(Direction::Read, &[(*node, 2)], *gbit)).collect();
        let mut record = record(7, cells);
        record.device.name = "eth0".into();
        record.device.irqs = vec![irq(irq_cpu)];
        record
    }

    #[test]
    fn loss_compares_the_current_node_with_the_own_one() {
        let records = [measured(28, &[(6, 20.0), (7, 18.0)]), measured(0, &[(6, 15.0), (7, 12.0)])];
        let distant = topology(0);
        let found = interrupt_loss(&distant, &records, &distant.devices[0]).expect("a loss");
        assert_eq!((found.own, found.current, found.losses.len()), (NodeId(7), NodeId(0), 1));
        assert!((found.losses[0].high - 0.25).abs() < 0.01, "{found:?}");
        assert_eq!(interrupt_loss(&distant, &records[..1], &distant.devices[0]), None, "one node only");
        let own = topology(28);
        let none = interrupt_loss(&own, &records, &own.devices[0]).expect("a loss of zero");
        assert_eq!(none.losses[0].high, 0.0);
    }

    #[test]
    fn note_names_the_fastest_node_beside_the_interrupts() {
        let (topology, records) = (topology(28), [measured(28, &[(6, 20.0), (7, 18.0)])]);
        let notes =
            |node| interrupt_notes(&topology, &records, &topology.devices[0], &NodeSet::one(NodeId(node)));
        let expected =
            "eth0, device read, measured with its interrupts on node 7: node 6 is fastest, node 7 90 % of it";
        assert_eq!(notes(7), [expected]);
        assert!(notes(6).is_empty() && notes(3).is_empty());
    }
}
