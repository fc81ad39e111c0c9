//! Formats the status of running programs relative to their devices.

use crate::phrases::{self, bandwidth_lost};
use crate::style::TextStyle;
use crate::table::{Align, Cell, Table};
use crate::text_page::TextPage;
use numaio_machine::ids::NodeId;
use numaio_machine::units::format_size;
use numaio_schema::{Nearness, ProcessStatus, Status};
use std::collections::BTreeMap;
use std::fmt::Display;

/// Formats a row for each program, those remote to a device first.
///
/// With `explain` it also states how each device is used.
pub fn status_text(status: &Status, explain: bool, style: &TextStyle) -> String {
    let mut page = TextPage::new(style);
    let mut processes: Vec<&ProcessStatus> = status.processes.iter().collect();
    processes.sort_by_key(|process| (!is_remote(process), process.pid));
    if processes.is_empty() {
        page.paragraph(0, 2, "No visible program uses a device.");
    } else {
        page.table(0, &table(&processes));
    }
    for process in processes.iter().filter(|_| explain) {
        for device in process.devices.iter().filter(|device| !device.reached_via.is_empty()) {
            page.paragraph(2, 2, &format!("{}: {}", process.pid, device.reached_via));
        }
    }
    let remote = processes.iter().filter(|process| is_remote(process)).count();
    if remote > 0 {
        let is_free = |process: &&&ProcessStatus| {
            is_remote(process) && process.nearness.as_ref().is_some_and(Nearness::is_free)
        };
        let free = match processes.iter().filter(is_free).count() {
            0 => String::new(),
            free if free == remote => "; that costs no bandwidth".to_owned(),
            free => format!("; of {free}, that costs no bandwidth"),
        };
        page.blank();
        page.paragraph(
            0,
            2,
            &format!("{} remote from a device that it uses{free}.", phrases::count(remote, "program")),
        );
    }
    for unseen in &status.unreadable {
        page.paragraph(0, 2, &format!("process {}: {}", unseen.pid, unseen.reason));
    }
    page.into_text()
}

fn is_remote(process: &ProcessStatus) -> bool {
    process.nearness.as_ref().is_some_and(|nearness| nearness.is_remote())
}

fn table(processes: &[&ProcessStatus]) -> Table {
    let columns = [
        ("PID", Align::Right),
        ("NAME", Align::Left),
        ("THREADS", Align::Left),
        ("MEMORY", Align::Left),
        ("DEVICES", Align::Left),
        ("NEAR", Align::Left),
        ("THREADS NEAR", Align::Right),
        ("MEMORY NEAR", Align::Right),
        ("BANDWIDTH LOST", Align::Right),
    ];
    let mut table = Table::new(columns.map(|(title, align)| (title.to_owned(), align)));
    for process in processes {
        let devices = process.devices.iter().map(|device| match device.node {
            Some(node) => format!("{} (node {node})", phrases::short(&device.device)),
            None => phrases::short(&device.device),
        });
        let nearness = process.nearness.as_ref();
        let percent =
            |share: Option<f64>| share.map(|share| format!("{:.0} %", share * 100.0)).unwrap_or_default();
        table.row([
            Cell::from(process.pid.to_string()),
            Cell::from(phrases::program_name(&process.name, process.guest.as_deref())),
            Cell::from(by_node(&process.threads_on, |count| count.to_string())),
            Cell::from(
                process
                    .bytes_on
                    .as_ref()
                    .map_or("unknown".to_owned(), |on| by_node(on, |bytes| format_size(*bytes))),
            ),
            Cell::from(phrases::joined(devices, ", ")),
            Cell::from(nearness.map(|it| it.near.to_string()).unwrap_or_default()),
            Cell::from(percent(nearness.and_then(|it| it.threads))),
            Cell::from(percent(nearness.and_then(|it| it.memory))),
            Cell::from(nearness.filter(|it| it.is_remote()).map(bandwidth_lost).unwrap_or_default()),
        ]);
    }
    table.without_empty_columns()
}

/// Formats an amount for each node: `0: 3, 1: 5`.
fn by_node<T, D: Display>(amounts: &BTreeMap<NodeId, T>, show: impl Fn(&T) -> D) -> String {
    phrases::joined(amounts.iter().map(|(node, amount)| format!("{node}: {}", show(amount))), ", ")
}
