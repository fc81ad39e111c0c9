//! Bandwidth of a guest by its placement, as a table in the form of Bo (2016), Table 2.

use crate::phrases::{self, percent};
use crate::style::TextStyle;
use crate::table::{Align, Cell, Table};
use crate::text_page::TextPage;
use numaio_machine::ids::NodeId;
use numaio_machine::units::format_size;
use numaio_machine::workload::Direction;
use numaio_schema::{median, Basis, GuestBench, GuestBenchCell, GuestSituation};
use std::collections::BTreeSet;

/// Formats the bandwidth of each placement by message size; percentages are of the first placement,
/// which has vCPUs and memory near the device.
pub fn guest_bench_text(bench: &GuestBench, style: &TextStyle) -> String {
    let mut page = TextPage::new(style);
    page.heading(&format!("Network of guest {} to {}", bench.guest, bench.peer));
    let basis = match bench.basis {
        Basis::Device { .. } => "by I/O of the device",
        Basis::Model { .. } => "by the model",
        Basis::SchedulingFactor { .. } => "by scheduling factors",
        Basis::Latency { .. } => "by latency",
        Basis::Topology => "by topology",
        Basis::Nothing => "without information",
    };
    page.paragraph(
        2,
        2,
        &format!("{}: best node {}, worst node {} ({basis})", bench.device, bench.local, bench.remote),
    );
    let kinds: BTreeSet<(Direction, u32)> =
        bench.situations.iter().flat_map(|situation| &situation.cells).map(kind).collect();
    if kinds.is_empty() {
        page.blank();
        page.table(2, &table(bench, None, style));
    }
    for (direction, streams) in kinds {
        let name = match direction {
            Direction::Write => "The guest sends (device write)",
            Direction::Read => "The guest receives (device read)",
        };
        let streams_text = if streams == 1 { String::new() } else { format!(", {streams} streams") };
        page.heading(&format!("{name}{streams_text}"));
        page.table(2, &table(bench, Some((direction, streams)), style));
    }
    let failed = bench.situations.iter().filter_map(|it| it.failure.as_deref().map(|why| (it, why)));
    let failed: Vec<(&GuestSituation, &str)> = failed.collect();
    if !failed.is_empty() {
        page.heading("Not measured");
        for (situation, why) in failed {
            let (vcpus, memory) = (situation.vcpus, situation.memory);
            page.paragraph(2, 2, &format!("vCPUs on node {vcpus}, memory on node {memory}: {why}"));
        }
    }
    page.into_text()
}

fn kind(cell: &GuestBenchCell) -> (Direction, u32) {
    (cell.direction, cell.streams)
}

/// Median bandwidth of a kind of traffic with messages of a size.
fn rate(situation: &GuestSituation, wanted: (Direction, u32), size: u64) -> Option<f64> {
    let is_wanted = |cell: &&GuestBenchCell| kind(cell) == wanted && cell.message_bytes == size;
    median(&situation.cells.iter().find(is_wanted)?.bytes_per_s)
}

/// A row for each placement, a column for each message size.
fn table(bench: &GuestBench, wanted: Option<(Direction, u32)>, style: &TextStyle) -> Table {
    let all = bench.situations.iter().flat_map(|situation| &situation.cells);
    let sizes: BTreeSet<u64> =
        all.filter(|cell| Some(kind(cell)) == wanted).map(|cell| cell.message_bytes).collect();
    let fixed = ["VCPUS", "MEMORY"].map(|title| (title.to_owned(), Align::Left));
    let mut table =
        Table::new(fixed.into_iter().chain(sizes.iter().map(|size| (format_size(*size), Align::Right))));
    for situation in &bench.situations {
        let value = |size: &u64| {
            let rate = |situation| rate(situation, wanted?, *size);
            let Some(own) = rate(situation) else { return "-".to_owned() };
            let first = bench.situations.first().and_then(rate).filter(|first| *first > 0.0);
            let share = first.map(|first| percent(own / first));
            phrases::joined([phrases::bandwidth(own, style.unit), share.unwrap_or_default()], " ")
        };
        let place =
            |node: NodeId| format!("node {node}, {}", if node == bench.local { "local" } else { "remote" });
        let places = [place(situation.vcpus), place(situation.memory)];
        table.row(places.into_iter().chain(sizes.iter().map(value)).map(Cell::from));
    }
    table
}
