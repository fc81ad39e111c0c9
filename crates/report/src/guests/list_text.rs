//! Guests of a host as text.

use crate::phrases;
use crate::style::TextStyle;
use crate::table::{Align, Cell, Table};
use crate::text_page::TextPage;
use numaio_machine::guests::{GivenTopology, GuestThread, ThreadRole};
use numaio_machine::ids::NodeId;
use numaio_machine::set::CpuSet;
use numaio_machine::units::format_size;
use numaio_schema::{Cost, DiagnosedFinding, GuestStatus, GuestsDocument};
use std::collections::BTreeMap;
use std::fmt::Display;

/// Formats a row for each guest, and what this machine is itself.
pub fn guests_text(document: &GuestsDocument, style: &TextStyle) -> String {
    let mut page = TextPage::new(style);
    match document.guests.as_slice() {
        [] => page.paragraph(0, 2, "No visible process runs a guest."),
        guests => page.table(0, &guest_table(guests)),
    }
    let faulty = document.guests.iter().filter(|guest| guest.has_faults()).count();
    if faulty > 0 {
        page.blank();
        let what = "remote from its memory or devices; numaio vm show NAME shows what that costs.";
        page.paragraph(0, 2, &format!("{} {what}", phrases::count(faulty, "guest")));
    }
    if document.guests.iter().any(|guest| guest.memory.is_none()) {
        page.paragraph(0, 2, "Memory of other users' guests: only root can read it.");
    }
    if let Some(given) = &document.given {
        page.blank();
        page.paragraph(0, 2, &headline(given));
    }
    page.into_text()
}

fn headline(given: &GivenTopology) -> String {
    let by = given.hypervisor.as_deref().map(|name| format!(" ({})", phrases::short(name)));
    format!(
        "This machine is a guest itself{}: numaio vm show self shows its topology.",
        by.unwrap_or_default()
    )
}

fn guest_table(guests: &[GuestStatus]) -> Table {
    let columns = [
        ("PID", Align::Right),
        ("GUEST", Align::Left),
        ("HYPERVISOR", Align::Left),
        ("VCPUS", Align::Left),
        ("MEMORY", Align::Left),
        ("DEVICES", Align::Left),
        ("FINDINGS", Align::Left),
    ];
    let mut table = Table::new(columns);
    for guest in guests {
        let findings = guest.findings.iter().map(|found| found.finding.rule.as_str());
        table.row([
            Cell::from(guest.pid.to_string()),
            Cell::from(phrases::short(&guest.name)),
            Cell::from(hypervisor(guest)),
            Cell::from(by_node(&guest.vcpus_on, |count| count.to_string())),
            Cell::from(memory(guest)),
            Cell::from(phrases::joined(device_names(guest), ", ")),
            Cell::from(phrases::joined(findings, ", ")),
        ]);
    }
    table.without_empty_columns()
}

fn hypervisor(guest: &GuestStatus) -> String {
    let libvirt = if guest.configuration.libvirt { "libvirt" } else { "" };
    let accelerator = guest.configuration.accelerator.as_deref().map(phrases::short).unwrap_or_default();
    phrases::joined([guest.configuration.hypervisor.name(), &accelerator, libvirt], ", ")
}

fn memory(guest: &GuestStatus) -> String {
    guest.bytes_on.as_ref().map_or("unknown".to_owned(), |on| by_node(on, |bytes| format_size(*bytes)))
}

