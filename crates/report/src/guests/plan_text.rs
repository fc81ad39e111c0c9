//! Plans of guests as text.

use crate::phrases::{self, percent};
use crate::style::TextStyle;
use crate::table::{Align, Cell, Table};
use crate::text_page::TextPage;
use numaio_machine::set::CpuSet;
use numaio_machine::units::{format_size, BandwidthUnit};
use numaio_schema::{
    Basis, GuestBaselineRule, GuestPlacement, GuestPlan, GuestPlanProof, GuestPlanValue, PlacedDemand,
};

/// Formats the placement of each guest, what it gets of each device, the proof, and simple plans.
pub fn guest_plan_text(plan: &GuestPlan, style: &TextStyle) -> String {
    let mut page = TextPage::new(style);
    let guests = phrases::count(plan.guests.len(), "guest");
    page.heading(&format!("Placement of {guests} on {}", phrases::machine_name(&plan.machine)));
    for device in &plan.devices {
        let node = device.node.map_or("node unknown".to_owned(), |node| format!("on node {node}"));
        let rate = device
            .bytes_per_s
            .map_or("bandwidth unknown".to_owned(), |rate| phrases::bandwidth(rate, style.unit));
        let best = device.nodes.iter().filter(|node| node.rank == 1).map(|node| node.node);
        let best: numaio_machine::set::NodeSet = best.collect();
        let basis = match device.basis {
            Basis::Device { .. } => format!("best nodes by I/O of the device: {best}"),
            Basis::Model { .. } => format!("best nodes in the model: {best}"),
            Basis::SchedulingFactor { .. } => format!("best nodes by scheduling factor: {best}"),
            Basis::Latency { .. } => format!("nodes with the lowest latency: {best}"),
            Basis::Topology => format!("nearest node by topology: {best}"),
            Basis::Nothing => "all nodes rank equally".to_owned(),
        };
        page.paragraph(2, 2, &format!("{}: {node}, {rate}; {basis}", phrases::short(&device.device)));
    }
    page.blank();
    page.table(2, &placements(plan));
    if plan.guests.iter().any(|guest| !guest.demands.is_empty()) {
        page.heading("Devices");
        page.table(2, &demands(plan, style.unit));
    }
    page.heading("Comparison with simple plans");
    page.table(2, &comparison(plan, style.unit));
    page.paragraph(2, 2, &proof(plan, style.unit));
    if !plan.notes.is_empty() {
        page.heading("Notes");
        plan.notes.iter().for_each(|note| page.paragraph(2, 2, note));
    }
    page.into_text()
}

fn placements(plan: &GuestPlan) -> Table {
    let columns = [
        ("GUEST", Align::Left),
        ("NODE", Align::Right),
        ("VCPUS", Align::Left),
        ("CPUS", Align::Left),
        ("MEMORY", Align::Right),
        ("HYPERVISOR", Align::Left),
        ("FUNCTION", Align::Left),
    ];
    let mut table = Table::new(columns);
    for guest in &plan.guests {
        for (index, cell) in guest.cells.iter().enumerate() {
            let is_first = index == 0;
            let first = |text: String| if is_first { text } else { String::new() };
            let vcpus: CpuSet =
                cell.vcpus.iter().map(|pinned| numaio_machine::ids::CpuId(pinned.vcpu)).collect();
            let cpus = cell.vcpus.iter().fold(CpuSet::new(), |all, pinned| all.union(&pinned.cpus));
            table.row([
                Cell::from(first(phrases::short(&guest.name))),
                Cell::from(cell.node.to_string()),
                Cell::from(vcpus.to_string()),
                Cell::from(cpus.to_string()),
                Cell::from(format_size(cell.memory_bytes)),
                Cell::from(first(format!("CPUs {}", guest.service_cpus))),
                Cell::from(first(function(guest))),
            ]);
        }
    }
    table.without_empty_columns()
}

fn function(guest: &GuestPlacement) -> String {
    guest
        .function
        .as_ref()
        .map(|function| format!("{} of {}", function.address, phrases::short(&function.physical_function)))
        .unwrap_or_default()
}

fn demands(plan: &GuestPlan, unit: BandwidthUnit) -> Table {
    let columns = [
        ("GUEST", Align::Left),
        ("DEVICE", Align::Left),
        ("WANTED", Align::Right),
        ("GETS", Align::Right),
        ("SHARE", Align::Right),
    ];
    let mut table = Table::new(columns);
    let rate = |rate: Option<f64>| rate.map_or_else(unknown, |rate| phrases::bandwidth(rate, unit));
    for guest in &plan.guests {
        for PlacedDemand { device, wanted_bytes_per_s: wanted, share } in &guest.demands {
            table.row([
                Cell::from(phrases::short(&guest.name)),
                Cell::from(phrases::short(device)),
                Cell::from(rate(*wanted)),
                Cell::from(rate(wanted.map(|wanted| wanted * share))),
                Cell::from(wanted.map(|_| percent(*share)).unwrap_or_default()),
            ]);
        }
    }
    table
}

fn unknown() -> String {
    "unknown".to_owned()
}

fn comparison(plan: &GuestPlan, unit: BandwidthUnit) -> Table {
    let columns = [
        ("PLAN", Align::Left),
        ("LEAST SHARE", Align::Right),
        ("TOGETHER", Align::Right),
        ("SUM OF RANKS", Align::Right),
    ];
    let mut table = Table::new(columns);
    let mut demands = plan.guests.iter().flat_map(|guest| &guest.demands);
    let is_known = demands.any(|demand| demand.wanted_bytes_per_s.is_some());
    let share = |value: &GuestPlanValue| if is_known { percent(value.min_share) } else { unknown() };
    let together = |value: &GuestPlanValue| match is_known {
        true => phrases::bandwidth(value.bytes_per_s, unit),
        false => unknown(),
    };
    let mut row = |name: &str, value: Option<&GuestPlanValue>| match value {
        Some(value) => table.row([
            Cell::from(name),
            Cell::from(share(value)),
            Cell::from(together(value)),
            Cell::from(format!("{:.1}", value.ranks)),
        ]),
        None => table.row([Cell::from(name), Cell::from("does not fit")]),
    };
    row("this plan", Some(&plan.value));
    for baseline in &plan.baselines {
        row(rule(baseline.rule), baseline.value.as_ref());
    }
    table
}

fn rule(rule: GuestBaselineRule) -> &'static str {
    match rule {
        GuestBaselineRule::AllLocal => "all local",
        GuestBaselineRule::RoundRobin => "round robin",
        GuestBaselineRule::Unpinned => "libvirt without pinning",
    }
}

fn proof(plan: &GuestPlan, unit: BandwidthUnit) -> String {
    let examined = phrases::count(usize::try_from(plan.examined).unwrap_or(usize::MAX), "partial placement");
    match plan.proof {
        GuestPlanProof::Optimal => format!("Proven optimal; {examined} examined."),
        GuestPlanProof::Gap => format!(
            "Not proven optimal; {examined} examined. No plan exceeds a least share of {} and {} together.",
            percent(plan.bound.min_share),
            phrases::bandwidth(plan.bound.bytes_per_s, unit)
        ),
    }
}
