//! Measured I/O as views of the device's node.

use super::measured::{measured_view, with_load, NodeReadings};
use super::view::{Kind, ViewSubject};
use numaio_machine::ids::NodeId;
use numaio_machine::workload::Direction;
use numaio_schema::{IoCell, IoRecord, Quantity, View};

/// Cells that differ only in the node.
struct Series<'a> {
    /// `None` for both directions at once.
    direction: Option<Direction>,
    operation: Option<&'a str>,
    block_bytes: u64,
    streams: u32,
    cells: Vec<(NodeId, &'a IoCell)>,
}

/// Returns the bandwidth of a device by node, with local buffers (the setting of Li et al., ICPP
/// 2013, Tables IV and V), one view per direction and operation, and one of the sum of both
/// directions at once.
///
/// Among block sizes and numbers of streams, those with values of most nodes are chosen, then those
/// with the highest mean: the bandwidth of a busy device. Returns no view for a device on another
/// or unknown node, nor for the null engine, which transfers nothing.
pub fn io_views(record: &IoRecord, subject: &ViewSubject) -> Vec<View> {
    if record.device.node != Some(subject.target) || record.method.engine == numaio_schema::IoEngine::Null {
        return Vec::new();
    }
    let complete = record.provenance.complete;
    let busiest = busiest(series(record));
    let views = busiest.iter().filter_map(|series| {
        let readings: Vec<(NodeId, NodeReadings)> = series
            .cells
            .iter()
            .map(|(node, cell)| (*node, NodeReadings::of_reading(&cell.bytes_per_s)))
            .collect();
        measured_view(subject, kind(record, series), &readings, complete)
    });
    views.map(|view| with_load(view, &record.provenance)).collect()
}

fn kind(record: &IoRecord, series: &Series) -> Kind {
    let engine = record.method.engine;
    let (side, direction) = match series.direction {
        Some(direction @ Direction::Write) => ("write", direction.name()),
        Some(direction @ Direction::Read) => ("read", direction.name()),
        None => ("duplex", "both directions at once"),
    };
    let operation = series.operation.map(|operation| format!("-{operation}")).unwrap_or_default();
    let operation_title = series.operation.map(|operation| format!(" {operation}")).unwrap_or_default();
    let streams = if series.streams == 1 { "1 stream".into() } else { format!("{} streams", series.streams) };
    let device = &record.device.name;
    Kind {
        name: format!("io-{}-{device}-{side}{operation}", engine.name()),
        title: format!("{device} by {}{operation_title}, {direction} ({streams})", engine.title()),
        direction: series.direction,
        quantity: Quantity::BytesPerS,
    }
}

/// Returns every series with local buffers, in the order of the record.
fn series(record: &IoRecord) -> Vec<Series<'_>> {
    let mut found: Vec<Series> = Vec::new();
    for cell in &record.cells {
        let single =
            cell.placement().map(|(cpu_node, memory, direction)| (cpu_node, memory, Some(direction)));
        let duplex = || cell.duplex_placement().map(|(cpu_node, memory)| (cpu_node, memory, None));
        let local = single.or_else(duplex).filter(|(cpu_node, memory, _)| cpu_node == memory);
        let Some((_, memory, direction)) = local else { continue };
        let (operation, block_bytes, streams) = (cell.operation.as_deref(), cell.block_bytes, cell.streams());
        let same = |series: &&mut Series| {
            (series.direction, series.operation, series.block_bytes, series.streams)
                == (direction, operation, block_bytes, streams)
        };
        match found.iter_mut().find(same) {
            Some(series) => series.cells.push((memory, cell)),
            None => {
                let cells = vec![(memory, cell)];
                found.push(Series { direction, operation, block_bytes, streams, cells });
            }
        }
    }
    found
}

/// Returns per direction and operation the series with values of most nodes, then with the highest
/// mean, then the first.
fn busiest(all: Vec<Series>) -> Vec<Series> {
    let mut best: Vec<Series> = Vec::new();
    for series in all {
        let rank = |series: &Series| (figures(series).count(), mean(series));
        let same =
            |other: &&mut Series| (other.direction, other.operation) == (series.direction, series.operation);
        match best.iter_mut().find(same) {
            None => best.push(series),
            Some(other) => {
                let ((nodes, mean), (other_nodes, other_mean)) = (rank(&series), rank(other));
                if nodes > other_nodes || (nodes == other_nodes && mean > other_mean) {
                    *other = series;
                }
            }
        }
    }
    best
}

/// Returns the medians of cells that have a value; others were not reached or failed.
fn figures<'s>(series: &'s Series) -> impl Iterator<Item = f64> + 's {
    let medians = series.cells.iter().filter_map(|(_, cell)| cell.bytes_per_s.median());
    medians.filter(|median| median.is_finite() && *median > 0.0)
}

