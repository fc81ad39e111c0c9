//! Captures produced by the unchanged json_output.cpp of nvbandwidth 0.8 from the figures in its
//! README; no GPU was available.

use super::output::{parse, OutputError};
use super::*;
use numaio_machine::ids::{CpuId, NodeId};
use numaio_machine::probe::ToolOutcome;
use proptest::prelude::*;

const CAPTURE: &str = include_str!("../../../tests/nvbandwidth/readme-0.8.json");
const FAILED: &str = include_str!("../../../tests/nvbandwidth/failed-0.8.json");

fn output(stdout: &str, stderr: &str, ended: ToolExit) -> Outcome {
    let output = ToolOutput { exit: ended, stdout: stdout.to_owned(), stderr: stderr.to_owned(), cpu_ns: 5 };
    Outcome::Tool(ToolOutcome {
        processes: vec![output],
        elapsed_ns: 2_000_000_000,
        peer_processes: Vec::new(),
    })
}

fn group(direction: Direction, streams: u32) -> StreamGroup {
    StreamGroup { cpus: CpuSet::one(CpuId(3)), memory: NodeId(1), streams, direction, device: 0 }
}

fn request(groups: &[StreamGroup], block_bytes: u64) -> CellRequest<'_> {
    CellRequest {
        groups,
        block_bytes,
        operation: None,
        depth: 2,
        window_ms: 500,
        slices: 5,
        most_bytes: None,
    }
}

const ENGINE: Nvbandwidth = Nvbandwidth { device: 2 };

#[test]
fn reads_both_directions_of_the_requested_gpu() {
    let figures = ENGINE.read(&output(CAPTURE, "", ToolExit::Status(0))).expect("a figure");
    assert_eq!(figures.groups, [[25.97e9], [19.37e9]]);
    assert_eq!((figures.bytes, figures.cpu_ns, figures.bytes_of_all), (0, None, 51_940_000_000));
    assert_eq!(figures.notes.len(), 2);
    let noisy = format!("WARNING: a library {{speaks}}\n{CAPTURE}\nNOTE: {{}}\n");
    assert_eq!(
        ENGINE.read(&output(&noisy, "", ToolExit::Status(0))).expect("a figure").groups,
        figures.groups
    );
}

#[test]
fn gpus_are_listed_with_addresses() {
    let gpus = parse(CAPTURE).expect("a run").gpus();
    assert_eq!(gpus.len(), 8);
    let pci = "0000:29:00.0".parse().ok();
    assert_eq!(gpus[1], ListedGpu { index: 1, name: "NVIDIA H100 80GB HBM3".into(), pci });
    let old = r#"{"nvbandwidth": {"GPU Device list": ["0: Tesla (rev a)", "x: y", ""], "testcases": []}}"#;
    let gpus = parse(old).expect("a run").gpus();
    assert_eq!(gpus, [ListedGpu { index: 0, name: "Tesla".into(), pci: None }]);
}

#[test]
fn failures_are_reported() {
    let why = |stdout: &str, stderr: &str, ended| {
        ENGINE.read(&output(stdout, stderr, ended)).expect_err("no figure").to_string()
    };
    assert_eq!(why(FAILED, "", ToolExit::Status(0)), "nvbandwidth: host_to_device_memcpy_ce: Waived");
    let context = r#"{"nvbandwidth": {"error": "[CUDA_ERROR_NO_DEVICE] no device\n in cuInit(0)"}}"#;
    assert_eq!(
        why(context, "", ToolExit::Status(1)),
        "nvbandwidth: [CUDA_ERROR_NO_DEVICE] no device  in cuInit(0)"
    );
    assert_eq!(why("", "\n oops \n", ToolExit::Status(127)), "nvbandwidth: oops");
    assert!(why("", "", ToolExit::Status(1)).contains("try without --json"));
    assert_eq!(why(CAPTURE, "late", ToolExit::Status(3)), "nvbandwidth: late");
    assert_eq!(why(CAPTURE, "", ToolExit::Signal(9)), "nvbandwidth: terminated by signal 9");
    assert_eq!(why("", "", ToolExit::TimeLimit), "nvbandwidth: time limit exceeded");
    let other = Nvbandwidth { device: 8 }.read(&output(CAPTURE, "", ToolExit::Status(0)));
    assert!(other.expect_err("eight GPUs").to_string().ends_with("no result for GPU 8"));
    // A test that fails after its start is listed twice.
    let twice = FAILED.replacen("Waived", "Passed", 1);
    let error = parse(&twice).expect_err("failed");
    assert_eq!(
        error,
        OutputError::NotPassed { test: "device_to_host_memcpy_ce".into(), status: "Error".into() }
    );
}

#[test]
fn implausible_figures_are_rejected() {
    for value in ["N/A", "0", "-1", "nan", "inf", "1e99", ""] {
        let text = CAPTURE.replace("\"25.97\"", &format!("{value:?}"));
        let error = ENGINE.read(&output(&text, "", ToolExit::Status(0))).expect_err(value);
        assert!(error.to_string().contains("no result for GPU 2"), "{error}");
    }
}

#[test]
fn process_is_bound_to_the_group_without_own_affinity() {
    let groups = [group(Direction::Read, 1)];
    let Ok(Workload::Tool(tool)) = ENGINE.workload(&request(&groups, 64 << 20)) else { panic!("a tool") };
    let [process] = &tool.processes[..] else { panic!("one process") };
    assert_eq!((&process.cpus, process.memory), (&CpuSet::one(CpuId(3)), Some(NodeId(1))));
    let line = process.args.join(" ");
    assert_eq!(
        line,
        "--json --disableAffinity --skipVerification --bufferSize 64 --testSamples 5 --testcase device_to_host_memcpy_ce"
    );
}

#[test]
fn rejects_unsupported_requests() {
    let (write, read) = (group(Direction::Write, 1), group(Direction::Read, 1));
    let elsewhere = StreamGroup { memory: NodeId(0), ..read.clone() };
    let both = [write.clone(), read.clone()];
    let Ok(Workload::Tool(tool)) = ENGINE.workload(&request(&both, 1 << 20)) else { panic!("both at once") };
    assert!(tool.processes[0].args.ends_with(&[
        "host_to_device_bidirectional_memcpy_ce".to_owned(),
        "device_to_host_bidirectional_memcpy_ce".to_owned()
    ]));
    let refused = |groups: &[StreamGroup], bytes| ENGINE.workload(&request(groups, bytes)).is_err();
    assert!(refused(std::slice::from_ref(&write), 1000) && refused(&[group(Direction::Write, 2)], 1 << 20));
    assert!(refused(&[], 1 << 20) && refused(&[read.clone(), write.clone()], 1 << 20));
    assert!(refused(&[write.clone(), elsewhere], 1 << 20) && refused(&[write, read.clone(), read], 1 << 20));
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in ".{0,200}", cut in 0usize..4000, at in 0usize..4000, put in ".{0,3}") {
        let at_char = |at: usize| CAPTURE.char_indices().map(|(index, _)| index).nth(at).unwrap_or(CAPTURE.len());
        let changed = format!("{}{put}{}", &CAPTURE[..at_char(at)], &CAPTURE[at_char(at.saturating_add(1))..]);
        let truncated = &CAPTURE[..at_char(cut)];
        for text in [text.as_str(), &changed, truncated] {
            if let Ok(run) = parse(text) {
                for gpu in run.gpus() {
                    let _ = run.bytes_per_s(gpu.index);
                }
            }
        }
        // Only the final newline may be missing from a complete document.
        prop_assert!(parse(truncated).is_err() || truncated.trim_end() == CAPTURE.trim_end());
    }
}
