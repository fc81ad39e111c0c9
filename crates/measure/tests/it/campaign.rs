//! Copy campaigns on a scripted machine.

use crate::topology::topology;
use numaio_machine::ids::{CpuId, NodeId};
use numaio_machine::probe::{CopyOutcome, CopySample, Outcome, Probe, ProbeError, Residency};
use numaio_machine::set::{CpuSet, NodeSet};
use numaio_machine::sysfs::{ReadError, Sysfs};
use numaio_machine::topology::{Memory, Topology};
use numaio_machine::tree::Tree;
use numaio_machine::workload::{CopyLoop, CopyWorkload, Flow, Pages, Sampling, Workload};
use numaio_measure::{campaign, CampaignError, Event, Options, Setting, Threads};
use numaio_schema::{MachineSource, Record};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Answers by a function of the workload and its number of earlier runs.
struct Scripted<F> {
    answer: F,
    asked: RefCell<BTreeMap<Workload, usize>>,
    log: RefCell<Vec<CopyWorkload>>,
}

impl<F: Fn(&CopyWorkload, usize) -> Result<f64, ProbeError>> Scripted<F> {
    fn new(answer: F) -> Self {
        Self { answer, asked: Default::default(), log: Default::default() }
    }

    /// Returns the visits of cells, without the trial.
    fn visits(&self) -> Vec<CopyWorkload> {
        let is_visit = |copy: &&CopyWorkload| !is_trial(copy);
        self.log.borrow().iter().filter(is_visit).cloned().collect()
    }
}

fn is_trial(copy: &CopyWorkload) -> bool {
    matches!(copy.sampling, Sampling::Window { slices: 3, .. })
}

impl<F: Fn(&CopyWorkload, usize) -> Result<f64, ProbeError>> Probe for Scripted<F> {
    fn run(&self, workload: &Workload) -> Result<Outcome, ProbeError> {
        let Workload::Copy(copy) = workload else {
            return Err(ProbeError::Unsupported { feature: workload.to_string() });
        };
        let before = *self.asked.borrow().get(workload).unwrap_or(&0);
        *self.asked.borrow_mut().entry(workload.clone()).or_default() += 1;
        self.log.borrow_mut().push(copy.clone());
        let gb_per_s = (self.answer)(copy, before)?;
        let count = match copy.sampling {
            Sampling::Window { slices, .. } => slices,
            Sampling::Repetitions { count } => count,
        };
        let sample = CopySample { bytes_copied: (gb_per_s.abs() * 1e7) as u64, ns: 10_000_000 };
        // A negative bandwidth represents misplaced pages.
        let misplaced = if gb_per_s < 0.0 { 50 } else { 0 };
        Ok(Outcome::Copy(CopyOutcome {
            samples: vec![sample; count as usize],
            elapsed_ns: 100_000_000,
            start_skew_ns: 0,
            residency: Residency {
                pages_checked: Some(100),
                pages_misplaced: misplaced,
                misplaced_on: Some(NodeId(0)).filter(|_| misplaced > 0),
                huge_bytes: 1,
            },
            c_library: (copy.copy_loop == CopyLoop::Memcpy).then(|| "glibc 2.36".into()),
        }))
    }
}

fn run_on(probe: &dyn Probe, options: &Options) -> Result<Record, CampaignError> {
    run_with(&topology(), probe, options)
}

fn run_with(topology: &Topology, probe: &dyn Probe, options: &Options) -> Result<Record, CampaignError> {
    let setting = Setting {
        root: &Tree::new(),
        probe,
        load: None,
        topology,
        source: MachineSource::Simulated,
        now: 1,
        stop: &|| false,
    };
    campaign::run(&setting, options, &mut |_| {})
}

fn on(nodes: &str) -> Options {
    Options { targets: NodeSet::parse_list(nodes).expect("a list"), ..Options::default() }
}

fn median_of(record: &Record, source: u32, sink: u32, target: u32) -> f64 {
    let flow = Flow { source: NodeId(source), sink: NodeId(sink) };
    let cell = record.cell(NodeId(target), flow).expect("a cell");
    cell.bytes_copied_per_s.as_ref().expect("a figure").median / 1e9
}

