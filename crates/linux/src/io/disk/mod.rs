//! I/O streams to a block device or file.

mod aio;
mod block_order;
mod disk_part;
mod pread;
mod uring;

pub use uring::ring;

use super::claim;
use super::disk_facts::disk_facts_of;
use super::streams::{self, StreamWorker};
use crate::memory::Buffer;
use crate::refusal::refused;
use crate::Root;
use block_order::BlockSequence;
use disk_part::DiskPart;
use numaio_machine::probe::{IoOutcome, ProbeError};
use numaio_machine::workload::{Direction, DiskMethod, DiskPath, IoWorkload};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Name of io_uring in errors and notes.
const IO_URING: &str = "io_uring";

/// Returns the best available I/O method, and why a better one is unavailable.
pub fn best_method() -> (DiskMethod, Option<String>) {
    match uring::allowed() {
        Ok(()) => (DiskMethod::Uring, None),
        Err(error) => (DiskMethod::Aio, Some(format!("io_uring is unavailable ({error}): using Linux AIO"))),
    }
}

/// Runs streams to a disk. `limit_bytes` are the bytes that the control group still allows.
///
/// # Errors
/// [`ProbeError::Refused`] if a write target is not claimed, the blocks do not match the sectors,
/// or the kernel reports an error. Errors during the measurement are part of the outcome.
pub fn run(
    root: &Root,
    limit_bytes: Option<u64>,
    workload: &IoWorkload,
    path: &DiskPath,
) -> Result<IoOutcome, ProbeError> {
    match run_by(path.method, root, limit_bytes, workload, path) {
        // Locked memory or the number of rings may not suffice for all streams.
        Err(ProbeError::Refused { what, why }) if what == IO_URING => {
            let mut outcome = run_by(DiskMethod::Aio, root, limit_bytes, workload, path)?;
            outcome.notes.push(format!("{IO_URING}: {why}; using Linux AIO instead"));
            Ok(outcome)
        }
        result => result,
    }
}

fn run_by(
    method: DiskMethod,
    root: &Root,
    limit_bytes: Option<u64>,
    workload: &IoWorkload,
    path: &DiskPath,
) -> Result<IoOutcome, ProbeError> {
    let parts = if method == DiskMethod::Threads { workload.depth } else { 1 };
    streams::check_limits(workload, parts)?;
    let disk = OpenedDisk::new(root, workload, path)?;
    let workers = streams::workers(workload, parts);
    let slots = (workload.depth / parts).max(1);
    let part = |worker: &StreamWorker, buffer: &mut Buffer| disk.part(worker, buffer, workload, slots);
    let mut outcome = match method {
        DiskMethod::Uring => streams::run(root, limit_bytes, workload, &workers, |worker, buffer| {
            uring::UringQueue::new(part(worker, buffer)?).map_err(cannot(IO_URING))
        }),
        DiskMethod::Aio => streams::run(root, limit_bytes, workload, &workers, |worker, buffer| {
            Ok((aio::AioQueue::new(part(worker, buffer)?).map_err(cannot("Linux AIO"))?, None))
        }),
        DiskMethod::Threads => streams::run(root, limit_bytes, workload, &workers, |worker, buffer| {
            Ok((pread::PreadQueue(part(worker, buffer)?), None))
        }),
    }?;
    outcome.notes.extend(disk.notes);
    Ok(outcome)
}

fn cannot(what: &'static str) -> impl Fn(io::Error) -> ProbeError {
    move |error| ProbeError::Refused { what: what.to_owned(), why: error.to_string() }
}

/// A disk, opened once per requested direction, with its blocks divided among the streams.
struct OpenedDisk {
    read: Option<Arc<OwnedFd>>,
    write: Option<Arc<OwnedFd>>,
    /// Blocks of each stream.
    blocks: Vec<Arc<BlockSequence>>,
    notes: Vec<String>,
}

impl OpenedDisk {
    fn new(root: &Root, workload: &IoWorkload, path: &DiskPath) -> Result<Self, ProbeError> {
        let wants = |direction| workload.groups.iter().any(|group| group.direction == direction);
        let mut notes = Vec::new();
        let mut open = |direction| match wants(direction) {
            true => open(path, direction == Direction::Write, &mut notes).map(|file| Some(Arc::new(file))),
            false => Ok(None),
        };
        let (read, write) = (open(Direction::Read)?, open(Direction::Write)?);
        if let Some(file) = read.as_ref().or(write.as_ref()) {
            let disk_facts = disk_facts_of(root, file).map_err(|error| open_error(path, error))?;
            disk_facts.check(workload, path)?;
            notes.extend(disk_facts.note());
        }
        Ok(Self { read, write, blocks: divide(workload, path)?, notes })
    }

    fn part(
        &self,
        worker: &StreamWorker,
        buffer: &mut Buffer,
        workload: &IoWorkload,
        slots: u32,
    ) -> Result<DiskPart, ProbeError> {
        let write = worker.direction == Direction::Write;
        let file = if write { &self.write } else { &self.read };
        let (Some(file), Some(blocks)) = (file, self.blocks.get(worker.stream)) else {
            return refused("I/O", "a stream has no part of the disk");
        };
        let block_bytes = u32::try_from(workload.block_bytes).ok();
        let fits = block_bytes.is_some_and(|bytes| slots as usize * bytes as usize <= buffer.bytes());
        let Some(block_bytes) = block_bytes.filter(|_| fits) else {
            return refused("I/O", "the block size exceeds the maximum buffer size");
        };
        let at = vec![0; slots as usize];
        let (file, blocks) = (Arc::clone(file), Arc::clone(blocks));
        Ok(DiskPart { file, blocks, write, block_bytes, slots, start: buffer.start(), at })
    }
}

/// Divides the usable area into equal parts, one per stream.
fn divide(workload: &IoWorkload, path: &DiskPath) -> Result<Vec<Arc<BlockSequence>>, ProbeError> {
    let streams = u64::from(workload.streams()).max(1);
    let (block, order) = (workload.block_bytes, path.order);
    let each = path.bytes / streams / block;
    if each == 0 {
        let why = format!(
            "{} bytes hold less than one block of {block} bytes for each of {streams} streams",
            path.bytes
        );
        return refused(&format!("divide {}", path.path), why);
    }
    let part =
        |stream: u64| Arc::new(BlockSequence::new(path.at + stream * each * block, each, block, order));
    Ok((0..streams).map(part).collect())
}

/// Opens a disk with `O_DIRECT`, or through the page cache, with a note, if that is unsupported.
fn open(path: &DiskPath, write: bool, notes: &mut Vec<String>) -> Result<OwnedFd, ProbeError> {
    let direct = if path.direct { OFlags::DIRECT } else { OFlags::empty() };
    match claim::open(&path.path, write, direct) {
        Err(Errno::INVAL) if path.direct => {
            let file =
                claim::open(&path.path, write, OFlags::empty()).map_err(|error| open_error(path, error))?;
            let note = format!("'{}' does not support O_DIRECT: using the page cache", path.path);
            if !notes.contains(&note) {
                notes.push(note);
            }
            Ok(file)
        }
        result => result.map_err(|error| open_error(path, error)),
    }
}

fn open_error(path: &DiskPath, error: Errno) -> ProbeError {
    let why = match error {
        Errno::PERM => "only files created by numaio and devices named twice may be written".to_owned(),
        Errno::ACCESS => {
            format!("{error}: run as root or as a member of the group 'disk'")
        }
        error => error.to_string(),
    };
    ProbeError::Refused { what: format!("open {}", path.path), why }
}
