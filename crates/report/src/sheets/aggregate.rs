//! Tables of I/O of several devices: each alone, all at the same time, and their sum.

use super::sheet::{Align, Sheet, Text};
use crate::io_text;
use crate::number_format::NumberFormat;
use crate::phrases::percent;
use numaio_machine::ids::NodeId;
use numaio_machine::units::{format_size, BandwidthUnit};
use numaio_machine::workload::{Direction, StreamGroup};
use numaio_schema::{AggregateRecord, IoCell, Reading};
use std::collections::BTreeSet;

/// Text in place of a missing value.
const NONE: &str = "-";

/// Returns a table for each direction and block size, with a row for each placement and number of
/// streams.
pub(crate) fn sheets(record: &AggregateRecord, unit: BandwidthUnit) -> Vec<Sheet> {
    let key = |cell: &IoCell| Some((cell.groups.first()?.direction, cell.block_bytes));
    let tables: BTreeSet<(Direction, u64)> = record.aggregates().filter_map(key).collect();
    let sheet = |(direction, block_bytes): (Direction, u64)| {
        let of = |cell: &&IoCell| key(cell) == Some((direction, block_bytes));
        direction_sheet(record, unit, &record.aggregates().filter(of).collect::<Vec<&IoCell>>())
    };
    tables.into_iter().map(sheet).collect()
}

/// Returns the table of cells with the same direction and block size.
fn direction_sheet(record: &AggregateRecord, unit: BandwidthUnit, cells: &[&IoCell]) -> Sheet {
    let first = cells.first().and_then(|cell| Some((cell.groups.first()?.direction, cell.block_bytes)));
    let what = first.map_or_else(String::new, |(direction, bytes)| {
        format!("{}, blocks of {}", io_text::capitalized(direction.name()), format_size(bytes))
    });
    let names = names(record);
    let head = ["Streams on", "Each"].map(str::to_owned).into_iter();
    let alone = names.iter().map(|name| format!("{name} alone"));
    let last = ["Sum", "Of alone"].map(str::to_owned);
    let head: Vec<String> = head.chain(alone).chain(names.iter().cloned()).chain(last).collect();
    let mut sheet = Sheet::new(
        format!("{what}: median in {unit}, each device alone and all at once"),
        head,
        Align::Right,
    );
    let medians = record.cells.iter().filter_map(|cell| cell.bytes_per_s.median());
    let figures = NumberFormat::bandwidth(unit, medians);
    cells.iter().for_each(|cell| sheet.row(row(record, cell, figures)));
    sheet.note("Of alone: all at once over the sum of each alone; 100 % if they share no bottleneck.");
    sheet.notes.extend(doubts(record, cells));
    sheet
}

/// Returns the names of the devices, numbered if two are the same.
fn names(record: &AggregateRecord) -> Vec<String> {
    let names: Vec<&str> = record.devices.iter().map(|device| device.name.as_str()).collect();
    let is_unique = names.iter().collect::<BTreeSet<_>>().len() == names.len();
    let numbered = |(index, name): (usize, &&str)| match is_unique {
        true => (*name).to_owned(),
        false => format!("{name} ({})", index + 1),
    };
    names.iter().enumerate().map(numbered).collect()
}

fn row(record: &AggregateRecord, cell: &IoCell, figures: NumberFormat) -> Vec<Text> {
    let value =
        |value: Option<f64>| Text::from(value.map_or_else(|| NONE.to_owned(), |it| figures.format(it)));
    let alone = |index| record.alone(cell, index).and_then(|cell| cell.bytes_per_s.median());
    let at_once = |index: usize| Some(cell.group_bytes_per_s.get(index)?.as_ref()?.median);
    let devices = 0..cell.groups.len();
    let streams = cell.groups.first().map_or(0, |group| group.streams);
    let mut texts = vec![Text::from(place(cell)), Text::from(streams.to_string())];
    texts.extend(devices.clone().map(|index| value(alone(index))));
    texts.extend(devices.map(|index| value(at_once(index))));
    texts.push(value(cell.bytes_per_s.median()));
    texts.push(record.share_of_sum(cell).map_or_else(|| NONE.to_owned(), percent).into());
    texts
}

/// Describes where the streams of a cell ran: on one node, or of each device on its own.
fn place(cell: &IoCell) -> String {
    let of = |(group, cpu_node): (&StreamGroup, &NodeId)| match group.memory == *cpu_node {
        true => cpu_node.to_string(),
        false => format!("{cpu_node}, buffers {}", group.memory),
    };
    let places: Vec<String> = cell.groups.iter().zip(&cell.cpu_nodes).map(of).collect();
    match places.windows(2).all(|pair| pair[0] == pair[1]) {
        true => places.into_iter().next().unwrap_or_default(),
        false => places.join(" and "),
    }
}

/// Names the cells that are unsettled or without a value.
fn doubts(record: &AggregateRecord, cells: &[&IoCell]) -> Vec<String> {
    let alone =
        cells.iter().flat_map(|cell| (0..cell.groups.len()).filter_map(|index| record.alone(cell, index)));
    let readings: Vec<&Reading> = cells.iter().copied().chain(alone).map(|cell| &cell.bytes_per_s).collect();
    let unsettled = readings.iter().filter(|it| it.median().is_some() && !it.settled).count();
    let mut notes = Vec::new();
    if unsettled > 0 {
        notes.push(format!("{unsettled} of them are less precise than requested."));
    }
    let failures: BTreeSet<&str> = readings.iter().filter_map(|reading| reading.failure.as_deref()).collect();
    notes.extend(failures.into_iter().map(|why| format!("No value: {why}")));
    notes
}
