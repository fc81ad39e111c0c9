//! Latency campaigns on scripted and simulated machines.

use crate::topology::topology;
use numaio_machine::discover::discover;
use numaio_machine::ids::{CpuId, NodeId};
use numaio_machine::probe::{
    LatencyOutcome, LatencySample, LoadOutcome, Outcome, Probe, ProbeError, Residency,
};
use numaio_machine::set::{CpuSet, NodeSet};
use numaio_machine::topology::Topology;
use numaio_machine::tree::Tree;
use numaio_machine::workload::{LatencyWorkload, Pages, Workload};
use numaio_measure::{latency, CampaignError, LatencyOptions, Rule, Setting};
use numaio_schema::{LatencyRecord, MachineSource};
use numaio_sim::{shapes, Simulated};
use std::cell::{Cell, RefCell};

/// A load on node M from node C takes 100 ns, plus 10 per node of distance, and more under load.
struct Scripted {
    huge_bytes: u64,
    log: RefCell<Vec<LatencyWorkload>>,
}

impl Scripted {
    fn new(huge_bytes: u64) -> Self {
        Self { huge_bytes, log: RefCell::default() }
    }
}

impl Probe for Scripted {
    fn run(&self, workload: &Workload) -> Result<Outcome, ProbeError> {
        let Workload::Latency(latency) = workload else {
            return Err(ProbeError::Unsupported { feature: workload.to_string() });
        };
        let visit = self.log.borrow().len();
        self.log.borrow_mut().push(latency.clone());
        let idle_ns = 100.0 + 10.0 * f64::from((latency.cpu.0 / 2).abs_diff(latency.memory.0));
        let busy_ns = latency.load.as_ref().map_or(0.0, |load| 1e5 / (f64::from(load.gap_ns) + 1000.0));
        let ns = (idle_ns + busy_ns) * (1.0 + [0.0, 0.001, -0.001, 0.0005][visit % 4]);
        let sample = LatencySample { loads: 100_000, ns: (ns * 1e5) as u64 };
        let residency = Residency {
            pages_checked: Some(100),
            huge_bytes: self.huge_bytes.min(latency.bytes),
            ..Residency::default()
        };
        let load = latency.load.as_ref().map(|load| LoadOutcome {
            bytes_read: 1_000_000_000 / u64::from(load.gap_ns + 1000),
            ns: 1_000_000,
            residency: residency.clone(),
        });
        Ok(Outcome::Latency(LatencyOutcome {
            samples: vec![sample; 5],
            elapsed_ns: 100_000_000,
            residency,
            load,
        }))
    }
}

fn setting<'a>(probe: &'a dyn Probe, topology: &'a Topology, root: &'a Tree) -> Setting<'a> {
    Setting { root, probe, load: None, topology, source: MachineSource::Simulated, now: 1, stop: &|| false }
}

fn run_with(
    topology: &Topology,
    probe: &dyn Probe,
    options: &LatencyOptions,
) -> Result<LatencyRecord, CampaignError> {
    latency::run(&setting(probe, topology, &Tree::new()), options, &mut |_| {})
}

fn nodes(list: &str) -> NodeSet {
    NodeSet::parse_list(list).expect("a list")
}

fn rules(record: &LatencyRecord) -> Vec<&str> {
    record.provenance.warnings.iter().map(|warning| warning.rule.as_str()).collect()
}

#[test]
fn one_core_of_each_node_measures_every_node() {
    let machine = Scripted::new(u64::MAX);
    let record = run_with(&topology(), &machine, &LatencyOptions::default()).expect("a record");
    assert_eq!((record.cells.len(), record.curves.len(), rules(&record).len()), (16, 0, 0));
    assert!(record.provenance.complete);
    for cell in &record.cells {
        assert_eq!(cell.cpu, CpuId(2 * cell.cpu_node.0));
        let wanted = 100.0 + 10.0 * f64::from(cell.cpu_node.0.abs_diff(cell.memory_node.0));
        assert!(cell.ns_per_load.median().is_some_and(|ns| (ns / wanted - 1.0).abs() < 0.002));
        assert_eq!(cell.ns_per_load.visits.len(), 2);
    }
    assert!(machine.log.borrow().iter().all(|run| run.load.is_none() && run.stride_bytes == 256));
}

