//! Tests with a fake driver (tests/support/fake_cuda.c), without a driver, and with that of this
//! machine if it has a GPU.

use super::driver::Driver;
use super::objects::Context;
use super::run::run_with_driver;
use super::CudaUnavailable;
use crate::Root;
use numaio_machine::devices::PciAddress;
use numaio_machine::ids::{CpuId, NodeId};
use numaio_machine::probe::{IoGroupOutcome, IoOutcome, ProbeError};
use numaio_machine::set::CpuSet;
use numaio_machine::sysfs::SysfsExt;
use numaio_machine::workload::{Direction, IoPath, IoWorkload, Sampling, StreamGroup};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of a copy.
const BLOCK_BYTES: u64 = 1 << 20;
/// Copies in flight per stream.
const DEPTH: u32 = 2;

/// A fake driver compiled with given definitions; deleted when dropped.
struct Fake {
    path: PathBuf,
}

impl Fake {
    /// Builds the driver, or prints why it cannot be built or loaded and returns `None`.
    fn new(definitions: &[&str]) -> Option<Self> {
        if cfg!(target_feature = "crt-static") {
            print_skipped("skipped: a static program cannot load libraries");
            return None;
        }
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("numaio-fake-cuda-{}-{}.so", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/fake_cuda.c");
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-pthread", "-O1", "-o"]).arg(&path).arg(source);
        cc.args(definitions.iter().map(|definition| format!("-D{definition}")));
        let Ok(output) = cc.output() else {
            print_skipped("skipped: no C compiler to build the fake driver");
            return None;
        };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(Self { path })
    }

    fn load(&self) -> Result<Driver, CudaUnavailable> {
        Driver::load(self.path.to_str().expect("a name in UTF-8"))
    }

    /// Returns the number of objects that were not released, or released while in use.
    fn objects(&self) -> i32 {
        let path = std::ffi::CString::new(self.path.to_str().expect("UTF-8")).expect("no zero");
        // SAFETY: the library is loaded already, and has this function with this signature.
        unsafe {
            let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW);
            let function = libc::dlsym(library, c"fake_objects".as_ptr());
            std::mem::transmute::<*mut libc::c_void, extern "C" fn() -> i32>(function)()
        }
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.path));
    }
}

/// Prints to stderr, past the capture of the test harness.
fn print_skipped(what: &str) {
    use std::io::Write;
    drop(writeln!(std::io::stderr(), "{what}"));
}

fn workload(groups: &[(u32, Direction)]) -> IoWorkload {
    let root = Root::live().expect("/");
    let status = root.text("/proc/self/status").expect("a status");
    let of = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key)).expect("a line");
        CpuSet::parse_list(line.trim()).expect("a list")
    };
    let memory = NodeId(of("Mems_allowed_list:").iter().next().unwrap_or(CpuId(0)).0);
    let group = |(streams, direction): &(u32, Direction)| StreamGroup {
        cpus: of("Cpus_allowed_list:"),
        memory,
        streams: *streams,
        direction: *direction,
        device: 0,
    };
    IoWorkload {
        path: IoPath::Gpu { device: 0 },
        others: Vec::new(),
        groups: groups.iter().map(group).collect(),
        block_bytes: BLOCK_BYTES,
        depth: DEPTH,
        sampling: Sampling::Window { milliseconds: 200, slices: 4 },
        max_bytes: None,
    }
}

fn run(fake: &Fake, io: &IoWorkload, device: u32) -> Result<IoOutcome, ProbeError> {
    run_on(fake, io, &[device])
}

fn run_on(fake: &Fake, io: &IoWorkload, devices: &[u32]) -> Result<IoOutcome, ProbeError> {
    let root = Root::live().expect("/");
    run_with_driver(&fake.load().expect("a driver"), &root, None, io, devices)
}

fn bytes_per_s(group: &IoGroupOutcome) -> f64 {
    let bytes: u64 = group.samples.iter().map(|sample| sample.bytes).sum();
    bytes as f64 * 1e9 / group.samples.iter().map(|sample| sample.ns).sum::<u64>() as f64
}

