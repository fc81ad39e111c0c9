//! Classes of measured I/O.

use crate::classes::{classify, Point};
use crate::fit::ClassOptions;
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::workload::Direction;
use numaio_schema::{IoCell, IoRecord};

/// Returns the rank of each cell's class, 1 for the best, or `None` for a cell without value and
/// for mixes. Only cells that differ in nothing but the node are classified together.
pub fn io_ranks(record: &IoRecord, rule: ClassOptions) -> Vec<Option<u32>> {
    let mut ranks = vec![None; record.cells.len()];
    for first in 0..record.cells.len() {
        let Some(key) = key(&record.cells[first]) else { continue };
        if record.cells[..first].iter().any(|cell| self::key(cell) == Some(key)) {
            continue;
        }
        let alike = (first..record.cells.len()).filter(|at| self::key(&record.cells[*at]) == Some(key));
        // Points are cells here, numbered by their index.
        let points: Vec<Point> = alike.filter_map(|at| point(&record.cells[at], at)).collect();
        for class in classify(&points, rule.classes, rule.level, &NodeSet::new()) {
            for place in class.nodes.iter() {
                ranks[place.0 as usize] = Some(class.rank);
            }
        }
    }
    ranks
}

/// Returns the properties by which cells are classified together.
fn key(cell: &IoCell) -> Option<(Direction, u32, u64, Option<&str>)> {
    let (_, _, direction) = cell.placement()?;
    Some((direction, cell.streams(), cell.block_bytes, cell.operation.as_deref()))
}

fn point(cell: &IoCell, place: usize) -> Option<Point> {
    let value = cell.bytes_per_s.median()?;
    let summary = cell.bytes_per_s.summary.as_ref()?;
    Some(Point { node: NodeId(place as u32), value, low: summary.low, high: summary.high })
}
