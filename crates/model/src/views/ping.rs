//! Latency of a network as views of the device's node.

use super::measured::{measured, measured_view, NodeReadings};
use super::view::{Kind, ViewSubject};
use numaio_machine::ids::NodeId;
use numaio_machine::units::format_size;
use numaio_schema::{IoRemoteEnd, PingCell, PingRecord, Quantity, View};

/// Cells that differ only in the local node.
struct Series<'a> {
    operation: Option<&'a str>,
    message_bytes: u64,
    remote: &'a IoRemoteEnd,
    cells: Vec<(NodeId, &'a PingCell)>,
}

/// Returns the latency of a network by local node, with local buffers: one view per message size
/// and operation, for the remote placement with values of most local nodes.
///
/// Returns no view for a device on another node, nor for several rails, whose devices
/// may be on several nodes.
pub fn ping_views(record: &PingRecord, subject: &ViewSubject) -> Vec<View> {
    if record.device.node.is_some_and(|node| node != subject.target) || !record.rails.is_empty() {
        return Vec::new();
    }
    let complete = record.provenance.complete;
    let views = fullest(series(record)).into_iter().filter_map(|series| {
        let readings: Vec<(NodeId, NodeReadings)> = series
            .cells
            .iter()
            .map(|(node, cell)| (*node, NodeReadings::of_reading(&cell.latency_ns)))
            .collect();
        measured_view(subject, kind(record, &series), &readings, complete)
    });
    measured(views, &record.provenance)
}

fn kind(record: &PingRecord, series: &Series) -> Kind {
    let device = &record.device.name;
    let size = format_size(series.message_bytes);
    let operation = series.operation.map(|operation| format!("-{operation}")).unwrap_or_default();
    let operation_title = series.operation.map(|operation| format!(" {operation}")).unwrap_or_default();
    Kind {
        name: format!("ping-{}-{device}{operation}", size.replace(' ', "")),
        title: format!("{device}, latency of {size} by {}{operation_title}", record.method.engine.title()),
        direction: None,
        quantity: Quantity::Nanoseconds,
    }
}

/// Returns every series with local buffers, in the order of the record.
fn series(record: &PingRecord) -> Vec<Series<'_>> {
    let mut found: Vec<Series> = Vec::new();
    for cell in record.cells.iter().filter(|cell| cell.cpu_node == cell.memory_node) {
        let (operation, message_bytes, remote) =
            (cell.operation.as_deref(), cell.message_bytes, &cell.remote);
        let same = |series: &&mut Series| {
            (series.operation, series.message_bytes) == (operation, message_bytes)
                && series.remote.cpu_nodes == remote.cpu_nodes
                && series.remote.memory == remote.memory
        };
        match found.iter_mut().find(same) {
            Some(series) => series.cells.push((cell.cpu_node, cell)),
            None => {
                let cells = vec![(cell.cpu_node, cell)];
                found.push(Series { operation, message_bytes, remote, cells });
            }
        }
    }
    found
}

/// Returns per operation and size the series with values of most nodes, the first among equals.
fn fullest(all: Vec<Series>) -> Vec<Series> {
    let values =
        |series: &Series| series.cells.iter().filter(|(_, cell)| cell.latency_ns.median().is_some()).count();
    let mut best: Vec<Series> = Vec::new();
    for series in all {
        let same = |other: &&mut Series| {
            (other.operation, other.message_bytes) == (series.operation, series.message_bytes)
        };
        match best.iter_mut().find(same) {
            None => best.push(series),
            Some(other) if values(&series) > values(other) => *other = series,
            Some(_) => {}
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ping;
    use numaio_schema::PingRail;

    fn subject(target: u32) -> ViewSubject<'static> {
        ViewSubject { machine: "m", target: NodeId(target), level: 0.1 }
    }

    /// Local node, remote node, bytes and microseconds of each cell.
    const CELLS: [(u32, u32, u64, f64); 6] = [
        (0, 1, 1, 14.0),
        (0, 0, 1, 10.0),
        (1, 0, 1, 12.0),
        (0, 0, 65536, 40.0),
        (1, 0, 65536, 80.0),
        (1, 1, 65536, 95.0),
    ];

    #[test]
    fn each_size_is_a_view_of_one_remote_placement() {
        let views = ping_views(&ping(0, &CELLS), &subject(0));
        let names: Vec<&str> = views.iter().map(|view| view.name.as_str()).collect();
        assert_eq!(names, ["ping-1B-eth0", "ping-64KiB-eth0"]);
        let factors: Vec<Option<f64>> = views[1].nodes.iter().map(|value| value.factor).collect();
        assert_eq!((factors, views[1].quantity), (vec![Some(1.0), Some(2.0)], Quantity::Nanoseconds));
        let classes: Vec<String> = views[0].classes.iter().map(|class| class.nodes.to_string()).collect();
        assert_eq!(classes, ["0", "1"]);
        let mut loaded = ping(0, &CELLS);
        let load = "0:1".parse().expect("a load");
        loaded.provenance.load = vec![numaio_schema::MeasuredLoad { load, bytes_per_s: None }];
        let views = ping_views(&loaded, &subject(0));
        assert_eq!(views[0].name, "ping-1B-eth0-load-0x1", "it does not replace the idle one");
    }

    #[test]
    fn other_targets_and_several_rails_yield_no_view() {
        let mut record = ping(0, &CELLS);
        assert!(ping_views(&record, &subject(1)).is_empty());
        let rail = serde_json::from_str(r#"{"local":"192.0.2.1","remote":"192.0.2.2"}"#).expect("a rail");
        record.rails = vec![PingRail { rail, device: record.device.clone() }];
        assert!(ping_views(&record, &subject(0)).is_empty());
    }
}
