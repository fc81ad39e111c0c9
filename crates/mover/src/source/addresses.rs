//! Where wanted files lie on a disk with a head: it is asked before they are read, so that they can be read in that order.

use super::Source;
use crate::chunk::ReadJob;
use numaio_machine::port::{Details, Fault, Found, Operation, Ticket};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Files that are looked at by one operation.
const FILES: usize = 512;
/// Such operations under way at a time.
const MAX_LOOKUPS: usize = 4;

/// Files or pieces of them that are read between two looks at how fast that goes.
const SAMPLE: usize = 512;
/// If one takes less than this, no head moves for it: the page cache has it, or the disk only says that it has a head, as those of
/// virtual machines do. Then asking would take longer than what it saves.
const FAST: Duration = Duration::from_micros(250);

/// How fast files are read.
#[derive(Debug, Default)]
pub(super) struct ReadPace {
    since: Duration,
    read: usize,
    is_fast: bool,
}

impl ReadPace {
    /// So many pieces were read by now.
    pub fn read(&mut self, pieces: usize, now: Duration) {
        self.read += pieces;
        if self.read >= SAMPLE {
            self.is_fast =
                now.saturating_sub(self.since).as_secs_f64() < FAST.as_secs_f64() * self.read as f64;
            (self.since, self.read) = (now, 0);
        }
    }
}

/// Files whose place is not known yet.
#[derive(Debug, Default)]
pub(super) struct AddressLookup {
    pub pace: ReadPace,
    waiting: VecDeque<ReadJob>,
    in_flight: BTreeMap<Ticket, Vec<ReadJob>>,
}

impl AddressLookup {
    /// Whether it is worth while to ask where files lie.
    pub fn is_worthwhile(&self) -> bool {
        !self.pace.is_fast
    }

    pub fn push(&mut self, job: ReadJob) {
        self.waiting.push_back(job);
    }

    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.in_flight.is_empty()
    }
}

impl<B: AsRef<[u8]>> Source<B> {
    /// Asks where files lie.
    pub(super) fn submit_lookups(&mut self) {
        let details = Details { address: true, ..Details::default() };
        while self.addresses.in_flight.len() < MAX_LOOKUPS && !self.addresses.waiting.is_empty() {
            let count = self.addresses.waiting.len().min(FILES);
            let (mut jobs, mut at) = (Vec::new(), Vec::new());
            for job in self.addresses.waiting.drain(..count) {
                // Files that failed meanwhile are left out.
                if let Some(file) = self.files.get(&job.file().get()) {
                    at.push(file.path.clone());
                    jobs.push(job);
                }
            }
            let ticket = self.peer.submit(Operation::Look { at, details, links: Vec::new() });
            self.addresses.in_flight.insert(ticket, jobs);
        }
    }

    /// Files were looked at: they are read by their places. What has none keeps the number of its inode for it. False if
    /// nobody asked here.
    pub(super) fn addresses_found(&mut self, ticket: Ticket, found: &[Result<Option<Found>, Fault>]) -> bool {
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
    fn it_is_not_asked_while_files_come_as_fast_as_no_head_moves() {
        let mut addresses = AddressLookup::default();
        assert!(addresses.is_worthwhile(), "nothing is known");
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
