//! Disk streams on the test machine: a file on its disk, a file in memory, and loop devices over
//! images, where available.

use crate::allowed::{cpus, node};
use numaio_linux::io::{best_method, disk_facts, Claim, ClaimError};
use numaio_linux::Kernel;
use numaio_machine::probe::{IoOutcome, ProbeError, ProbeExt};
use numaio_machine::workload::{
    Direction, DiskMethod, DiskOrder, DiskPath, IoPath, IoWorkload, Sampling, StreamGroup,
};
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use Direction::{Read, Write};

const MIB: u64 = 1 << 20;
const SLICES: u32 = 4;

/// A directory on the disk of the build, removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("disk-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn image(&self, bytes: u64) -> PathBuf {
        let path = self.0.join("image");
        File::create(&path).and_then(|file| file.set_len(bytes)).expect("an image");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A loop device over an image, detached on drop.
struct Loop(String);

impl Loop {
    /// Creates a loop device; none, with a message, where not possible.
    fn over(image: &Path, options: &[&str]) -> Option<Self> {
        let image = image.to_str().expect("a name");
        let made = Command::new("losetup").args(options).args(["--find", "--show", image]).output();
        match made {
            Ok(output) if output.status.success() => {
                Some(Self(String::from_utf8_lossy(&output.stdout).trim().to_owned()))
            }
            _ => {
                skip("skipped: loop devices: need losetup and root");
                None
            }
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).output();
    }
}

fn skip(why: &str) {
    // Bypasses the capture of the test harness, so that skips are visible and counted.
    let _ = writeln!(std::io::stderr(), "{why}");
}

fn kernel() -> Kernel {
    Kernel::new().expect("a kernel")
}

fn path(name: &str, bytes: u64) -> DiskPath {
    let (method, order) = (DiskMethod::Uring, DiskOrder::Sequential);
    DiskPath { path: name.to_owned(), offset: 0, bytes, method, direct: true, order }
}

fn workload(path: DiskPath, streams: &[(u32, Direction)]) -> IoWorkload {
    let group = |(streams, direction): &(u32, Direction)| StreamGroup {
        cpus: cpus(),
        memory: node(),
        streams: *streams,
        direction: *direction,
        device: 0,
    };
    IoWorkload {
        path: IoPath::Disk(path),
        others: Vec::new(),
        groups: streams.iter().map(group).collect(),
        block_bytes: 128 << 10,
        depth: 4,
        sampling: Sampling::Window { milliseconds: 80, slices: SLICES },
        max_bytes: None,
    }
}

fn run(workload: &IoWorkload) -> Result<IoOutcome, ProbeError> {
    kernel().io(workload)
}

/// Checks the invariants of every complete run.
fn check(workload: &IoWorkload, outcome: &IoOutcome) {
    assert_eq!(outcome.interrupted, None);
    assert_eq!(outcome.groups.len(), workload.groups.len());
    for group in &outcome.groups {
        let times: Vec<u64> = group.samples.iter().map(|sample| sample.ns).collect();
        assert_eq!(times, [20_000_000; SLICES as usize], "all groups share the same slices");
        assert_eq!(group.residency.pages_misplaced, 0);
        let bytes: u64 = group.samples.iter().map(|sample| sample.bytes).sum();
        assert_eq!(group.requests, bytes / workload.block_bytes);
    }
    let bytes: u64 = outcome.groups.iter().flat_map(|group| &group.samples).map(|sample| sample.bytes).sum();
    assert!(bytes > 0, "{outcome:?}");
}

/// Returns the methods supported by this kernel, including the best one.
fn methods() -> Vec<DiskMethod> {
    let best = best_method().0;
    let without_uring = DiskMethod::ALL.into_iter().filter(|method| *method != DiskMethod::Uring);
    std::iter::once(best).filter(|best| *best == DiskMethod::Uring).chain(without_uring).collect()
}

#[test]
fn every_method_writes_and_reads_a_file_in_both_orders() {
    let folder = Folder::new("file");
    let claim = Claim::file(&folder.0, 8 * MIB).expect("a file");
    assert_eq!(fs::read_dir(&folder.0).expect("a folder").count(), 0, "the file is unlinked");
    for method in methods() {
        for order in [DiskOrder::Sequential, DiskOrder::Random] {
            for direction in [Write, Read] {
                let path = DiskPath { method, order, ..path(claim.name(), claim.bytes()) };
                let workload = workload(path, &[(2, direction)]);
                let outcome = run(&workload).expect("streams");
                check(&workload, &outcome);
            }
        }
    }
}