/// Non-repeating noise of 0.1 percent.
fn quiet(value: f64, before: usize) -> Result<f64, ProbeError> {
    Ok(value * (1.0 + [0.0, 0.001, -0.001, 0.0005][before % 4]))
}

#[test]
fn each_flow_of_algorithm_1_is_one_cell() {
    let machine = Scripted::new(|_, before| quiet(10.0, before));
    let record = run_on(&machine, &on("1")).expect("a record");
    let flows: Vec<String> = record.cells.iter().map(|cell| cell.flow.to_string()).collect();
    assert_eq!(flows, ["0 -> 1", "1 -> 0", "1 -> 1", "1 -> 2", "1 -> 3", "2 -> 1", "3 -> 1"]);
    assert!(
        record.provenance.complete && record.provenance.warnings.is_empty(),
        "{:?}",
        record.provenance.warnings
    );
    assert!(record.cells.iter().all(|cell| cell.placement.cpus.to_string() == "2-3"));
}

#[test]
fn quiet_machine_needs_three_visits_and_noisy_one_more() {
    let machine = Scripted::new(|_, before| quiet(10.0, before));
    let record = run_on(&machine, &on("1")).expect("a record");
    assert!(record.cells.iter().all(|cell| cell.visits.len() == 3));
    let noisy = Scripted::new(|_, before| Ok(10.0 * [0.9, 1.0, 1.1, 1.05, 0.95, 1.0, 1.0][before % 7]));
    let record = run_on(&noisy, &on("1")).expect("a record");
    assert!(record.cells.iter().all(|cell| cell.visits.len() > 6 && cell.settled));
    assert!(record.cells.iter().all(|cell| {
        cell.bytes_copied_per_s.as_ref().is_some_and(|summary| summary.relative_half_width() <= 0.02)
    }));
}

#[test]
fn each_round_visits_every_cell_once_in_changing_order() {
    let machine = Scripted::new(|_, before| quiet(10.0, before));
    run_on(&machine, &on("0")).expect("a record");
    let visits = machine.visits();
    let rounds: Vec<Vec<Flow>> =
        visits.chunks(7).map(|round| round.iter().map(|copy| copy.flow).collect()).collect();
    for round in &rounds {
        let mut flows = round.clone();
        flows.sort();
        flows.dedup();
        assert_eq!(flows.len(), 7, "a round visits each cell once");
    }
    assert!(rounds.windows(2).any(|pair| pair[0] != pair[1]), "the order changes");
}

#[test]
fn fastest_loop_of_the_trial_is_used() {
    let machine = Scripted::new(|copy, before| match copy.copy_loop {
        CopyLoop::Avx2 => quiet(12.0, before),
        _ => quiet(9.0, before),
    });
    let record = run_on(&machine, &on("0")).expect("a record");
    assert_eq!(record.method.copy_loop, CopyLoop::Avx2);
    assert_eq!(record.method.trials.len(), 2, "this CPU has memcpy and avx2");
    assert_eq!(record.method.c_library.as_deref(), Some("glibc 2.36"), "of the trial");
    assert!(machine.visits().iter().all(|copy| copy.copy_loop == CopyLoop::Avx2));
}

#[test]
fn buffers_are_four_times_the_last_level_cache() {
    let machine = Scripted::new(|_, before| quiet(10.0, before));
    run_on(&machine, &on("0")).expect("a record");
    assert!(machine.visits().iter().all(|copy| copy.bytes_per_thread == 16 << 20));
    let one = Options { threads: Threads::Count(1), ..on("0") };
    let machine = Scripted::new(|_, before| quiet(10.0, before));
    run_on(&machine, &one).expect("a record");
    assert!(machine.visits().iter().all(|copy| copy.bytes_per_thread == 32 << 20));
}

#[test]
fn outlier_is_revisited_and_discarded() {
    // The second visit of one cell has half its bandwidth.
    let machine = Scripted::new(|copy, before| {
        let glitch = copy.flow.source == NodeId(2) && !is_trial(copy) && before == 1;
        quiet(if glitch { 5.0 } else { 10.0 }, before)
    });
    let record = run_on(&machine, &on("0")).expect("a record");
    assert!((median_of(&record, 2, 0, 0) - 10.0).abs() < 0.02);
    let flow = Flow { source: NodeId(2), sink: NodeId(0) };
    assert!(record.cell(NodeId(0), flow).expect("the cell").visits.len() > 6);
}

