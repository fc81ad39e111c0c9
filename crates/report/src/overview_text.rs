//! The first page that a new user sees: this machine, and what to run next.

use crate::phrases;
use crate::style::{Detail, TextStyle};
use crate::table::{Align, Cell, Table};
use crate::text_page::TextPage;
use crate::topology_text;
use numaio_machine::topology::Topology;
use numaio_schema::{BandwidthDifference, MachineExpectation, UnknownDifference};

/// No model has the paths of a device.
const UNMEASURED: BandwidthDifference =
    BandwidthDifference::Unknown { reason: UnknownDifference::PathsNotMeasured };

/// Formats a machine in brief, with its data devices, what they are `expected` to transfer, and the
/// commands to run next.
pub fn overview_text(topology: &Topology, expected: &MachineExpectation, style: &TextStyle) -> String {
    let devices: Vec<String> =
        topology.devices.iter().filter(|device| device.carries_data()).map(phrases::device_name).collect();
    let mut page = TextPage::new(style);
    let has_choice = topology.cpu_nodes().len() > 1;
    if !has_choice {
        let near = "One node has CPUs: every program is equally near to all devices.";
        page.blank();
        page.paragraph(0, 2, near);
    }
    page.heading("Next");
    let mut table = Table::new([("COMMAND", Align::Left), ("PURPOSE", Align::Left)]);
    let mut row = |command: &str, purpose: &str| table.row([command, purpose].map(Cell::from));
    row("numaio topology", "nodes, distances, devices and findings in full");
    row("numaio doctor", "what reduces I/O bandwidth here, and how to fix it");
    if has_choice && expected.devices.iter().all(|of| of.difference == UNMEASURED) {
        row("numaio model", "measure which nodes reach the devices best");
    }
    match devices.first().filter(|_| has_choice) {
        Some(device) => {
            row(&format!("numaio place --near {device}"), "where programs that use it should run");
            row(&format!("numaio run --near {device} -- PROGRAM"), "run a program there");
            row("numaio status", "running programs that are far from their devices");
        }
        None => row("numaio status", "running programs, and the devices that they use"),
    }
    row("numaio copy -a SOURCE HOST:TARGET", "copy files to another host, verified");
    row("numaio help", "all commands");
    page.table(2, &table);
    format!("{}{}", topology_text(topology, expected, Detail::Brief, style), page.into_text())
}
