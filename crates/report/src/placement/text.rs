//! Formats placement plans and their verification as text.

use crate::phrases;
use crate::style::TextStyle;
use crate::table::{Align, Cell, Table};
use crate::text_page::TextPage;
use numaio_machine::set::NodeSet;
use numaio_machine::units::format_size;
use numaio_schema::{Basis, PlacementPlan, PlacementTarget, TaskObservation, Verification};

/// Formats the CPUs and memory of each task with the reasons; with `explain`, also how each handle
/// resolved.
pub fn placement_text(plan: &PlacementPlan, explain: bool, style: &TextStyle) -> String {
    let mut page = TextPage::new(style);
    page.heading(&format!("Placement{} on {}", near(plan), phrases::machine_name(&plan.machine)));
    for target in &plan.targets {
        page.paragraph(2, 2, &device_line(target));
        for step in target.chain.iter().filter(|_| explain) {
            page.paragraph(4, 2, step);
        }
    }
    for reason in &plan.reasons {
        page.paragraph(2, 2, reason);
    }
    for compromise in &plan.compromises {
        page.paragraph(2, 2, &format!("Note: {compromise}"));
    }
    page.blank();
    page.table(2, &tasks(plan));
    if !plan.rejected.is_empty() {
        page.heading("Rejected nodes");
        for node in &plan.rejected {
            page.paragraph(2, 2, &format!("node {}: {}", node.node, node.reason));
        }
    }
    page.into_text()
}

fn near(plan: &PlacementPlan) -> String {
    match phrases::joined(plan.targets.iter().map(|target| phrases::short(&target.device)), ", ").as_str() {
        "" => String::new(),
        devices => format!(" near {devices}"),
    }
}

/// Describes a device: `eth0 is on node 1; its interrupts are on CPUs 8-11`.
fn device_line(target: &PlacementTarget) -> String {
    let device = phrases::short(&target.device);
    let node = match target.node {
        Some(node) => format!("{device} is on node {node}"),
        None => format!("{device}: node unknown"),
    };
    let basis = match target.basis {
        Basis::Device { .. } | Basis::Model { .. } | Basis::Latency { .. } | Basis::Nothing => "",
        Basis::SchedulingFactor { .. } => "; ranked by scheduling factors",
        Basis::Topology => "; no model used",
    };
    let irqs = match target.irq_cpus.is_empty() {
        true => String::new(),
        false => format!("; its interrupts are on CPUs {}", target.irq_cpus),
    };
    format!("{node}{basis}{irqs}")
}

fn tasks(plan: &PlacementPlan) -> Table {
    let columns = ["TASK", "FOR", "NODE", "CPUS", "MEMORY"];
    let aligned = [Align::Right, Align::Left, Align::Left, Align::Left, Align::Left];
    let mut table = Table::new(columns.map(str::to_owned).into_iter().zip(aligned).collect::<Vec<_>>());
    for (index, task) in plan.tasks.iter().enumerate() {
        let device = task.target.and_then(|target| plan.targets.get(target));
        table.row([
            Cell::from(index.to_string()),
            Cell::from(device.map(|target| phrases::short(&target.device)).unwrap_or_default()),
            Cell::from(task.cpu_nodes.to_string()),
            Cell::from(task.cpus.to_string()),
            Cell::from(format!("{} {}", task.memory.policy.name(), phrases::nodes(&task.memory.nodes))),
        ]);
    }
    table.without_empty_columns()
}

/// Formats the shares of memory, CPU time and I/O that matched the plan.
pub fn verification_text(plan: &PlacementPlan, seen: &Verification, style: &TextStyle) -> String {
    let mut page = TextPage::new(style);
    let samples = phrases::count(seen.samples as usize, "time");
    page.heading(&format!("Checked {samples} in {:.1} s", seen.seconds));
    if seen.samples == 0 {
        page.paragraph(2, 2, "The program ended before the first check.");
        return page.into_text();
    }
    let percent =
        |share: Option<f64>| share.map_or("unknown".to_owned(), |share| format!("{:.1} %", share * 100.0));
    for (what, share) in [
        ("memory as planned", seen.pages_in_place()),
        ("CPU time as planned", seen.time_in_place()),
        ("I/O of devices on planned nodes, of all device I/O", seen.io_in_place()),
    ] {
        page.paragraph(2, 2, &format!("{what}: {}", percent(share)));
    }
    for (index, (task, place)) in seen.tasks.iter().zip(&plan.tasks).enumerate() {
        let mut deviations = misplaced_memory(task, &place.memory.nodes);
        if task.threads_unbound > 0 {
            deviations.push(format!(
                "{} may run outside the planned CPUs",
                phrases::count(task.threads_unbound as usize, "thread")
            ));
        }
        if !deviations.is_empty() {
            page.paragraph(2, 2, &format!("task {index}: {}", deviations.join("; ")));
        }
    }
    for device in seen.devices.iter().filter(|device| device.bytes > 0) {
        let other = if device.planned { "" } else { " (not in the plan)" };
        page.paragraph(
            2,
            2,
            &format!("{} moved {}{other}", phrases::short(&device.device), format_size(device.bytes)),
        );
    }
    page.into_text()
}

/// Lists memory on nodes outside the plan.
fn misplaced_memory(task: &TaskObservation, place: &NodeSet) -> Vec<String> {
    let elsewhere = task.bytes_on.iter().filter(|(node, bytes)| !place.contains(**node) && **bytes > 0);
    elsewhere.map(|(node, bytes)| format!("{} on node {node}", format_size(*bytes))).collect()
}
