//! The simulated machine conforms to the probe interface, and fails as a real machine does.

use numaio_machine::conformance;
use numaio_machine::control::{Change, Control, ControlError};
use numaio_machine::ids::{CpuId, NodeId};
use numaio_machine::locate::LocateAnswers;
use numaio_machine::probe::{CopyOutcome, Probe, ProbeError, ProbeExt, ToolExit};
use numaio_machine::set::CpuSet;
use numaio_machine::sysfs::{Sysfs, SysfsExt};
use numaio_machine::tape::{Recording, Replay, Tape, TapeHeader, TAPE_SCHEMA};
use numaio_machine::workload::{CopyLoop, CopyWorkload, Flow, Pages, Placement, ProgramWorkload, Sampling};
use numaio_sim::spec::{Bimodal, Misplaced, OtherLoad};
use numaio_sim::{shapes, Simulated, SimulatedProgram, Spec};

fn copy(source: u32, sink: u32, cpus: &str) -> CopyWorkload {
    CopyWorkload {
        flow: Flow { source: NodeId(source), sink: NodeId(sink) },
        placement: Placement { cpus: CpuSet::parse_list(cpus).expect(cpus) },
        copy_loop: CopyLoop::Avx2,
        bytes_per_thread: 32 << 20,
        pages: Pages::Transparent,
        sampling: Sampling::Window { milliseconds: 100, slices: 10 },
    }
}

fn machine(change: impl FnOnce(&mut Spec)) -> Simulated {
    let mut spec = shapes::uniform(2, 4);
    change(&mut spec);
    Simulated::new(spec).expect("a machine")
}

fn run(machine: &impl Probe, copy: &CopyWorkload) -> CopyOutcome {
    machine.copy(copy).expect("it runs")
}