#[test]
fn writes_buffer_contents_within_the_area_only() {
    let folder = Folder::new("where");
    for method in methods() {
        let claim = Claim::file(&folder.0, 4 * MIB).expect("a file");
        let content = || fs::read(claim.proc_path()).expect("its content");
        let before = content();
        let path = DiskPath { offset: MIB, bytes: MIB, method, ..path(claim.name(), 0) };
        let workload = IoWorkload { max_bytes: Some(3 * MIB), ..workload(path, &[(1, Write)]) };
        run(&workload).expect("streams");
        let after = content();
        assert_eq!(after.len(), before.len());
        let (from, to) = (MIB as usize, 2 * MIB as usize);
        assert!(before[..from] == after[..from] && before[to..] == after[to..], "{method:?} wrote elsewhere");
        for at in (from..to).step_by(4096) {
            assert_ne!(before[at..at + 64], after[at..at + 64], "{method:?} wrote nothing at {at}");
        }
        assert!(after.chunks(4096).all(|page| page.iter().any(|byte| *byte != page[0])), "not compressible");
    }
}

#[test]
fn concurrent_directions_use_separate_parts() {
    let folder = Folder::new("mix");
    let claim = Claim::file(&folder.0, 8 * MIB).expect("a file");
    let workload = workload(path(claim.name(), claim.bytes()), &[(1, Write), (3, Read)]);
    let outcome = run(&workload).expect("streams");
    check(&workload, &outcome);
    assert!(outcome.groups.iter().all(|group| group.samples.iter().any(|sample| sample.bytes > 0)));
}

#[test]
fn writes_require_a_claim() {
    let folder = Folder::new("unclaimed");
    let image = folder.image(4 * MIB);
    let name = image.to_str().expect("a name");
    let error = run(&workload(path(name, 4 * MIB), &[(1, Read), (1, Write)])).expect_err("unclaimed");
    assert!(
        matches!(&error, ProbeError::Refused { reason: why, .. } if why.contains("only files")),
        "{error}"
    );
    assert!(fs::read(&image).expect("the image").iter().all(|byte| *byte == 0));
    run(&workload(path(name, 4 * MIB), &[(1, Read)])).expect("reading needs no claim");
    assert!(matches!(Claim::file(&image, MIB), Err(ClaimError::Exists { .. })));
    assert_eq!(fs::metadata(&image).expect("the image").len(), 4 * MIB);
    let claim = Claim::file(&folder.0.join("other"), MIB).expect("a file");
    let claimed = workload(path(claim.name(), MIB), &[(1, Write)]);
    run(&claimed).expect("claimed");
    drop(claim);
    assert!(run(&claimed).is_err(), "the claim is released");
}

#[test]
fn run_stops_at_the_byte_limit() {
    let folder = Folder::new("most");
    let claim = Claim::file(&folder.0, 8 * MIB).expect("a file");
    let endless = Sampling::Window { milliseconds: 3_600_000, slices: 5 };
    let workload = workload(path(claim.name(), claim.bytes()), &[(2, Read)]);
    let workload = IoWorkload { max_bytes: Some(16 * MIB), sampling: endless, ..workload };
    let outcome = run(&workload).expect("streams");
    assert_eq!(outcome.interrupted, None);
    let samples = &outcome.groups[0].samples;
    let in_flight = 2 * 4 * workload.block_bytes;
    assert_eq!(samples.len(), 1, "all of it is one sample");
    assert!((1..=16 * MIB + 2 * in_flight).contains(&samples[0].bytes), "{samples:?}");
}

#[test]
fn rejects_invalid_workloads() {
    let folder = Folder::new("sense");
    let claim = Claim::file(&folder.0, MIB).expect("a file");
    let good = || workload(path(claim.name(), MIB), &[(1, Read)]);
    let beyond = DiskPath { offset: 1 << 19, ..path(claim.name(), MIB) };
    let cases = [
        (IoWorkload { depth: 0, ..good() }, "it has no streams, a block size of 0 or a depth of 0"),
        (IoWorkload { block_bytes: 0, ..good() }, "it has no streams, a block size of 0 or a depth of 0"),
        (workload(path(claim.name(), MIB), &[]), "it has no streams, a block size of 0 or a depth of 0"),
        (workload(path(claim.name(), MIB), &[(5000, Read)]), "5000 threads"),
        (workload(path(claim.name(), MIB), &[(9, Read)]), "less than one block"),
        (IoWorkload { block_bytes: 1000, ..good() }, "sectors of"),
        (workload(beyond, &[(1, Read)]), "has 1048576 bytes"),
        (IoWorkload { sampling: Sampling::Repetitions { count: 3 }, ..good() }, "sampled in a time window"),
        (workload(path("/no/such/file", MIB), &[(1, Read)]), "No such file"),
    ];
    for (workload, part) in cases {
        let error = run(&workload).expect_err(part).to_string();
        assert!(error.contains(part), "{part:?} is not in {error}");
    }
}

