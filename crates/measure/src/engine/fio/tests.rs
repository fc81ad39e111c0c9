//! Captures of fio 3.33 (Debian 12) with changed file names, and arbitrary text.

use super::*;
use numaio_machine::ids::{CpuId, NodeId};
use numaio_machine::probe::ToolOutcome;
use numaio_machine::set::CpuSet;
use numaio_machine::workload::ToolProcess;
use output::{parse, OutputError};
use proptest::prelude::*;

const READ: &str = include_str!("../../../tests/fio/read-3.33.json");
const WRITE_2_JOBS: &str = include_str!("../../../tests/fio/write-2-jobs-3.33.json");
const EIO: &str = include_str!("../../../tests/fio/eio-3.33.txt");
const ABSENT: &str = include_str!("../../../tests/fio/absent-3.33.json");

fn fio(method: DiskMethod) -> Fio {
    let path = DiskPath {
        path: "/mnt/a:b".into(),
        offset: 4096,
        bytes: 10 << 20,
        method,
        direct: true,
        order: DiskOrder::Sequential,
    };
    Fio { path, registered: true }
}

fn output(ended: ToolExit, stdout: &str, stderr: &str) -> Outcome {
    let output = ToolOutput { exit: ended, stdout: stdout.into(), stderr: stderr.into(), cpu_ns: 1 };
    Outcome::Tool(ToolOutcome { processes: vec![output], elapsed_ns: 7, peer_processes: Vec::new() })
}

fn group(streams: u32, direction: Direction) -> StreamGroup {
    StreamGroup { cpus: CpuSet::one(CpuId(3)), memory: NodeId(1), streams, direction, device: 0 }
}

fn request(groups: &[StreamGroup]) -> CellRequest<'_> {
    CellRequest {
        groups,
        block_bytes: 131_072,
        operation: None,
        depth: 16,
        window_ms: 500,
        slices: 5,
        most_bytes: None,
    }
}

#[test]
fn parses_captured_measurement() {
    let run = parse(READ).expect("a run");
    assert_eq!(run.bytes, 155_058_176);
    // fio's own bw_bytes, rounded down.
    assert_eq!(run.bytes_per_s.floor(), 515_143_441.0);
    // 8.666667 % of 301 ms.
    assert_eq!(run.cpu_ns, 26_086_667);
}

#[test]
fn jobs_are_summed_and_groups_kept_separate() {
    let Outcome::Tool(mut outcome) = output(ToolExit::Status(0), WRITE_2_JOBS, "") else { return };
    outcome.processes.extend(outcome.processes.clone());
    let figures = fio(DiskMethod::Uring).read(&Outcome::Tool(outcome)).expect("figures");
    let jobs: Vec<u64> = WRITE_2_JOBS
        .lines()
        .filter_map(|line| line.trim().strip_prefix("\"bw_bytes\" : ")?.trim_end_matches(',').parse().ok())
        .filter(|bw| *bw > 0)
        .collect();
    assert_eq!(jobs.len(), 2);
    let sum: u64 = jobs.iter().sum();
    let [one, other] = figures.groups.as_slice() else { panic!("{figures:?}") };
    assert_eq!(one, other);
    assert!((one[0] - sum as f64).abs() <= 2.0, "{one:?} and {sum}");
    assert_eq!(figures.bytes_per_s(), [one[0] + other[0]]);
}

#[test]
fn failed_job_is_named_with_its_error() {
    let error = parse(EIO).expect_err("a job failed");
    assert_eq!(error, OutputError::Job { job: "numaio 1".into(), error: 5 });
    let error =
        fio(DiskMethod::Uring).read(&output(ToolExit::Status(1), EIO, "fio: io_u error on file /dev/loop0"));
    let text = error.expect_err("a job failed").to_string();
    // C libraries differ in their texts.
    let eio = std::io::Error::from_raw_os_error(5).to_string();
    for part in ["fio: job numaio 1 failed with error 5", &eio, "io_u error on file"] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
}

#[test]
fn fio_messages_become_the_error() {
    let of = |ended, stdout, stderr| {
        fio(DiskMethod::Uring).read(&output(ended, stdout, stderr)).expect_err("no figure").to_string()
    };
    let refused = "fio: file creation disallowed by allow_file_create=0\n";
    assert_eq!(of(ToolExit::Status(1), ABSENT, refused), format!("fio: {}", refused.trim()));
    assert_eq!(of(ToolExit::Status(1), "fio: bad option\n", ""), "fio: fio: bad option");
    assert_eq!(of(ToolExit::Status(0), "", ""), "fio: no JSON output");
    assert_eq!(of(ToolExit::Status(0), ABSENT, ""), "fio: no data moved");
    assert_eq!(of(ToolExit::Signal(9), READ, ""), "fio: terminated by signal 9");
    assert_eq!(of(ToolExit::TimeLimit, &READ[..2000], ""), "fio: time limit exceeded");
    assert!(of(ToolExit::Status(0), &READ[..2000], "").contains("invalid JSON output: EOF"));
    let old = READ.replace("fio-3.33", "fio-2.21");
    assert!(of(ToolExit::Status(0), &old, "").contains("fio-2.21 is too old"));
}