fn median(outcome: &CopyOutcome) -> f64 {
    let mut all: Vec<f64> = outcome.samples.iter().map(|sample| sample.bytes_copied_per_s()).collect();
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

fn close(a: f64, b: f64, within: f64) {
    assert!((a / b - 1.0).abs() <= within, "{a} is not {b}");
}

#[test]
fn simulated_machine_passes_the_conformance_checks() {
    for shape in shapes::NAMES {
        let spec = shapes::named(shape).expect(shape);
        let first = spec.nodes[0].clone();
        let last = spec.memory_nodes().last().expect("a memory").id;
        let machine = Simulated::new(spec).expect(shape);
        let flow = Flow { source: last, sink: first.id };
        let cpus = first.cpus.iter().take(2).collect();
        let copy = CopyWorkload {
            flow,
            copy_loop: CopyLoop::Memcpy,
            placement: Placement { cpus },
            ..copy(0, 0, "0")
        };
        conformance::probe(&machine, &copy);
    }
}

#[test]
fn noisy_machine_passes_the_conformance_checks() {
    let noisy = machine(|spec| {
        let noise = &mut spec.noise;
        (noise.seed, noise.sample, noise.run) = (7, 1.0, 1.0);
        (noise.glitch_probability, noise.glitch_factor, noise.drift_per_hour) = (0.5, 0.01, -1.0);
        noise.misplaced = vec![Misplaced { node: NodeId(1), found_on: NodeId(0), share: 1.0 }];
    });
    conformance::probe(&noisy, &copy(0, 1, "0-3"));
}

#[test]
fn changes_are_revertible_and_visible_in_files() {
    let machine = machine(|spec| spec.conditions.numa_balancing = Some(1));
    let off = Change::NumaBalancing { mode: 0 };
    conformance::control(&machine, &off).expect("it can be changed");
    let shown = || machine.text("/proc/sys/kernel/numa_balancing").expect("the setting");
    assert_eq!(shown(), "1");
    machine.apply(&off).expect("it can be changed");
    assert_eq!(shown(), "0");
    let refused = machine.apply(&Change::NumaBalancing { mode: 9 });
    assert!(matches!(refused, Err(ControlError::Refused { .. })));
    assert_eq!(shown(), "0", "a rejected change has no effect");
}

#[test]
fn interleave_weight_changes_are_visible() {
    let machine = machine(|_| {});
    let change = Change::InterleaveWeight { node: NodeId(1), weight: 9 };
    conformance::control(&machine, &change).expect("it can be changed");
    machine.apply(&change).expect("it can be changed");
    let now = numaio_machine::interleave::read(&machine).expect("a kernel of 6.12");
    assert_eq!((now.weights, now.automatic), ([(NodeId(0), 1), (NodeId(1), 9)].into(), None));
    for refused in [(7, 1), (0, 0), (0, 256)] {
        let change = Change::InterleaveWeight { node: NodeId(refused.0), weight: refused.1 };
        assert!(machine.apply(&change).is_err(), "{change}");
    }
    assert!(machine.apply(&Change::AutomaticInterleave { enabled: true }).is_err());
}

#[test]
fn kernel_without_balancing_rejects_changes() {
    let machine = machine(|spec| spec.conditions.numa_balancing = None);
    assert!(conformance::control(&machine, &Change::NumaBalancing { mode: 0 }).is_err());
    assert!(!machine.exists("/proc/sys/kernel/numa_balancing"));
}

/// Worked by hand from `shapes::uniform`: loads 24, stores 16, cores 6 remotely; 40 locally by a
/// controller of 100 for both together; a core copies 10.
#[test]
fn copy_rates_without_noise_follow_from_paths() {
    let machine = machine(|_| {});
    let of = |source, sink, cpus| median(&run(&machine, &copy(source, sink, cpus))) / 1e9;
    close(of(0, 0, "0"), 10.0, 1e-6);
    close(of(0, 0, "0-3"), 40.0, 1e-6);
    close(of(1, 0, "0"), 6.0, 1e-6); // one core, remotely
    close(of(1, 0, "0-3"), 24.0, 1e-6); // the path of loads
    close(of(0, 1, "0-3"), 16.0, 1e-6); // the path of stores
    close(of(1, 1, "0-3"), 16.0, 1e-6); // both remote: the smaller

    // An ordinary store first reads its line: 16 stored and 16 + 16 loaded, over a path of 24.
    let plain = CopyWorkload { copy_loop: CopyLoop::Memcpy, ..copy(1, 1, "0-3") };
    close(median(&run(&machine, &plain)) / 1e9, 12.0, 1e-6);
    close(machine.truth(&plain).expect("it runs") / 1e9, 12.0, 1e-12);
}

#[test]
fn repetitions_end_with_the_slowest_thread() {
    // CPUs 0 to 3 share 16 of stores to node 1, 4 each; CPU 4 on node 1 copies its core's 6 and
    // waits.
    let machine = machine(|_| {});
    let repeated = CopyWorkload { sampling: Sampling::Repetitions { count: 2 }, ..copy(0, 1, "0-4") };
    let outcome = run(&machine, &repeated);
    let bytes = (32u64 << 20) as f64;
    close(outcome.samples[0].ns as f64 / 1e9, bytes / 4e9, 1e-6);
}

#[test]
fn other_copies_take_their_share() {
    let busy = machine(|spec| {
        let flow = Flow { source: NodeId(1), sink: NodeId(0) };
        spec.conditions.other_load = vec![OtherLoad { flow, cpus: CpuSet::parse_list("1-3").expect("CPUs") }];
    });
    // CPU 0 copies its core's 6, CPU 1 shares its core with others and copies 3.
    close(median(&run(&busy, &copy(1, 0, "0"))) / 1e9, 6.0, 1e-6);
    close(median(&run(&busy, &copy(1, 0, "1"))) / 1e9, 3.0, 1e-6);
    let line = busy.text("/proc/stat").expect("a file").lines().next().expect("a line").to_owned();
    let user: u64 = line.split_whitespace().nth(1).expect("ticks").parse().expect("ticks");
    assert!(user >= 3 * 360_000, "{line}");
}

#[test]
fn runs_depend_only_on_the_seed() {
    let noisy = |seed| {
        let machine =
            machine(|spec| (spec.noise.seed, spec.noise.sample, spec.noise.run) = (seed, 0.02, 0.05));
        [run(&machine, &copy(0, 1, "0-3")), run(&machine, &copy(0, 1, "0-3"))]
    };
    assert_eq!(noisy(1), noisy(1));
    assert_ne!(noisy(1), noisy(2));
    assert_ne!(noisy(1)[0], noisy(1)[1], "repeated runs differ");
}

#[test]
fn noise_has_the_described_deviation() {
    let of = |change: fn(&mut Spec)| {
        let machine = machine(change);
        let one = copy(0, 1, "0-3");
        (0..400).map(|_| median(&run(&machine, &one)) / 16e9).collect::<Vec<f64>>()
    };
    let share = |all: &[f64], of: std::ops::Range<f64>| {
        all.iter().filter(|one| of.contains(one)).count() as f64 / all.len() as f64
    };
    let glitches = of(|spec| (spec.noise.glitch_probability, spec.noise.glitch_factor) = (0.1, 0.5));
    close(share(&glitches, 0.49..0.51), 0.1, 0.5);
    close(share(&glitches, 0.99..1.01), 0.9, 0.1);
    let bimodal = of(|spec| {
        let flow = Flow { source: NodeId(0), sink: NodeId(1) };
        spec.noise.bimodal = vec![Bimodal { flow, factor: 0.8, probability: 0.5 }];
    });
    close(share(&bimodal, 0.79..0.81), 0.5, 0.2);
    let drift = of(|spec| spec.noise.drift_per_hour = 0.1);
    assert!(drift.windows(2).all(|pair| pair[0] < pair[1]), "the drift continues");
}

#[test]
fn misplaced_pages_are_reported_and_slow() {
    let machine = machine(|spec| {
        spec.noise.misplaced = vec![Misplaced { node: NodeId(0), found_on: NodeId(1), share: 0.25 }];
    });
    let outcome = run(&machine, &copy(0, 0, "0-3"));
    let checked = outcome.residency.pages_checked.expect("pages were looked at");
    close(outcome.residency.pages_misplaced as f64, checked as f64 / 4.0, 1e-9);
    assert_eq!(outcome.residency.misplaced_on, Some(NodeId(1)));
    assert!(median(&outcome) < 39e9, "a quarter goes over slower paths");
}

#[test]
fn balancing_costs_bandwidth_while_it_is_on() {
    let machine = machine(|spec| {
        (spec.conditions.numa_balancing, spec.conditions.balancing_cost) = (Some(1), 0.2);
    });
    close(median(&run(&machine, &copy(0, 0, "0"))), 8e9, 1e-6);
    machine.apply(&Change::NumaBalancing { mode: 0 }).expect("it can be changed");
    close(median(&run(&machine, &copy(0, 0, "0"))), 10e9, 1e-6);
}

#[test]
fn rejects_workloads_as_a_kernel_does() {
    let machine = machine(|spec| {
        spec.offline_cpus = CpuSet::one(CpuId(3));
        spec.confinement.cpus = Some(CpuSet::parse_list("0-1,3").expect("CPUs"));
        spec.confinement.nodes = Some([NodeId(0)].into_iter().collect());
        spec.confinement.memory_limit_bytes = Some(1 << 30);
    });
    let refuses = |copy: CopyWorkload| machine.copy(&copy).expect_err("it cannot run");
    for cpus in ["2", "3", "0,2"] {
        assert!(matches!(refuses(copy(0, 0, cpus)), ProbeError::Refused { .. }), "{cpus}");
    }
    assert!(matches!(refuses(copy(0, 1, "0")), ProbeError::Refused { .. }));
    let avx512 = CopyWorkload { copy_loop: CopyLoop::Avx512, ..copy(0, 0, "0") };
    assert!(matches!(refuses(avx512), ProbeError::Unsupported { .. }));
    let huge = CopyWorkload { pages: Pages::Huge, ..copy(0, 0, "0") };
    assert!(matches!(refuses(huge), ProbeError::NoMemory { free_bytes: 0, .. }));
    let long = CopyWorkload { bytes_per_thread: 1 << 30, ..copy(0, 0, "0") };
    assert!(matches!(refuses(long), ProbeError::NoMemory { free_bytes: 1073741824, .. }));
    let endless = CopyWorkload { sampling: Sampling::Repetitions { count: u32::MAX }, ..copy(0, 0, "0") };
    assert!(matches!(refuses(endless), ProbeError::Refused { .. }));
    assert_eq!(run(&machine, &copy(0, 0, "0-1")).samples.len(), 10);
}

/// A campaign recorded from the simulated machine replays to the same results in the same order.
#[test]
fn recorded_simulation_replays() {
    let header = TapeHeader {
        tape: TAPE_SCHEMA.into(),
        numaio: "0".into(),
        name: "simulated".into(),
        note: String::new(),
        recorded_at: 0,
    };
    let recording = Recording::new(machine(|spec| spec.noise.sample = 0.1), header);
    let runs = [copy(0, 0, "0"), copy(0, 1, "0-1"), copy(0, 0, "0")];
    let gave = runs.clone().map(|copy| run(&recording, &copy));
    let failed = recording.copy(&copy(0, 0, "99"));
    let cpus = recording.list("/sys/devices/system/cpu").expect("a directory");
    let status = recording.text("/proc/self/status").expect("a file");
    let replay = Replay::new(Tape::parse(&recording.tape().to_text()).expect("a tape"));
    assert_eq!(runs.map(|copy| run(&replay, &copy)), gave);
    assert_eq!(replay.copy(&copy(0, 0, "99")), failed);
    assert_eq!(replay.list("/sys/devices/system/cpu").expect("a directory"), cpus);
    assert_eq!(replay.text("/proc/self/status").expect("a file"), status);
}

#[test]
fn answers_questions_from_its_table() {
    let mut answers = LocateAnswers::default();
    conformance::fill_answers(|question, answer| answers.add(question, answer));
    conformance::locate(&machine(|_| ()).with_answers(answers));
}

#[test]
fn simulated_programs_print_the_bandwidth_of_stream() {
    let program = |name: &str, efficiency| SimulatedProgram { name: name.to_owned(), efficiency };
    let machine = machine(|_| {}).with_program(program("stream", 1.0)).with_program(program("slow", 0.5));
    let workload = |name: &str, memory| ProgramWorkload {
        command: vec![name.to_owned()],
        placement: Placement { cpus: CpuSet::parse_list("0-3").expect("CPUs") },
        memory: NodeId(memory),
        time_limit_ms: 60_000,
    };
    conformance::program(&machine, &workload("stream", 1));
    let [fast, slow] =
        ["stream", "slow"].map(|name| machine.program_truth(&workload(name, 0)).expect("a rate"));
    close(slow, fast / 2.0, 1e-9);
    assert!(fast > machine.program_truth(&workload("stream", 1)).expect("a rate"), "remote memory is slower");
    let outcome = machine.program(&workload("slow", 0)).expect("it runs");
    assert!(outcome.output.stdout.starts_with("Copy: "), "{outcome:?}");
    let brief = ProgramWorkload { time_limit_ms: 1, ..workload("slow", 0) };
    let outcome = machine.program(&brief).expect("it runs");
    assert_eq!((outcome.output.exit, outcome.elapsed_ns), (ToolExit::TimeLimit, 1_000_000));
}
