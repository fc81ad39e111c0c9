//! Latency of loads, idle and while other threads read.

use super::nanoseconds;
use super::team::{Leave, Team};
use super::work::{all_or_first_failure, within_limits, STACK_BYTES};
use crate::interrupt::interrupted;
use crate::memory::{self, look, Buffer, Room, Seen, Wanted};
use crate::{affinity, chase, Root};
use numaio_machine::ids::{CpuId, NodeId};
use numaio_machine::probe::{LatencyOutcome, LatencySample, LoadOutcome, ProbeError};
use numaio_machine::set::CpuSet;
use numaio_machine::workload::{LatencyWorkload, LoadWorkload, Sampling};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

/// Longest warm-up in nanoseconds: of a long chain a part is enough.
const LONGEST_WARM_UP_NS: u64 = 200_000_000;

/// Seed of the chain's order: no two machines need another.
const SEED: u64 = 1;

/// What a loading thread shares: it alone writes, so it has a cache line of its own.
#[repr(align(128))]
#[derive(Default)]
struct Loaded(AtomicU64);

/// What all threads of a run share.
struct Shared<'a> {
    team: &'a Team,
    loaded: &'a [Loaded],
    over: AtomicBool,
}

/// What the chain's thread brings back.
struct Followed {
    samples: Vec<LatencySample>,
    /// Bytes read by the others while samples were taken, and for how long.
    bytes_read: u64,
    ns: u64,
    seen: Vec<Seen>,
}

/// What a thread brings back.
enum Brought {
    Chain(Followed),
    /// Where a loading thread's buffer lay.
    Load(Vec<Seen>),
}

/// Runs a latency workload. `limit_bytes` is what the control group allows.
pub fn run(
    root: &Root,
    limit_bytes: Option<u64>,
    workload: &LatencyWorkload,
) -> Result<LatencyOutcome, ProbeError> {
    let began = Instant::now();
    within(workload)?;
    let chain_of = [(workload.memory, workload.bytes)];
    let chain = Wanted { threads: 1, buffers: &chain_of, pages: workload.pages };
    let load_of: Vec<(NodeId, u64)> =
        workload.load.iter().map(|load| (load.memory, load.bytes_per_thread)).collect();
    let threads = workload.load.as_ref().map_or(0, |load| load.placement.cpus.len());
    let loads = Wanted { threads, buffers: &load_of, pages: workload.pages };
    let room = Room::new(root, limit_bytes);
    // Each fits alone; both together must, too.
    memory::check(&room, &[chain, loads])?;
    let mut buffers: Vec<Buffer> = memory::sets(&room, chain)?.into_iter().flatten().collect();
    let mut load_buffers: Vec<Buffer> = memory::sets(&room, loads)?.into_iter().flatten().collect();
    let Some(buffer) = buffers.first_mut() else {
        return Err(ProbeError::Refused { what: "chase".to_owned(), why: "no buffer".to_owned() });
    };
    let (followed, load_seen) = run_threads(workload, buffer, &mut load_buffers)?;
    let residency = |seen: Vec<Seen>, buffers: &[Buffer]| {
        let buffers: Vec<&Buffer> = buffers.iter().collect();
        memory::merge(seen, memory::huge_bytes(root, workload.pages, &buffers))
    };
    let load = workload.load.as_ref().map(|_| LoadOutcome {
        bytes_read: followed.bytes_read,
        ns: followed.ns,
        residency: residency(load_seen, &load_buffers),
    });
    let residency = residency(followed.seen, &buffers);
    drop((buffers, load_buffers));
    Ok(LatencyOutcome { samples: followed.samples, elapsed_ns: nanoseconds(began), residency, load })
}

/// Refuses what would give no sample.
fn within(workload: &LatencyWorkload) -> Result<(), ProbeError> {
    let refused =
        |what: &str, why: &str| Err(ProbeError::Refused { what: what.to_owned(), why: why.to_owned() });
    let LatencyWorkload { milliseconds, slices, .. } = *workload;
    within_limits(&CpuSet::one(workload.cpu), Sampling::Window { milliseconds, slices })?;
    let stride = u64::from(workload.stride_bytes);
    if stride < 8 || stride % 8 != 0 || workload.bytes / stride.max(1) < 2 {
        return refused("chase", "a chain needs two places or more, each of whole words");
    }
    match &workload.load {
        Some(load) if load.placement.cpus.contains(workload.cpu) => {
            refused("load", "the CPU of the chain cannot load too")
        }
        Some(load) if load.placement.cpus.is_empty() => refused("load", "no CPU to run on"),
        Some(load) if load.bytes_per_thread < LoadWorkload::PIECE_BYTES => {
            refused("load", "buffers shorter than what is read at a time")
        }
        _ => Ok(()),
    }
}

