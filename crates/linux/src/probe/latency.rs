//! Latency workload: one thread follows pointers while other threads load the memory.

use super::chain::Chain;
use super::curve::{ProgressCurve, ProgressPoint};
use super::team::{self, EarlyExit, ThreadTeam};
use super::window::{check_window, SlicePlan};
use crate::clock::nanoseconds;
use crate::interrupt::interrupted;
use crate::loads::{Reader, LINE};
use crate::memory::{self, Buffer, BufferRequest, FreeMemory, PageLocations};
use crate::refusal::refused;
use crate::Root;
use numaio_machine::ids::CpuId;
use numaio_machine::probe::{LatencyOutcome, LatencySample, LoadOutcome, ProbeError, Residency};
use numaio_machine::workload::{LatencyWorkload, LoadWorkload, Pages};
use std::ops::Range;
use std::time::Instant;

/// Minimum time between two readings of the clock: a reading takes some tens of nanoseconds, or a
/// microsecond where it is a system call.
const CLOCK_EVERY_NS: u64 = 20_000;

/// Bytes that a loading thread reads between two readings of the clock.
const READ_BYTES: usize = 256 << 10;

/// Progress points of a loading thread, and their initial spacing.
const POINTS: usize = 4096;
const POINT_EVERY_NS: u64 = 10_000;

/// Role of a thread.
enum Role<'a> {
    /// Follows the chain in its buffer.
    Chase(&'a mut Buffer),
    /// Reads its buffer repeatedly.
    Load(&'a mut Buffer),
}

/// Samples or progress of a thread.
enum MemberLog {
    /// Samples of the chain's thread.
    Chase(ChainSamples),
    /// Progress of a loading thread.
    Load(ProgressCurve),
}

/// A thread's log, and its page locations before and after the run.
type MemberResult = (MemberLog, [PageLocations; 2]);

/// Samples of the chain's thread, with the begin and end of the sampled time.
struct ChainSamples {
    samples: Vec<LatencySample>,
    from_ns: u64,
    to_ns: u64,
}

/// Runs a latency workload. `limit_bytes` are the bytes that the control group still allows.
pub fn latency(
    root: &Root,
    limit_bytes: Option<u64>,
    workload: &LatencyWorkload,
) -> Result<LatencyOutcome, ProbeError> {
    let began = Instant::now();
    check_limits(workload)?;
    let free_memory = FreeMemory::new(root, limit_bytes);
    free_memory.check_limit(workload.memory, build_bytes(workload))?;
    let mut buffers = memory::map_buffers(&free_memory, workload.pages, &wanted(workload))?;
    let work = |team: &ThreadTeam, role| member(team, workload, role);
    let results = team::run_pinned("latency", members(workload, &mut buffers), work)?;
    // The chain's buffer is the first.
    let residency = |which: Range<usize>| {
        let looks = results[which.clone()].iter().flat_map(|(_, seen)| *seen);
        let of: Vec<&Buffer> = buffers[which].iter().collect();
        memory::merge(looks, memory::huge_bytes(root, workload.pages, &of))
    };
    let of_chain = residency(0..1);
    let of_load = workload.load.as_ref().map(|_| residency(1..buffers.len()));
    drop(buffers);
    outcome(results.into_iter().map(|(log, _)| log), of_chain, of_load, began)
}

/// Rejects workloads that yield no sample or exceed the limits.
fn check_limits(workload: &LatencyWorkload) -> Result<(), ProbeError> {
    check_window(workload.milliseconds, workload.slices)?;
    let stride = workload.stride_bytes as usize;
    if stride == 0 || !stride.is_multiple_of(LINE) {
        return refused("latency", format!("stride of {stride} bytes, expected a multiple of {LINE}"));
    }
    if workload.bytes < stride as u64 {
        return refused("latency", format!("{} bytes hold no slot", workload.bytes));
    }
    let Some(load) = &workload.load else { return Ok(()) };
    if load.placement.cpus.is_empty() || load.bytes_per_thread == 0 {
        return refused("load", "no CPUs or no bytes to read");
    }
    if load.placement.cpus.contains(workload.cpu) {
        return refused("load", format!("CPU {} is used by the chain", workload.cpu));
    }
    Ok(())
}

/// Returns the bytes that the control group must allow for building a chain: its permutation, and
/// the chain itself if its pages are charged.
fn build_bytes(workload: &LatencyWorkload) -> u64 {
    let order = workload.bytes / u64::from(workload.stride_bytes) * size_of::<u32>() as u64;
    if workload.pages == Pages::Huge {
        order
    } else {
        order.saturating_add(workload.bytes)
    }
}

fn wanted(workload: &LatencyWorkload) -> Vec<BufferRequest> {
    let chain = BufferRequest { node: workload.memory, bytes: workload.bytes, offset_lines: 0 };
    let of_load = |load: &LoadWorkload| {
        let one = BufferRequest { node: load.memory, bytes: load.bytes_per_thread, offset_lines: 0 };
        vec![one; load.placement.cpus.len()]
    };
    let loads = workload.load.as_ref().map(of_load).unwrap_or_default();
    std::iter::once(chain).chain(loads).collect()
}

/// Returns the chain's thread, followed by the loading threads.
fn members<'a>(workload: &LatencyWorkload, buffers: &'a mut [Buffer]) -> Vec<(CpuId, Role<'a>)> {
    let loading = workload.load.iter().flat_map(|load| load.placement.cpus.iter());
    let mut buffers = buffers.iter_mut();
    let chain = buffers.next().map(|buffer| (workload.cpu, Role::Chase(buffer)));
    chain.into_iter().chain(loading.zip(buffers.map(Role::Load))).collect()
}