#[test]
fn file_in_memory_is_reported() {
    let memory = Path::new("/dev/shm");
    let on_tmpfs = disk_facts(&kernel(), "/dev/shm").is_ok_and(|facts| facts.in_memory);
    let claim = match Claim::file(memory, 4 * MIB) {
        Ok(claim) if on_tmpfs => claim,
        _ => return skip("skipped: tmpfs: /dev/shm is not a writable tmpfs"),
    };
    let workload = workload(path(claim.name(), claim.bytes()), &[(1, Write), (1, Read)]);
    let outcome = run(&workload).expect("streams");
    check(&workload, &outcome);
    assert!(outcome.notes.iter().any(|note| note.contains("is in memory")), "{:?}", outcome.notes);
}

#[test]
fn device_with_large_sectors_rejects_partial_sectors() {
    let folder = Folder::new("sectors");
    let Some(device) = Loop::over(&folder.image(16 * MIB), &["--sector-size", "4096"]) else { return };
    let kernel = kernel();
    let found = disk_facts(&kernel, &device.0).expect("facts");
    assert_eq!((found.is_device, found.bytes, found.sector_bytes), (true, 16 * MIB, 4096));
    let claim = Claim::device(&kernel, &device.0).expect("a device of our own");
    let small = IoWorkload { block_bytes: 512, ..workload(path(&device.0, 16 * MIB), &[(1, Write)]) };
    let error = run(&small).expect_err("half a sector").to_string();
    assert!(error.contains("blocks of 512 bytes") && error.contains("sectors of 4096 bytes"), "{error}");
    for method in methods() {
        let path = DiskPath { method, ..path(&device.0, 16 * MIB) };
        let workload = IoWorkload { block_bytes: 4096, ..workload(path, &[(1, Write), (1, Read)]) };
        check(&workload, &run(&workload).expect("streams"));
    }
    drop(claim);
    assert!(run(&workload(path(&device.0, 16 * MIB), &[(1, Write)])).is_err(), "the claim is released");
}

#[test]
fn device_in_use_is_never_claimed() {
    let kernel = kernel();
    let mounts = fs::read_to_string("/proc/self/mounts").expect("mounts");
    let mounted = mounts.lines().filter_map(|line| line.split(' ').next()).find(|source| {
        source.starts_with("/dev/") && disk_facts(&kernel, source).is_ok_and(|facts| facts.is_device)
    });
    match mounted {
        Some(mounted) => {
            let error = Claim::device(&kernel, mounted).expect_err("mounted");
            assert!(matches!(&error, ClaimError::InUse { how, .. } if how.contains("mounted at")), "{error}");
        }
        None => skip("skipped: mounted device: none can be opened"),
    }
    let folder = Folder::new("held");
    let image = folder.image(MIB);
    let error = Claim::device(&kernel, image.to_str().expect("a name")).expect_err("no device");
    assert!(matches!(error, ClaimError::NotBlockDevice { .. }), "{error}");
    let Some(device) = Loop::over(&image, &[]) else { return };
    let first = Claim::device(&kernel, &device.0).expect("unclaimed");
    let error = Claim::device(&kernel, &device.0).expect_err("already claimed");
    assert!(matches!(error, ClaimError::InUse { .. }), "{error}");
    drop(first);
    Claim::device(&kernel, &device.0).expect("released");
}

#[test]
fn failing_device_keeps_earlier_measurements() {
    let folder = Folder::new("vanish");
    let image = folder.image(64 * MIB);
    let Some(device) = Loop::over(&image, &[]) else { return };
    for method in methods() {
        File::options().write(true).open(&image).and_then(|file| file.set_len(64 * MIB)).expect("whole");
        let path = DiskPath { method, ..path(&device.0, 64 * MIB) };
        let endless = Sampling::Window { milliseconds: 100_000, slices: 4000 };
        let workload = IoWorkload { sampling: endless, ..workload(path, &[(2, Read)]) };
        let outcome = std::thread::scope(|scope| {
            let running = scope.spawn(|| run(&workload));
            // Several slices of 25 ms pass before most of the disk is removed.
            std::thread::sleep(Duration::from_millis(400));
            File::options().write(true).open(&image).and_then(|file| file.set_len(4096)).expect("cut");
            running.join().expect("no panic")
        });
        let outcome = outcome.expect("what was measured");
        let cut = outcome.interrupted.as_deref().expect("an error");
        assert!(cut.starts_with("read at byte ") && cut.contains("Input/output error"), "{method:?}: {cut}");
        assert!(!outcome.groups[0].samples.is_empty(), "{method:?}: slices before it count");
        assert!(outcome.groups[0].samples.len() < 4000);
    }
}