#[test]
fn cell_unlike_its_row_is_rechecked() {
    let machine =
        Scripted::new(|copy, before| quiet(if copy.flow.source == NodeId(3) { 5.0 } else { 10.0 }, before));
    let record = run_on(&machine, &on("0")).expect("a record");
    let visits = |source: u32, sink: u32| {
        let flow = Flow { source: NodeId(source), sink: NodeId(sink) };
        record.cell(NodeId(0), flow).expect("a cell").visits.len()
    };
    assert_eq!((visits(1, 0), visits(3, 0), visits(0, 3)), (3, 6, 3));
    assert!((median_of(&record, 3, 0, 0) - 5.0).abs() < 0.02, "rechecking does not change the result");
}

#[test]
fn bimodal_cell_is_reported_and_not_averaged() {
    let machine = Scripted::new(|copy, before| {
        let low = copy.flow.source == NodeId(2) && !is_trial(copy) && before % 3 == 1;
        quiet(if low { 6.0 } else { 10.0 }, before)
    });
    let record = run_on(&machine, &on("0")).expect("a record");
    assert!((median_of(&record, 2, 0, 0) - 10.0).abs() < 0.05);
    assert!(record
        .provenance
        .warnings
        .iter()
        .any(|warning| warning.rule == "bimodal" && warning.message.contains("2 -> 0")));
}

#[test]
fn visits_with_misplaced_pages_are_set_aside() {
    let machine = Scripted::new(|copy, before| {
        let wrong = copy.flow == Flow { source: NodeId(1), sink: NodeId(0) };
        if wrong {
            Ok(-1.0)
        } else {
            quiet(10.0, before)
        }
    });
    let record = run_on(&machine, &on("0")).expect("a record");
    let cell = record.cell(NodeId(0), Flow { source: NodeId(1), sink: NodeId(0) }).expect("the cell");
    assert_eq!((&cell.bytes_copied_per_s, cell.visits.len()), (&None, 3), "given up after the third");
    assert!(cell.failure.as_ref().is_some_and(|why| why.contains("50 of 100 pages")), "{:?}", cell.failure);
    assert!(!record.provenance.complete);
    assert!(record.provenance.warnings.iter().any(|warning| warning.rule == "misplaced-pages"));
}

#[test]
fn misplaced_pages_everywhere_are_the_error() {
    let machine = Scripted::new(|copy, before| if is_trial(copy) { quiet(10.0, before) } else { Ok(-1.0) });
    let error = run_on(&machine, &on("0")).expect_err("no figure").to_string();
    assert!(error.contains("50 of 100 pages"), "{error}");
}

#[test]
fn cell_without_progress_has_failed() {
    let still = Flow { source: NodeId(2), sink: NodeId(0) };
    let machine = Scripted::new(|copy, before| match copy.flow == still {
        true => Ok(0.0),
        false => quiet(10.0, before),
    });
    let record = run_on(&machine, &on("0")).expect("the others");
    let cell = record.cell(NodeId(0), still).expect("the cell");
    assert!(cell.visits.is_empty() && cell.bytes_copied_per_s.is_none());
    assert!(
        cell.failure.as_ref().is_some_and(|why| why.contains("nothing was copied")),
        "{:?}",
        cell.failure
    );
    assert!(record.cells.iter().filter(|cell| cell.flow != still).all(|cell| cell.settled));
}

#[test]
fn later_failure_keeps_the_result() {
    let shrinking = Flow { source: NodeId(2), sink: NodeId(0) };
    let error = ProbeError::NoMemory { node: NodeId(2), needed_bytes: 2, free_bytes: 1 };
    let later = |error: ProbeError| {
        let machine = Scripted::new(move |copy, before| match copy.flow == shrinking && before == 2 {
            true => Err(error.clone()),
            false => quiet(10.0, before),
        });
        let record = run_on(&machine, &Options { least_visits: 3, ..on("0") }).expect("a record");
        let cell = record.cell(NodeId(0), shrinking).expect("the cell").clone();
        assert_eq!(cell.bytes_copied_per_s.map(|summary| summary.n), Some(2));
        (cell.failure, record.provenance.complete)
    };
    assert_eq!(later(error.clone()), (Some(error.to_string()), false));
    assert_eq!(later(ProbeError::NotOnTape { workload: "more".into() }), (None, false));
}

