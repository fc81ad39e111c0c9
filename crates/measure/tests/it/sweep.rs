//! Sweeps on scripted and simulated machines.

use crate::topology::topology;
use numaio_machine::discover::discover;
use numaio_machine::ids::NodeId;
use numaio_machine::probe::{Outcome, Probe, ProbeError, ProgramOutcome, Residency, ToolExit, ToolOutput};
use numaio_machine::set::NodeSet;
use numaio_machine::topology::Topology;
use numaio_machine::tree::Tree;
use numaio_machine::workload::{ProgramWorkload, Workload};
use numaio_measure::sweep::{self, Figure};
use numaio_measure::{CampaignError, Event, Rule, Setting, SweepOptions};
use numaio_schema::{FigureSource, MachineSource, Quantity, SweepRecord, SweepScope};
use numaio_sim::{shapes, Simulated, SimulatedProgram};
use std::cell::RefCell;

/// Answers by a function of the workload.
struct Scripted<F>(F, RefCell<Vec<ProgramWorkload>>);

impl<F: Fn(&ProgramWorkload) -> Result<ProgramOutcome, ProbeError>> Scripted<F> {
    fn new(answer: F) -> Self {
        Self(answer, RefCell::default())
    }
}

impl<F: Fn(&ProgramWorkload) -> Result<ProgramOutcome, ProbeError>> Probe for Scripted<F> {
    fn run(&self, workload: &Workload) -> Result<Outcome, ProbeError> {
        let Workload::Program(program) = workload else {
            return Err(ProbeError::Unsupported { feature: workload.to_string() });
        };
        self.1.borrow_mut().push(program.clone());
        (self.0)(program).map(Outcome::Program)
    }
}

fn prints(text: &str) -> Result<ProgramOutcome, ProbeError> {
    let output =
        ToolOutput { exit: ToolExit::Status(0), stdout: text.to_owned(), stderr: String::new(), cpu_ns: 1 };
    let residency = Residency { pages_checked: Some(100), ..Residency::default() };
    Ok(ProgramOutcome { output, elapsed_ns: 100_000_000, residency })
}

fn options() -> SweepOptions {
    let pattern = "Copy: ([0-9.]+) MB/s".to_owned();
    SweepOptions {
        name: "stream".to_owned(),
        builds: vec![vec!["stream".to_owned(), "-q".to_owned()]],
        figure: Figure::new(FigureSource::Regex { pattern }).expect("a figure"),
        quantity: Quantity::BytesPerS,
        unit: "MB/s".to_owned(),
        scale: 1e6,
        scope: SweepScope::Pairs,
        around: NodeSet::new(),
        run_limit_s: 60.0,
        rule: Rule::default(),
    }
}

fn run_with(
    topology: &Topology,
    probe: &dyn Probe,
    options: &SweepOptions,
    stop: &dyn Fn() -> bool,
) -> Result<SweepRecord, CampaignError> {
    let root = &Tree::new();
    let setting =
        Setting { root, probe, load: None, topology, source: MachineSource::Simulated, now: 1, stop };
    sweep::run(&setting, options, &mut |_: &Event| {})
}

fn run_on(probe: &dyn Probe, options: &SweepOptions) -> Result<SweepRecord, CampaignError> {
    run_with(&topology(), probe, options, &|| false)
}

fn median(record: &SweepRecord, cpu: u32, memory: u32) -> Option<f64> {
    let is_cell = |cell: &&numaio_schema::SweepCell| (cell.cpu_node.0, cell.memory_node.0) == (cpu, memory);
    record.cells.iter().find(is_cell).expect("a cell").figure.median()
}

#[test]
fn every_pair_is_measured_until_it_is_settled() {
    let machine = Scripted::new(|program| prints(&format!("Copy: {} MB/s", 10 - program.memory.0)));
    let record = run_on(&machine, &options()).expect("a record");
    assert_eq!(record.cells.len(), 16);
    assert!(record.provenance.complete && record.cells.iter().all(|cell| cell.figure.settled));
    assert_eq!((median(&record, 2, 0), median(&record, 2, 3)), (Some(10e6), Some(7e6)));
    let runs = machine.1.into_inner();
    assert!(runs.len() >= 32 && runs.iter().all(|run| run.time_limit_ms == 60_000 && run.command[1] == "-q"));
    let around = SweepOptions { around: NodeSet::one(NodeId(1)), ..options() };
    assert_eq!(run_on(&Scripted::new(|_| prints("Copy: 1 MB/s")), &around).expect("a record").cells.len(), 7);
}

#[test]
fn cores_are_bound_one_at_a_time() {
    let machine = Scripted::new(|_| prints("Copy: 1 MB/s"));
    let record = run_on(&machine, &SweepOptions { scope: SweepScope::Cores, ..options() }).expect("a record");
    let cores: usize = topology().cpu_nodes().iter().map(|node| topology().cores(node).len()).sum();
    assert_eq!(record.cells.len(), cores * 4);
    assert!(machine.1.into_inner().iter().all(|run| run.placement.cpus.len() == 1));
}

/// Figures that do not exist are failures with a reason, and never values.
#[test]
fn failing_runs_leave_a_reason() {
    let answer = |program: &ProgramWorkload| match program.memory.0 {
        0 => prints("Copy: 1 MB/s"),
        1 => prints("nothing"),
        2 => prints("Copy: 1 MB/s").map(|outcome| ProgramOutcome {
            output: ToolOutput { exit: ToolExit::TimeLimit, ..outcome.output },
            ..outcome
        }),
        _ => Err(ProbeError::Refused { call: "set the memory policy to node 3".into(), reason: "no".into() }),
    };
    let record = run_on(&Scripted::new(answer), &options()).expect("a record");
    assert!(!record.provenance.complete);
    let why = |memory: usize| record.cells[memory].figure.failure.clone().unwrap_or_default();
    assert_eq!(median(&record, 0, 0), Some(1e6));
    assert!(
        why(1).contains("no match") && why(2).contains("exceeded the time limit"),
        "{}, {}",
        why(1),
        why(2)
    );
    assert_eq!(why(3), "set the memory policy to node 3: no");
    assert!(record.cells[1..4].iter().all(|cell| cell.figure.summary.is_none() && !cell.figure.settled));
}

