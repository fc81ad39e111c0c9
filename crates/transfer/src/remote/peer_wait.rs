//! Waiting for a peer before a transfer: a login may be slow, ask for a password, or never end.

use super::silence_clock::SilenceClock;
use crate::reporter::{Notice, Reporter};
use crate::TransferError;
use numaio_linux::interrupt::interrupted;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{sync_channel, RecvTimeoutError};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How long a wait may take before it is reported.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes that are written at once; a slow connection makes progress by each part.
const WRITE_BYTES: usize = 64 << 10;

/// Waits for a host, which is not waited for without limit or notice.
pub struct PeerWait<'a, 'b> {
    /// Receives a notice of a long wait.
    pub reporter: &'a mut Reporter<'b>,
    /// Name of the host.
    pub host: &'a str,
    /// How long to wait without progress; `None` without a limit.
    pub limit: Option<Duration>,
}

/// Why a wait ended without a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitFailure {
    /// An interrupt.
    Interrupted,
    /// There was no progress for this time.
    TimedOut(Duration),
}

impl WaitFailure {
    /// The error for a host.
    pub fn error(self, host: &str) -> TransferError {
        let host = host.to_owned();
        match self {
            Self::Interrupted => TransferError::InterruptedBeforeReply { host },
            Self::TimedOut(limit) => TransferError::PeerTimedOut { host, seconds: limit.as_secs() },
        }
    }

    /// As [`error`](Self::error); the inner error allows a retry.
    ///
    /// # Errors
    /// An interrupt.
    pub fn attempt_error<T>(self, host: &str) -> Result<Result<T, TransferError>, TransferError> {
        match self {
            Self::Interrupted => Err(self.error(host)),
            Self::TimedOut(_) => Ok(Err(self.error(host))),
        }
    }
}

/// Progress of the work that is waited for: each step restarts the time limit.
#[derive(Debug, Clone, Default)]
pub struct WorkProgress(Arc<AtomicU64>);

impl WorkProgress {
    /// Records a step.
    pub fn step(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Writes bytes in parts, each of which is a step.
    pub fn write_all(&self, to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
        bytes.chunks(WRITE_BYTES).try_for_each(|part| to.write_all(part).map(|()| self.step()))
    }
}

impl PeerWait<'_, '_> {
    /// Runs `work`, which may wait for the host, in a thread.
    ///
    /// # Errors
    /// An interrupt, or the time limit. The thread then keeps running until the connection closes.
    pub fn run<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(WorkProgress) -> T + Send + 'static,
    ) -> Result<T, WaitFailure> {
        let (sender, done) = sync_channel(1);
        let progress = WorkProgress::default();
        let steps = progress.clone();
        thread::spawn(move || sender.send(work(progress)));
        let (mut silence, mut reached) = (SilenceClock::new(self.limit), 0);
        loop {
            match done.recv_timeout(POLL_INTERVAL) {
                Ok(done) => return Ok(done),
                Err(RecvTimeoutError::Timeout) => {}
                // The thread has panicked, which it has reported.
                Err(RecvTimeoutError::Disconnected) => return Err(WaitFailure::Interrupted),
            }
            if interrupted() {
                return Err(WaitFailure::Interrupted);
            }
            let (exceeded, steps) = (silence.poll(), steps.0.load(Ordering::Relaxed));
            if steps != reached {
                reached = steps;
                silence.restart();
            } else if let Some(limit) = exceeded {
                return Err(WaitFailure::TimedOut(limit));
            }
            self.reporter.alive();
            if silence.silent() >= PATIENCE {
                self.reporter.notice_once(Notice::Waiting { host: self.host.to_owned(), limit: self.limit });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event;
    use crate::reporter::{Observation, Observer};

    /// Counts notices and signs of life.
    #[derive(Default)]
    struct Counts(Vec<String>, usize);

    impl Observer for Counts {
        fn observe(&mut self, observation: Observation<'_>) {
            match observation {
                Observation::Notice(notice) => self.0.push(notice.to_string()),
                Observation::Event(Event::Alive {}) => self.1 += 1,
                other => panic!("unexpected {other:?}"),
            }
        }
    }

    fn wait<T: Send + 'static>(
        limit: Duration,
        work: impl FnOnce(WorkProgress) -> T + Send + 'static,
    ) -> (Result<T, WaitFailure>, Counts) {
        let mut counts = Counts::default();
        let mut reporter = Reporter::new(&mut counts, false);
        let ended = PeerWait { reporter: &mut reporter, host: "far", limit: Some(limit) }.run(work);
        (ended, counts)
    }

    #[test]
    fn time_limit_applies_to_work_without_progress() {
        let limit = Duration::from_millis(300);
        let (ended, counts) = wait(limit, |_| thread::sleep(Duration::from_secs(60)));
        assert_eq!(ended, Err(WaitFailure::TimedOut(limit)));
        assert!(counts.0.is_empty() && counts.1 > 0, "short waits are not reported");
        let (ended, _) = wait(limit, move |progress| {
            for _ in 0..12 {
                thread::sleep(limit / 6);
                progress.step();
            }
            7
        });
        assert_eq!(ended, Ok(7), "the work takes longer, but makes progress");
    }

    #[test]
    fn long_wait_is_reported_once() {
        let limit = PATIENCE + Duration::from_millis(500);
        let (ended, counts) = wait(limit, |_| thread::sleep(Duration::from_secs(60)));
        assert_eq!(ended, Err(WaitFailure::TimedOut(limit)));
        assert_eq!(counts.0, ["waiting for far to answer, for up to 5 s (--timeout)"]);
    }
}
