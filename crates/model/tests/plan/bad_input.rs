//! Invalid problems are rejected with an error that names the violated constraint.

use crate::support::{machine, table, UNIT};
use numaio_machine::ids::NodeId;
use numaio_model::{plan, PlanOptions};
use numaio_schema::{PathId, PlanLimit, PlanNode, PlanProblem};
use proptest::prelude::*;

type Change = fn(&mut PlanProblem);

fn good() -> PlanProblem {
    let rates = [vec![(1.0, 4.0), (0.5, 3.0)], vec![(0.5, 3.0), (1.0, 4.0)]];
    table(&[4, 4], &[10.0, 20.0], &[5.0, 0.0], &rates, &rates[..1])
}

fn refusal(change: impl FnOnce(&mut PlanProblem)) -> String {
    let mut problem = good();
    assert!(plan(&problem, &PlanOptions::default()).is_ok());
    change(&mut problem);
    plan(&problem, &PlanOptions::default()).expect_err("it cannot be solved").to_string()
}

#[test]
fn errors_name_the_violated_constraint() {
    let cases: Vec<(&str, Change)> = vec![
        ("bandwidth of one thread of the storage path between device node 1 and memory node 0 is 0", |it| {
            it.storage_paths[2].thread_bytes_per_s = 0.0;
        }),
        ("greatest bandwidth of the network path between device node 0 and memory node 1 is NaN", |it| {
            it.network_paths[1].max_bytes_per_s = f64::NAN;
        }),
        ("bandwidth of NIC \"eth0\" is inf", |it| it.nics[0].bytes_per_s = Some(f64::INFINITY)),
        ("bandwidth of storage \"nvme1n1\" is -1", |it| it.storage[1].bytes_per_s = Some(-1.0)),
        ("data on node 1: no NIC is reached", |it| {
            it.storage_paths.retain(|way| way.device_node != NodeId(1))
        }),
        ("data on node 0: no NIC is reached", |it| it.nics.clear()),
        ("no node may run more than 1", |it| it.nodes.iter_mut().for_each(|node| node.threads = Some(1))),
        ("no node may run more than 0", |it| {
            it.nodes.iter_mut().for_each(|node| node.threads = None);
            it.no_threads_on = vec![NodeId(0), NodeId(1)];
        }),
        ("node 1: no threads may run on it, but it has 4 threads", |it| it.no_threads_on = vec![NodeId(1)]),
        ("node 0: 5 cores are reserved, but it has 4 threads", |it| it.nodes[0].reserved = 5),
        ("no_threads_on refers to node 7", |it| it.no_threads_on = vec![NodeId(7)]),
        ("duplicate storage \"nvme0n1\"", |it| it.storage[1].device = "nvme0n1".to_owned()),
        ("duplicate node 1", |it| {
            it.nodes.push(PlanNode { node: NodeId(1), threads: None, reserved: 0 });
        }),
        ("duplicate storage path between device node 0 and memory node 0", |it| {
            it.storage_paths.push(it.storage_paths[0].clone());
        }),
        ("NIC \"eth0\" refers to node 9", |it| it.nics[0].node = NodeId(9)),
        ("limit \"bus\" refers to the network path between device node 1 and memory node 1", |it| {
            let way = PathId { device_node: NodeId(1), memory_node: NodeId(1) };
            let limit = PlanLimit {
                name: "bus".to_owned(),
                bytes_per_s: UNIT,
                storage_paths: vec![],
                network_paths: vec![way],
            };
            it.limits.push(limit);
        }),
        ("bandwidth of limit \"bus\" is 0", |it| {
            let limit = PlanLimit {
                name: "bus".to_owned(),
                bytes_per_s: 0.0,
                storage_paths: vec![],
                network_paths: vec![],
            };
            it.limits.push(limit);
        }),
        ("there is no data", |it| it.storage.iter_mut().for_each(|storage| storage.bytes = 0)),
        ("the bytes of all storage together is beyond 2^64", |it| it.storage[0].bytes = u64::MAX),
        ("expected below 2^53", |it| it.storage[0].bytes = 1 << 53),
        ("less than a millionth of all data", |it| it.storage[0].bytes = 1),
        ("more than a factor of a million", |it| it.storage_paths[1].thread_bytes_per_s = 10.0),
        ("the number of threads on node 0 is 4000000000", |it| it.nodes[0].threads = Some(4_000_000_000)),
        ("2 nodes have data", |it| {
            it.nodes[0].threads = Some(2);
            it.nodes[1].threads = Some(1);
        }),
        ("5000 storage paths", |it| it.storage_paths = vec![it.storage_paths[0].clone(); 5000]),
    ];
    for (words, change) in cases {
        let refusal = refusal(change);
        assert!(refusal.contains(words), "{refusal:?} lacks {words:?}");
    }
}

/// Sources that reach only one node, which has too few threads for them, while there are enough in
/// total.
#[test]
fn rejects_too_few_threads_on_a_required_node() {
    let rates = [vec![(1.0, 4.0), (0.0, 0.0)], vec![(1.0, 4.0), (0.0, 0.0)], vec![(0.0, 0.0), (1.0, 4.0)]];
    let rates: Vec<Vec<(f64, f64)>> = rates.into_iter().map(|row| [row, vec![(0.0, 0.0)]].concat()).collect();
    let sends = [vec![(1.0, 4.0); 3]];
    let problem = table(&[2, 8, 0], &[1.0, 1.0, 1.0], &[5.0, 0.0, 0.0], &rates, &sends);
    let error = plan(&problem, &PlanOptions::default()).expect_err("two sources, one thread").to_string();
    assert!(error.contains("no choice of threads"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any values yield a plan or an error, never a panic.
    #[test]
    fn any_figure_is_answered(seed: u64, place: prop::sample::Index, figure: f64, bytes: u64, threads: u32) {
        let mut problem = machine(2, 3, seed);
        let kind = place.index(6);
        match kind {
            0 => problem.storage_paths[0].thread_bytes_per_s = figure,
            1 => problem.network_paths[0].max_bytes_per_s = figure,
            2 => problem.storage[0].bytes = bytes,
            3 => problem.nodes[0].threads = Some(threads),
            4 => problem.nodes[0].reserved = threads,
            _ => problem.nics[0].bytes_per_s = Some(figure.abs()),
        }
        let _ = plan(&problem, &PlanOptions::default());
    }
}