#[test]
fn reserved_huge_pages_need_no_free_memory() {
    let machine = Scripted::new(|_, before| quiet(10.0, before));
    let mut topology = topology();
    topology
        .nodes
        .iter_mut()
        .filter_map(|node| node.memory.as_mut())
        .for_each(|memory| memory.free_bytes = 0);
    let run = |pages| run_with(&topology, &machine, &Options { pages, ..on("0") });
    assert!(matches!(run(Pages::Base), Err(CampaignError::TooLittleMemory { .. })));
    assert!(run(Pages::Huge).is_ok_and(|record| record.provenance.complete));
}

/// As on emulated nodes of 119 MiB.
#[test]
fn small_buffers_fit_and_are_marked() {
    let machine = Scripted::new(|_, before| quiet(10.0, before));
    let mut topology = topology();
    topology
        .nodes
        .iter_mut()
        .filter_map(|node| node.memory.as_mut())
        .for_each(|memory| memory.free_bytes = 40 << 20);
    let run = |buffer_bytes| run_with(&topology, &machine, &Options { buffer_bytes, ..on("0") });
    assert!(matches!(run(None), Err(CampaignError::TooLittleMemory { .. })));
    let record = run(Some(4 << 20)).expect("a record");
    assert_eq!(record.method.bytes_per_thread, [(NodeId(0), 4 << 20)]);
    let rules: Vec<&str> = record.provenance.warnings.iter().map(|warning| warning.rule.as_str()).collect();
    assert!(rules.contains(&"possibly-cached"), "{rules:?}");
}

#[test]
fn rejected_node_does_not_affect_other_cells() {
    let machine = Scripted::new(|copy, before| match copy.flow.source {
        NodeId(3) => {
            Err(ProbeError::Refused { call: "mbind to node 3".into(), reason: "not permitted".into() })
        }
        _ => quiet(10.0, before),
    });
    let record = run_on(&machine, &on("0")).expect("a record");
    assert!(!record.provenance.complete);
    let failed: Vec<String> =
        record.cells.iter().filter(|cell| cell.failure.is_some()).map(|cell| cell.flow.to_string()).collect();
    assert_eq!(failed, ["3 -> 0"]);
}

#[test]
fn reason_is_reported_if_everything_fails() {
    let refused = ProbeError::Refused { call: "mbind".into(), reason: "not permitted".into() };
    let machine = Scripted::new(|_, _| Err(refused.clone()));
    assert_eq!(run_on(&machine, &on("0")), Err(CampaignError::Nothing(refused.clone())));
}

#[test]
fn time_limit_ends_an_unsettled_campaign() {
    let machine = Scripted::new(|_, before| Ok(if before % 2 == 0 { 5.0 } else { 5.0 + before as f64 }));
    let options = Options { time_limit_s: 10.0, ..on("0") };
    let record = run_on(&machine, &options).expect("a record");
    assert!(!record.provenance.complete && record.method.elapsed_s < 11.0);
    assert!(record.provenance.warnings.iter().any(|warning| warning.rule == "unsettled"));
}

#[test]
fn interrupt_keeps_measurements() {
    let machine = Scripted::new(|_, before| Ok(10.0 + before as f64));
    let (topology, count) = (topology(), RefCell::new(0));
    let stop = || {
        *count.borrow_mut() += 1;
        *count.borrow() > 10
    };
    let setting = Setting {
        root: &Tree::new(),
        probe: &machine,
        load: None,
        topology: &topology,
        source: MachineSource::Simulated,
        now: 1,
        stop: &stop,
    };
    let record = campaign::run(&setting, &on("0"), &mut |_| {}).expect("a record");
    assert!(!record.provenance.complete);
    assert!(record.cells.iter().all(|cell| cell.bytes_copied_per_s.is_some()));
}

