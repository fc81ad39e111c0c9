//! Formats transfer plans as text.

use crate::phrases;
use crate::style::TextStyle;
use crate::table::{Align, Cell, Table};
use crate::text_page::TextPage;
use numaio_machine::ids::NodeId;
use numaio_machine::units::{format_size, BandwidthUnit};
use numaio_schema::{
    Objective, PathRates, Plan, PlannedPath, PlannedPool, Prediction, RateOrigin, SimpleRule, Stage, Transfer,
};
use std::collections::BTreeSet;

/// Formats a plan: its time, bottleneck, flows and paths, and a comparison with simple plans.
pub fn plan_text(plan: &Plan, style: &TextStyle) -> String {
    let mut page = TextPage::new(style);
    heading(&mut page, plan, style.unit);
    page.table(2, &flows(plan));
    page.heading("Paths");
    page.table(2, &paths(plan, style.unit));
    page.heading("Comparison with simple plans");
    page.table(2, &comparison_table(plan, style.unit));
    for rejected in &plan.rejected {
        page.paragraph(2, 2, &format!("{}: {}", rule(rejected.rule), rejected.reason));
    }
    if !plan.problem.assumptions.is_empty() {
        page.heading("Assumptions");
        plan.problem.assumptions.iter().for_each(|assumed| page.paragraph(2, 2, assumed));
    }
    page.into_text()
}

fn heading(page: &mut TextPage, plan: &Plan, unit: BandwidthUnit) {
    page.heading(&title(plan, unit));
    if let Some(machine) = &plan.problem.machine {
        page.paragraph(2, 2, &format!("On {}", phrases::machine_name(machine)));
    }
    let stages = phrases::joined(plan.bottleneck().map(|stage| stage_name(&stage.stage)), ", ");
    page.paragraph(2, 2, &format!("Bottleneck: {stages}"));
    page.paragraph(2, 2, &proof(plan));
    page.blank();
}

/// Formats the title of a plan: `Send 1.8 TiB: 81 min 23 s, 0.41 GB/s`.
pub(crate) fn title(plan: &Plan, unit: BandwidthUnit) -> String {
    let verb = match plan.problem.direction {
        Transfer::Send => "Send",
        Transfer::Receive => "Receive",
    };
    let (time, rate) = (seconds(plan.predicted.time_s), phrases::bandwidth(plan.predicted.bytes_per_s, unit));
    format!("{verb} {}: {time}, {rate}", format_size(plan.problem.total_bytes()))
}

/// States the minimized objective and how close the plan is to the optimum.
pub(crate) fn proof(plan: &Plan) -> String {
    let least = match plan.problem.objective {
        Objective::Time => "Minimum time of the slowest stage",
        Objective::Sum => "Minimum sum over the used paths, as printed in Li's dissertation",
    };
    let proof = match plan.proof.optimal {
        true => "proven optimal".to_owned(),
        false => format!("at most {:.2} % above the optimum", plan.proof.gap * 100.0),
    };
    format!("{least}: {}, {proof}", seconds(plan.proof.value_s))
}

/// Returns the table of flows: a row for each path, grouped by memory node.
fn flows(plan: &Plan) -> Table {
    let columns = [
        ("FROM", Align::Left),
        ("THREADS", Align::Right),
        ("BYTES", Align::Right),
        ("", Align::Left),
        ("MEMORY", Align::Left),
        ("", Align::Left),
        ("THREADS", Align::Right),
        ("BYTES", Align::Right),
        ("", Align::Left),
        ("TO", Align::Left),
    ];
    let mut table = Table::new(columns);
    let pools = plan.pools();
    let memories: BTreeSet<NodeId> = pools.fills.iter().map(|pool| pool.path.memory_node).collect();
    for memory in memories {
        let of = |pools: &[PlannedPool]| -> Vec<PlannedPool> {
            pools.iter().filter(|pool| pool.path.memory_node == memory).cloned().collect()
        };
        let (fills, drains) = (of(&pools.fills), of(&pools.drains));
        for line in 0..fills.len().max(drains.len()) {
            let name = if line == 0 { format!("node {memory}") } else { String::new() };
            let from = flow(fills.get(line));
            let [to, threads, bytes, arrow] = flow(drains.get(line));
            let start = if arrow.is_empty() { "" } else { "-" };
            let cells = from.into_iter().chain([name, start.to_owned(), threads, bytes, arrow, to]);
            table.row(cells.map(Cell::from).collect::<Vec<Cell>>());
        }
    }
    table
}

