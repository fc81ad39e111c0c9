//! How long the readers of a link have waited for the peer, and how many bytes the link has moved.

use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A reader that does not wait for the peer, but for a buffer, for its turn, or for its thread.
const BUSY: u64 = u64::MAX;
/// A reader that has stopped.
const STOPPED: u64 = u64::MAX - 1;

/// Since when each reader of a link waits for the peer, and the bytes of all packets.
#[derive(Debug)]
pub struct LinkActivity {
    began: Instant,
    /// Milliseconds from `began`, [`BUSY`] or [`STOPPED`].
    waiting_since: Vec<AtomicU64>,
    /// Bytes received, without TLS and TCP.
    received: AtomicU64,
    /// Bytes sent.
    sent: AtomicU64,
}

impl LinkActivity {
    /// Creates the state of a link with a number of readers.
    pub fn new(readers: usize) -> Arc<Self> {
        let waiting_since = (0..readers).map(|_| AtomicU64::new(BUSY)).collect();
        let (received, sent) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Self { began: Instant::now(), waiting_since, received, sent })
    }

    /// Returns how long nothing has arrived while every reader waited; zero while one is busy, or
    /// if all have stopped.
    pub fn silence(&self) -> Duration {
        let readers = self.waiting_since.iter().map(|since| since.load(Ordering::Relaxed));
        match readers.filter(|since| *since != STOPPED).max() {
            None | Some(BUSY) => Duration::ZERO,
            Some(since) => self.began.elapsed().saturating_sub(Duration::from_millis(since)),
        }
    }

    /// Returns the bytes that have been received.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Returns the bytes that have been sent.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Counts a sent packet.
    pub(super) fn add_sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    fn set(&self, reader: usize, state: u64) {
        if let Some(since) = self.waiting_since.get(reader) {
            since.store(state, Ordering::Relaxed);
        }
    }
}

/// A stream whose reads are recorded. Dropping it marks the reader as stopped.
pub struct ObservedReader<'a, R: Read + ?Sized> {
    from: &'a mut R,
    activity: &'a LinkActivity,
    /// Number of the reader.
    reader: usize,
}

impl<'a, R: Read + ?Sized> ObservedReader<'a, R> {
    /// Records the reads of a stream as those of a reader.
    pub fn new(from: &'a mut R, activity: &'a LinkActivity, reader: usize) -> Self {
        Self { from, activity, reader }
    }
}

impl<R: Read + ?Sized> Read for ObservedReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.activity.set(self.reader, self.activity.began.elapsed().as_millis() as u64);
        let read = self.from.read(buffer);
        self.activity.set(self.reader, BUSY);
        if let Ok(bytes) = read {
            self.activity.received.fetch_add(bytes as u64, Ordering::Relaxed);
        }
        read
    }
}

impl<R: Read + ?Sized> Drop for ObservedReader<'_, R> {
    fn drop(&mut self) {
        self.activity.set(self.reader, STOPPED);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;
    use std::thread;

    const LONG: Duration = Duration::from_millis(20);

    fn wait_for_silence(activity: &LinkActivity) {
        while activity.silence() < LONG {
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn silence_needs_all_readers_to_wait() {
        let activity = LinkActivity::new(2);
        assert_eq!(activity.silence(), Duration::ZERO, "no reader has started");
        let (mut ours, theirs) = UnixStream::pair().expect("sockets");
        thread::scope(|scope| {
            let activity = &*activity;
            scope.spawn(move || ObservedReader::new(&mut ours, activity, 0).read(&mut [0]));
            let (mut other, sender) = UnixStream::pair().expect("sockets");
            thread::sleep(LONG);
            assert_eq!(activity.silence(), Duration::ZERO, "one reader is busy");
            let second = scope.spawn(move || ObservedReader::new(&mut other, activity, 1).read(&mut [0]));
            wait_for_silence(activity);
            // A reader that has stopped does not count.
            drop(sender);
            second.join().expect("no panic").expect("an end");
            wait_for_silence(activity);
            theirs.try_clone().and_then(|mut far| std::io::Write::write_all(&mut far, &[1])).expect("sent");
            drop(theirs);
        });
        assert_eq!(activity.silence(), Duration::ZERO, "all have stopped");
        assert_eq!((activity.received(), activity.sent()), (1, 0));
    }
}