#[test]
fn fixed_repetitions_are_one_visit() {
    let machine = Scripted::new(|_, before| quiet(10.0, before));
    let record = run_on(&machine, &Options { repetitions: Some(100), ..on("0") }).expect("a record");
    assert!(record.cells.iter().all(|cell| cell.visits.len() == 1 && cell.visits[0].samples == 100));
    assert!(record.provenance.complete);
}

#[test]
fn rejects_invalid_targets_and_threads() {
    let machine = Scripted::new(|_, before| quiet(10.0, before));
    let error = |options: &Options| run_on(&machine, options).expect_err("an error").to_string();
    assert_eq!(error(&on("9")), "there is no node 9; this machine has nodes 0-3");
    assert_eq!(error(&on("")), "there is no node to measure");
    let many = Options { threads: Threads::Count(3), ..on("0") };
    assert_eq!(error(&many), "node 0 has 2 CPUs that this process may use, fewer than 3 threads");
}

#[test]
fn unusable_target_is_left_out_with_a_warning() {
    let machine = Scripted::new(|_, before| quiet(10.0, before));
    let mut topology = topology();
    topology.nodes[3].cpus = CpuSet::new();
    let run = |options: &Options| run_with(&topology, &machine, options);
    let record = run(&on("0,3")).expect("node 0 can be measured");
    assert!(
        !record.provenance.complete
            && record.provenance.warnings.iter().any(|warning| warning.rule == "target-left-out")
    );
    assert!(record.cells.iter().any(|cell| cell.flow.source == NodeId(3)), "the node still has memory");
    assert_eq!(run(&on("3")), Err(CampaignError::NoCpus { node: NodeId(3) }));
}

#[test]
fn insufficient_memory_is_reported_before_running() {
    let machine = Scripted::new(|_, before| quiet(10.0, before));
    let mut topology = topology();
    topology.confinement.memory_limit_bytes = Some(16 << 20);
    let error = run_with(&topology, &machine, &on("0")).expect_err("no room");
    assert!(error.to_string().contains("need 64 MiB"), "{error}");
    assert!(machine.log.borrow().is_empty());
    topology.confinement.memory_limit_bytes = Some(1 << 30);
    topology.confinement.memory_left_bytes = Some(16 << 20);
    let error = run_with(&topology, &machine, &on("0")).expect_err("others of the group use the rest");
    assert!(error.to_string().contains("need 64 MiB"), "{error}");
}

#[test]
fn progress_is_reported_for_every_visit() {
    let machine = Scripted::new(|_, before| quiet(10.0, before));
    let topology = topology();
    let setting = Setting {
        root: &Tree::new(),
        probe: &machine,
        load: None,
        topology: &topology,
        source: MachineSource::Simulated,
        now: 1,
        stop: &|| false,
    };
    let mut seen = Vec::new();
    campaign::run(&setting, &on("0"), &mut |event| seen.push(event.clone())).expect("a record");
    assert!(matches!(seen[0], Event::LoopChosen(_)));
    let remaining = |event: &Event| match event {
        Event::Visited { remaining_s, .. } => Some(*remaining_s),
        Event::LoopChosen(_) | Event::StreamLoopChosen(..) => None,
    };
    let times: Vec<f64> = seen.iter().filter_map(remaining).collect();
    assert_eq!(times.len(), machine.visits().len());
    assert!(times.windows(2).all(|pair| pair[1] <= pair[0] * 1.5 + 0.2), "{times:?}");
}

fn with_memory(free_bytes: u64, reclaimable_bytes: u64) -> Topology {
    let mut topology = topology();
    let memory = Memory { total_bytes: 8 << 30, free_bytes, reclaimable_bytes };
    topology.nodes.iter_mut().for_each(|node| node.memory = Some(memory));
    topology
}

#[test]
fn tenth_of_available_memory_is_left_free() {
    let machine = Scripted::new(|_, before| quiet(10.0, before));
    // Source and sink of 32 MiB need 64 MiB, nine tenths of 71.1 MiB.
    for (free, reclaimable, fits) in [(72, 0, true), (71, 0, false), (2, 70, true), (2, 69, false)] {
        let record = run_with(&with_memory(free << 20, reclaimable << 20), &machine, &on("0"));
        assert_eq!(record.is_ok(), fits, "{free} + {reclaimable} MiB");
    }
}

