//! Plans of transfers, for people.

use crate::style::{Page, TextStyle};
use crate::table::{Align, Cell, Table};
use crate::words;
use numaio_machine::ids::NodeId;
use numaio_machine::units::{size_for_people, BandwidthUnit};
use numaio_schema::{
    Objective, Plan, PlanMethod, PlannedWay, Prediction, RateOrigin, SimpleRule, Stage, Transfer, WayRates,
};
use std::collections::BTreeSet;

/// A plan: what it takes, its bottleneck, its flows drawn and in a table, simple plans beside it.
pub fn plan_text(plan: &Plan, style: &TextStyle) -> String {
    let mut page = Page::new(style);
    heading(&mut page, plan, style.unit);
    page.blank();
    for line in flows(plan) {
        page.paragraph(2, 4, &line);
    }
    page.blank();
    page.table(2, &ways(plan, style.unit));
    page.heading("Beside it");
    page.table(2, &beside(plan, style.unit));
    for rejected in &plan.rejected {
        page.paragraph(2, 2, &format!("{}: {}", rule(rejected.rule), rejected.why));
    }
    if !plan.problem.assumptions.is_empty() {
        page.heading("Assumed");
        plan.problem.assumptions.iter().for_each(|assumed| page.paragraph(2, 2, assumed));
    }
    page.into_text()
}

fn heading(page: &mut Page, plan: &Plan, unit: BandwidthUnit) {
    let verb = match plan.problem.direction {
        Transfer::Send => "Send",
        Transfer::Receive => "Receive",
    };
    let machine = plan.problem.machine.as_ref().map(words::machine_name);
    let on = machine.map(|machine| format!(" on {machine}")).unwrap_or_default();
    let (time, rate) = (seconds(plan.predicted.time_s), words::bandwidth(plan.predicted.bytes_per_s, unit));
    let all = size_for_people(plan.problem.total_bytes());
    page.heading(&format!("{verb} {all}{on}: {time}, {rate}"));
    let stages = words::joined(plan.bottleneck().map(|stage| name(&stage.stage)), ", ");
    page.paragraph(2, 2, &format!("Bottleneck: {stages}"));
    let least = match plan.problem.objective {
        Objective::Time => "Least time of the slowest stage",
        Objective::Sum => "Least sum over the used ways, as Li's dissertation prints it",
    };
    let method = match plan.method {
        PlanMethod::Divide => "divide and conquer",
        PlanMethod::Mixed => "one mixed-integer programme",
    };
    let proof = match plan.proof.optimal {
        true => "proven best".to_owned(),
        false => format!("at most {:.2} % above the best", plan.proof.gap * 100.0),
    };
    page.paragraph(2, 2, &format!("{least}: {}, {proof} by {method}", seconds(plan.proof.value_s)));
}

/// `nvme0n1 (node 7) == 4 threads, 1.2 TiB ==> memory 7 == 3 threads, 1.2 TiB ==> eth0 (node 7)`.
fn flows(plan: &Plan) -> Vec<String> {
    let memories: BTreeSet<NodeId> = plan.storage_ways.iter().map(|way| way.memory_node).collect();
    let of = |ways: &[PlannedWay], memory: NodeId, devices: &dyn Fn(NodeId) -> String| {
        let ways = ways.iter().filter(|way| way.memory_node == memory);
        words::joined(ways.map(|way| format!("{} =={}==", devices(way.device_node), moved(way))), " + ")
    };
    let storage =
        |node: NodeId| devices(plan.problem.storage.iter().map(|it| (it.device.as_str(), it.node)), node);
    let nics = |node: NodeId| devices(plan.problem.nics.iter().map(|it| (it.device.as_str(), it.node)), node);
    let drawn = memories.iter().map(|memory| {
        let (from, to) = (of(&plan.storage_ways, *memory, &storage), of(&plan.network_ways, *memory, &nics));
        match plan.problem.direction {
            Transfer::Send => format!("{from}> memory {memory} >{to}"),
            Transfer::Receive => format!("{to}> memory {memory} >{from}"),
        }
    });
    drawn.collect()
}

fn moved(way: &PlannedWay) -> String {
    format!(" {}, {} ", words::count(way.threads as usize, "thread"), size_for_people(way.bytes))
}