fn mean(series: &Series) -> f64 {
    let medians: Vec<f64> = figures(series).collect();
    medians.iter().sum::<f64>() / medians.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{cell, record};
    use numaio_schema::IoEngine;
    use Direction::{Read, Write};

    fn subject(target: u32) -> ViewSubject<'static> {
        ViewSubject { machine: "m", target: NodeId(target), level: 0.1 }
    }

    fn values(view: &View) -> Vec<(u32, f64)> {
        view.nodes.iter().map(|value| (value.node.0, (value.value * 8e-9 * 10.0).round() / 10.0)).collect()
    }

    #[test]
    fn each_direction_is_a_view_with_separate_classes() {
        let cells = [(0, 28.5), (2, 18.0), (7, 28.8)].map(|(node, gbit)| cell(Write, &[(node, 1)], gbit));
        let mut all = cells.to_vec();
        all.push(cell(Read, &[(7, 1)], 34.7));
        let views = io_views(&record(7, all), &subject(7));
        let names: Vec<&str> = views.iter().map(|view| view.name.as_str()).collect();
        assert_eq!(names, ["io-disk-nvme0n1-write", "io-disk-nvme0n1-read"]);
        assert_eq!(views[0].title, "nvme0n1 by built-in disk, device write (1 stream)");
        assert_eq!(values(&views[0]), [(0, 28.5), (2, 18.0), (7, 28.8)]);
        let classes: Vec<String> = views[0].classes.iter().map(|class| class.nodes.to_string()).collect();
        assert_eq!(classes, ["0,7", "2"]);
        assert!(views[0].nodes.iter().all(|value| value.interval.is_some()));
    }

    #[test]
    fn sum_of_both_directions_at_once_is_a_view() {
        let cells = [(0, 20.0), (2, 30.0)].map(|(node, gbit)| {
            let mut both = cell(Write, &[(node, 1), (node, 1)], gbit);
            both.groups[1].direction = Read;
            both
        });
        // Two groups of one direction, and directions on two nodes, are other mixes.
        let mut far = cell(Write, &[(0, 1), (2, 1)], 50.0);
        far.groups[1].direction = Read;
        let others = [cell(Write, &[(0, 1), (0, 1)], 60.0), far];
        let views = io_views(&record(0, [&cells[..], &others].concat()), &subject(0));
        let [view] = views.as_slice() else { panic!("{views:?}") };
        assert_eq!((view.name.as_str(), view.direction), ("io-disk-nvme0n1-duplex", None));
        assert_eq!(view.title, "nvme0n1 by built-in disk, both directions at once (2 streams)");
        assert_eq!(values(view), [(0, 20.0), (2, 30.0)]);
    }

    #[test]
    fn busiest_streams_of_most_nodes_are_chosen() {
        let cells = vec![
            cell(Read, &[(0, 1)], 10.0),
            cell(Read, &[(1, 1)], 9.0),
            cell(Read, &[(0, 4)], 30.0),
            cell(Read, &[(1, 4)], 20.0),
            cell(Read, &[(0, 16)], 28.0),
            cell(Read, &[(1, 16)], 21.0),
            cell(Read, &[(1, 32)], 90.0),
            cell(Read, &[(0, 2), (1, 2)], 99.0),
        ];
        let views = io_views(&record(0, cells), &subject(0));
        assert_eq!((views.len(), values(&views[0])), (1, vec![(0, 30.0), (1, 20.0)]));
        assert!(views[0].title.ends_with("(4 streams)"), "{}", views[0].title);
    }

    /// An interrupted campaign has cells without value.
    #[test]
    fn streams_with_values_of_few_nodes_are_not_chosen() {
        let mut cells = vec![cell(Read, &[(0, 1)], 10.0), cell(Read, &[(1, 1)], 9.0)];
        cells.extend([0, 1].map(|node| cell(Read, &[(node, 16)], 30.0)));
        cells[2].bytes_per_s.summary = None;
        let views = io_views(&record(0, cells), &subject(0));
        assert_eq!(values(&views[0]), [(0, 10.0), (1, 9.0)]);
    }

    #[test]
    fn remote_buffers_and_other_targets_yield_no_view() {
        let mut remote = cell(Read, &[(0, 1)], 10.0);
        remote.cpu_nodes = vec![NodeId(1)];
        assert!(io_views(&record(0, vec![remote]), &subject(0)).is_empty());
        let local = record(0, vec![cell(Read, &[(0, 1)], 10.0)]);
        assert_eq!(io_views(&local, &subject(0)).len(), 1);
        assert!(io_views(&local, &subject(1)).is_empty());
        let mut null = local;
        null.method.engine = IoEngine::Null;
        assert!(io_views(&null, &subject(0)).is_empty());
    }
}
