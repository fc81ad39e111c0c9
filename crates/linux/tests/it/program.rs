//! Programs on the test machine, bound to its CPUs and a node.

use crate::allowed::{cpus, node};
use numaio_linux::Kernel;
use numaio_machine::conformance;
use numaio_machine::ids::NodeId;
use numaio_machine::probe::{ProbeError, ProbeExt, ProgramOutcome, ToolExit};
use numaio_machine::set::CpuSet;
use numaio_machine::workload::{Placement, ProgramWorkload};
use std::fs;
use std::time::{Duration, Instant};

fn shell(line: &str) -> ProgramWorkload {
    ProgramWorkload {
        command: ["sh", "-c", line].map(str::to_owned).to_vec(),
        placement: Placement { cpus: CpuSet::one(cpus().first().expect("a CPU")) },
        memory: node(),
        time_limit_ms: 60_000,
    }
}

fn run(workload: &ProgramWorkload) -> Result<ProgramOutcome, ProbeError> {
    Kernel::new().expect("a kernel").program(workload)
}

#[test]
fn programs_pass_the_conformance_checks() {
    let machine = Kernel::new().expect("a kernel");
    conformance::program(&machine, &shell("echo x"));
}

#[test]
fn program_and_its_children_inherit_the_binding() {
    let line = "sh -c 'grep Cpus_allowed_list /proc/self/status; head -1 /proc/self/numa_maps'; true";
    let workload = shell(line);
    let output = run(&workload).expect("a shell").output.stdout;
    assert!(output.contains(&format!("Cpus_allowed_list:\t{}\n", workload.placement.cpus)), "{output}");
    // Kernels without NUMA lack the file.
    assert!(output.lines().count() < 2 || is_bound(&output, workload.memory), "{output}");
}

fn is_bound(numa_maps: &str, node: NodeId) -> bool {
    [format!(" bind:{node} "), format!(" bind=static:{node} ")]
        .iter()
        .any(|policy| numa_maps.contains(policy))
}

#[test]
fn pages_of_children_are_checked() {
    // A child grows to 8 MB, and waits while its pages are checked.
    let child = "x=$(head -c 8000000 /dev/zero | tr '\\0' x); sleep 3; : $x";
    let outcome = run(&shell(&format!("sh -c \"{child}\"; true").replace('$', "\\$"))).expect("a shell");
    if fs::metadata("/proc/self/numa_maps").is_err() {
        return;
    }
    let checked = outcome.residency.pages_checked.expect("checked");
    assert!(checked >= 8_000_000 / 4096, "{checked} pages");
    assert_eq!(outcome.residency.pages_misplaced, 0);
}

#[test]
fn time_limit_ends_the_program_with_its_children() {
    let limited = ProgramWorkload { time_limit_ms: 300, ..shell("sleep 1000 & echo $!; wait") };
    let outcome = run(&limited).expect("a shell");
    assert_eq!(outcome.output.exit, ToolExit::TimeLimit);
    assert!(outcome.elapsed_ns >= 300_000_000, "{}", outcome.elapsed_ns);
    let stat = format!("/proc/{}/stat", outcome.output.stdout.trim());
    let patience = Instant::now() + Duration::from_secs(60);
    let is_running = || fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "));
    while is_running() && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(!is_running(), "{stat}");
}

#[test]
fn daemon_that_keeps_the_output_open_does_not_block_the_run() {
    let outcome = run(&shell("setsid sleep 20 & echo done")).expect("a shell");
    assert_eq!((outcome.output.exit, outcome.output.stdout.as_str()), (ToolExit::Status(0), "done\n"));
    assert!(outcome.elapsed_ns < 15_000_000_000, "{}", outcome.elapsed_ns);
}