#[test]
fn tolerates_other_versions_and_surrounding_text() {
    let run = parse(READ);
    let newer = READ.replace("\"groupid\" : 0,", "\"groupid\" : 0, \"job_start\" : 17, \"new\" : [{}],");
    let without = READ.replace("\"bw_bytes\"", "\"other\"").replace("fio-3.33", "fio-3.1-5-gabc");
    for text in [&newer, &without, &format!("fio: a warning {{\nnote\n{READ}\nfio: a last word\n")] {
        assert_eq!(parse(text), run);
    }
}

#[test]
fn each_group_is_a_bound_process_with_its_own_area() {
    let groups = [group(2, Direction::Write), group(3, Direction::Read)];
    let Ok(Workload::Tool(tool)) = fio(DiskMethod::Uring).workload(&request(&groups)) else {
        panic!("a tool")
    };
    assert_eq!((tool.program.as_str(), tool.processes.len()), ("fio", 2));
    assert!(tool
        .processes
        .iter()
        .all(|process| process.memory == Some(NodeId(1)) && process.cpus.len() == 1));
    let has = |index: usize, wanted: &[&str]| {
        let args = &tool.processes[index].args;
        wanted.iter().for_each(|arg| assert!(args.iter().any(|one| one == arg), "{arg} is not in {args:?}"));
    };
    // Five jobs of two MiB each.
    has(0, &["--rw=write", "--numjobs=2", "--offset=4096", "--offset_increment=2097152", "--size=2097152"]);
    has(
        1,
        &[
            "--rw=read",
            "--numjobs=3",
            "--offset=4198400",
            "--ioengine=io_uring",
            "--iodepth=16",
            "--fixedbufs",
        ],
    );
    has(1, &["--filename=/mnt/a\\:b", "--direct=1", "--runtime=1000ms", "--ramp_time=100ms"]);
    let Ok(Workload::Tool(tool)) = fio(DiskMethod::Threads).workload(&request(&groups)) else {
        panic!("a tool")
    };
    assert!(tool.processes[0].args.contains(&"--numjobs=32".to_owned()), "{:?}", tool.processes[0].args);
    let many = [group(1000, Direction::Read)];
    assert!(fio(DiskMethod::Uring).workload(&request(&many)).is_err(), "less than a block for each");
}

#[test]
fn skewed_processes_do_not_count() {
    let Outcome::Tool(mut outcome) = output(ToolExit::Status(0), READ, "") else { return };
    let mut ended_early_at = |end_skew_ms: u64| {
        let (at, later) = ("1795260698627", (1_795_260_698_627 + end_skew_ms).to_string());
        let other = ToolOutput { stdout: READ.replace(at, &later), ..outcome.processes[0].clone() };
        outcome.processes.truncate(1);
        outcome.processes.push(other);
        let figures = fio(DiskMethod::Uring).read(&Outcome::Tool(outcome.clone())).expect("figures");
        assert_eq!(figures.start_skew_ns, end_skew_ms * 1_000_000);
        figures.ended_early
    };
    assert_eq!(ended_early_at(30), None);
    assert_eq!(ended_early_at(31).expect("a cut"), "fio processes measured 301 ms each, 31 ms apart");
}

#[test]
fn engine_is_reconstructed_from_its_arguments() {
    let engine = fio(DiskMethod::Uring);
    let groups = [group(1, Direction::Read), group(2, Direction::Read)];
    let Ok(Workload::Tool(tool)) = engine.workload(&request(&groups)) else { panic!("a tool") };
    let nameless = DiskPath { path: String::new(), ..engine.path.clone() };
    let window = Sampling::Window { milliseconds: 500, slices: 5 };
    assert_eq!(Fio::of_run(&tool, nameless.clone()), Some((engine, window)));
    let process = ToolProcess { args: vec!["--version".to_owned()], ..tool.processes[0].clone() };
    assert_eq!(Fio::of_run(&ToolWorkload { processes: vec![process], ..tool }, nameless), None);
}

proptest! {
    #[test]
    fn no_text_is_too_much(text in ".{0,400}", at in 0usize..7000, byte in any::<u8>()) {
        let _ = parse(&text);
        let mut bytes = WRITE_2_JOBS.as_bytes().to_vec();
        let at = at % bytes.len();
        let _ = parse(&String::from_utf8_lossy(&bytes[..at]));
        bytes[at] = byte;
        let _ = parse(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn no_number_is_too_large(bytes in any::<u64>(), runtime in any::<u64>(), busy in any::<f64>()) {
        let busy = if busy.is_finite() { busy } else { 1e308 };
        let side = format!("{{\"io_bytes\":{bytes},\"runtime\":{runtime}}}");
        let job = format!("{{\"read\":{side},\"write\":{side},\"usr_cpu\":{busy:e},\"sys_cpu\":{busy:e}}}");
        if let Ok(run) = parse(&format!("{{\"jobs\":[{job},{job}]}}")) {
            prop_assert!(run.bytes > 0 && run.bytes_per_s.is_finite());
        }
    }
}
