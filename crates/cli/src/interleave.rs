//! Weights of weighted interleave, set in the kernel and taken back.

use crate::args::Common;
use crate::failure::Failure;
use crate::input;
use crate::machine::Machine;
use crate::{output, store};
use numaio_linux::Kernel;
use numaio_machine::control::Change;
use numaio_machine::interleave::{self, Interleave};
use numaio_machine::see::see;
use numaio_place::PlaceError;
use numaio_schema::{Applied, InterleaveWeights, Receipt, RECEIPT_SCHEMA};
use std::fs;
use std::path::Path;

/// Name of the receipt.
const RECEIPT: &str = "interleave";

/// Weights in force on the machine that the options name, if it is the one the weights are for.
pub fn now(common: &Common, weights: &InterleaveWeights) -> Result<Option<Interleave>, Failure> {
    let machine = Machine::pick(common)?;
    let same = see(&machine).identity.fingerprint == weights.machine;
    Ok(interleave::read(&machine).filter(|_| same))
}

/// Sets the weights on this machine. What an earlier call set is taken back first, so that the receipt leads back
/// to what was there before all of them.
pub fn apply(common: &Common, weights: &InterleaveWeights) -> Result<(), Failure> {
    let kernel = this_kernel(common)?;
    let machine = see(&kernel).identity.fingerprint;
    if machine != weights.machine {
        let what = format!("the weights are of machine {}, and this is machine {machine}", weights.machine);
        return Err(Failure::new(what).hint("run numaio stream here, or apply them there"));
    }
    let path = store::receipt(&machine, RECEIPT)?;
    if path.exists() {
        take_back(common, &kernel, &machine, &path)?;
    }
    let now = interleave::read(&kernel).ok_or_else(|| {
        Failure::new("this kernel has no weighted interleave").hint("it came with Linux 6.9")
    })?;
    let planned = planned(weights, &now);
    if planned.is_empty() {
        output::remark(common, "the kernel has these weights already");
        return Ok(());
    }
    let changes: Vec<Change> = planned.iter().map(|applied| applied.change.clone()).collect();
    // Before the first change, so that whatever ends this run leaves the way back: an inverse that sets what is
    // there already does no harm.
    keep(&path, &Receipt { schema: RECEIPT_SCHEMA.to_owned(), machine: machine.clone(), applied: planned })?;
    match numaio_place::apply(&kernel, &machine, &changes) {
        Ok(receipt) => keep(&path, &receipt)?,
        Err(error) => {
            if matches!(error, PlaceError::Failed(_)) {
                let _ = fs::remove_file(&path);
            }
            return Err(Failure::new(error).hint("run as root"));
        }
    }
    output::remark(common, "the weights are set; numaio export --format weights --undo takes them back");
    Ok(())
}

/// Takes back what was set.
pub fn undo(common: &Common) -> Result<(), Failure> {
    let kernel = this_kernel(common)?;
    let machine = see(&kernel).identity.fingerprint;
    let path = store::receipt(&machine, RECEIPT)?;
    if !path.exists() {
        return Err(Failure::new("no weights were set by numaio on this machine"));
    }
    take_back(common, &kernel, &machine, &path)
}

fn this_kernel(common: &Common) -> Result<Kernel, Failure> {
    match Machine::pick(common)? {
        Machine::Live(kernel) => Ok(kernel),
        _ => Err(Failure::usage("only this machine's weights can be set").hint("leave --machine out")),
    }
}

/// What is to change, each with what undoes it.
fn planned(weights: &InterleaveWeights, now: &Interleave) -> Vec<Applied> {
    let weight = |node, weight| Change::InterleaveWeight { node, weight };
    let different = weights.nodes.iter().filter_map(|node| {
        let before = *now.weights.get(&node.node)?;
        let (change, inverse) = (weight(node.node, node.weight), weight(node.node, before));
        (before != node.weight).then_some(Applied { change, inverse })
    });
    let different: Vec<Applied> = different.collect();
    let automatic = now.automatic == Some(true) && !different.is_empty();
    let manual = automatic.then_some(Applied {
        change: Change::AutomaticInterleave { on: false },
        inverse: Change::AutomaticInterleave { on: true },
    });
    manual.into_iter().chain(different).collect()
}

fn keep(path: &Path, receipt: &Receipt) -> Result<(), Failure> {
    store::write_file(path, serde_json::to_string(receipt).map_err(Failure::new)?.as_bytes())
}

fn take_back(common: &Common, kernel: &Kernel, machine: &str, path: &Path) -> Result<(), Failure> {
    let text = input::text(path)?;
    let receipt =
        Receipt::from_json(&text).map_err(|error| crate::failure::no_document(path, &text, &error))?;
    let left = numaio_place::undo(kernel, machine, receipt).map_err(Failure::new)?;
    if let Some(first) = left.first() {
        let what = format!("still in force: {}, and {} more", first.change, left.len() - 1);
        return Err(Failure::new(what).hint("run as root"));
    }
    fs::remove_file(path).map_err(|error| Failure::file(path, error))?;
    output::remark(common, "the weights are as they were");
    Ok(())
}
