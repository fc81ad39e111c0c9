//! Formats what the place of a program's memory and devices costs it.

use crate::phrases;
use crate::style::TextStyle;
use crate::table::{Align, Table};
use crate::text_page::TextPage;
use numaio_machine::units::format_size;
use numaio_schema::{MemoryCost, ProgramCost, ProgramTraffic, Slowdown};

/// Formats the traffic of a program, the slowdown of each part, and what is unknown.
pub fn cost_text(cost: &ProgramCost, style: &TextStyle) -> String {
    let mut page = TextPage::new(style);
    let pid = cost.pid.map(|pid| format!(" (process {pid})")).unwrap_or_default();
    let name = phrases::short(&cost.name);
    let ended = if cost.traffic.ended_early { " until it ended" } else { "" };
    page.paragraph(0, 2, &format!("{name}{pid}, observed for {:.1} s{ended}", cost.traffic.seconds));
    write_traffic(&mut page, &cost.traffic);
    page.heading("Predicted run time relative to the best placement");
    let mut table = Table::new(
        [
            ("PART", Align::Left),
            ("EXPECTED", Align::Right),
            ("INTERVAL", Align::Right),
            ("FROM", Align::Left),
        ]
        .map(|(title, align)| (title.to_owned(), align)),
    );
    let mut row = |part: String, slowdown: Option<Slowdown>, basis: &str| {
        let expected = slowdown.and_then(|slowdown| slowdown.expected);
        let expected = expected.map_or("-".to_owned(), |value| format!("{value:.2}"));
        let interval = slowdown
            .map_or("unknown".to_owned(), |slowdown| format!("{:.2} - {:.2}", slowdown.low, slowdown.high));
        table.row([part.into(), expected.into(), interval.into(), basis.into()]);
    };
    if let Some(memory) = &cost.memory {
        row("access to memory".to_owned(), Some(memory.access), &basis(memory));
        row("CPU time".to_owned(), Some(memory.slowdown), stalls(&cost.traffic));
    }
    for device in &cost.devices {
        let part = format!("I/O: {} of {}", device.direction.name(), phrases::short(&device.device));
        row(part, Some(device.slowdown), &device.basis);
    }
    row("complete run".to_owned(), cost.slowdown, "a mean of these parts, and of other time");
    page.table(2, &table);
    if let Some(node) = cost.best {
        page.blank();
        page.paragraph(0, 2, &format!("Best placement: CPUs and memory of node {node}."));
    }
    if !cost.unknown.is_empty() {
        page.heading("Unknown");
        for part in &cost.unknown {
            page.paragraph(2, 4, &format!("{}: {}", part.name, part.remedy));
        }
    }
    page.into_text()
}

fn basis(memory: &MemoryCost) -> String {
    use numaio_schema::AccessBasis::{Latency, Stream};
    match memory.basis.as_slice() {
        [Stream] => "STREAM bandwidth".to_owned(),
        [Latency] => "idle latency".to_owned(),
        _ => "STREAM bandwidth and idle latency".to_owned(),
    }
}

fn stalls(traffic: &ProgramTraffic) -> &'static str {
    match traffic.stalled {
        Some(_) => "share of stalled cycles",
        None => "no counter of stalled cycles: none or all of the time",
    }
}

fn write_traffic(page: &mut TextPage, traffic: &ProgramTraffic) {
    let mut table = Table::new(
        [("NODE", Align::Right), ("CPUS", Align::Right), ("MEMORY", Align::Right)]
            .map(|(title, align)| (title.to_owned(), align)),
    );
    let nodes: std::collections::BTreeSet<_> =
        traffic.cpus_on.keys().chain(traffic.bytes_on.keys()).collect();
    for node in nodes {
        let cpus = traffic.cpus_on.get(node).map_or(String::new(), |cpus| format!("{cpus:.2}"));
        let bytes = traffic.bytes_on.get(node).map_or(String::new(), |bytes| format_size(*bytes as u64));
        table.row([node.to_string().into(), cpus.into(), bytes.into()]);
    }
    page.table(2, &table);
    let mut facts = Vec::new();
    if let Some((read, write)) = traffic.storage_read.zip(traffic.storage_write) {
        facts.push(format!(
            "storage: {}/s read, {}/s written",
            format_size(read as u64),
            format_size(write as u64)
        ));
    }
    for (share, what) in
        [(traffic.local_loads, "loads from memory are local"), (traffic.stalled, "cycles are stalled")]
    {
        facts.extend(share.map(|share| format!("{} of {what}", phrases::percent(share))));
    }
    let device = |device: &numaio_schema::DeviceUse| match device.node {
        Some(node) => format!("{} (node {node})", phrases::short(&device.device)),
        None => phrases::short(&device.device),
    };
    if !traffic.devices.is_empty() {
        facts.push(format!("devices: {}", phrases::joined(traffic.devices.iter().map(device), ", ")));
    }
    for fact in facts {
        page.paragraph(2, 4, &fact);
    }
}
