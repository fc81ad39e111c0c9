//! Weights of weighted interleave, set in the kernel and taken back.

use crate::args::Common;
use crate::failure::Failure;
use crate::machine::Machine;
use crate::{output, receipts, store};
use numaio_linux::Kernel;
use numaio_machine::control::Change;
use numaio_machine::discover::discover;
use numaio_machine::interleave::{self, Interleave};
use numaio_schema::{AppliedChange, InterleaveWeights};

/// Name of the receipt.
const RECEIPT: &str = "interleave";

/// Weights in force on the machine that the options name, if it is the one the weights are for.
pub fn current_weights(common: &Common, weights: &InterleaveWeights) -> Result<Option<Interleave>, Failure> {
    let machine = Machine::pick(common)?;
    let same = discover(&machine).identity.fingerprint == weights.machine;
    Ok(interleave::read(&machine).filter(|_| same))
}

/// Sets the weights on this machine. What an earlier call set is taken back first, so that the receipt leads back
/// to what was there before all of them.
pub fn apply(common: &Common, weights: &InterleaveWeights) -> Result<(), Failure> {
    let kernel = receipts::live_kernel(common)?;
    let machine = discover(&kernel).identity.fingerprint;
    if machine != weights.machine {
        let what = format!("the weights are of machine {}, and this is machine {machine}", weights.machine);
        return Err(Failure::new(what).hint("run numaio stream here, or apply them there"));
    }
    let path = store::receipt(&machine, RECEIPT)?;
    let _lock = receipts::lock(common);
    revert(common, &kernel)?;
    let now = interleave::read(&kernel).ok_or_else(|| {
        Failure::new("this kernel has no weighted interleave").hint("it came with Linux 6.9")
    })?;
    let planned_changes = planned_changes(weights, &now);
    if planned_changes.is_empty() {
        output::remark(common, "the kernel has these weights already");
        return Ok(());
    }
    let receipt = receipts::planned_receipt(&kernel, &machine, planned_changes);
    receipts::apply(&kernel, receipt, &path)
        .map_err(|error| receipts::apply_failure(error, "run as root"))?;
    output::remark(common, "the weights are set; numaio undo takes them back");
    Ok(())
}

/// Takes back what was set.
pub fn undo(common: &Common) -> Result<(), Failure> {
    let kernel = receipts::live_kernel(common)?;
    let _lock = receipts::lock(common);
    match revert(common, &kernel)? {
        true => Ok(()),
        false => Err(Failure::new("no weights were set by numaio on this machine")),
    }
}

/// What is to change, each with what undoes it.
fn planned_changes(weights: &InterleaveWeights, now: &Interleave) -> Vec<AppliedChange> {
    let weight = |node, weight| Change::InterleaveWeight { node, weight };
    let different = weights.nodes.iter().filter_map(|node| {
        let before = *now.weights.get(&node.node)?;
        let (change, inverse) = (weight(node.node, node.weight), weight(node.node, before));
        (before != node.weight).then_some(AppliedChange { change, inverse })
    });
    let different: Vec<AppliedChange> = different.collect();
    let automatic = now.automatic == Some(true) && !different.is_empty();
    let manual = automatic.then_some(AppliedChange {
        change: Change::AutomaticInterleave { on: false },
        inverse: Change::AutomaticInterleave { on: true },
    });
    manual.into_iter().chain(different).collect()
}

/// Takes back what earlier calls set, the newest first; false if there were none.
fn revert(common: &Common, kernel: &Kernel) -> Result<bool, Failure> {
    let all = receipts::all(common, kernel)?;
    let set: Vec<_> = all.iter().rev().filter(|stored| stored.id == RECEIPT).collect();
    for stored in &set {
        receipts::undo(kernel, stored, &all)?;
    }
    if !set.is_empty() {
        output::remark(common, "the weights are as they were");
    }
    Ok(!set.is_empty())
}