use Direction::{Read, Write};

/// Asserts that a group's bandwidth does not exceed the fake's. Copies that were in flight at the
/// start of the window may be noticed within it.
fn assert_within(group: &IoGroupOutcome, rate: f64, streams: u32) {
    let window_s = group.samples.iter().map(|sample| sample.ns).sum::<u64>() as f64 / 1e9;
    let in_flight = f64::from(streams * DEPTH) * BLOCK_BYTES as f64;
    let measured = bytes_per_s(group);
    assert!(measured > 0.0 && measured <= rate + in_flight / window_s, "{measured} of {rate}");
}

#[test]
fn lists_devices_with_their_addresses() {
    let Some(fake) = Fake::new(&[]) else { return };
    let gpus = fake.load().expect("a driver").gpus().expect("two");
    let found: Vec<(u32, &str, &str)> =
        gpus.iter().map(|gpu| (gpu.index, gpu.name.as_str(), gpu.pci.as_str())).collect();
    assert_eq!(found, [(0, "Fake GPU A", "0000:F0:00.0"), (1, "Fake GPU B", "0000:F1:00.0")]);
}

#[test]
fn measures_each_direction_and_releases_all_objects() {
    let Some(fake) = Fake::new(&["WRITE_RATE=200e6", "READ_RATE=40e6"]) else { return };
    for (direction, rate, streams) in [(Write, 200e6, 1), (Read, 40e6, 1), (Write, 200e6, 3)] {
        let outcome = run(&fake, &workload(&[(streams, direction)]), 1).expect("copies");
        let [group] = &outcome.groups[..] else { panic!("one group") };
        assert_eq!((group.samples.len(), outcome.interrupted.as_deref()), (4, None));
        // The fake never exceeds its rate; a busy machine may stay below it.
        assert_within(group, rate, streams);
        assert_eq!(group.requests, group.samples.iter().map(|sample| sample.bytes).sum::<u64>() >> 20);
        assert_eq!(group.residency.pages_misplaced, 0);
        assert!(group.residency.pages_checked.is_none_or(|pages| pages > 0));
        assert!(outcome.cpu_ns > 0 && outcome.elapsed_ns >= 250_000_000);
    }
    assert_eq!(fake.objects(), 0);
}

#[test]
fn concurrent_directions_share_time_slices() {
    let Some(fake) = Fake::new(&["WRITE_RATE=200e6", "READ_RATE=40e6"]) else { return };
    let outcome = run(&fake, &workload(&[(1, Write), (2, Read)]), 0).expect("copies");
    let [write, read] = &outcome.groups[..] else { panic!("two groups") };
    let ns = |group: &IoGroupOutcome| group.samples.iter().map(|sample| sample.ns).collect::<Vec<u64>>();
    assert_eq!((ns(write), ns(read)), (vec![50_000_000; 4], vec![50_000_000; 4]));
    assert_within(write, 200e6, 1);
    assert_within(read, 40e6, 2);
}

#[test]
fn several_devices_copy_at_the_same_time() {
    let Some(fake) = Fake::new(&["WRITE_RATE=200e6"]) else { return };
    let mut io = workload(&[(1, Write), (2, Write)]);
    io.groups[1].device = 1;
    let outcome = run_on(&fake, &io, &[0, 1]).expect("copies");
    let moved = |group: &IoGroupOutcome| group.requests > 0 && group.samples.len() == 4;
    assert!(outcome.groups.len() == 2 && outcome.groups.iter().all(moved), "{outcome:?}");
    let error = run_on(&fake, &io, &[0]).expect_err("a stream without a GPU").to_string();
    assert!(error.contains("names no GPU"), "{error}");
    assert_eq!(fake.objects(), 0);
}

