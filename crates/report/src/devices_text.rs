//! Formats descriptions of devices as a table, with the source of each value below.

use crate::number_format::NumberFormat;
use crate::record_header::date;
use crate::style::{short, TextStyle};
use crate::table::{Align, Table};
use crate::text_page::TextPage;
use numaio_schema::{DeviceBandwidth, DeviceDescription, OmittedDevice, Sourced, ValueSource};

/// Formats devices: a table, then for each device what is assumed, unknown, or from a document.
pub fn devices_text(devices: &[DeviceDescription], omitted: &[OmittedDevice], style: &TextStyle) -> String {
    let mut page = TextPage::new(style);
    if devices.is_empty() {
        page.paragraph(0, 2, "No devices.");
    } else {
        table(&mut page, devices);
        page.blank();
        devices.iter().for_each(|device| notes(&mut page, device));
    }
    for OmittedDevice { name, reason: why } in omitted {
        page.paragraph(0, 4, &format!("{}: omitted: {why}", short(name)));
    }
    page.into_text()
}

fn table(page: &mut TextPage, devices: &[DeviceDescription]) {
    let unit = page.style().unit;
    let rates = devices.iter().flat_map(|device| [&device.read, &device.write]);
    let format = NumberFormat::bandwidth(unit, rates.filter_map(DeviceBandwidth::bytes_per_s));
    let columns = [
        ("DEVICE".to_owned(), Align::Left),
        ("KIND".to_owned(), Align::Left),
        ("PURPOSE".to_owned(), Align::Left),
        ("NODE".to_owned(), Align::Right),
        (format!("READ {unit}"), Align::Right),
        (format!("WRITE {unit}"), Align::Right),
        ("THREADS".to_owned(), Align::Right),
        ("BANDWIDTH FROM".to_owned(), Align::Left),
    ];
    let mut table = Table::new(columns).shrink_first("DEVICE");
    let rate = |bandwidth: &DeviceBandwidth| {
        bandwidth.bytes_per_s().map_or_else(|| "unknown".to_owned(), |rate| format.format(rate))
    };
    for device in devices {
        let title = device.kind.value.title();
        let kind =
            device.detail.as_ref().map_or_else(|| title.to_owned(), |detail| format!("{title} ({detail})"));
        let nodes =
            device.nodes.as_ref().map_or_else(|| "unknown".to_owned(), |nodes| nodes.value.to_string());
        let threads =
            one_or_both(device.read_threads.value.to_string(), device.write_threads.value.to_string());
        let from = one_or_both(origin(&device.read).to_owned(), origin(&device.write).to_owned());
        table.row([
            short(&device.name).into(),
            kind.into(),
            device.purpose.value.name().into(),
            nodes.into(),
            rate(&device.read).into(),
            rate(&device.write).into(),
            threads.into(),
            from.into(),
        ]);
    }
    page.table(0, &table);
}

/// Joins the values of both directions, or returns one if they are the same.
fn one_or_both(read: String, write: String) -> String {
    if read == write {
        read
    } else {
        format!("{read}, {write}")
    }
}

/// Returns the source of a bandwidth in one word; empty if it is unknown.
fn origin(bandwidth: &DeviceBandwidth) -> &'static str {
    match bandwidth {
        DeviceBandwidth::Known { source, .. } => match source {
            ValueSource::Configuration { .. } => "configuration",
            ValueSource::Measured { .. } => "measurement",
            ValueSource::Model { .. } => "model",
            ValueSource::Link { .. } => "link",
            ValueSource::Discovered { .. } => "kernel",
            ValueSource::Assumed { .. } => "assumption",
        },
        DeviceBandwidth::Unknown { .. } => "-",
    }
}

/// Writes what the table leaves out: members, documents, links, assumptions, unknown values.
fn notes(page: &mut TextPage, device: &DeviceDescription) {
    let mut note = |text: String| page.paragraph(0, 4, &format!("{}: {text}", short(&device.name)));
    if !device.aliases.is_empty() {
        note(format!("also named {}", device.aliases.join(", ")));
    }
    if !device.members.is_empty() {
        note(format!("its data passes through {}", device.members.join(", ")));
    }
    if let Some(text) = source_note(&device.kind.source) {
        note(format!("kind {text}"));
    }
    if let Some(text) = source_note(&device.purpose.source).filter(|_| is_configured(&device.purpose.source))
    {
        note(format!("purpose {text}"));
    }
    match &device.nodes {
        None => note("node unknown: the kernel does not report it".to_owned()),
        Some(nodes) => {
            if let Some(text) = source_note(&nodes.source) {
                note(format!("node {text}"));
            }
        }
    }
    for text in bandwidth_notes(&device.read, &device.write) {
        note(text);
    }
    for text in both_ways(thread_note(&device.read_threads), thread_note(&device.write_threads)) {
        note(text);
    }
}

fn is_configured(source: &ValueSource) -> bool {
    matches!(source, ValueSource::Configuration { .. })
}

fn thread_note(threads: &Sourced<u32>) -> Option<String> {
    let text = source_note(&threads.source)?;
    let noun = if threads.value == 1 { "thread" } else { "threads" };
    Some(format!("{} {noun} {text}", threads.value))
}

/// Describes a source that the table does not show; `None` for what the kernel reports.
fn source_note(source: &ValueSource) -> Option<String> {
    match source {
        ValueSource::Configuration { file, line } => Some(format!("set by {file}:{line}")),
        ValueSource::Measured { document, measured_at } => {
            Some(format!("measured {} ({document})", date(*measured_at)))
        }
        ValueSource::Model { document, measured_at } => {
            Some(format!("by the copy model of {} ({document})", date(*measured_at)))
        }
        ValueSource::Link { link } => Some(format!("at most, by the link: {link}")),
        ValueSource::Discovered { .. } => None,
        ValueSource::Assumed { reason: why } => Some(format!("assumed: {why}")),
    }
}

fn bandwidth_notes(read: &DeviceBandwidth, write: &DeviceBandwidth) -> Vec<String> {
    let note = |bandwidth: &DeviceBandwidth| match bandwidth {
        DeviceBandwidth::Unknown { measure } => Some(format!("unknown; measure it: {measure}")),
        DeviceBandwidth::Known { source, .. } => source_note(source),
    };
    match (note(read), note(write)) {
        (read, write) if read == write => read.map(|text| format!("bandwidth {text}")).into_iter().collect(),
        (read, write) => {
            let read = read.map(|text| format!("read bandwidth {text}"));
            read.into_iter().chain(write.map(|text| format!("write bandwidth {text}"))).collect()
        }
    }
}

/// Returns the notes of both directions, or one if they are the same.
fn both_ways(read: Option<String>, write: Option<String>) -> Vec<String> {
    if read == write {
        return read.into_iter().collect();
    }
    let read = read.map(|text| format!("read: {text}"));
    read.into_iter().chain(write.map(|text| format!("write: {text}"))).collect()
}
