//! Limits on received frames that were not yet taken, and on unsent frames before reading pauses.
//! Data needs no limit, since it is bounded by the buffers of the pool.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Maximum bytes of untaken frames (each reader may exceed it by one packet), and of unsent frames
/// before reading pauses.
const MAX_BYTES: usize = 64 << 20;
/// Bytes charged per packet in addition to its frames; more than its channel entry.
const PACKET_OVERHEAD: usize = 256;

/// Accounting of frames on a link. Readers of the link wait while it is full; receivers and senders
/// never wait.
#[derive(Debug, Default)]
pub struct Backpressure {
    used: Mutex<Used>,
    changed: Condvar,
    /// Whether unsent frames count as well. Otherwise a peer that sends requests but reads no
    /// answers would let them accumulate.
    may_pause: bool,
}

#[derive(Debug, Default)]
struct Used {
    /// Bytes received and not yet taken.
    bytes: usize,
    /// Bytes sent and not yet written.
    unsent: usize,
    closed: bool,
}

impl Used {
    fn is_full(&self) -> bool {
        self.bytes.max(self.unsent) > MAX_BYTES
    }
}

/// A packet to be written; dropping it marks the packet as written or discarded.
#[derive(Debug)]
pub struct Unsent {
    backpressure: Arc<Backpressure>,
    bytes: usize,
}

impl Drop for Unsent {
    fn drop(&mut self) {
        self.backpressure.free(|used| used.unsent -= self.bytes);
    }
}

impl Backpressure {
    /// Creates the accounting; `may_pause` makes readers wait for unsent frames, too.
    pub fn new(may_pause: bool) -> Arc<Self> {
        Arc::new(Self { may_pause, ..Self::default() })
    }

    /// Waits until more may be read. False if the link is closed.
    pub fn wait_for_capacity(&self) -> bool {
        let full = |used: &mut Used| used.is_full() && !used.closed;
        let used = self.changed.wait_while(self.used(), full);
        !used.unwrap_or_else(PoisonError::into_inner).closed
    }

    /// Counts a delivered packet.
    pub fn add_received(&self, frames: usize) {
        self.used().bytes += frames + PACKET_OVERHEAD;
    }

    /// Counts packets that the receiver took.
    pub fn mark_taken(&self, packets: usize, frames: usize) {
        self.free(|used| used.bytes = used.bytes.saturating_sub(frames + packets * PACKET_OVERHEAD));
    }

    /// Counts a packet to be written.
    pub fn track_unsent(self: &Arc<Self>, frames: usize) -> Unsent {
        let bytes = if self.may_pause { frames + PACKET_OVERHEAD } else { 0 };
        self.used().unsent += bytes;
        Unsent { backpressure: self.clone(), bytes }
    }

    /// Releases bytes and wakes waiting readers.
    fn free(&self, free: impl FnOnce(&mut Used)) {
        let mut used = self.used();
        let was_full = used.is_full();
        free(&mut used);
        drop(used);
        if was_full {
            self.changed.notify_all();
        }
    }

    /// Closes the link: waiting readers stop.
    pub fn close(&self) {
        self.used().closed = true;
        self.changed.notify_all();
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{FilePort, Pool, Setting, StreamPair};
    use super::*;
    use crate::files::Roots;
    use numaio_mover::port::Packet;
    use numaio_mover::port::{Event, Port, MAX_FRAME_BYTES};
    use std::io::{self, Read, Write};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::{Duration, Instant};

    /// A peer that sends packets endlessly and counts their bytes.
    struct Endless(Arc<AtomicUsize>);

    impl Read for Endless {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let head = [(MAX_FRAME_BYTES as u32).to_be_bytes(), [0; 4]].concat();
            let at = self.0.load(Ordering::SeqCst) % (head.len() + MAX_FRAME_BYTES);
            let count = match head.get(at..) {
                Some(rest) if !rest.is_empty() => {
                    let count = buffer.len().min(rest.len());
                    buffer[..count].copy_from_slice(&rest[..count]);
                    count
                }
                _ => buffer.len().min(head.len() + MAX_FRAME_BYTES - at),
            };
            self.0.fetch_add(count, Ordering::SeqCst);
            Ok(count)
        }
    }

    /// A peer that reads nothing until unlocked.
    struct Shut(Arc<Mutex<()>>);

    impl Write for Shut {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            drop(self.0.lock());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Creates a port without files.
    fn port(ends: StreamPair, may_pause: bool) -> FilePort {
        let roots = Roots::open(&[]).expect("nothing to open");
        let setting = Setting { may_pause, ..Setting::new(roots, 1, Pool::new(2)) };
        FilePort::over(setting, ends).expect("threads")
    }

    /// Waits until the number of bytes read no longer changes.
    fn settled(read: &AtomicUsize) -> usize {
        let mut before = 0;
        loop {
            let now = read.load(Ordering::SeqCst);
            if now == before && now > 0 {
                return now;
            }
            before = now;
            std::thread::sleep(Duration::from_millis(300));
        }
    }

    #[test]
    fn sender_waits_until_packets_are_taken() {
        let read = Arc::new(AtomicUsize::new(0));
        let ends = StreamPair { from: Box::new(Endless(read.clone())), to: Box::new(io::sink()) };
        let mut port = port(ends, false);
        let most = MAX_BYTES + 2 * MAX_FRAME_BYTES;
        let first = settled(&read);
        assert!((MAX_BYTES..most).contains(&first), "{first} bytes");
        let mut events = Vec::new();
        port.wait(Duration::from_secs(5), &mut events);
        let bytes = |event: &Event<_>| match event {
            Event::Received(packet) => packet.frames.len(),
            other => panic!("{other:?}"),
        };
        assert!((MAX_BYTES..most).contains(&events.iter().map(bytes).sum()));
        let second = settled(&read) - first;
        assert!((MAX_BYTES..most).contains(&second), "{second} bytes more");
        // A waiting reader stops with its port.
        let began = Instant::now();
        drop(port);
        while Arc::strong_count(&read) > 1 {
            assert!(began.elapsed() < Duration::from_secs(20), "a thread is still running");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn reading_pauses_while_peer_reads_no_answers_only_if_allowed() {
        for may_pause in [true, false] {
            let (read, lock) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(())));
            let shut = lock.lock().expect("a lock");
            let ends = StreamPair { from: Box::new(Endless(read.clone())), to: Box::new(Shut(lock.clone())) };
            let mut port = port(ends, may_pause);
            // The reader is active: the next packet may already be in transit.
            while read.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            for _ in 0..=MAX_BYTES / MAX_FRAME_BYTES {
                port.send(Packet { frames: vec![7; MAX_FRAME_BYTES], data: None });
            }
            // Everything received is taken, so that only unsent frames can pause the reader.
            let mut all_taken = |before: usize| {
                let now = settled(&read);
                port.wait(Duration::from_secs(5), &mut Vec::new());
                (now - before, now)
            };
            let (_, first) = all_taken(0);
            let (more, second) = all_taken(first);
            assert_eq!(more == 0, may_pause, "{more} bytes");
            drop(shut);
            let (more, _) = all_taken(second);
            assert!(more >= MAX_BYTES, "{more} bytes after everything was written");
        }
    }
}
