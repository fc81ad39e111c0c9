//! Physical addresses of requested files on rotational disks, looked up to read files in disk
//! order.

use super::Source;
use crate::chunk::ReadJob;
use crate::port::{Details, Fault, FileInfo, Operation, Ticket};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Files per lookup operation.
const FILES: usize = 512;
/// Maximum lookups in flight.
const MAX_LOOKUPS: usize = 4;

/// Number of pieces over which the read time is measured.
const SAMPLE: usize = 512;
/// Read time per piece below which no seek can have happened: the data is in the page cache, or the
/// disk is rotational only by name, as virtual disks are. Then lookups cost more time than they
/// save.
const FAST: Duration = Duration::from_micros(250);

/// The measured read time.
#[derive(Debug, Default)]
pub(super) struct ReadPace {
    since: Duration,
    read: usize,
    is_fast: bool,
}

impl ReadPace {
    /// Records that `pieces` pieces have been read by now.
    pub fn read(&mut self, pieces: usize, now: Duration) {
        self.read += pieces;
        if self.read >= SAMPLE {
            self.is_fast =
                now.saturating_sub(self.since).as_secs_f64() < FAST.as_secs_f64() * self.read as f64;
            (self.since, self.read) = (now, 0);
        }
    }
}

/// Files that wait for their address.
#[derive(Debug, Default)]
pub(super) struct AddressLookup {
    pub pace: ReadPace,
    waiting: VecDeque<ReadJob>,
    in_flight: BTreeMap<Ticket, Vec<ReadJob>>,
}

impl AddressLookup {
    /// Returns whether address lookups are expected to save time.
    pub fn is_worthwhile(&self) -> bool {
        !self.pace.is_fast
    }

    /// Adds a file to look up.
    pub fn push(&mut self, job: ReadJob) {
        self.waiting.push_back(job);
    }

    /// Returns whether no lookup is waiting or in flight.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.in_flight.is_empty()
    }
}

impl<B: AsRef<[u8]>> Source<B> {
    /// Submits lookups.
    pub(super) fn submit_lookups(&mut self) {
        let details = Details { address: true, ..Details::default() };
        while self.addresses.in_flight.len() < MAX_LOOKUPS && !self.addresses.waiting.is_empty() {
            let count = self.addresses.waiting.len().min(FILES);
            let (mut jobs, mut at) = (Vec::new(), Vec::new());
            for job in self.addresses.waiting.drain(..count) {
                // Files may have failed meanwhile.
                if let Some(file) = self.files.get(&job.file().get()) {
                    at.push(file.path.clone());
                    jobs.push(job);
                }
            }
            let ticket = self.peer.submit(Operation::Stat { at, details, links: Vec::new() });
            self.addresses.in_flight.insert(ticket, jobs);
        }
    }

    /// Queues files for reading in the order of their addresses; a file without an address keeps
    /// its inode number as key. Returns `false` if the ticket belongs to another lookup.
    pub(super) fn addresses_found(
        &mut self,
        ticket: Ticket,
        found: &[Result<Option<FileInfo>, Fault>],
    ) -> bool {
        let Some(jobs) = self.addresses.in_flight.remove(&ticket) else { return false };
        for (job, found) in jobs.into_iter().zip(found) {
            let address = found.as_ref().ok().and_then(Option::as_ref).and_then(|found| found.address);
            let job = match address {
                Some(address) => job.with_key(address),
                None => job,
            };
            self.reading.push(&mut self.chunker, job);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skips_lookups_while_reads_are_faster_than_seeks() {
        let mut addresses = AddressLookup::default();
        assert!(addresses.is_worthwhile(), "nothing is measured yet");
        let mut now = Duration::ZERO;
        for (each, is_worthwhile) in [(100, false), (8_000, true), (249, false), (251, true)] {
            for _ in 0..SAMPLE / 8 {
                assert_eq!(addresses.is_worthwhile(), !addresses.pace.is_fast);
                now += 8 * Duration::from_micros(each);
                addresses.pace.read(8, now);
            }
            assert_eq!(addresses.is_worthwhile(), is_worthwhile, "{each} us");
        }
    }
}
