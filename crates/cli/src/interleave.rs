//! Weights of weighted interleave: applied in the kernel and restored.

use crate::failure::Failure;
use crate::machine::Machine;
use crate::options::Common;
use crate::{output, receipts, store};
use numaio_linux::Kernel;
use numaio_machine::control::Change;
use numaio_machine::discover::discover;
use numaio_machine::interleave::{self, Interleave};
use numaio_schema::{AppliedChange, InterleaveWeights};

/// ID of the receipt.
const RECEIPT: &str = "interleave";

/// Returns the current weights of the selected machine, if `weights` are for this machine.
pub fn current_weights(common: &Common, weights: &InterleaveWeights) -> Result<Option<Interleave>, Failure> {
    let machine = Machine::pick(common)?;
    let same_machine = discover(&machine).identity.fingerprint == weights.machine;
    Ok(interleave::read(&machine).filter(|_| same_machine))
}

/// Sets the weights on this machine.
///
/// Earlier changes are undone first, so that the receipt restores the original weights.
pub fn apply(common: &Common, weights: &InterleaveWeights) -> Result<(), Failure> {
    let kernel = receipts::live_kernel(common)?;
    let machine = discover(&kernel).identity.fingerprint;
    if machine != weights.machine {
        let message =
            format!("the weights are for machine '{}', and this is machine '{machine}'", weights.machine);
        return Err(Failure::new(message)
            .hint("run numaio stream on this machine, or apply the weights on the other"));
    }
    let path = store::receipt(&machine, RECEIPT)?;
    let _lock = receipts::lock(common);
    revert(common, &kernel)?;
    let now = interleave::read(&kernel).ok_or_else(|| {
        Failure::new("this kernel does not support weighted interleave").hint("it requires Linux 6.9")
    })?;
    let planned_changes = planned_changes(weights, &now);
    if planned_changes.is_empty() {
        output::remark(common, "the kernel already has these weights");
        return Ok(());
    }
    let receipt = receipts::planned_receipt(&kernel, &machine, planned_changes);
    receipts::apply(&kernel, receipt, &path)
        .map_err(|error| receipts::apply_failure(error, "run as root"))?;
    output::remark(common, "weights set; numaio undo restores the previous ones");
    Ok(())
}

/// Restores the weights that were set before numaio changed them.
pub fn undo(common: &Common) -> Result<(), Failure> {
    let kernel = receipts::live_kernel(common)?;
    let _lock = receipts::lock(common);
    match revert(common, &kernel)? {
        true => Ok(()),
        false => Err(Failure::new("numaio has not set any weights on this machine")),
    }
}

/// Returns the necessary changes with their inverses.
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
        change: Change::AutomaticInterleave { enabled: false },
        inverse: Change::AutomaticInterleave { enabled: true },
    });
    manual.into_iter().chain(different).collect()
}

/// Undoes earlier changes, newest first; false if there were none.
fn revert(common: &Common, kernel: &Kernel) -> Result<bool, Failure> {
    let all = receipts::all(common, kernel)?;
    let applied: Vec<_> = all.iter().rev().filter(|stored| stored.id == RECEIPT).collect();
    for stored in &applied {
        receipts::undo(kernel, stored, &all)?;
    }
    if !applied.is_empty() {
        output::remark(common, "restored the previous weights");
    }
    Ok(!applied.is_empty())
}