#[test]
fn lost_device_ends_the_run_and_keeps_the_samples() {
    // 70 MiB take 180 ms at this rate: the warm-up and two slices. A busy machine may take longer.
    let Some(fake) = Fake::new(&["WRITE_RATE=400e6", "LOST_AFTER=70"]) else { return };
    let sampling = Sampling::Window { milliseconds: 10_000, slices: 200 };
    let io = IoWorkload { sampling, ..workload(&[(2, Write)]) };
    let outcome = run(&fake, &io, 0).expect("what was measured");
    let cut = outcome.interrupted.expect("a reason");
    assert!(cut.contains("the GPU (cu") && cut.contains("): CUDA_ERROR_UNKNOWN"), "{cut}");
    let slices = outcome.groups[0].samples.len();
    assert!((1..200).contains(&slices), "{slices}");
    let bytes: u64 = outcome.groups[0].samples.iter().map(|sample| sample.bytes).sum();
    assert!(bytes > 0 && bytes <= 70 << 20, "{bytes}");
    assert_eq!(fake.objects(), 0);
}

#[test]
fn device_lost_at_the_start_yields_no_sample() {
    let Some(fake) = Fake::new(&["LOST_AFTER=1"]) else { return };
    let outcome = run(&fake, &workload(&[(1, Write), (1, Read)]), 0).expect("nothing");
    assert!(outcome.interrupted.is_some() && outcome.groups.iter().all(|group| group.samples.is_empty()));
}

#[test]
fn byte_limit_ends_the_run_and_keeps_the_samples() {
    let Some(fake) = Fake::new(&["WRITE_RATE=200e6"]) else { return };
    for most in [3u64, 24] {
        let io = IoWorkload { max_bytes: Some(most << 20), ..workload(&[(1, Write)]) };
        let outcome = run(&fake, &io, 0).expect("some");
        assert_eq!(outcome.interrupted, None);
        let samples = &outcome.groups[0].samples;
        let bytes: u64 = samples.iter().map(|sample| sample.bytes).sum();
        assert!((1..=4).contains(&samples.len()) && bytes > 0 && bytes <= most << 20, "{samples:?}");
    }
}

#[test]
fn errors_contain_the_driver_error_name() {
    let Some(fake) = Fake::new(&["DEVICE_BYTES=1000"]) else { return };
    let error = run(&fake, &workload(&[(1, Write)]), 0).expect_err("no room").to_string();
    assert_eq!(error, "1048576 bytes of the GPU's memory (cuMemAlloc): CUDA_ERROR_OUT_OF_MEMORY");
    let error = run(&fake, &workload(&[(1, Write)]), 2).expect_err("no such device").to_string();
    assert_eq!(error, "GPU cuda:2: CUDA_ERROR_INVALID_DEVICE");
    let Some(fake) = Fake::new(&["PIN_CODE=12345"]) else { return };
    let error = run(&fake, &workload(&[(2, Write)]), 0).expect_err("not pinned").to_string();
    assert_eq!(error, "pin 2097152 bytes for the GPU (cuMemHostRegister): CUDA error 12345");
    assert_eq!(fake.objects(), 0);
}

#[test]
fn rejects_invalid_workloads() {
    let Some(fake) = Fake::new(&[]) else { return };
    let good = workload(&[(1, Write)]);
    let mut no_cpus = good.clone();
    no_cpus.groups[0].cpus = CpuSet::new();
    for bad in [
        workload(&[]),
        workload(&[(0, Write)]),
        workload(&[(u32::MAX, Write), (7, Read)]),
        no_cpus,
        IoWorkload { depth: 0, ..good.clone() },
        IoWorkload { depth: u32::MAX, ..good.clone() },
        IoWorkload { block_bytes: 0, ..good.clone() },
        IoWorkload { sampling: Sampling::Repetitions { count: 3 }, ..good.clone() },
        IoWorkload { sampling: Sampling::Window { milliseconds: 0, slices: 1 }, ..good.clone() },
    ] {
        assert!(matches!(run(&fake, &bad, 0), Err(ProbeError::Refused { .. })), "{bad}");
    }
    for block_bytes in [1 << 60, u64::MAX] {
        let vast = IoWorkload { block_bytes, ..good.clone() };
        assert!(matches!(run(&fake, &vast, 0), Err(ProbeError::NoMemory { .. })));
    }
}

