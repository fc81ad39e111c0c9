use super::*;
use numaio_machine::ids::NodeId;
use numaio_machine::set::{CpuSet, NodeSet};
use numaio_machine::workload::{MemoryBinding, MemoryPolicy};
use std::time::{Duration, Instant};

fn shell(line: &str) -> Program {
    Program {
        name: "sh".into(),
        args: vec!["-c".into(), line.into()],
        env: vec![("TASK".into(), "7".into())],
    }
}

fn our_cpus() -> CpuSet {
    let status = std::fs::read_to_string("/proc/self/status").expect("our status");
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("our CPUs");
    CpuSet::parse_list(list.trim()).expect("a list")
}

fn on_node_0(policy: MemoryPolicy) -> MemoryBinding {
    MemoryBinding { policy, nodes: NodeSet::one(NodeId(0)) }
}

fn finish(group: &mut ProgramGroup) -> Vec<ProgramExit> {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !group.running().is_empty() && Instant::now() < deadline {
        group.wait(Some(Duration::from_millis(100))).expect("waited");
    }
    group.exits().into_iter().flatten().collect()
}

#[test]
fn programs_start_with_their_binding_and_report_their_exit() {
    let last = our_cpus().iter().next_back().expect("a CPU");
    let place =
        ProgramBinding::probe(&CpuSet::one(last), &on_node_0(MemoryPolicy::Bind), true).expect("a place");
    let mut group = ProgramGroup::new().expect("a group");
    let check =
        format!("grep -q 'Cpus_allowed_list:\t{last}$' /proc/self/status && test $TASK = 7 && exit 5");
    for line in [check.as_str(), "kill -TERM $$"] {
        group.start(&shell(line), &place).expect("started");
    }
    assert_eq!(finish(&mut group), [ProgramExit::Status(5), ProgramExit::Signal(libc::SIGTERM)]);
}

#[test]
fn forwards_signals_to_the_programs() {
    let place =
        ProgramBinding::probe(&our_cpus(), &on_node_0(MemoryPolicy::Preferred), false).expect("a place");
    let mut group = ProgramGroup::new().expect("a group");
    group.start(&shell("trap 'exit 9' USR1; while :; do sleep 0.05; done"), &place).expect("started");
    std::thread::sleep(Duration::from_millis(300));
    // SAFETY: no memory is involved; the signal is blocked in this thread and read by the group.
    unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGUSR1) };
    assert_eq!(finish(&mut group), [ProgramExit::Status(9)]);
}

#[test]
fn missing_and_non_executable_programs_have_different_errors() {
    let place =
        ProgramBinding::probe(&our_cpus(), &on_node_0(MemoryPolicy::Preferred), false).expect("a place");
    let mut group = ProgramGroup::new().expect("a group");
    let absent = Program { name: "/no/such/program".into(), args: Vec::new(), env: Vec::new() };
    assert_eq!(group.start(&absent, &place).map_err(|error| error.kind()), Err(io::ErrorKind::NotFound));
    let folder = Program { name: "/".into(), ..absent };
    assert_eq!(
        group.start(&folder, &place).map_err(|error| error.kind()),
        Err(io::ErrorKind::PermissionDenied)
    );
    assert!(group.running().is_empty());
}

#[test]
fn rejects_missing_cpus_and_nodes() {
    let nowhere = CpuSet::one(numaio_machine::ids::CpuId(8000));
    assert!(matches!(
        ProgramBinding::probe(&nowhere, &on_node_0(MemoryPolicy::Bind), true),
        Err(BindingError::Cpus { .. })
    ));
    let absent = MemoryBinding { policy: MemoryPolicy::Bind, nodes: NodeSet::one(NodeId(900)) };
    assert!(matches!(ProgramBinding::probe(&our_cpus(), &absent, false), Err(BindingError::Memory { .. })));
}
