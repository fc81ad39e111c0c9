//! Keep-alives between the sides of a transfer, and the time limit for a silent peer.
//!
//! A keep-alive is a packet without frames. A side sends one when it has sent nothing for a while,
//! so that a peer that is busy is not mistaken for one that has vanished. A peer whose storage does
//! not respond reports that, and ends the transfer.

use numaio_mover::drive::TransferCore;
use numaio_mover::port::{Event, Packet, Port};
use numaio_mover::wire::Reason;
use numaio_mover_linux::port::{FilePort, Slab};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Keep-alives for each time limit, so that some may be late.
const PER_LIMIT: u32 = 4;
/// Longest interval of keep-alives.
const LONGEST_INTERVAL: Duration = Duration::from_secs(10);
/// Longest pause between two checks of a running process, which are at most 100 ms apart: after a
/// longer one the process was stopped, and may find what arrived meanwhile.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Sends keep-alives over a link, and detects a silent peer.
#[derive(Debug)]
pub struct LinkMonitor {
    /// Time limit; `None` without one.
    limit: Option<Duration>,
    last_sent: Instant,
    last_check: Instant,
    /// When this process began to run without a pause.
    running_since: Instant,
    /// Whether the peer was silent for too long.
    is_silent: bool,
    storage: StorageWatch,
}

/// Whether the storage of this side has not responded for the time limit.
#[derive(Debug, Clone, Default)]
pub struct StorageWatch(Arc<OnceLock<Duration>>);

impl StorageWatch {
    /// Stops a side whose storage does not respond.
    pub fn stop<B: AsRef<[u8]>>(&self, core: &mut impl TransferCore<B>) {
        if let Some(limit) = self.0.get() {
            let text = format!("the storage has not responded for {} s (--timeout)", limit.as_secs());
            core.stop(Reason::Other, &text);
        }
    }
}

impl LinkMonitor {
    /// A monitor of a new link; without a limit it does nothing.
    pub fn new(limit: Option<Duration>) -> Self {
        let now = Instant::now();
        let storage = StorageWatch::default();
        Self { limit, last_sent: now, last_check: now, running_since: now, is_silent: false, storage }
    }

    /// Records that a packet was sent.
    pub fn sent(&mut self) {
        self.last_sent = Instant::now();
    }

    /// Returns whether the peer was silent for too long, after which the link counts as closed.
    pub fn is_silent(&self) -> bool {
        self.is_silent
    }

    /// Returns a watch of this side's storage.
    pub fn storage(&self) -> StorageWatch {
        self.storage.clone()
    }

    /// Sends a keep-alive if one is due, and closes the link of a silent peer. Detects storage that
    /// does not respond.
    pub fn check(&mut self, port: &mut FilePort, events: &mut Vec<Event<Slab>>) {
        let Some(limit) = self.limit.filter(|_| !self.is_silent) else { return };
        let now = Instant::now();
        if now.duration_since(self.last_check) > LONGEST_PAUSE {
            self.running_since = now;
        }
        self.last_check = now;
        if now.duration_since(self.last_sent) >= (limit / PER_LIMIT).min(LONGEST_INTERVAL) {
            self.last_sent = now;
            port.send(Packet { frames: Vec::new(), data: None });
        }
        if port.storage_stall().min(now.duration_since(self.running_since)) >= limit {
            self.storage.0.get_or_init(|| limit);
            port.leave_threads();
        }
        if port.silence().min(now.duration_since(self.running_since)) >= limit {
            self.is_silent = true;
            port.abort_link();
            events.push(Event::Closed(silence_text(limit)));
        }
    }
}

/// Describes the silence of a peer.
pub fn silence_text(limit: Duration) -> String {
    format!("no sign of life for {} s (--timeout)", limit.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::port;
    use numaio_mover_linux::port::Pool;
    use std::os::unix::net::UnixStream;

    const LIMIT: Duration = Duration::from_millis(400);

    /// Runs both ends for a while, and returns whether each found the other one silent.
    fn run(limits: [Option<Duration>; 2]) -> [bool; 2] {
        let (ours, theirs) = UnixStream::pair().expect("sockets");
        let mut ends = [ours, theirs].map(|socket| port(socket, Pool::new(4)));
        let mut monitors = limits.map(LinkMonitor::new);
        let began = Instant::now();
        while began.elapsed() < 3 * LIMIT {
            for (end, monitor) in ends.iter_mut().zip(&mut monitors) {
                let mut events = Vec::new();
                end.wait(Duration::from_millis(5), &mut events);
                monitor.check(end, &mut events);
                let is_closed = events.iter().any(|event| matches!(event, Event::Closed(_)));
                assert_eq!(is_closed, monitor.is_silent(), "{events:?}");
                if is_closed {
                    return [monitors[0].is_silent(), monitors[1].is_silent()];
                }
            }
        }
        monitors.map(|monitor| monitor.is_silent())
    }

    #[test]
    fn keep_alives_prevent_the_end_of_an_idle_link() {
        assert_eq!(run([Some(LIMIT), Some(LIMIT)]), [false, false]);
        assert_eq!(run([Some(LIMIT), None]), [true, false], "the other end sends none");
        assert_eq!(run([None, None]), [false, false]);
    }
}