#[test]
fn data_survives_a_round_trip() {
    let Some(fake) = Fake::new(&[]) else { return };
    let driver = fake.load().expect("a driver");
    assert_round_trip(&driver);
    let context = Context::of(&driver, 0).expect("a device");
    let device = context.allocate(32).expect("memory");
    let stream = context.stream().expect("a stream");
    let memory = [0u8; 64];
    // SAFETY: more than was allocated; the fake checks the range before it copies.
    let code = unsafe { (driver.functions.to_device)(device.raw, memory.as_ptr().cast(), 33, stream.raw) };
    assert_ne!(code, 0);
    drop((device, stream));
    drop(context);
    assert_eq!(fake.objects(), 0);
}

/// Copies data to the first device and back.
fn assert_round_trip(driver: &Driver) {
    let context = Context::of(driver, 0).expect("a device");
    context.enter().expect("entered");
    let mut memory = (0..64u8).collect::<Vec<u8>>();
    let of = &driver.functions;
    {
        // SAFETY: the memory outlives the registration.
        let pinned = unsafe { context.register(memory.as_mut_ptr(), 64) }.expect("pinned");
        let device = context.allocate(32).expect("memory");
        let stream = context.stream().expect("a stream");
        // SAFETY: both halves lie in the pinned memory, the device's has 32 bytes, and the stream
        // is waited for.
        let codes = unsafe {
            let to = (of.to_device)(device.raw, pinned.raw, 32, stream.raw);
            let back = (of.to_host)(pinned.raw.byte_add(32), device.raw, 32, stream.raw);
            [to, back, (of.synchronize)(stream.raw)]
        };
        assert_eq!(codes, [0; 3]);
    }
    assert_eq!(memory[..32], memory[32..]);
}

#[test]
fn real_gpu_copies_in_both_directions() {
    let (driver, gpus) = match Driver::loaded().and_then(|driver| Ok((driver, driver.gpus()?))) {
        Ok(found) => found,
        Err(why) => return print_skipped(&format!("skipped: real_gpu: {why}")),
    };
    assert!(gpus.iter().all(|gpu| gpu.pci.parse::<PciAddress>().is_ok()), "{gpus:?}");
    assert_round_trip(driver);
    let root = Root::live().expect("/");
    for groups in [&[(1, Write)][..], &[(2, Read)], &[(1, Write), (1, Read)]] {
        let outcome = super::run(&root, None, &workload(groups), &[0]).expect("copies");
        assert_eq!(outcome.interrupted, None);
        assert!(outcome.groups.iter().all(|group| bytes_per_s(group) > 0.0), "{outcome:?}");
    }
    let missing = u32::try_from(gpus.len()).expect("few GPUs");
    let error = super::run(&root, None, &workload(&[(1, Write)]), &[missing]).expect_err("no such GPU");
    assert!(error.to_string().contains("CUDA_ERROR_INVALID_DEVICE"), "{error}");
}

#[test]
fn reports_why_no_gpu_is_usable() {
    let Err(missing) = Driver::load("no-such-library-of-ours.so") else { panic!("there is one") };
    let message = missing.to_string();
    let words = if cfg!(target_feature = "crt-static") {
        "linked statically"
    } else {
        "cannot load the CUDA driver library"
    };
    assert!(message.contains(words), "{message}");
    let Some(fake) = Fake::new(&["DEVICES=0"]) else { return };
    let Err(none) = fake.load().expect("a driver").gpus() else { panic!("there is one") };
    assert!(none.to_string().contains("finds no device"), "{none}");
    let Some(fake) = Fake::new(&["INIT_CODE=800"]) else { return };
    let Err(refused) = fake.load() else { panic!("permitted") };
    assert!(refused.to_string().contains("no permission") && refused.to_string().contains("NOT_PERMITTED"));
    let Some(fake) = Fake::new(&["cuEventQuery=cuEventAsk"]) else { return };
    let Err(incomplete) = fake.load() else { panic!("complete") };
    assert!(incomplete.to_string().contains("lacks cuEventQuery"), "{incomplete}");
}