#[test]
fn disallowed_memory_has_no_cells() {
    let machine = Scripted::new(|_, before| quiet(10.0, before));
    let mut topology = topology();
    topology.nodes[2].memory_allowed = false;
    let record = run_with(&topology, &machine, &on("0")).expect("a record");
    let of_2 = |flow: Flow| flow.source == NodeId(2) || flow.sink == NodeId(2);
    assert!(
        record.provenance.complete
            && record.cells.len() == 5
            && !record.cells.iter().any(|cell| of_2(cell.flow))
    );
    assert_eq!(run_with(&topology, &machine, &on("2")), Err(CampaignError::NoMemory { node: NodeId(2) }));
}

#[test]
fn memory_only_node_is_measured() {
    let machine = Scripted::new(|_, before| quiet(10.0, before));
    let mut topology = topology();
    topology.nodes[3].id = NodeId(40);
    topology.nodes[3].cpus = CpuSet::new();
    let record = run_with(&topology, &machine, &on("0")).expect("a record");
    let flows: Vec<String> = record.cells.iter().map(|cell| cell.flow.to_string()).collect();
    assert!(flows.contains(&"40 -> 0".to_owned()) && flows.contains(&"0 -> 40".to_owned()), "{flows:?}");
}

#[test]
fn time_limit_completes_targets_one_by_one() {
    let machine = Scripted::new(|_, before| quiet(10.0, before));
    // The trial takes 0.6 s, the 28 cells of four targets would take 2.8 s, and 1.2 s are left.
    let record = run_on(&machine, &Options { time_limit_s: 1.8, ..on("0-3") }).expect("a record");
    assert!(!record.provenance.complete && record.method.elapsed_s < 1.95, "{}", record.method.elapsed_s);
    let of = |target: u32| record.cells.iter().filter(move |cell| cell.target == NodeId(target));
    let reached = |target: u32| of(target).filter(|cell| !cell.visits.is_empty()).count();
    let reached: Vec<usize> = (0..4).map(reached).collect();
    assert_eq!((reached[0], reached.iter().sum::<usize>()), (7, 12), "{reached:?}");
    let left: Vec<_> = record.cells.iter().filter(|cell| cell.visits.is_empty()).collect();
    let why = Some("time limit reached before its first visit".to_owned());
    assert!(left.iter().all(|cell| cell.bytes_copied_per_s.is_none() && cell.failure == why));
    let warnings = &record.provenance.warnings;
    assert!(warnings.iter().any(|warning| warning.rule == "not-reached"), "{warnings:?}");
    let elapsed_s = machine.log.borrow().len() as f64 * 0.1;
    assert!((record.method.elapsed_s - elapsed_s).abs() < 1e-9, "the trial counts");
}

#[test]
fn first_visit_is_made_regardless_of_the_time_limit() {
    let machine = Scripted::new(|_, before| quiet(10.0, before));
    let record = run_on(&machine, &Options { time_limit_s: 1e-9, ..on("0") }).expect("a record");
    assert_eq!(record.cells.iter().filter(|cell| cell.bytes_copied_per_s.is_some()).count(), 1);
}

#[test]
fn recheck_cut_by_the_time_limit_keeps_the_result() {
    let machine =
        Scripted::new(|copy, before| quiet(if copy.flow.source == NodeId(3) { 5.0 } else { 10.0 }, before));
    // The trial takes 0.6 s, three rounds 2.1 s: one visit of the recheck is made.
    let record = run_on(&machine, &Options { time_limit_s: 2.75, ..on("0") }).expect("a record");
    let cell = record.cell(NodeId(0), Flow { source: NodeId(3), sink: NodeId(0) }).expect("the cell");
    assert_eq!((cell.visits.len(), cell.settled, record.provenance.complete), (4, true, true));
    let rules: Vec<&str> = record.provenance.warnings.iter().map(|warning| warning.rule.as_str()).collect();
    assert_eq!(rules, ["second-look"]);
}

