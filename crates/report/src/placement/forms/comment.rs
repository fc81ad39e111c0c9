//! Comments of all formats: the purpose of the plan, and what the format cannot express.

use crate::phrases;
use crate::style::{clean, clean_paragraph};
use numaio_schema::{PlacementPlan, TaskPlacement};

/// Returns the comment lines without comment marks: the purpose of the plan, its compromises, and
/// `notes`.
pub(super) fn lines(plan: &PlacementPlan, notes: impl IntoIterator<Item = String>) -> Vec<String> {
    let devices = phrases::joined(plan.targets.iter().map(|target| phrases::short(&target.device)), ", ");
    let machine = phrases::machine_name(&plan.machine);
    let fingerprint = phrases::short(&plan.machine.fingerprint);
    let mut lines = vec![format!(
        "Placement near {devices} on {machine} (fingerprint {fingerprint}); valid only for this machine"
    )];
    lines.extend(plan.compromises.iter().map(|compromise| format!("Note: {compromise}")));
    // Tasks usually have the same notes.
    for note in notes {
        let note = format!("Note: {note}");
        if !lines.contains(&note) {
            lines.push(note);
        }
    }
    lines.iter().map(|line| clean_paragraph(line)).collect()
}

/// Formats lines as comments that start with `#`.
pub(super) fn hashed(lines: &[String]) -> String {
    lines.iter().map(|line| format!("# {line}\n")).collect()
}

/// Names a task: `task 3, for eth0`.
pub(super) fn task_name(plan: &PlacementPlan, index: usize, task: &TaskPlacement) -> String {
    let device = task.target.and_then(|target| plan.targets.get(target));
    let device = device.map(|target| format!(", for {}", clean(&phrases::short(&target.device))));
    format!("task {index}{}", device.unwrap_or_default())
}
