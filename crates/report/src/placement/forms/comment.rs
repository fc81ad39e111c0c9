//! What stands in comments of every form: what the plan is for, and what the form cannot say.

use crate::phrases;
use crate::style::{clean, clean_paragraph};
use numaio_schema::{PlacementPlan, TaskPlace};

/// What the plan is for, its compromises, and `notes`, each a line without its mark of a comment.
pub(super) fn lines(plan: &PlacementPlan, notes: impl IntoIterator<Item = String>) -> Vec<String> {
    let devices = phrases::joined(plan.targets.iter().map(|target| phrases::short(&target.device)), ", ");
    let machine = phrases::machine_name(&plan.machine);
    let fingerprint = phrases::short(&plan.machine.fingerprint);
    let mut lines =
        vec![format!("Places near {devices} on {machine} (fingerprint {fingerprint}), for no other machine")];
    lines.extend(plan.compromises.iter().map(|compromise| format!("Note: {compromise}")));
    // Tasks have the same notes as a rule.
    for note in notes {
        let note = format!("Note: {note}");
        if !lines.contains(&note) {
            lines.push(note);
        }
    }
    lines.iter().map(|line| clean_paragraph(line)).collect()
}

/// Lines as comments that begin with `#`.
pub(super) fn hashed(lines: &[String]) -> String {
    lines.iter().map(|line| format!("# {line}\n")).collect()
}

/// `task 3, for eth0`.
pub(super) fn task_name(plan: &PlacementPlan, index: usize, task: &TaskPlace) -> String {
    let device = task.target.and_then(|target| plan.targets.get(target));
    let device = device.map(|target| format!(", for {}", clean(&phrases::short(&target.device))));
    format!("task {index}{}", device.unwrap_or_default())
}