#[test]
fn chain_lines_are_four_caches_long() {
    let bytes = |cache: u64, free: u64| {
        let mut topology = topology();
        topology.caches.iter_mut().for_each(|its| its.bytes = cache);
        topology.nodes[2].memory.iter_mut().for_each(|memory| memory.free_bytes = free);
        let record = run_with(&topology, &Scripted::new(u64::MAX), &LatencyOptions::default());
        let record = record.expect("a record");
        let refused = record.cells.iter().filter(|cell| cell.ns_per_load.failure.is_some()).count();
        (record.method.bytes[0].1 >> 20, refused, rules(&record).contains(&"buffer-capped"))
    };
    assert_eq!(bytes(512 << 10, 4 << 30), (16, 0, false));
    assert_eq!(bytes(32 << 20, 4 << 30), (512, 0, false), "a line of 64 bytes in every 256");
    assert_eq!(bytes(32 << 20, 400 << 20), (360, 0, true), "nine tenths of what is free");
    assert_eq!(bytes(32 << 20, 100 << 20), (512, 4, false), "insufficient memory is reported");
}

#[test]
fn chain_above_a_quarter_of_a_node_is_large() {
    let large = |total: u64, stride_bytes| {
        let mut topology = topology();
        topology.caches.iter_mut().for_each(|its| its.bytes = 32 << 20);
        for memory in topology.nodes.iter_mut().filter_map(|node| node.memory.as_mut()) {
            memory.total_bytes = 64 << 30;
            memory.free_bytes = 48 << 30;
        }
        topology.nodes[2].memory.iter_mut().for_each(|memory| memory.total_bytes = total);
        latency::largest(&topology, &LatencyOptions { stride_bytes, ..LatencyOptions::default() })
    };
    assert_eq!((large(32 << 30, 4096), large(31 << 30, 4096)), (None, Some((NodeId(2), 8 << 30))));
    assert_eq!((large(31 << 30, 256), large(1 << 30, 256)), (None, Some((NodeId(2), 512 << 20))));
}

#[test]
fn prefetchers_and_small_pages_are_reported() {
    let run = |huge_bytes, stride_bytes| {
        let options = LatencyOptions { stride_bytes, ..LatencyOptions::default() };
        run_with(&topology(), &Scripted::new(huge_bytes), &options).expect("a record")
    };
    assert_eq!(rules(&run(u64::MAX, 64)), ["prefetcher"]);
    assert!(rules(&run(u64::MAX, 128)).is_empty());
    assert_eq!(rules(&run(0, 256)), ["no-huge-pages"]);
    assert_eq!(rules(&run(32 << 20, 256)), ["few-huge-pages"]);
    let asked = LatencyOptions { pages: Pages::Base, ..LatencyOptions::default() };
    let record = run_with(&topology(), &Scripted::new(0), &asked).expect("a record");
    assert!(rules(&record).is_empty(), "base pages were asked for");
}

#[test]
fn loaded_path_has_increasing_load() {
    let machine = Scripted::new(u64::MAX);
    let options = LatencyOptions { around: nodes("1"), loaded: nodes("1"), ..LatencyOptions::default() };
    let record = run_with(&topology(), &machine, &options).expect("a record");
    assert_eq!((record.cells.len(), record.curves.len()), (7, 4), "{:?}", record.provenance);
    assert!(record.provenance.complete);
    for curve in &record.curves {
        assert_eq!((curve.cpu, curve.placement.cpus.clone()), (CpuId(2), CpuSet::one(CpuId(3))));
        let gaps: Vec<u32> = curve.points.iter().map(|point| point.gap_ns).collect();
        assert_eq!(gaps, [12_800, 3_200, 1_600, 800, 400, 200, 100, 50, 25, 0]);
        let load = |index: usize| curve.points[index].load_bytes_read_per_s.as_ref().map(|load| load.median);
        assert!(load(9).zip(load(0)).is_some_and(|(most, least)| (most / least - 13.8).abs() < 0.1));
        let ns = |index: usize| curve.points[index].ns_per_load.median();
        assert!(ns(9) > ns(0));
    }
    let log = machine.log.borrow();
    let loads: Vec<_> = log.iter().filter_map(|run| run.load.as_ref().map(|load| (run, load))).collect();
    assert!(loads.iter().all(|(run, load)| run.memory == load.memory && load.bytes_per_thread == 32 << 20));
    let first_loaded = log.iter().position(|run| run.load.is_some());
    assert!(log.iter().rposition(|run| run.load.is_none()) < first_loaded, "idle comes first");
}

