//! Placement by scheduling factors where no model was measured.

use numaio_machine::discover::discover;
use numaio_machine::ids::NodeId;
use numaio_machine::set::CpuSet;
use numaio_machine::workload::{StreamLoop, StreamOp};
use numaio_measure::{counters, latency, CounterOptions, LatencyOptions, Rule, Setting};
use numaio_model::{
    best_nodes, choose_placement, scheduling_factors, BandwidthSubject, RankingSources, TargetDevice,
};
use numaio_schema::{Basis, CountedSubject, CounterRecord, MachineSource, PlacementRequest};
use numaio_sim::{shapes, Simulated};

/// Counts STREAM copy on a simulated machine, and computes the factors.
fn counted(machine: &Simulated) -> CounterRecord {
    let topology = discover(&machine.tree());
    let setting = Setting {
        root: machine,
        probe: machine,
        load: None,
        topology: &topology,
        source: MachineSource::Simulated,
        now: 7,
        stop: &|| false,
    };
    let rule = Rule { time_limit_s: 1e6, ..Rule::default() };
    let subject = CountedSubject::Stream { op: StreamOp::Copy, stream_loop: StreamLoop::Ordinary };
    let options = CounterOptions { subject, rule, ..CounterOptions::default() };
    let mut record = counters::run(&setting, &options, &mut |_| ()).expect("counts");
    let options = LatencyOptions { rule, ..LatencyOptions::default() };
    let latency = latency::run(&setting, &options, &mut |_| ()).expect("latencies");
    record.factors = scheduling_factors(&record, Some(&latency), None);
    record
}

#[test]
fn factors_rank_nodes_without_a_model() {
    let machine = Simulated::new(shapes::dl585()).expect("a machine");
    let topology = discover(&machine.tree());
    let record = counted(&machine);
    let sources = RankingSources { counters: Some(&record), ..RankingSources::default() };
    let device = TargetDevice {
        handle: "nvme0n1".into(),
        chain: Vec::new(),
        device: "nvme0n1".into(),
        node: Some(NodeId(7)),
        irq_cpus: CpuSet::new(),
        bytes_per_s: None,
        has_unknown_share: false,
    };
    let request = PlacementRequest::default();
    let near = std::slice::from_ref(&device);
    let chosen = choose_placement(&topology, near, sources, &request).expect("a placement");
    let [target] = chosen.targets.as_slice() else { panic!("one device") };
    assert_eq!(target.basis, Basis::SchedulingFactor { measured_at: record.provenance.measured_at });
    let factor = |node: NodeId| {
        let is_pair =
            |pair: &&numaio_schema::SchedulingFactor| (pair.cpu_node, pair.memory_node) == (NodeId(7), node);
        record.factors.pairs.iter().find(is_pair).map(|pair| pair.factor).expect("a factor")
    };
    let ranks: Vec<(u32, f64)> = target.nodes.iter().map(|node| (node.rank, factor(node.node))).collect();
    assert_eq!((target.nodes.len(), target.nodes[0].node), (8, NodeId(7)), "{ranks:?}");
    assert!(ranks.windows(2).all(|pair| pair[0].0 == pair[1].0 || pair[0].1 <= pair[1].1), "{ranks:?}");
    assert!(ranks.last().is_some_and(|(rank, _)| *rank > 2), "more than near and far: {ranks:?}");
    assert!(chosen.reasons[0].contains("best scheduling factor"), "{:?}", chosen.reasons);
    let on_node_7 = BandwidthSubject::new("eth0", Some(NodeId(7)), None);
    assert!(best_nodes(&topology, on_node_7, sources).contains(NodeId(7)));
    // Counts around another node do not rank the nodes of this one.
    let mut elsewhere = record.clone();
    elsewhere.factors.pairs.retain(|pair| pair.cpu_node == NodeId(0));
    let sources = RankingSources { counters: Some(&elsewhere), ..RankingSources::default() };
    let chosen = choose_placement(&topology, near, sources, &request).expect("a placement");
    assert_eq!(chosen.targets[0].basis, Basis::Topology);
}
