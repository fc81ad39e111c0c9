//! How long the storage of a port has not responded.

use numaio_mover::port::{Operation, Ticket};
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// Operations in progress, and when the last one completed.
#[derive(Debug)]
pub struct StorageStall {
    pending: HashSet<Ticket>,
    /// Those of them that may take as long as they like.
    slow: HashSet<Ticket>,
    since: Instant,
}

impl Default for StorageStall {
    fn default() -> Self {
        Self { pending: HashSet::new(), slow: HashSet::new(), since: Instant::now() }
    }
}

impl StorageStall {
    /// Records the start of an operation.
    pub fn submitted<B>(&mut self, ticket: Ticket, operation: &Operation<B>) {
        if self.pending.is_empty() {
            self.since = Instant::now();
        }
        self.pending.insert(ticket);
        if is_slow(operation) {
            self.slow.insert(ticket);
        }
    }

    /// Records the end of an operation.
    pub fn completed(&mut self, ticket: Ticket) {
        self.since = Instant::now();
        self.pending.remove(&ticket);
        self.slow.remove(&ticket);
    }

    /// Returns how long no operation has completed; zero if none is pending, or one that may take
    /// long.
    pub fn duration(&self) -> Duration {
        match self.pending.is_empty() || !self.slow.is_empty() {
            true => Duration::ZERO,
            false => self.since.elapsed(),
        }
    }
}

/// Returns whether the time of an operation depends on how much data is not yet written, or on the
/// size of a directory tree.
fn is_slow<B>(operation: &Operation<B>) -> bool {
    match operation {
        Operation::Sync { .. } | Operation::Remove(_) => true,
        Operation::Write { puts, .. } => {
            puts.iter().any(|put| put.settle.as_ref().is_some_and(|settle| settle.sync))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaio_mover::port::FilePath;

    #[test]
    fn stall_lasts_while_no_short_operation_completes() {
        let stat = || Operation::<Vec<u8>>::Remove(vec![FilePath::new(0, *b"a")]);
        let short = || Operation::<Vec<u8>>::Create(Vec::new());
        let pause = || std::thread::sleep(Duration::from_millis(2));
        let mut stall = StorageStall::default();
        pause();
        assert_eq!(stall.duration(), Duration::ZERO, "nothing is pending");
        stall.submitted(1, &short());
        stall.submitted(2, &short());
        pause();
        assert!(stall.duration() >= Duration::from_millis(2));
        stall.submitted(3, &stat());
        assert_eq!(stall.duration(), Duration::ZERO, "a removal may take long");
        stall.completed(3);
        pause();
        assert!(stall.duration() >= Duration::from_millis(2));
        stall.completed(1);
        stall.completed(2);
        assert_eq!(stall.duration(), Duration::ZERO);
    }
}
