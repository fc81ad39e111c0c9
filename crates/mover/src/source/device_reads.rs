//! Reads of each storage device: a slow device delays only its own files.

use super::addresses::AddressLookup;
use super::announced_files::AnnouncedFiles;
use super::options::SourceOptions;
use super::read_queue::ReadQueue;
use crate::chunk::{ChunkPolicyError, ReadJob};
use crate::drive::PeerState;
use crate::entry::FileNumber;
use crate::extent::Extent;
use crate::port::{Fault, FileInfo, Ticket};
use std::time::Duration;

/// Pieces that are read together.
pub(super) type ReadPieces = Vec<(FileNumber, Extent)>;

/// Requested files of one device: first their addresses are looked up, then they are read.
#[derive(Debug)]
struct DeviceQueue {
    addresses: AddressLookup,
    reads: ReadQueue,
}

/// Requested files of all devices.
///
/// Invariant: all pieces of a file are in the queue of one device.
#[derive(Debug)]
pub(super) struct DeviceReads {
    queues: Vec<DeviceQueue>,
    /// Device that is asked first for the next read, so that they share a bandwidth limit.
    next: usize,
}

impl DeviceReads {
    /// Creates empty queues.
    ///
    /// # Errors
    /// A [`ChunkPolicyError`] if the policy is out of range.
    pub fn new(options: &SourceOptions) -> Result<Self, ChunkPolicyError> {
        let queue = |device: &super::SourceDevice| {
            let reads = ReadQueue::new(device, options.mode, &options.policy)?;
            Ok(DeviceQueue { addresses: AddressLookup::new(device.order), reads })
        };
        let queues = options.storage.devices().iter().map(queue).collect::<Result<_, _>>()?;
        Ok(Self { queues, next: 0 })
    }

    /// Sets the current time.
    pub fn update(&mut self, now: Duration) {
        self.queues.iter_mut().for_each(|queue| queue.addresses.update(now));
    }

    /// Adds a file of a device.
    pub fn push(&mut self, device: usize, job: ReadJob) {
        let Some(queue) = self.queues.get_mut(device) else { return };
        match queue.addresses.is_worthwhile() {
            true => queue.addresses.push(job),
            false => queue.reads.push(job),
        }
    }

    /// Submits lookups of addresses.
    pub fn submit_lookups<B: AsRef<[u8]>>(&mut self, files: &AnnouncedFiles, peer: &mut PeerState<B>) {
        self.queues.iter_mut().for_each(|queue| queue.addresses.submit(files, peer));
    }

    /// Handles a completed lookup; returns `false` if the ticket is not one of these.
    pub fn looked_up(&mut self, ticket: Ticket, found: &[Result<Option<FileInfo>, Fault>]) -> bool {
        self.queues.iter_mut().any(|queue| match queue.addresses.completed(ticket, found) {
            Some(jobs) => {
                jobs.into_iter().for_each(|job| queue.reads.push(job));
                true
            }
            None => false,
        })
    }

    /// Returns whether no file waits for a read or is being read, except in the chunkers.
    pub fn is_idle(&self) -> bool {
        self.queues.iter().all(|queue| queue.reads.is_idle())
    }

    /// Returns a device with the next pieces to read, each device in turn; `is_needed` is whether a
    /// file has not failed meanwhile.
    pub fn next(&mut self, is_needed: impl Fn(FileNumber) -> bool) -> Option<(usize, ReadPieces)> {
        let count = self.queues.len();
        for device in (0..count).map(|index| (self.next + index) % count) {
            let queue = &mut self.queues[device];
            let more_comes = !queue.addresses.is_idle();
            while queue.reads.has_capacity() {
                let Some(mut pieces) = queue.reads.next(more_comes) else { break };
                let first = pieces.first().map(|(file, _)| *file);
                pieces.retain(|(file, _)| is_needed(*file));
                if !pieces.is_empty() {
                    self.next = device + 1;
                    return Some((device, pieces));
                }
                // The iterator of a huge file would be long.
                first.into_iter().for_each(|file| queue.reads.skip_file(file));
            }
        }
        None
    }

    /// Records that a device reads these pieces.
    pub fn submitted(&mut self, device: usize, ticket: Ticket, pieces: ReadPieces) {
        if let Some(queue) = self.queues.get_mut(device) {
            queue.reads.submitted(ticket, pieces);
        }
    }

    /// Removes a completed read; returns its pieces, or `None` if the ticket is not one of these.
    pub fn completed(&mut self, ticket: Ticket) -> Option<ReadPieces> {
        self.queues.iter_mut().find_map(|queue| {
            let pieces = queue.reads.completed(ticket)?;
            queue.addresses.record_read(pieces.len());
            Some(pieces)
        })
    }
}
