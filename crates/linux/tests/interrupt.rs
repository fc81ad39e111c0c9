//! Interruption of running workloads by a signal. A process of its own, since the flag is
//! process-wide.

use numaio_linux::{interrupt, Kernel};
use numaio_machine::ids::NodeId;
use numaio_machine::probe::{ProbeError, ProbeExt};
use numaio_machine::set::CpuSet;
use numaio_machine::sysfs::SysfsExt;
use numaio_machine::workload::{
    CopyLoop, CopyWorkload, Flow, LatencyWorkload, LoadWorkload, Pages, Placement, Sampling,
};
use std::process::Command;
use std::time::Duration;

#[test]
fn signal_ends_long_copy_and_chase() {
    interrupt::install().expect("handlers");
    assert!(!interrupt::interrupted());
    let kernel = Kernel::new().expect("a kernel");
    let status = kernel.text("/proc/self/status").expect("a status");
    let list = |field| {
        let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap_or("0");
        line.trim().to_owned()
    };
    let node = list("Mems_allowed_list:").split([',', '-']).next().and_then(|id| id.parse().ok());
    let node = NodeId(node.expect("a node"));
    let copy = CopyWorkload {
        flow: Flow { source: node, sink: node },
        placement: Placement { cpus: CpuSet::parse_list(&list("Cpus_allowed_list:")).expect("a list") },
        copy_loop: CopyLoop::Memcpy,
        bytes_per_thread: 1 << 20,
        pages: Pages::Base,
        sampling: Sampling::Window { milliseconds: 3_600_000, slices: 100 },
    };
    let cpu = copy.placement.cpus.first().expect("a CPU");
    let cpus: CpuSet = copy.placement.cpus.iter().filter(|other| *other != cpu).collect();
    let load = LoadWorkload {
        placement: Placement { cpus },
        memory: node,
        bytes_per_thread: 1 << 20,
        gap_ns: u32::MAX,
    };
    let chase = LatencyWorkload {
        cpu,
        memory: node,
        bytes: 1 << 20,
        stride_bytes: 64,
        pages: Pages::Base,
        milliseconds: 3_600_000,
        slices: 1,
        load: (!load.placement.cpus.is_empty()).then_some(load),
    };
    let chasing = std::thread::spawn(move || Kernel::new().expect("a kernel").latency(&chase));
    let killer = std::thread::spawn(|| {
        std::thread::sleep(Duration::from_millis(300));
        let own = std::process::id().to_string();
        Command::new("kill").args(["-s", "TERM", &own]).status()
    });
    let result = kernel.copy(&copy);
    assert!(killer.join().expect("no panic").expect("kill").success());
    assert_eq!(result, Err(ProbeError::Interrupted));
    assert_eq!(chasing.join().expect("no panic"), Err(ProbeError::Interrupted));
    assert!(interrupt::interrupted());
    // Every later run ends as well, including repetitions.
    let sampling = Sampling::Repetitions { count: 10_000 };
    let again = kernel.copy(&CopyWorkload { sampling, bytes_per_thread: 4 << 20, ..copy });
    assert_eq!(again, Err(ProbeError::Interrupted));
    assert!(!interrupt::defer(interrupt::interrupted) && interrupt::interrupted());
}