/// Devices of a node by name.
fn devices<'a>(all: impl Iterator<Item = (&'a str, NodeId)>, node: NodeId) -> String {
    let here = all.filter(|(_, home)| *home == node).map(|(name, _)| words::short(name));
    format!("{} (node {node})", words::joined(here, "+"))
}

fn ways(plan: &Plan, unit: BandwidthUnit) -> Table {
    let columns = [
        ("WAY".to_owned(), Align::Left),
        ("THREADS".to_owned(), Align::Right),
        ("BYTES".to_owned(), Align::Right),
        ("RATE".to_owned(), Align::Right),
        ("BUSY".to_owned(), Align::Right),
        ("KNOWN FROM".to_owned(), Align::Left),
    ];
    let mut table = Table::new(columns);
    let kinds = [
        ("storage", &plan.storage_ways, &plan.problem.storage_ways),
        ("network", &plan.network_ways, &plan.problem.network_ways),
    ];
    for (kind, planned, rates) in kinds {
        for way in planned {
            table.row([
                Cell::from(format!("{kind} of node {} - memory {}", way.device_node, way.memory_node)),
                Cell::from(way.threads.to_string()),
                Cell::from(size_for_people(way.bytes)),
                Cell::from(words::bandwidth(way.bytes_per_s, unit)),
                Cell::from(seconds(way.bytes as f64 / way.bytes_per_s)),
                Cell::from(origin(rates, way)),
            ]);
        }
    }
    table
}

fn origin(rates: &[WayRates], way: &PlannedWay) -> &'static str {
    let of = rates.iter().find(|it| it.device_node == way.device_node && it.memory_node == way.memory_node);
    match of.map(|rates| rates.origin) {
        Some(RateOrigin::Measured) => "measured I/O",
        Some(RateOrigin::Modelled) => "the copy model",
        Some(RateOrigin::Assumed) => "assumption",
        Some(RateOrigin::Given) | None => "the problem",
    }
}

/// The plan and the simple ones, by time and sum.
fn beside(plan: &Plan, unit: BandwidthUnit) -> Table {
    let columns = [
        ("PLAN".to_owned(), Align::Left),
        ("TIME".to_owned(), Align::Right),
        ("RATE".to_owned(), Align::Right),
        ("SUM".to_owned(), Align::Right),
    ];
    let mut table = Table::new(columns);
    let simple = plan.rejected.iter().map(|it| (rule(it.rule), it.predicted.as_ref()));
    for (name, predicted) in std::iter::once(("this one", Some(&plan.predicted))).chain(simple) {
        let shown = |of: &dyn Fn(&Prediction) -> String| predicted.map(of).unwrap_or("-".to_owned());
        table.row([
            Cell::from(name),
            Cell::from(shown(&|it| seconds(it.time_s))),
            Cell::from(shown(&|it| words::bandwidth(it.bytes_per_s, unit))),
            Cell::from(shown(&|it| seconds(it.sum_s))),
        ]);
    }
    table
}

fn rule(rule: SimpleRule) -> &'static str {
    match rule {
        SimpleRule::AllLocal => "all local",
        SimpleRule::EvenSpread => "even spread",
    }
}

fn name(stage: &Stage) -> String {
    match stage {
        Stage::StorageWay(way) => {
            format!("storage threads of node {} to memory {}", way.device_node, way.memory_node)
        }
        Stage::NetworkWay(way) => {
            format!("network threads of memory {} to node {}", way.memory_node, way.device_node)
        }
        Stage::Storage(device) => words::short(device),
        Stage::Nics(node) => format!("the NICs of node {node}"),
        Stage::Limit(name) => words::short(name),
    }
}

/// `12.3 s`, `4 min 10 s`, `2 h 5 min`.
fn seconds(seconds: f64) -> String {
    match seconds {
        s if s < 0.0995 => format!("{:.2} ms", s * 1e3),
        s if s < 99.95 => format!("{s:.1} s"),
        s if s < 5970.0 => format!("{} min {:.0} s", (s.round() / 60.0).floor(), s.round() % 60.0),
        s => format!("{} h {:.0} min", ((s / 60.0).round() / 60.0).floor(), (s / 60.0).round() % 60.0),
    }
}