/// Returns devices, threads, bytes and an arrow; empty without a path.
fn flow(pool: Option<&PlannedPool>) -> [String; 4] {
    let Some(pool) = pool else { return Default::default() };
    [devices(pool), pool.threads.to_string(), format_size(pool.bytes), "->".to_owned()]
}

/// Lists the devices of a path's node by name.
pub(crate) fn devices(pool: &PlannedPool) -> String {
    let names = phrases::joined(pool.devices.iter().map(|name| phrases::short(name)), "+");
    format!("{names} (node {})", pool.path.device_node)
}

fn paths(plan: &Plan, unit: BandwidthUnit) -> Table {
    let columns = [
        ("PATH", Align::Left),
        ("THREADS", Align::Right),
        ("BYTES", Align::Right),
        ("RATE", Align::Right),
        ("BUSY", Align::Right),
        ("SOURCE", Align::Left),
    ];
    let mut table = Table::new(columns);
    let kinds = [
        ("storage", &plan.storage_paths, &plan.problem.storage_paths),
        ("network", &plan.network_paths, &plan.problem.network_paths),
    ];
    for (kind, planned, rates) in kinds {
        for way in planned {
            table.row([
                Cell::from(format!("{kind} of node {} - memory {}", way.device_node, way.memory_node)),
                Cell::from(way.threads.to_string()),
                Cell::from(format_size(way.bytes)),
                Cell::from(phrases::bandwidth(way.bytes_per_s, unit)),
                Cell::from(seconds(way.bytes as f64 / way.bytes_per_s)),
                Cell::from(origin(rates, way)),
            ]);
        }
    }
    table
}

fn origin(rates: &[PathRates], way: &PlannedPath) -> &'static str {
    let of = rates.iter().find(|it| it.device_node == way.device_node && it.memory_node == way.memory_node);
    match of.map(|rates| rates.origin) {
        Some(RateOrigin::Measured) => "measured I/O",
        Some(RateOrigin::Modeled) => "the copy model",
        Some(RateOrigin::Assumed) => "assumption",
        Some(RateOrigin::Given) | None => "the problem",
    }
}

/// Returns the table that compares the plan with simple ones, by time and sum.
fn comparison_table(plan: &Plan, unit: BandwidthUnit) -> Table {
    let columns = [
        ("PLAN", Align::Left),
        ("TIME", Align::Right),
        ("SIMULATED", Align::Right),
        ("RATE", Align::Right),
        ("SUM", Align::Right),
    ];
    let mut table = Table::new(columns);
    let simple = plan.rejected.iter().map(|it| (rule(it.rule), it.predicted.as_ref()));
    for (name, predicted) in std::iter::once(("this plan", Some(&plan.predicted))).chain(simple) {
        let shown = |of: &dyn Fn(&Prediction) -> String| predicted.map(of).unwrap_or("-".to_owned());
        let simulated = predicted.and_then(|it| it.simulated_s).map(seconds).unwrap_or_default();
        table.row([
            Cell::from(name),
            Cell::from(shown(&|it| seconds(it.time_s))),
            Cell::from(simulated),
            Cell::from(shown(&|it| phrases::bandwidth(it.bytes_per_s, unit))),
            Cell::from(shown(&|it| seconds(it.sum_s))),
        ]);
    }
    table.without_empty_columns()
}

fn rule(rule: SimpleRule) -> &'static str {
    match rule {
        SimpleRule::AllLocal => "all local",
        SimpleRule::EvenSpread => "even spread",
    }
}

/// Describes a stage.
pub(crate) fn stage_name(stage: &Stage) -> String {
    match stage {
        Stage::StoragePath(way) => {
            format!("storage threads of node {} to memory {}", way.device_node, way.memory_node)
        }
        Stage::NetworkPath(way) => {
            format!("network threads of memory {} to node {}", way.memory_node, way.device_node)
        }
        Stage::Storage(device) => phrases::short(device),
        Stage::Nics(node) => format!("the NICs of node {node}"),
        Stage::Limit(name) => phrases::short(name),
    }
}

/// Formats a duration: `12.3 s`, `4 min 10 s`, `2 h 5 min`.
pub(crate) fn seconds(seconds: f64) -> String {
    match seconds {
        s if s < 0.000_995 => format!("{:.2} µs", s * 1e6),
        s if s < 0.0995 => format!("{:.2} ms", s * 1e3),
        s if s < 99.95 => format!("{s:.1} s"),
        s if s < 5970.0 => format!("{} min {:02.0} s", (s.round() / 60.0).floor(), s.round() % 60.0),
        s => format!("{} h {:02.0} min", ((s / 60.0).round() / 60.0).floor(), (s / 60.0).round() % 60.0),
    }
}
