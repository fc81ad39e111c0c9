//! Physical addresses of requested files, looked up to read files in disk order.

use super::announced_files::AnnouncedFiles;
use super::read_order::ReadOrder;
use super::read_pace::ReadPace;
use crate::chunk::ReadJob;
use crate::drive::PeerState;
use crate::port::{Details, Fault, FileInfo, Operation, Ticket};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Files per lookup operation.
const FILES: usize = 512;
/// Maximum lookups in flight.
const MAX_LOOKUPS: usize = 4;

/// Files that wait for their address.
///
/// Invariant: a file is waiting or in one lookup, from [`AddressLookup::push`] until it is returned
/// or found to have failed.
#[derive(Debug)]
pub(super) struct AddressLookup {
    order: ReadOrder,
    pace: ReadPace,
    waiting: VecDeque<ReadJob>,
    in_flight: BTreeMap<Ticket, Vec<ReadJob>>,
}

impl AddressLookup {
    /// Creates an empty lookup.
    pub fn new(order: ReadOrder) -> Self {
        Self { order, pace: ReadPace::default(), waiting: VecDeque::new(), in_flight: BTreeMap::new() }
    }

    /// Returns whether address lookups are expected to save time.
    pub fn is_worthwhile(&self) -> bool {
        match self.order {
            ReadOrder::Inode | ReadOrder::Listed => false,
            ReadOrder::Physical => true,
            ReadOrder::PhysicalIfSlow => !self.pace.is_fast(),
        }
    }

    /// Sets the current time.
    pub fn update(&mut self, now: Duration) {
        self.pace.update(now);
    }

    /// Records that this number of pieces was read, to measure the read time.
    pub fn record_read(&mut self, pieces: usize) {
        self.pace.record(pieces);
    }

    /// Adds a file to look up.
    pub fn push(&mut self, job: ReadJob) {
        self.waiting.push_back(job);
    }

    /// Returns whether no lookup is waiting or in flight.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.in_flight.is_empty()
    }

    /// Submits lookups.
    pub fn submit<B: AsRef<[u8]>>(&mut self, files: &AnnouncedFiles, peer: &mut PeerState<B>) {
        let details = Details { address: true, ..Details::default() };
        while self.in_flight.len() < MAX_LOOKUPS && !self.waiting.is_empty() {
            let count = self.waiting.len().min(FILES);
            let (mut jobs, mut at) = (Vec::new(), Vec::new());
            for job in self.waiting.drain(..count) {
                // Files may have failed meanwhile.
                if let Some(file) = files.get(job.file()) {
                    at.push(file.path().clone());
                    jobs.push(job);
                }
            }
            let ticket = peer.submit(Operation::Stat { at, details, links: Vec::new() });
            self.in_flight.insert(ticket, jobs);
        }
    }

    /// Handles a completed lookup; returns its files, to be read in the order of their addresses,
    /// or `None` if the ticket is not one of these. A file without an address keeps its inode
    /// number as key.
    pub fn completed(
        &mut self,
        ticket: Ticket,
        found: &[Result<Option<FileInfo>, Fault>],
    ) -> Option<Vec<ReadJob>> {
        let jobs = self.in_flight.remove(&ticket)?;
        let with_address = |(job, found): (ReadJob, &Result<Option<FileInfo>, Fault>)| {
            let address = found.as_ref().ok().and_then(Option::as_ref).and_then(|found| found.address);
            match address {
                Some(address) => job.with_key(address),
                None => job,
            }
        };
        Some(jobs.into_iter().zip(found).map(with_address).collect())
    }
}
