//! Behavior in sandboxes: rejected system calls are reported or replaced, never ignored. Each test
//! runs on a thread with its own seccomp filter (`Documentation/userspace-api/seccomp_filter.rst`),
//! which its child threads inherit.

use crate::port_setup::{file, identity, outcomes, setting, Folder};
use numaio_linux::port::FilePort;
use numaio_linux::Kernel;
use numaio_machine::ids::NodeId;
use numaio_machine::probe::{ProbeError, ProbeExt, Residency};
use numaio_machine::set::{CpuSet, NodeSet};
use numaio_machine::sysfs::SysfsExt;
use numaio_machine::workload::{
    CopyLoop, CopyWorkload, Flow, LatencyWorkload, Pages, Placement, Sampling, StreamLoop, StreamOp,
    StreamWorkload,
};
use numaio_mover::port::{
    Digest, FaultKind, FilePath, FileWrite, Hash, OpenMode, Operation, Outcome, Port, ReadPiece, BLOCK,
};
use std::io;
use std::io::Write as _;

fn step(code: u32, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf, k }
}

/// Offset of the system call number in the filter's data (struct seccomp_data).
const NUMBER: u32 = 0;

/// Offset of the lower half of the third argument (little-endian).
const THIRD_ARGUMENT: u32 = 32;

/// Makes system calls fail with `errno` on this thread and its children.
fn refuse(calls: &[libc::c_long], errno: i32) -> io::Result<()> {
    let mut program = vec![step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, NUMBER, 0, 0)];
    for call in calls {
        program.push(step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, *call as u32, 0, 1));
        program.push(step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | errno as u32, 0, 0));
    }
    program.push(step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0));
    confine(program)
}

/// Makes opening with O_CREAT fail on this thread and its children.
fn refuse_to_make(errno: i32) -> io::Result<()> {
    confine(vec![
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, NUMBER, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, libc::SYS_openat as u32, 0, 3),
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, THIRD_ARGUMENT, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, libc::O_CREAT as u32, 0, 1),
        step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | errno as u32, 0, 0),
        step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0),
    ])
}

/// Installs a filter for this thread and its children.
fn confine(mut program: Vec<libc::sock_filter>) -> io::Result<()> {
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the program lives through both calls and its length is correct; the kernel verifies
    // it. It affects only this thread and its children.
    let result = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const filter)
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Runs `check` on a thread where `calls` fail; prints a message if no filter can be installed.
fn refused(calls: &'static [libc::c_long], errno: i32, check: fn(i32)) {
    confined(move || refuse(calls, errno), move || check(errno));
}

/// Runs `check` on a thread with a filter; prints a message if none can be installed.
fn confined(filter: impl FnOnce() -> io::Result<()> + Send + 'static, check: impl FnOnce() + Send + 'static) {
    let both = move || match filter() {
        Ok(()) => check(),
        Err(error) => report_skip(&format!("skipped: seccomp: {error}")),
    };
    std::thread::spawn(both).join().expect("no panic");
}

fn report_skip(why: &str) {
    // Bypasses the capture of the test harness, so that skips are visible and counted.
    let _ = writeln!(std::io::stderr(), "{why}");
}

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
                Err(ProbeError::Refused { what, why }) => {
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
                matches!(&error, ProbeError::Refused { what, .. } if what.contains("pin a thread")),
                "{error}"
            );
        }
    });
}

#[test]
fn unpinnable_cpus_are_detected_in_advance() {
    assert!(numaio_linux::port::can_pin(&CpuSet::parse_list("0-8191").expect("a list")).is_ok());
    let absent = numaio_linux::port::can_pin(&CpuSet::parse_list("8191").expect("a list"));
    assert_eq!(absent.map_err(|error| error.raw_os_error()), Err(Some(libc::EINVAL)));
    refused(&[libc::SYS_sched_setaffinity], libc::EPERM, |errno| {
        let result = numaio_linux::port::can_pin(&CpuSet::parse_list("0-8191").expect("a list"));
        assert_eq!(result.map_err(|error| error.raw_os_error()), Err(Some(errno)));
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

#[test]
fn without_io_uring_large_blocks_are_still_read() {
    const FORBIDDEN: [&[libc::c_long]; 2] = [&[libc::SYS_io_uring_setup], &[libc::SYS_io_uring_enter]];
    for forbidden in FORBIDDEN {
        refused(forbidden, libc::EPERM, |_| {
            assert!(!numaio_linux::port::has_io_uring());
            let folder = Folder::new("sandbox");
            let whole = std::fs::File::create(folder.0.join("file")).expect("a file");
            // Uncached files of this size are read directly.
            whole.set_len(64 << 20).expect("a large file");
            let setting = || setting(&folder.0, 4, 1, true);
            let (mut port, _other) = FilePort::pair(setting(), setting()).expect("ports");
            let identity = identity(&mut port);
            let piece = ReadPiece { at: file(), identity, offset: 32 << 20, length: BLOCK };
            let hash = |bytes: &[u8]| Digest([bytes.iter().fold(1, |all, byte| all | byte); 32]);
            port.submit(1, Operation::Read { pieces: vec![piece], hash, pack: None });
            let read = outcomes(&mut port, 1).remove(0);
            assert!(
                matches!(&read, Outcome::Read { results, .. } if results[..] == [Ok(Digest([1; 32]))]),
                "{read:?}"
            );
        });
    }
}

/// Simulates `fs.protected_regular`, which protects other users' files in /tmp (proc_sys_fs(5)).
#[test]
fn existing_file_is_written_in_place_without_o_creat() {
    let folder = Folder::new("protected");
    std::fs::write(folder.0.join("file"), "content").expect("a file");
    std::os::unix::fs::symlink("new", folder.0.join("link")).expect("a link");
    let begin = |name: &str, port: &mut FilePort| {
        let put = FileWrite::new(FilePath::new(0, name.as_bytes()), OpenMode::InPlace);
        let hash: Hash = |_| unreachable!("nothing is hashed");
        port.submit(1, Operation::Write { puts: vec![put], data: None, hash, packed: None });
        match outcomes(port, 1).remove(0) {
            Outcome::Results(mut done) => done.remove(0).map_err(|fault| fault.why),
            other => unreachable!("{other:?}"),
        }
    };
    let check = move || {
        let setting = || setting(&folder.0, 4, 1, false);
        let (mut port, _other) = FilePort::pair(setting(), setting()).expect("ports");
        assert_eq!(begin("new", &mut port), Err(FaultKind::Permission), "the filter is active");
        assert!(begin("link", &mut port).is_err(), "a link is not followed");
        assert_eq!(begin("file", &mut port), Ok(()));
        assert_eq!(std::fs::metadata(folder.0.join("file")).expect("a file").len(), 0);
    };
    confined(|| refuse_to_make(libc::EACCES), check);
}