#[test]
fn repetitions_with_misplaced_pages_are_repeated() {
    let machine = Scripted::new(|copy, before| {
        let wrong = copy.flow.source == NodeId(1) && copy.flow.sink == NodeId(0) && before == 0;
        if wrong {
            Ok(-1.0)
        } else {
            quiet(10.0, before)
        }
    });
    let record = run_on(&machine, &Options { repetitions: Some(100), ..on("0") }).expect("a record");
    let cell = record.cell(NodeId(0), Flow { source: NodeId(1), sink: NodeId(0) }).expect("the cell");
    let excluded: Vec<bool> = cell.visits.iter().map(|visit| visit.excluded.is_some()).collect();
    assert_eq!((excluded, cell.settled), (vec![true, false], true));
    assert_eq!(cell.bytes_copied_per_s.as_ref().map(|summary| summary.n), Some(100));
}

#[test]
fn unsettled_cell_stops_after_sixty_visits() {
    let machine = Scripted::new(|_, before| Ok([8.0, 9.0, 10.0, 11.0, 12.0][before % 5]));
    let options = Options { time_limit_s: 1e9, precision: 1e-6, ..on("0") };
    let record = run_on(&machine, &options).expect("a record");
    assert!(record.cells.iter().all(|cell| cell.visits.len() == 60 && !cell.settled));
}

#[test]
fn minimum_visits_apply_to_quiet_machines() {
    let machine = Scripted::new(|_, before| quiet(10.0, before));
    let record = run_on(&machine, &Options { least_visits: 6, ..on("0") }).expect("a record");
    assert!(record.cells.iter().all(|cell| cell.visits.len() == 6));
}

#[test]
fn fast_local_cell_is_not_rechecked_with_uniform_distances() {
    let mut topology = topology();
    let distances = topology.distances.as_mut().expect("distances");
    distances.rows.iter_mut().flatten().for_each(|distance| *distance = 10);
    let machine = Scripted::new(|copy, before| {
        quiet(if copy.flow.source == copy.flow.sink { 20.0 } else { 10.0 }, before)
    });
    let record = run_with(&topology, &machine, &on("0")).expect("a record");
    assert!(record.cells.iter().all(|cell| cell.visits.len() == 3));
}

#[test]
fn window_is_one_sweep_within_bounds() {
    // 32 MiB take 3, 168 and 3355 ms.
    for (gb_per_s, wanted) in [(10.0, 80), (0.2, 180), (0.01, 400)] {
        let machine = Scripted::new(move |_, before| quiet(gb_per_s, before));
        run_on(&machine, &on("0")).expect("a record");
        let sampling = Sampling::Window { milliseconds: wanted, slices: 5 };
        assert!(machine.visits().iter().all(|copy| copy.sampling == sampling), "{gb_per_s} GB/s");
    }
}

#[test]
fn slow_loops_are_dropped_from_the_trial() {
    let trials = |memcpy: f64, avx2: f64| {
        let machine = Scripted::new(move |copy, before| {
            quiet(if copy.copy_loop == CopyLoop::Avx2 { avx2 } else { memcpy }, before)
        });
        let record = run_on(&machine, &on("2")).expect("a record");
        let log = machine.log.borrow();
        let tries = log.iter().filter(|copy| is_trial(copy));
        assert!(tries.clone().all(|copy| copy.placement.cpus.to_string() == "0-1"));
        let of = |copy_loop| tries.clone().filter(|copy| copy.copy_loop == copy_loop).count();
        (of(CopyLoop::Memcpy), of(CopyLoop::Avx2), record.method.copy_loop)
    };
    assert_eq!(trials(7.9, 10.0), (1, 3, CopyLoop::Avx2));
    assert_eq!(trials(8.1, 10.0), (3, 3, CopyLoop::Avx2));
    // Among equally fast loops, the one with less bus traffic wins.
    assert_eq!(trials(10.0, 9.9), (3, 3, CopyLoop::Avx2));
    assert_eq!(trials(10.0, 9.7), (3, 3, CopyLoop::Memcpy));
}