/// One thread that follows the chain, and the loading ones.
fn run_threads(
    workload: &LatencyWorkload,
    buffer: &mut Buffer,
    load_buffers: &mut [Buffer],
) -> Result<(Followed, Vec<Seen>), ProbeError> {
    let loaded: Vec<Loaded> = load_buffers.iter().map(|_| Loaded::default()).collect();
    let team = Team::new(load_buffers.len() + 1);
    let shared = &Shared { team: &team, loaded: &loaded, over: AtomicBool::new(false) };
    thread::scope(|scope| {
        let spawn = |cpu: CpuId| thread::Builder::new().name(format!("numaio-{cpu}")).stack_size(STACK_BYTES);
        let not_started = |cpu: CpuId, error: std::io::Error| {
            team.abandon();
            let what = format!("start a thread for CPU {cpu}");
            Leave::Failed(ProbeError::Refused { what, why: error.to_string() })
        };
        let cpu = workload.cpu;
        let chase = spawn(cpu).spawn_scoped(scope, move || follow(shared, workload, buffer));
        let mut loads = Vec::new();
        if let Some(load) = &workload.load {
            for ((cpu, buffer), loaded) in load.placement.cpus.iter().zip(load_buffers).zip(&loaded) {
                let work = move || load_memory(shared, load, cpu, buffer, loaded);
                loads.push(spawn(cpu).spawn_scoped(scope, work).map_err(|error| not_started(cpu, error)));
            }
        }
        let chase = chase.map_err(|error| not_started(cpu, error)).and_then(|thread| {
            let followed = thread.join().unwrap_or(Err(Leave::Abandoned));
            shared.over.store(true, Ordering::Release);
            followed.map(Brought::Chain)
        });
        let loads = loads.into_iter().map(|thread| {
            let seen = thread?.join().unwrap_or(Err(Leave::Abandoned));
            seen.map(Brought::Load)
        });
        let (mut followed, mut all_seen) = (None, Vec::new());
        for brought in all_or_first_failure(std::iter::once(chase).chain(loads).collect())? {
            match brought {
                Brought::Chain(chain) => followed = Some(chain),
                Brought::Load(seen) => all_seen.extend(seen),
            }
        }
        // All of them brought something, the chain's thread among them.
        followed.map(|followed| (followed, all_seen)).ok_or(ProbeError::Interrupted)
    })
}

/// Follows the chain, alone on its CPU.
fn follow(shared: &Shared, workload: &LatencyWorkload, buffer: &mut Buffer) -> Result<Followed, Leave> {
    let presence = shared.team.presence();
    affinity::pin(workload.cpu)?;
    buffer.fill()?;
    let first = chase::chain(buffer.as_mut_bytes(), workload.stride_bytes as usize, SEED);
    let Some(mut place) = first else {
        let why = "a chain of more than 2^32 places".to_owned();
        return Err(Leave::Failed(ProbeError::Refused { what: "chase".to_owned(), why }));
    };
    let mut seen = vec![look(buffer)];
    shared.team.meet()?;
    let places = workload.bytes / u64::from(workload.stride_bytes);
    let run = |place: &mut usize, least_ns: u64, most_loads: u64| -> Result<LatencySample, Leave> {
        let start = shared.team.now();
        let (mut loads, mut ns) = (0, 0);
        while ns < least_ns && loads < most_loads {
            // SAFETY: the chain was made in this buffer, which is borrowed for the whole run.
            *place = unsafe { chase::follow(*place) };
            loads += chase::LOADS;
            ns = shared.team.now() - start;
            if interrupted() {
                return Err(Leave::Failed(ProbeError::Interrupted));
            }
        }
        Ok(LatencySample { loads, ns })
    };
    run(&mut place, LONGEST_WARM_UP_NS, places)?;
    let (began, before) = (shared.team.now(), shared.bytes_read());
    let slice_ns = (u64::from(workload.milliseconds) * 1_000_000 / u64::from(workload.slices)).max(1);
    let mut samples = Vec::with_capacity(workload.slices as usize);
    for _ in 0..workload.slices {
        samples.push(run(&mut place, slice_ns, u64::MAX)?);
    }
    let (bytes_read, ns) = (shared.bytes_read() - before, shared.team.now() - began);
    shared.over.store(true, Ordering::Release);
    seen.push(look(buffer));
    presence.done();
    Ok(Followed { samples, bytes_read, ns, seen })
}

impl Shared<'_> {
    fn bytes_read(&self) -> u64 {
        self.loaded.iter().map(|loaded| loaded.0.load(Ordering::Relaxed)).sum()
    }

    /// Whether a loading thread is to end: the chain's thread is done, or left.
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire) || self.team.is_abandoned()
    }
}

/// Reads a buffer over and over, with gaps, until the chain's thread is done.
fn load_memory(
    shared: &Shared,
    load: &LoadWorkload,
    cpu: CpuId,
    buffer: &mut Buffer,
    loaded: &Loaded,
) -> Result<Vec<Seen>, Leave> {
    let presence = shared.team.presence();
    affinity::pin(cpu)?;
    buffer.fill()?;
    let mut seen = vec![look(buffer)];
    shared.team.meet()?;
    let bytes = &*buffer.as_mut_bytes();
    let pieces = bytes.chunks_exact(LoadWorkload::PIECE_BYTES as usize).cycle();
    let mut read = 0;
    for piece in pieces {
        chase::read(piece);
        read += LoadWorkload::PIECE_BYTES;
        loaded.0.store(read, Ordering::Relaxed);
        if load.gap_ns > 0 {
            let until = shared.team.now() + u64::from(load.gap_ns);
            while shared.team.now() < until {
                std::hint::spin_loop();
            }
        }
        if shared.is_over() {
            break;
        }
    }
    seen.push(look(buffer));
    presence.done();
    Ok(seen)
}