/// Runs the role of a thread.
fn member(team: &ThreadTeam, workload: &LatencyWorkload, role: Role) -> Result<MemberResult, EarlyExit> {
    match role {
        Role::Chase(buffer) => {
            buffer.touch()?;
            let mut chain = Chain::build(buffer, workload.stride_bytes as usize)?;
            let before = memory::locate_pages(chain.buffer());
            team.wait_until_prepared()?;
            let chased = chase(team, &mut chain, SlicePlan::new(workload.milliseconds, workload.slices))?;
            team.stop();
            Ok((MemberLog::Chase(chased), [before, memory::locate_pages(chain.buffer())]))
        }
        Role::Load(buffer) => {
            buffer.fill()?;
            let before = memory::locate_pages(buffer);
            team.wait_until_prepared()?;
            let gap_ns = workload.load.as_ref().map_or(0, |load| load.gap_ns);
            let curve = load(team, buffer, u64::from(gap_ns))?;
            Ok((MemberLog::Load(curve), [before, memory::locate_pages(buffer)]))
        }
    }
}

/// Follows the chain while all others load the memory.
fn chase(team: &ThreadTeam, chain: &mut Chain, plan: SlicePlan) -> Result<ChainSamples, EarlyExit> {
    let mut samples = vec![LatencySample { loads: u64::MAX, ns: u64::MAX }; plan.slices as usize];
    team.wait_at_barrier()?;
    team.record_start(team.now());
    let iterations = warm_up(team, chain, plan)?;
    let from_ns = team.now();
    let (mut start, mut until) = (from_ns, from_ns);
    for sample in &mut samples {
        until += plan.slice_ns;
        let mut loads = 0;
        let end = loop {
            loads += chain.follow(iterations);
            let now = team.now();
            if interrupted() {
                return Err(EarlyExit::Failed(ProbeError::Interrupted));
            }
            if now >= until {
                break now;
            }
        };
        *sample = LatencySample { loads, ns: (end - start).max(1) };
        start = end;
    }
    Ok(ChainSamples { samples, from_ns, to_ns: start })
}

/// Follows the chain once, at most for the duration of the run, until all others load the memory.
/// Returns the number of iterations that make the cost of reading the clock negligible.
fn warm_up(team: &ThreadTeam, chain: &mut Chain, plan: SlicePlan) -> Result<usize, EarlyExit> {
    let enough_ns = CLOCK_EVERY_NS.min(plan.slice_ns / 8);
    let until = team.now() + plan.slice_ns.saturating_mul(u64::from(plan.slices));
    let (mut iterations, mut loads) = (1, 0);
    loop {
        let began = team.now();
        loads += chain.follow(iterations);
        let now = team.now();
        if interrupted() {
            return Err(EarlyExit::Failed(ProbeError::Interrupted));
        }
        let warm = loads >= chain.slots() as u64 || now >= until;
        if now - began < enough_ns {
            iterations *= 2;
        } else if warm && team.latest_start().is_some() {
            return Ok(iterations);
        }
        team.is_running()?;
    }
}

/// Reads a buffer repeatedly, with a gap after each piece, until the chain's thread is done.
fn load(team: &ThreadTeam, buffer: &Buffer, gap_ns: u64) -> Result<ProgressCurve, EarlyExit> {
    let reader = Reader::new();
    let mut curve = ProgressCurve::new(POINTS, POINT_EVERY_NS);
    let piece = if gap_ns == 0 { READ_BYTES } else { LoadWorkload::PIECE_BYTES as usize };
    let (mut at, mut done) = (0, 0u64);
    team.wait_at_barrier()?;
    let start_ns = team.now();
    team.record_start(start_ns);
    curve.add(ProgressPoint { ns: start_ns, done });
    while team.is_running()? {
        let bytes = piece.min(buffer.bytes() - at);
        // SAFETY: the range is inside the buffer's mapping.
        unsafe { reader.read(buffer.start().add(at), bytes) };
        done += bytes as u64;
        at = if at + bytes == buffer.bytes() { 0 } else { at + bytes };
        let read_ns = team.now();
        curve.add(ProgressPoint { ns: read_ns, done });
        while team.now() < read_ns.saturating_add(gap_ns) && team.is_running()? {}
    }
    curve.end(ProgressPoint { ns: team.now(), done });
    Ok(curve)
}

fn outcome(
    logs: impl Iterator<Item = MemberLog>,
    residency: Residency,
    of_load: Option<Residency>,
    began: Instant,
) -> Result<LatencyOutcome, ProbeError> {
    let (mut chased, mut curves) = (None, Vec::new());
    for log in logs {
        match log {
            MemberLog::Chase(of_chain) => chased = Some(of_chain),
            MemberLog::Load(curve) => curves.push(curve),
        }
    }
    let Some(ChainSamples { samples, from_ns, to_ns }) = chased else {
        return refused("latency", "no thread followed the chain");
    };
    let load = of_load.map(|residency| {
        let read: f64 = curves.iter().map(|curve| curve.at(to_ns) - curve.at(from_ns)).sum();
        LoadOutcome { bytes_read: read.round() as u64, ns: (to_ns - from_ns).max(1), residency }
    });
    Ok(LatencyOutcome { samples, elapsed_ns: nanoseconds(began), residency, load })
}
