//! What a sandbox refuses is said or done without, never guessed. Each test runs on a thread with a seccomp
//! filter of its own (`Documentation/userspace-api/seccomp_filter.rst`), which the threads it starts inherit.

use crate::port_setup::{file, identity, outcomes, setting, Folder};
use numaio_linux::port::FilePort;
use numaio_linux::Kernel;
use numaio_machine::ids::NodeId;
use numaio_machine::port::{
    Begin, Digest, FilePath, Hash, Operation, Outcome, Port, Put, ReadPiece, Why, BLOCK,
};
use numaio_machine::probe::{ProbeError, ProbeExt, Residency};
use numaio_machine::set::{CpuSet, NodeSet};
use numaio_machine::sysfs::SysfsExt;
use numaio_machine::workload::{
    CopyLoop, CopyWorkload, Flow, LatencyWorkload, Pages, Placement, Sampling, StreamLoop, StreamOp,
    StreamWorkload,
};
use std::io;
use std::io::Write as _;

fn step(code: u32, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf, k }
}

/// Where the call's number stands in the data that a filter sees (struct seccomp_data).
const NUMBER: u32 = 0;

/// And the lower half of its third argument, where the lower half comes first.
const THIRD_ARGUMENT: u32 = 32;

/// From now on the calls with these numbers fail with `errno` on this thread and on those it starts.
fn refuse(calls: &[libc::c_long], errno: i32) -> io::Result<()> {
    let mut program = vec![step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, NUMBER, 0, 0)];
    for call in calls {
        program.push(step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, *call as u32, 0, 1));
        program.push(step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | errno as u32, 0, 0));
    }
    program.push(step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0));
    confine(program)
}

/// From now on nothing is opened by a call that could make it, on this thread and on those it starts.
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

