//! Classes of all pairs of CPU node and memory node, like those of Cbench's NUMA extension
//! (Braithwaite et al., 2012).

use crate::classes::{classify, Point};
use crate::fit::ClassOptions;
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::workload::StreamOp;
use numaio_schema::{PairClass, PairClasses, StreamCell, StreamRecord, StreamScope};

/// Classifies the pairs of each operation, best first. Records of single cores yield no classes,
/// because one core does not saturate a path between nodes.
pub fn pair_classes(record: &StreamRecord, rule: ClassOptions) -> Vec<PairClasses> {
    if record.method.scope == StreamScope::Core {
        return Vec::new();
    }
    let of_op = |op: StreamOp| {
        let cells: Vec<&StreamCell> = record.cells.iter().filter(|cell| cell.op == op).collect();
        let classes = classes(&cells, rule);
        (!classes.is_empty()).then_some(PairClasses { op, rule: rule.classes, classes })
    };
    StreamOp::ALL.into_iter().filter_map(of_op).collect()
}

fn classes(cells: &[&StreamCell], rule: ClassOptions) -> Vec<PairClass> {
    // Points are pairs here, numbered by their index.
    let point = |(place, cell): (usize, &&StreamCell)| {
        let value = cell.bytes_per_s.median()?;
        let summary = cell.bytes_per_s.summary.as_ref()?;
        Some(Point { node: NodeId(place as u32), value, low: summary.low, high: summary.high })
    };
    let points: Vec<Point> = cells.iter().enumerate().filter_map(point).collect();
    let pair_of = |place: NodeId| cells.get(place.0 as usize).map(|cell| (cell.cpu_node, cell.memory_node));
    let classes = classify(&points, rule.classes, rule.level, &NodeSet::new()).into_iter();
    let class = classes.map(|class| PairClass {
        rank: class.rank,
        pairs: class.nodes.iter().filter_map(pair_of).collect(),
        min_bytes_per_s: class.min_bytes_copied_per_s,
        max_bytes_per_s: class.max_bytes_copied_per_s,
        mean_bytes_per_s: class.mean_bytes_copied_per_s,
    });
    class.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaio_machine::set::CpuSet;
    use numaio_machine::topology::Identity;
    use numaio_machine::workload::{Pages, Placement};
    use numaio_schema::{
        ClassRule, MachineSource, Provenance, Reading, Rounds, StreamMethod, Summary, STREAM_SCHEMA,
    };

    fn record(scope: StreamScope, values: &[(StreamOp, u32, u32, f64)]) -> StreamRecord {
        let cell = |(op, cpu_node, memory_node, value): &(StreamOp, u32, u32, f64)| StreamCell {
            op: *op,
            cpu_node: NodeId(*cpu_node),
            memory_node: NodeId(*memory_node),
            placement: Placement { cpus: CpuSet::new() },
            bytes_per_s: Reading {
                visits: Vec::new(),
                summary: Summary::of(&[*value; 6], None).filter(|_| *value > 0.0),
                settled: true,
                failure: None,
            },
        };
        StreamRecord {
            schema: STREAM_SCHEMA.to_owned(),
            provenance: Provenance {
                numaio: String::new(),
                measured_at: 0,
                machine: Identity::default(),
                source: MachineSource::Simulated,
                conditions: Default::default(),
                warnings: Vec::new(),
                complete: true,
                load: Vec::new(),
            },
            method: StreamMethod {
                loops: Vec::new(),
                trials: Vec::new(),
                scope,
                bytes_per_array: Vec::new(),
                pages: Pages::Base,
                rounds: Rounds { precision: 0.02, time_limit_s: 1.0, elapsed_s: 1.0, seed: 1, rounds: 1 },
            },
            cells: values.iter().map(cell).collect(),
            classes: Vec::new(),
        }
    }

    #[test]
    fn pairs_of_one_level_form_one_class_per_operation() {
        use StreamOp::{Copy, Triad};
        let values = [(Copy, 0, 0, 20.0), (Copy, 0, 1, 10.0), (Copy, 1, 0, 10.5), (Copy, 1, 1, 19.0)];
        let values = [&values[..], &[(Copy, 2, 0, 0.0), (Triad, 0, 0, 5.0)]].concat();
        let found =
            pair_classes(&record(StreamScope::Node { threads: None }, &values), ClassOptions::default());
        let ops: Vec<StreamOp> = found.iter().map(|classes| classes.op).collect();
        assert_eq!((ops, found[0].rule), (vec![Copy, Triad], ClassRule::Measured));
        let pair = |cpu, memory| (NodeId(cpu), NodeId(memory));
        let [first, second] = found[0].classes.as_slice() else { panic!("{found:?}") };
        assert_eq!((first.rank, &first.pairs), (1, &vec![pair(0, 0), pair(1, 1)]));
        assert_eq!((second.rank, &second.pairs), (2, &vec![pair(0, 1), pair(1, 0)]));
        assert_eq!(
            (second.min_bytes_per_s, second.max_bytes_per_s, second.mean_bytes_per_s),
            (10.0, 10.5, 10.25)
        );
        assert!(pair_classes(&record(StreamScope::Core, &values), ClassOptions::default()).is_empty());
    }
}
