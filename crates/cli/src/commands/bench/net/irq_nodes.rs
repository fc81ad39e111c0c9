//! `numaio bench net --irq-nodes`: bandwidth with the interrupts of the interface on each node.
//!
//! Interrupts move by the same plan and receipt as with `numaio irq apply`, and return after each
//! node. A killed run leaves its receipt for `numaio undo`.

use crate::commands::irq::{check_irqbalance, PERMISSION_HINT};
use crate::commands::measuring;
use crate::failure::Failure;
use crate::machine::Machine;
use crate::options::Common;
use crate::store::Kind;
use crate::{output, receipts};
use numaio_linux::{interrupt, Kernel};
use numaio_machine::conditions;
use numaio_machine::control::Change;
use numaio_machine::devices::Device;
use numaio_machine::discover::discover;
use numaio_machine::ids::NodeId;
use numaio_machine::topology::Topology;
use numaio_place::irq::{plan, read_device, IrqRequest};
use numaio_schema::{AppliedChange, DeviceIrqs, IoRecord};

/// The interface whose interrupts move, and the nodes that serve them in turn.
pub struct IrqNodes<'a> {
    /// The machine's kernel.
    pub kernel: &'a Kernel,
    /// The machine, before any change.
    pub topology: &'a Topology,
    /// The interface's device.
    pub device: &'a Device,
    /// The nodes.
    pub nodes: &'a [NodeId],
    /// Whether irqbalance may run.
    pub despite_irqbalance: bool,
}

/// Returns the device of an interface if its interrupts can be moved to each node.
///
/// # Errors
/// The interface has no device or interrupts, or a node has no CPUs.
pub fn check<'a>(
    topology: &Topology,
    device: Option<&'a Device>,
    name: &str,
    nodes: &[NodeId],
) -> Result<&'a Device, Failure> {
    let device = device.filter(|device| !device.irqs.is_empty()).ok_or_else(|| {
        Failure::new(format!("interface '{name}' has no interrupts to move"))
            .hint("veth, the loopback and other virtual interfaces have none; name another by --device")
    })?;
    match nodes.iter().find(|node| topology.usable_cpus(**node).is_empty()) {
        Some(node) => Err(Failure::usage(format!("node {node} of --irq-nodes has no CPUs"))),
        None => Ok(device),
    }
}

/// Measures once with the interrupts on each node, and saves the records. `measure` gets the
/// topology with the current interrupts.
///
/// # Errors
/// [`Failure`] of a move or a measurement; interrupts return in every case.
pub fn run(
    common: &Common,
    machine: &Machine,
    irqs: &IrqNodes,
    no_save: bool,
    measure: &dyn Fn(&Topology) -> Result<IoRecord, Failure>,
) -> Result<Vec<(NodeId, IoRecord)>, Failure> {
    // From here on Ctrl-C ends a measurement, after which the interrupts return.
    interrupt::install().map_err(|error| Failure::new(format!("cannot handle Ctrl-C: {error}")))?;
    let fingerprint = &irqs.topology.identity.fingerprint;
    let is_saved = measuring::should_save(machine, no_save, Kind::Interrupts, fingerprint)?;
    let mut records = Vec::new();
    for node in irqs.nodes {
        let receipt = move_to(common, irqs, *node)?;
        let record = measure(&discover(machine));
        let returned = receipt.map_or(Ok(()), |id| receipts::undo_by_id(common, irqs.kernel, &id));
        let record = record?;
        if is_saved {
            measuring::save(common, Kind::Interrupts, &record.provenance, &record, irqs.topology)?;
        }
        records.push((*node, record));
        returned?;
        if interrupt::interrupted() {
            break;
        }
    }
    Ok(records)
}

/// Moves the interrupts to cores of a node; returns the ID of the receipt, or `None` if they are
/// there.
fn move_to(common: &Common, irqs: &IrqNodes, node: NodeId) -> Result<Option<String>, Failure> {
    let _lock = receipts::lock(common);
    let device = DeviceIrqs {
        device: irqs.device.distinct_name(&irqs.topology.devices),
        ..read_device(irqs.kernel, irqs.kernel, irqs.device)
    };
    let isolated = irqs.topology.isolated_cpus();
    let request = IrqRequest { isolated, node: Some(node), ..IrqRequest::default() };
    let planned = plan(irqs.topology, std::slice::from_ref(&device), None, &request).changes;
    // Packet steering stays as it is: only interrupts are compared.
    let moves = |applied: &AppliedChange| matches!(applied.change, Change::IrqAffinity { .. });
    let planned: Vec<AppliedChange> = planned.into_iter().filter(moves).collect();
    let irqbalance = conditions::read(irqs.kernel).irqbalance;
    check_irqbalance(common, irqs.despite_irqbalance, irqbalance, &planned)?;
    let is_there = planned.is_empty();
    let (changes, _) = numaio_place::without_unmovable(irqs.kernel, planned)
        .map_err(|error| receipts::apply_failure(error, PERMISSION_HINT))?;
    match (changes.is_empty(), is_there) {
        (true, true) => return Ok(None),
        (true, false) => {
            return Err(Failure::new(format!("no interrupt of '{}' can be moved", device.device))
                .hint("the kernel manages their affinity; numaio irq show lists them"))
        }
        (false, _) => {}
    }
    let fingerprint = &irqs.topology.identity.fingerprint;
    let mut receipt = receipts::planned_receipt(irqs.kernel, fingerprint, changes);
    receipt.devices = vec![device.device];
    let (id, done) = receipts::apply_irq(irqs.kernel, receipt)
        .map_err(|error| receipts::apply_failure(error, PERMISSION_HINT))?;
    let count = done.applied.len();
    output::remark(common, &format!("moved {count} interrupts to node {node} ({id})"));
    Ok(Some(id))
}
