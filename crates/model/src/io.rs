//! Classes of the cells of measured I/O.

use crate::classes::{classify, Point};
use crate::fit::ClassOptions;
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::workload::Direction;
use numaio_schema::{IoCell, IoRecord};

/// The rank of each cell's class, 1 the best; none of a cell without a figure and of mixes. Cells are classed with those
/// that differ from them in their nodes only.
pub fn io_ranks(record: &IoRecord, rule: ClassOptions) -> Vec<Option<u32>> {
    let mut ranks = vec![None; record.cells.len()];
    for first in 0..record.cells.len() {
        let Some(key) = key(&record.cells[first]) else { continue };
        if record.cells[..first].iter().any(|cell| self::key(cell) == Some(key)) {
            continue;
        }
        let alike = (first..record.cells.len()).filter(|at| self::key(&record.cells[*at]) == Some(key));
        // What is classed is a cell: its place stands for it.
        let points: Vec<Point> = alike.filter_map(|at| point(&record.cells[at], at)).collect();
        for class in classify(&points, rule.classes, rule.level, &NodeSet::new()) {
            for place in class.nodes.iter() {
                ranks[place.0 as usize] = Some(class.rank);
            }
        }
    }
    ranks
}

/// What cells of one kind have in common.
fn key(cell: &IoCell) -> Option<(Direction, u32, u64, Option<&str>)> {
    let (_, _, direction) = cell.placement()?;
    Some((direction, cell.streams(), cell.block_bytes, cell.operation.as_deref()))
}

fn point(cell: &IoCell, place: usize) -> Option<Point> {
    let value = cell.bytes_per_s.median()?;
    let summary = cell.bytes_per_s.summary.as_ref()?;
    Some(Point { node: NodeId(place as u32), value, low: summary.low, high: summary.high })
}