fn device_names(guest: &GuestStatus) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for device in &guest.devices {
        let name = phrases::short(device.device.as_deref().unwrap_or(&device.attached));
        let name = match device.node {
            Some(node) => format!("{name} (node {node})"),
            None => name,
        };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Formats an amount for each node: `0: 3, 1: 5`.
fn by_node<T, D: Display>(amounts: &BTreeMap<NodeId, T>, show: impl Fn(&T) -> D) -> String {
    phrases::joined(amounts.iter().map(|(node, amount)| format!("{node}: {}", show(amount))), ", ")
}

/// Formats guests with their threads, memory and devices, and what is remote.
pub fn guest_text(document: &GuestsDocument, style: &TextStyle) -> String {
    let mut page = TextPage::new(style);
    for guest in &document.guests {
        page.heading(&format!(
            "Guest {} (process {}, {})",
            phrases::short(&guest.name),
            guest.pid,
            hypervisor(guest)
        ));
        page.table(2, &threads(&guest.threads));
        write_memory(&mut page, guest);
        write_devices(&mut page, guest);
        if guest.findings.is_empty() {
            page.blank();
            page.paragraph(2, 2, "Nothing is remote.");
        }
        guest.findings.iter().for_each(|found| write_finding(&mut page, found));
    }
    if let Some(given) = document.given.as_ref().filter(|_| document.guests.is_empty()) {
        write_given(&mut page, given);
    }
    page.into_text()
}

/// Threads of one role with equal CPUs are one row.
fn threads(all: &[GuestThread]) -> Table {
    let columns =
        [("THREAD", Align::Left), ("TID", Align::Right), ("CPU", Align::Right), ("MAY RUN ON", Align::Left)];
    let mut table = Table::new(columns);
    let mut emulator: BTreeMap<String, Vec<&GuestThread>> = BTreeMap::new();
    for thread in all {
        let allowed = thread.allowed.as_ref().map_or("unknown".to_owned(), CpuSet::to_string);
        if thread.role == ThreadRole::Emulator {
            emulator.entry(allowed).or_default().push(thread);
            continue;
        }
        table.row([
            Cell::from(thread.role.to_string()),
            Cell::from(thread.tid.to_string()),
            Cell::from(thread.cpu.to_string()),
            Cell::from(allowed),
        ]);
    }
    for (allowed, threads) in emulator {
        let cpus: CpuSet = threads.iter().map(|thread| thread.cpu).collect();
        let name = match threads.len() {
            1 => "emulator".to_owned(),
            count => format!("emulator ({count} threads)"),
        };
        let tid = threads.first().map(|thread| thread.tid.to_string()).unwrap_or_default();
        table.row([Cell::from(name), Cell::from(tid), Cell::from(cpus.to_string()), Cell::from(allowed)]);
    }
    table
}

fn write_memory(page: &mut TextPage, guest: &GuestStatus) {
    page.blank();
    let Some(memory) = &guest.memory else {
        return page.paragraph(2, 2, "Memory: unknown; only root and its user can read it.");
    };
    let on = guest.bytes_on.clone().unwrap_or_default();
    let mut notes = vec![format!("Memory on node {}", by_node(&on, |bytes| format_size(*bytes)))];
    if memory.huge_bytes > 0 {
        notes.push(format!("{} in huge pages", format_size(memory.huge_bytes)));
    }
    let policies: Vec<&str> = memory.regions.iter().map(|region| region.policy.as_str()).collect();
    let mut distinct = policies.clone();
    distinct.dedup();
    if distinct.iter().any(|policy| *policy != "default") {
        notes.push(format!("policy {}", phrases::joined(distinct.into_iter().map(phrases::short), ", ")));
    }
    if guest.pinned {
        notes.push("pinned by a device of the host".to_owned());
    }
    page.paragraph(2, 2, &phrases::joined(notes, "; "));
    for cell in &guest.configuration.cells {
        let vcpus: CpuSet = cell.vcpus.iter().map(|number| numaio_machine::ids::CpuId(*number)).collect();
        let bytes = cell.bytes.map_or("unknown".to_owned(), format_size);
        page.paragraph(2, 2, &format!("Guest node {}: vCPUs {vcpus}, {bytes}", cell.id));
    }
}

fn write_devices(page: &mut TextPage, guest: &GuestStatus) {
    for device in &guest.devices {
        let kind = device.kind.name();
        let attached = phrases::short(&device.attached);
        let end = match (&device.node, &device.unresolved) {
            (Some(node), _) => format!("node {node}"),
            (None, Some(why)) => format!("unresolved: {why}"),
            (None, None) => "node unknown".to_owned(),
        };
        match device.reached_via.as_slice() {
            [] => page.paragraph(2, 2, &format!("Device, {kind}: {attached}: {end}")),
            // The path of a disk or interface ends with its node.
            [line] if line.contains(" -> node ") => page.paragraph(2, 2, &format!("Device, {kind}: {line}")),
            lines => {
                for line in lines {
                    page.paragraph(2, 2, &format!("Device, {kind}: {line}: {end}"));
                }
            }
        }
    }
}

fn write_finding(page: &mut TextPage, found: &DiagnosedFinding) {
    let finding = &found.finding;
    page.blank();
    page.finding(2, finding.severity, &format!("{} [{}]", finding.message, finding.rule));
    page.paragraph(4, 4, &format!("evidence: {}", finding.evidence));
    if found.cost != Cost::Nothing {
        page.paragraph(4, 2, &format!("cost: {}", crate::doctor_text::cost(&found.cost)));
    }
    page.paragraph(4, 2, &format!("fix: {}", finding.remedy));
    found.fix.commands.iter().for_each(|command| page.verbatim(4, &format!("$ {command}")));
    found.fix.undo.iter().for_each(|command| page.verbatim(4, &format!("undo: $ {command}")));
}

fn write_given(page: &mut TextPage, given: &GivenTopology) {
    let by = given.hypervisor.as_deref().map(|name| format!(": {}", phrases::short(name)));
    page.heading(&format!("This machine is a guest{}", by.unwrap_or_default()));
    let threads = if given.hardware_threads { ", with hardware threads" } else { "" };
    page.paragraph(
        2,
        2,
        &format!(
            "It was given {} on {}{threads}.",
            phrases::count(given.cpus as usize, "CPU"),
            numaio_machine::set::format_nodes(&given.nodes)
        ),
    );
    for (device, node) in &given.devices {
        let node = node.map_or("node unknown".to_owned(), |node| format!("node {node}"));
        page.paragraph(2, 2, &format!("{}: {node}", phrases::short(device)));
    }
    page.heading("What it cannot find out");
    for unknown in &given.unknown {
        page.paragraph(2, 2, &format!("{}.", upper(&unknown.fact)));
        page.paragraph(4, 2, &format!("Request from the host: {}.", unknown.request));
    }
}

fn upper(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
