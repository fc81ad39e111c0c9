//! Behavior in sandboxes: rejected system calls are reported or replaced, never ignored. Each test
//! runs on a thread with its own seccomp filter (`Documentation/userspace-api/seccomp_filter.rst`),
//! which its child threads inherit.

use crate::seccomp::refused;
use numaio_linux::Kernel;
use numaio_machine::ids::NodeId;
use numaio_machine::probe::{ProbeError, ProbeExt, Residency};
use numaio_machine::set::{CpuSet, NodeSet};
use numaio_machine::sysfs::SysfsExt;
use numaio_machine::workload::{
    CopyLoop, CopyWorkload, Flow, LatencyWorkload, Pages, Placement, Sampling, StreamLoop, StreamOp,
    StreamWorkload,
};
use std::io;

fn copy(kernel: &Kernel) -> (NodeSet, CopyWorkload) {
    let status = kernel.text("/proc/self/status").expect("a status");
    let list = |field| status.lines().find_map(|line| line.strip_prefix(field)).unwrap_or("0").to_owned();
    let nodes = NodeSet::parse_list(&list("Mems_allowed_list:")).expect("a list");
    let online = kernel.optional("/sys/devices/system/node/online").unwrap_or("0".to_owned());
    let node = nodes.first().unwrap_or(NodeId(0));
    let workload = CopyWorkload {
        flow: Flow { source: node, sink: node },
        placement: Placement { cpus: CpuSet::parse_list(&list("Cpus_allowed_list:")).expect("a list") },
        copy_loop: CopyLoop::Memcpy,
        bytes_per_thread: 1 << 20,
        pages: Pages::Base,
        sampling: Sampling::Repetitions { count: 3 },
    };
    (NodeSet::parse_list(&online).expect("a list"), workload)
}

/// Returns a STREAM workload on the CPUs and source of a copy.
fn stream(copy: &CopyWorkload) -> StreamWorkload {
    StreamWorkload {
        op: StreamOp::Triad,
        stream_loop: StreamLoop::Ordinary,
        memory: copy.flow.source,
        placement: copy.placement.clone(),
        bytes_per_array: copy.bytes_per_thread,
        pages: copy.pages,
        sampling: copy.sampling,
    }
}

/// Returns a pointer chase on the first CPU and the source of a copy.
fn chase(copy: &CopyWorkload) -> LatencyWorkload {
    LatencyWorkload {
        cpu: copy.placement.cpus.first().expect("a CPU"),
        memory: copy.flow.source,
        bytes: copy.bytes_per_thread,
        stride_bytes: 128,
        pages: copy.pages,
        milliseconds: 6,
        slices: 3,
        load: None,
    }
}

/// Runs a copy, STREAM and a chase; returns their sample counts and residencies.
fn run_all(kernel: &Kernel, copy: &CopyWorkload) -> [Result<(usize, Residency), ProbeError>; 3] {
    [
        kernel.copy(copy).map(|outcome| (outcome.samples.len(), outcome.residency)),
        kernel.stream(&stream(copy)).map(|outcome| (outcome.samples.len(), outcome.residency)),
        kernel.latency(&chase(copy)).map(|outcome| (outcome.samples.len(), outcome.residency)),
    ]
}

#[test]
fn without_mbind_only_single_node_machines_are_measured() {
    for errno in [libc::EPERM, libc::ENOSYS] {
        refused(&[libc::SYS_mbind], errno, |errno| {
            let kernel = Kernel::new().expect("a kernel");
            let (nodes, workload) = copy(&kernel);
            run_all(&kernel, &workload).into_iter().for_each(|result| match result {
                Ok((samples, _)) => assert!(nodes.len() == 1 && samples == 3),
                Err(ProbeError::Refused { call: what, reason: why }) => {
                    assert!(nodes.len() > 1 && what.contains("mbind"), "{what}: {why}");
                    assert!(why.contains(&io::Error::from_raw_os_error(errno).to_string()), "{why}");
                }
                Err(error) => unreachable!("{error}"),
            });
        });
    }
}

#[test]
fn without_move_pages_residency_is_unknown() {
    refused(&[libc::SYS_move_pages], libc::EPERM, |_| {
        let kernel = Kernel::new().expect("a kernel");
        for result in run_all(&kernel, &copy(&kernel).1) {
            let (samples, residency) = result.expect("a result");
            assert_eq!(residency.pages_checked, None);
            assert_eq!(samples, 3);
        }
    });
}

#[test]
fn unpinnable_thread_fails_the_run() {
    refused(&[libc::SYS_sched_setaffinity], libc::EPERM, |_| {
        let kernel = Kernel::new().expect("a kernel");
        for result in run_all(&kernel, &copy(&kernel).1) {
            let error = result.expect_err("not pinned");
            assert!(
                matches!(&error, ProbeError::Refused { call: what, .. } if what.contains("pin a thread")),
                "{error}"
            );
        }
    });
}

#[test]
fn without_openat2_paths_are_walked() {
    for errno in [libc::EPERM, libc::ENOSYS] {
        refused(&[libc::SYS_openat2], errno, |_| {
            let kernel = Kernel::new().expect("a kernel");
            assert!(kernel.text("/proc/self/status").expect("through a link").contains("Pid:"));
            assert!(!kernel.names("/sys/devices/system/cpu/../cpu").is_empty());
        });
    }
}

/// Kernels before 5.14 cannot populate pages by madvise, so each page is touched.
#[test]
fn without_populate_every_page_is_touched() {
    refused(&[libc::SYS_madvise], libc::EINVAL, |_| {
        let kernel = Kernel::new().expect("a kernel");
        let copy = copy(&kernel).1;
        for bytes_per_thread in [1, 4096, (1 << 20) + 4000] {
            let workload = CopyWorkload { bytes_per_thread, ..copy.clone() };
            // A chain needs 128 bytes, and STREAM a double.
            let runs = if bytes_per_thread < 128 { 1 } else { 3 };
            for result in run_all(&kernel, &workload).into_iter().take(runs) {
                let (_, residency) = result.expect("a result");
                assert_eq!(residency.pages_misplaced, 0, "{bytes_per_thread} bytes");
            }
        }
    });
}

#[test]
fn without_io_uring_linux_aio_is_used() {
    const FORBIDDEN: [&[libc::c_long]; 2] = [&[libc::SYS_io_uring_setup], &[libc::SYS_io_uring_register]];
    for forbidden in FORBIDDEN {
        refused(forbidden, libc::EPERM, |errno| {
            let (method, why) = numaio_linux::io::best_method();
            assert_eq!(method, numaio_machine::workload::DiskMethod::Aio);
            let why = why.expect("a reason");
            assert!(why.contains(&io::Error::from_raw_os_error(errno).to_string()), "{why}");
        });
    }
}