/// A machine whose CPU runs at 800 MHz when idle, then at the given frequencies, one per query.
struct Clock(RefCell<Vec<u32>>);

impl Sysfs for Clock {
    fn read(&self, path: &str) -> Result<Vec<u8>, ReadError> {
        let mut tree = Tree::new();
        let mut mhz = self.0.borrow_mut();
        if path.ends_with("scaling_cur_freq") {
            let now = if mhz.len() > 1 { mhz.remove(0) } else { mhz[0] };
            tree.file(path, format!("{now}000\n"));
        }
        tree.read(path)
    }
    fn list(&self, path: &str) -> Result<Vec<String>, ReadError> {
        let policies = path.ends_with("cpufreq").then(|| vec!["policy0".to_owned()]);
        policies.map_or_else(|| Tree::new().list(path), Ok)
    }
    fn resolve(&self, path: &str) -> Result<String, ReadError> {
        Ok(path.to_owned())
    }
}

#[test]
fn frequency_is_compared_between_busy_states() {
    let rules = |mhz: &[u32]| -> Vec<String> {
        let machine = Scripted::new(|_, before| quiet(10.0, before));
        let setting = Setting {
            root: &Clock(RefCell::new(mhz.to_vec())),
            probe: &machine,
            load: None,
            topology: &topology(),
            source: MachineSource::Simulated,
            now: 1,
            stop: &|| false,
        };
        let record = campaign::run(&setting, &on("0"), &mut |_| {}).expect("a record");
        record.provenance.warnings.into_iter().map(|warning| warning.rule).collect()
    };
    assert!(rules(&[800, 3000, 3000]).is_empty(), "before the first visit it was idle");
    assert_eq!(rules(&[800, 3000, 2500]), ["frequency"]);
}

#[test]
fn drift_and_missing_huge_pages_are_reported() {
    let rules = |record: Record| -> Vec<String> {
        record.provenance.warnings.into_iter().map(|warning| warning.rule).collect()
    };
    let climbing =
        Scripted::new(|copy, before| Ok(if is_trial(copy) { 10.0 } else { 10.0 + 0.2 * before as f64 }));
    let record = run_on(&climbing, &Options { precision: 0.001, time_limit_s: 7.0, ..on("0") });
    assert_eq!(rules(record.expect("a record")), ["drift", "unsettled"]);
    struct Small<P>(P);
    impl<P: Probe> Probe for Small<P> {
        fn run(&self, workload: &Workload) -> Result<Outcome, ProbeError> {
            let mut outcome = self.0.run(workload)?;
            if let Outcome::Copy(copy) = &mut outcome {
                copy.residency.huge_bytes = 0;
            }
            Ok(outcome)
        }
    }
    let small = Small(Scripted::new(|_, before| quiet(10.0, before)));
    assert_eq!(rules(run_on(&small, &on("0")).expect("a record")), ["no-huge-pages"]);
    assert!(rules(run_on(&small, &Options { pages: Pages::Base, ..on("0") }).expect("a record")).is_empty());
}

#[test]
fn trial_uses_another_node_if_the_first_fails() {
    let machine = Scripted::new(|copy, before| match copy.placement.cpus.contains(CpuId(0)) {
        true => Err(ProbeError::NoMemory { node: NodeId(0), needed_bytes: 2, free_bytes: 1 }),
        false => quiet(10.0, before),
    });
    let record = run_on(&machine, &on("2")).expect("node 2 can be measured");
    assert!(record.provenance.complete && record.provenance.warnings.is_empty());
    let error = run_on(&machine, &on("0")).expect_err("node 0 cannot");
    assert!(error.to_string().contains("node 0 has 1 bytes free"), "{error}");
}

#[test]
fn overflowing_sizes_are_rejected() {
    let machine = Scripted::new(|_, before| quiet(10.0, before));
    let mut topology = with_memory(u64::MAX, u64::MAX);
    topology.caches.iter_mut().for_each(|cache| cache.bytes = u64::MAX);
    topology.caches.push(topology.caches[0].clone());
    let error = run_with(&topology, &machine, &on("0")).expect_err("no room");
    assert!(matches!(error, CampaignError::TooLittleMemory { .. }), "{error}");
}