#[test]
fn full_file_system_is_reported_before_writing() {
    let folder = Folder::new("full");
    let error = Claim::file(&folder.0, 1 << 60).expect_err("an exbibyte");
    assert!(matches!(error, ClaimError::NoSpace { .. }), "{error}");
    assert!(error.to_string().contains("needed"), "{error}");
    assert_eq!(fs::read_dir(&folder.0).expect("a folder").count(), 0, "nothing is left");
    let image = folder.image(8 * MIB);
    let made = Command::new("mkfs.ext4").args(["-q", "-O", "^has_journal"]).arg(&image).status();
    let Some(device) = Loop::over(&image, &[]).filter(|_| made.is_ok_and(|status| status.success())) else {
        return skip("skipped: small file system: needs mkfs.ext4, losetup and root");
    };
    let point = folder.0.join("mount");
    fs::create_dir(&point).expect("a folder");
    if !Command::new("mount").arg(&device.0).arg(&point).status().is_ok_and(|status| status.success()) {
        return skip("skipped: small file system: cannot be mounted");
    }
    let error = Claim::file(&point, 32 * MIB).expect_err("it is small");
    let small = Claim::file(&point, MIB).map(|claim| claim.bytes());
    let in_use = Claim::device(&kernel(), &device.0);
    let _ = Command::new("umount").arg(&point).status();
    assert!(matches!(error, ClaimError::NoSpace { needed_bytes, .. } if needed_bytes == 32 * MIB), "{error}");
    assert_eq!(small.expect("a small file"), MIB);
    assert!(matches!(in_use, Err(ClaimError::InUse { .. })), "{in_use:?}");
}

/// Rings and registered buffers count against RLIMIT_MEMLOCK, unless the process has CAP_IPC_LOCK.
#[test]
fn io_uring_degrades_without_locked_memory() {
    if best_method().0 != DiskMethod::Uring {
        return skip("skipped: io_uring: not permitted");
    }
    let folder = Folder::new("memlock");
    let claim = Claim::file(&folder.0, 4 * MIB).expect("a file");
    let workload = workload(path(claim.name(), claim.bytes()), &[(1, Read)]);
    // On a separate thread, which drops its capabilities; other tests keep theirs.
    let confined = |lockable: u64| {
        // _LINUX_CAPABILITY_VERSION_3 with two words per set, all empty (capset(2)).
        let (head, sets) = ([0x2008_0522u32, 0], [0u32; 6]);
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the kernel reads both arrays, and reads and writes the limit; all live through
        // the calls.
        let set = unsafe {
            libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit);
            limit.rlim_cur = lockable;
            libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const limit);
            libc::syscall(libc::SYS_capset, head.as_ptr(), sets.as_ptr())
        };
        assert_eq!(set, 0);
        run(&workload).expect("streams")
    };
    for lockable in [256 << 10, 0] {
        let outcome =
            std::thread::scope(|scope| scope.spawn(|| confined(lockable)).join()).expect("no panic");
        check(&workload, &outcome);
        let [note] = outcome.notes.as_slice() else { panic!("{:?}", outcome.notes) };
        let expected = if lockable == 0 { "using Linux AIO instead" } else { "without registered buffers" };
        assert!(note.contains(expected) || note.contains("without registered buffers"), "{lockable}: {note}");
    }
}

#[test]
fn null_engine_counts_without_moving() {
    let mut workload = workload(path("", 0), &[(2, Read), (1, Write)]);
    workload.path = IoPath::Null;
    let outcome = run(&workload).expect("streams");
    check(&workload, &outcome);
}

#[test]
fn several_files_are_accessed_at_the_same_time() {
    let folder = Folder::new("several");
    let claims = [4, 8].map(|mib| Claim::file(&folder.0, mib * MIB).expect("a file"));
    for method in methods() {
        let [first, second] = [0, 1].map(|index: usize| {
            let claim = &claims[index];
            IoPath::Disk(DiskPath { method, ..path(claim.name(), claim.bytes()) })
        });
        let mut several =
            IoWorkload { others: vec![second.clone()], ..workload(path("", 0), &[(1, Write), (2, Write)]) };
        several.path = first;
        several.groups[1].device = 1;
        let outcome = run(&several).expect("streams");
        check(&several, &outcome);
        assert!(outcome.groups.iter().all(|group| group.requests > 0), "{method:?}: {outcome:?}");
        let absent = IoWorkload { others: Vec::new(), ..several.clone() };
        assert!(
            matches!(run(&absent), Err(ProbeError::Refused { reason: why, .. }) if why.contains("names no device"))
        );
        let mixed = IoWorkload { others: vec![IoPath::Null], ..several };
        assert!(
            matches!(run(&mixed), Err(ProbeError::Refused { reason: why, .. }) if why.contains("different kinds"))
        );
    }
}