/// This thread and those it starts get a filter.
fn confine(mut program: Vec<libc::sock_filter>) -> io::Result<()> {
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the program lives through both calls, and its length is right; the kernel checks it. Only this
    // thread and those it starts are confined.
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

/// Runs `check` on a thread to which `calls` are refused; says so where no filter can be set.
fn refused(calls: &'static [libc::c_long], errno: i32, check: fn(i32)) {
    confined(move || refuse(calls, errno), move || check(errno));
}

/// Runs `check` on a thread with a filter; says so where none can be set.
fn confined(filter: impl FnOnce() -> io::Result<()> + Send + 'static, check: impl FnOnce() + Send + 'static) {
    let both = move || match filter() {
        Ok(()) => check(),
        Err(error) => tell(&format!("skipped: seccomp: {error}")),
    };
    std::thread::spawn(both).join().expect("the check holds");
}

fn tell(why: &str) {
    // Past the capture of the test harness, so that it is seen and counted.
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

/// STREAM where a copy reads, by the same CPUs.
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

/// A chase where a copy reads, by the first of its CPUs.
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

/// Runs a copy, STREAM and a chase; gives how many samples each of them took and where its pages were.
fn run_all(kernel: &Kernel, copy: &CopyWorkload) -> [Result<(usize, Residency), ProbeError>; 3] {
    [
        kernel.copy(copy).map(|outcome| (outcome.samples.len(), outcome.residency)),
        kernel.stream(&stream(copy)).map(|outcome| (outcome.samples.len(), outcome.residency)),
        kernel.latency(&chase(copy)).map(|outcome| (outcome.samples.len(), outcome.residency)),
    ]
}

#[test]
fn without_policies_one_node_is_measured_and_several_are_not() {
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
fn without_move_pages_nothing_is_claimed_of_residency() {
    refused(&[libc::SYS_move_pages], libc::EPERM, |_| {
        let kernel = Kernel::new().expect("a kernel");
        for result in run_all(&kernel, &copy(&kernel).1) {
            let (samples, residency) = result.expect("it runs");
            assert_eq!(residency.pages_checked, None);
            assert_eq!(samples, 3);
        }
    });
}

#[test]
fn a_thread_that_cannot_be_pinned_ends_the_run() {
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
fn threads_that_a_port_cannot_bind_are_told_beforehand() {
    assert!(numaio_linux::port::can_pin(&CpuSet::parse_list("0-8191").expect("a list")).is_ok());
    let absent = numaio_linux::port::can_pin(&CpuSet::parse_list("8191").expect("a list"));
    assert_eq!(absent.map_err(|error| error.raw_os_error()), Err(Some(libc::EINVAL)));
    refused(&[libc::SYS_sched_setaffinity], libc::EPERM, |errno| {
        let told = numaio_linux::port::can_pin(&CpuSet::parse_list("0-8191").expect("a list"));
        assert_eq!(told.map_err(|error| error.raw_os_error()), Err(Some(errno)));
    });
}

#[test]
fn without_openat2_files_are_found_by_walking() {
    for errno in [libc::EPERM, libc::ENOSYS] {
        refused(&[libc::SYS_openat2], errno, |_| {
            let kernel = Kernel::new().expect("a kernel");
            assert!(kernel.text("/proc/self/status").expect("through a link").contains("Pid:"));
            assert!(!kernel.names("/sys/devices/system/cpu/../cpu").is_empty());
        });
    }
}

/// Kernels before 5.14 cannot populate pages by madvise; there they are touched one by one.
#[test]
fn without_populating_every_page_is_touched() {
    refused(&[libc::SYS_madvise], libc::EINVAL, |_| {
        let kernel = Kernel::new().expect("a kernel");
        let copy = copy(&kernel).1;
        for bytes_per_thread in [1, 4096, (1 << 20) + 4000] {
            let workload = CopyWorkload { bytes_per_thread, ..copy.clone() };
            // A chain has a place of 128 bytes at the least, and STREAM a double.
            let runs = if bytes_per_thread < 128 { 1 } else { 3 };
            for result in run_all(&kernel, &workload).into_iter().take(runs) {
                let (_, residency) = result.expect("it runs");
                assert_eq!(residency.pages_misplaced, 0, "{bytes_per_thread} bytes");
            }
        }
    });
}

#[test]
fn where_io_uring_is_forbidden_linux_aio_takes_its_place() {
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
fn where_io_uring_is_forbidden_blocks_of_large_files_are_read_all_the_same() {
    const FORBIDDEN: [&[libc::c_long]; 2] = [&[libc::SYS_io_uring_setup], &[libc::SYS_io_uring_enter]];
    for forbidden in FORBIDDEN {
        refused(forbidden, libc::EPERM, |_| {
            assert!(!numaio_linux::port::has_io_uring());
            let folder = Folder::new("sandbox");
            let whole = std::fs::File::create(folder.0.join("file")).expect("a file");
            // What is in no cache goes past it from this size on.
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

/// What `fs.protected_regular` does to somebody else's file in /tmp (proc_sys_fs(5)), here to all.
#[test]
fn a_file_that_is_there_is_written_to_in_place_by_who_may_not_make_it() {
    let folder = Folder::new("protected");
    std::fs::write(folder.0.join("file"), "content").expect("a file");
    std::os::unix::fs::symlink("new", folder.0.join("link")).expect("a link");
    let begin = |name: &str, port: &mut FilePort| {
        let put = Put::begin(FilePath::new(0, name.as_bytes()), Begin::InPlace);
        let hash: Hash = |_| unreachable!("nothing is hashed");
        port.submit(1, Operation::Write { puts: vec![put], data: None, hash, packed: None });
        match outcomes(port, 1).remove(0) {
            Outcome::Each(mut done) => done.remove(0).map_err(|fault| fault.why),
            other => unreachable!("{other:?}"),
        }
    };
    let check = move || {
        let setting = || setting(&folder.0, 4, 1, false);
        let (mut port, _other) = FilePort::pair(setting(), setting()).expect("ports");
        assert_eq!(begin("new", &mut port), Err(Why::Permission), "the filter does what it is for");
        assert!(begin("link", &mut port).is_err(), "a link is not followed");
        assert_eq!(begin("file", &mut port), Ok(()));
        assert_eq!(std::fs::metadata(folder.0.join("file")).expect("a file").len(), 0);
    };
    confined(|| refuse_to_make(libc::EACCES), check);
}
