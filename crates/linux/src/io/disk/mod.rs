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

/// Runs streams to disks, by the method of the first one. `limit_bytes` are the bytes that the
/// control group still allows.
///
/// # Errors
/// [`ProbeError::Refused`] if a write target is not claimed, the blocks do not match the sectors,
/// or the kernel reports an error. Errors during the measurement are part of the outcome.
pub fn run(
    root: &Root,
    limit_bytes: Option<u64>,
    workload: &IoWorkload,
    paths: &[&DiskPath],
) -> Result<IoOutcome, ProbeError> {
    let Some(first) = paths.first() else { return refused("I/O", "it has no disk") };
    match run_by(first.method, root, limit_bytes, workload, paths) {
        // Locked memory or the number of rings may not suffice for all streams.
        Err(ProbeError::Refused { call: what, reason: why }) if what == IO_URING => {
            let mut outcome = run_by(DiskMethod::Aio, root, limit_bytes, workload, paths)?;
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
    paths: &[&DiskPath],
) -> Result<IoOutcome, ProbeError> {
    let parts = if method == DiskMethod::Threads { workload.depth } else { 1 };
    streams::check_limits(workload, parts)?;
    let disks = OpenedDisks::new(root, workload, paths)?;
    let workers = streams::workers(workload, parts);
    let slots = (workload.depth / parts).max(1);
    let part = |worker: &StreamWorker, buffer: &mut Buffer| disks.part(worker, buffer, workload, slots);
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
    outcome.notes.extend(disks.notes);
    Ok(outcome)
}

fn cannot(what: &'static str) -> impl Fn(io::Error) -> ProbeError {
    move |error| ProbeError::Refused { call: what.to_owned(), reason: error.to_string() }
}

/// The disks of a workload, with the blocks of each of its streams.
struct OpenedDisks {
    files: Vec<DiskFiles>,
    blocks: Vec<Arc<BlockSequence>>,
    notes: Vec<String>,
}

/// A disk, opened once per requested direction.
struct DiskFiles {
    read: Option<Arc<OwnedFd>>,
    write: Option<Arc<OwnedFd>>,
}

impl OpenedDisks {
    fn new(root: &Root, workload: &IoWorkload, paths: &[&DiskPath]) -> Result<Self, ProbeError> {
        let mut notes = Vec::new();
        let open =
            |(device, path): (usize, &&DiskPath)| DiskFiles::open(root, workload, (device, path), &mut notes);
        let files = paths.iter().enumerate().map(open).collect::<Result<_, _>>()?;
        Ok(Self { files, blocks: divide(workload, paths)?, notes })
    }

    fn part(
        &self,
        worker: &StreamWorker,
        buffer: &mut Buffer,
        workload: &IoWorkload,
        slots: u32,
    ) -> Result<DiskPart, ProbeError> {
        let write = worker.direction == Direction::Write;
        let file = self.files.get(worker.device).and_then(|files| files.of(worker.direction));
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

impl DiskFiles {
    /// Opens the disk of this index in the directions of its streams, and checks the blocks.
    fn open(
        root: &Root,
        workload: &IoWorkload,
        (device, path): (usize, &DiskPath),
        notes: &mut Vec<String>,
    ) -> Result<Self, ProbeError> {
        let own = || workload.groups.iter().filter(|group| group.device == device);
        let mut open = |direction| match own().any(|group| group.direction == direction) {
            true => open(path, direction == Direction::Write, notes).map(|file| Some(Arc::new(file))),
            false => Ok(None),
        };
        let (read, write) = (open(Direction::Read)?, open(Direction::Write)?);
        if let Some(file) = read.as_ref().or(write.as_ref()) {
            let disk_facts = disk_facts_of(root, file).map_err(|error| open_error(path, error))?;
            disk_facts.check(workload, path)?;
            notes.extend(disk_facts.note().filter(|note| !notes.contains(note)));
        }
        Ok(Self { read, write })
    }

    fn of(&self, direction: Direction) -> Option<&Arc<OwnedFd>> {
        match direction {
            Direction::Read => self.read.as_ref(),
            Direction::Write => self.write.as_ref(),
        }
    }
}

/// Divides the usable area of each disk into equal parts for its streams; returns the part of each
/// stream of all groups.
fn divide(workload: &IoWorkload, paths: &[&DiskPath]) -> Result<Vec<Arc<BlockSequence>>, ProbeError> {
    let (block, mut parts) = (workload.block_bytes, Vec::new());
    let mut streams_of: Vec<u64> = vec![0; paths.len()];
    workload.groups.iter().for_each(|group| streams_of[group.device] += u64::from(group.streams));
    let mut next: Vec<u64> = vec![0; paths.len()];
    for group in &workload.groups {
        let (path, streams) = (paths[group.device], streams_of[group.device]);
        let each = path.bytes / streams.max(1) / block;
        if each == 0 && group.streams > 0 {
            let why = format!(
                "{} bytes hold less than one block of {block} bytes for each of {streams} streams",
                path.bytes
            );
            return refused(&format!("divide {}", path.path), why);
        }
        for _ in 0..group.streams {
            let at = path.offset + next[group.device] * each * block;
            next[group.device] += 1;
            parts.push(Arc::new(BlockSequence::new(at, each, block, path.order)));
        }
    }
    Ok(parts)
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
    ProbeError::Refused { call: format!("open {}", path.path), reason: why }
}
