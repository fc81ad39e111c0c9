//! Where wanted files lie on a disk with a head: it is asked before they are read, so that they can be read in that order.

use super::Source;
use crate::chunk::Job;
use numaio_machine::port::{Details, Fault, Found, Operation, Ticket};
use std::collections::{BTreeMap, VecDeque};

/// Files that are looked at by one operation.
const FILES: usize = 512;
/// Such operations under way at a time.
const LOOKS: usize = 4;

/// Files whose place is not known yet.
#[derive(Debug, Default)]
pub(super) struct Placing {
    waiting: VecDeque<Job>,
    under_way: BTreeMap<Ticket, Vec<Job>>,
}

impl Placing {
    pub fn push(&mut self, job: Job) {
        self.waiting.push_back(job);
    }

    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.under_way.is_empty()
    }
}

impl<B: AsRef<[u8]>> Source<B> {
    /// Asks where files lie.
    pub(super) fn place_on(&mut self) {
        let details = Details { address: true, ..Details::default() };
        while self.placing.under_way.len() < LOOKS && !self.placing.waiting.is_empty() {
            let count = self.placing.waiting.len().min(FILES);
            let (mut jobs, mut at) = (Vec::new(), Vec::new());
            for job in self.placing.waiting.drain(..count) {
                // Files that failed meanwhile are left out.
                if let Some(file) = self.files.get(&job.file().get()) {
                    at.push(file.path.clone());
                    jobs.push(job);
                }
            }
            let ticket = self.talk.submit(Operation::Look { at, details });
            self.placing.under_way.insert(ticket, jobs);
        }
    }

    /// Files were looked at: they are read by their places. What has none keeps the number of its inode for it. False if
    /// nobody asked here.
    pub(super) fn placed(&mut self, ticket: Ticket, found: &[Result<Option<Found>, Fault>]) -> bool {
        let Some(jobs) = self.placing.under_way.remove(&ticket) else { return false };
        for (job, found) in jobs.into_iter().zip(found) {
            let address = found.as_ref().ok().and_then(Option::as_ref).and_then(|found| found.address);
            let job = match address {
                Some(address) => job.with_key(address),
                None => job,
            };
            self.reading.push(&mut self.cutter, job);
        }
        true
    }
}