#[test]
fn node_with_one_core_cannot_be_loaded() {
    let mut topology = topology();
    topology.nodes[1].cpus = CpuSet::one(CpuId(2));
    let options = LatencyOptions { loaded: nodes("0,1"), ..LatencyOptions::default() };
    let record = run_with(&topology, &Scripted::new(u64::MAX), &options).expect("a record");
    assert!(record.curves.iter().all(|curve| curve.cpu_node == NodeId(0)) && record.curves.len() == 4);
    assert_eq!(rules(&record), ["cannot-be-loaded"]);
    assert!(record.provenance.warnings[0].message.contains("node 1") && !record.provenance.complete);
}

#[test]
fn idle_latency_leaves_time_for_loaded_paths() {
    let options = LatencyOptions {
        loaded: nodes("0"),
        rule: Rule { time_limit_s: 3.0, precision: 1e-9, ..Rule::default() },
        ..LatencyOptions::default()
    };
    let record = run_with(&topology(), &Scripted::new(u64::MAX), &options).expect("a record");
    let visits = record.cells.iter().map(|cell| cell.ns_per_load.visits.len()).sum::<usize>();
    let points = record.curves.iter().flat_map(|curve| &curve.points);
    let loaded = points.map(|point| point.ns_per_load.visits.len()).sum::<usize>();
    assert_eq!((visits, loaded), (15, 15));
    assert!((record.method.rounds.elapsed_s - 3.0).abs() < 1e-9 && !record.provenance.complete);
}

#[test]
fn interrupt_keeps_measurements() {
    let (machine, topology, asked) = (Scripted::new(u64::MAX), topology(), Cell::new(0));
    let stop = || {
        asked.set(asked.get() + 1);
        asked.get() > 20
    };
    let root = Tree::new();
    let setting = Setting { stop: &stop, ..setting(&machine, &topology, &root) };
    let options = LatencyOptions { loaded: nodes("0"), ..LatencyOptions::default() };
    let record = latency::run(&setting, &options, &mut |_| {}).expect("a record");
    assert!(!record.provenance.complete && machine.log.borrow().len() == 20);
    assert!(record.cells.iter().all(|cell| cell.ns_per_load.summary.is_some()));
    let why = record.curves[0].points[0].ns_per_load.failure.as_deref();
    assert_eq!(why, Some("interrupted before its first visit"));
}

/// The stopping rule recovers the simulated latencies from noise, idle and loaded.
#[test]
fn results_match_the_simulated_machine() {
    let machine = Simulated::new(shapes::dl585()).expect("a machine");
    let topology = discover(&machine.tree());
    let setting = Setting {
        root: &machine,
        probe: &machine,
        load: None,
        topology: &topology,
        source: MachineSource::Simulated,
        now: 1,
        stop: &|| false,
    };
    let options = LatencyOptions { loaded: nodes("7"), ..LatencyOptions::default() };
    let record = latency::run(&setting, &options, &mut |_| {}).expect("a record");
    assert_eq!((record.cells.len(), record.curves.len()), (64, 8));
    for cell in &record.cells {
        let workload = LatencyWorkload {
            cpu: cell.cpu,
            memory: cell.memory_node,
            bytes: record.method.bytes[0].1,
            stride_bytes: record.method.stride_bytes,
            pages: record.method.pages,
            milliseconds: 60,
            slices: 5,
            load: None,
        };
        let truth = machine.latency_truth(&workload).expect("a figure");
        let found = cell.ns_per_load.median().expect("a figure");
        assert!(
            (found / truth - 1.0).abs() < 0.04,
            "{} {}: {found} {truth}",
            cell.cpu_node,
            cell.memory_node
        );
    }
    for curve in &record.curves {
        let ns: Vec<f64> = curve.points.iter().filter_map(|point| point.ns_per_load.median()).collect();
        assert!(ns.len() == 10 && ns[9] > 1.2 * ns[0], "{ns:?}");
    }
    let json = serde_json::to_string(&record).expect("JSON");
    assert_eq!(LatencyRecord::from_json(&json).expect("a record"), record);
}