#[test]
fn fails_without_any_figure() {
    let none = run_on(&Scripted::new(|_| prints("")), &options());
    assert!(
        matches!(&none, Err(CampaignError::Nothing(ProbeError::Refused { call: what, .. })) if what == "stream")
    );
    let absent = Scripted::new(|_| Err(ProbeError::Unsupported { feature: "stream".into() }));
    let absent = run_on(&absent, &options()).expect_err("no program");
    assert_eq!(absent.to_string(), "cannot execute 'stream': no such program");
}

#[test]
fn pages_on_another_node_invalidate_a_run() {
    let misplaced = Scripted::new(|program| {
        let mut outcome = prints("Copy: 1 MB/s")?;
        if program.memory.0 == 2 {
            outcome.residency.pages_misplaced = 50;
            outcome.residency.misplaced_on = Some(NodeId(0));
        }
        Ok(outcome)
    });
    let record = run_on(&misplaced, &options()).expect("a record");
    let failure = record.cells[2].figure.failure.clone().unwrap_or_default();
    assert!(failure.contains("50 of 100 pages were not on the node"), "{failure}");
    assert_eq!((median(&record, 0, 2), median(&record, 0, 1)), (None, Some(1e6)));
}

#[test]
fn interrupt_keeps_complete_figures() {
    let visits = RefCell::new(0);
    let machine = Scripted::new(|_| {
        *visits.borrow_mut() += 1;
        prints("Copy: 1 MB/s")
    });
    let record = run_with(&topology(), &machine, &options(), &|| *visits.borrow() >= 5).expect("a record");
    assert!(!record.provenance.complete);
    assert_eq!(record.cells.iter().filter(|cell| cell.figure.summary.is_some()).count(), 5);
}

#[test]
fn best_build_is_kept_for_each_pair() {
    let answer = |program: &ProgramWorkload| {
        let is_fast = (program.command[0] == "a") == (program.memory.0 < 2);
        if program.command[0] == "b" && program.memory.0 == 3 {
            return prints("crash");
        }
        prints(if is_fast { "Copy: 2 MB/s" } else { "Copy: 1 MB/s" })
    };
    let builds = vec![vec!["a".to_owned()], vec!["b".to_owned()]];
    let record = run_on(&Scripted::new(answer), &SweepOptions { builds: builds.clone(), ..options() });
    let record = record.expect("a record");
    let best: Vec<(u32, Option<f64>)> =
        record.cells[..4].iter().map(|cell| (cell.build, cell.figure.median())).collect();
    assert_eq!(best, [(0, Some(2e6)), (0, Some(2e6)), (1, Some(2e6)), (0, Some(1e6))]);
    assert_eq!(record.cells[0].other_builds[0].figure.median(), Some(1e6));
    assert!(record.cells[3].other_builds[0].figure.failure.is_some());
    assert!(record.provenance.complete, "the kept builds are complete");
    let less = SweepOptions { builds, quantity: Quantity::Cost, scale: 1.0, ..options() };
    assert_eq!(run_on(&Scripted::new(answer), &less).expect("a record").cells[0].build, 1);
}

#[test]
fn unusable_cpus_and_memory_are_left_out_with_a_reason() {
    let mut topology = topology();
    topology.nodes[3].memory_allowed = false;
    let first = topology.nodes[0].cpus.first().expect("a CPU");
    topology.cpus.iter_mut().filter(|cpu| cpu.id == first).for_each(|cpu| cpu.allowed = false);
    let record = run_with(&topology, &Scripted::new(|_| prints("Copy: 1 MB/s")), &options(), &|| false);
    let record = record.expect("a record");
    assert_eq!(record.cells.len(), 12);
    let warnings: Vec<&str> = record
        .provenance
        .warnings
        .iter()
        .filter(|warning| warning.rule == "left-out")
        .map(|warning| warning.message.as_str())
        .collect();
    assert_eq!(
        warnings,
        [
            format!("CPUs {first} of node 0 are left out: this process may not use them").as_str(),
            "memory of node 3 is left out: this process may not use it"
        ]
    );
}

/// Memory-only nodes are columns, and nodes without memory are rows.
#[test]
fn simulated_machines_are_swept_by_their_own_rates() {
    for shape in ["dl585", "sparse"] {
        let spec = shapes::named(shape).expect(shape);
        let (cpus, memories) = (spec.cpu_nodes().count(), spec.memory_nodes().count());
        let program = SimulatedProgram { name: "stream".to_owned(), efficiency: 0.9 };
        let machine = Simulated::new(spec).expect(shape).with_program(program);
        let topology = discover(&machine.tree());
        let record = run_with(&topology, &machine, &options(), &|| false).expect("a record");
        assert_eq!(record.cells.len(), cpus * memories, "{shape}");
        for cell in &record.cells {
            let truth = machine
                .program_truth(&ProgramWorkload {
                    command: vec!["stream".to_owned()],
                    placement: cell.placement.clone(),
                    memory: cell.memory_node,
                    time_limit_ms: 60_000,
                })
                .expect("a rate");
            let found = cell.figure.median().expect("a figure");
            assert!((found / truth - 1.0).abs() < 0.03, "{shape}: {found}, expected {truth}");
        }
    }
}
