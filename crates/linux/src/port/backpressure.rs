//! How much may have come that nobody took yet, and how much may wait to go out before more is read. Data has buffers, of which there
//! are so many; frames have not.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Bytes of frames that may wait to be taken, each reader may add one packet; and that may wait to go out before readers wait.
const MAX_BYTES: usize = 64 << 20;
/// What a packet takes besides its frames, in bytes: more than its place in a channel.
const PACKET_OVERHEAD: usize = 256;

/// Room for what comes. Who reads a link waits while it is full; who takes what came never waits, nor does who sends.
#[derive(Debug, Default)]
pub struct Backpressure {
    used: Mutex<Used>,
    changed: Condvar,
    /// Whether it is full, too, while much waits to go out: else who sends what is answered, and reads no answers, has them pile up.
    may_pause: bool,
}

#[derive(Debug, Default)]
struct Used {
    /// Of what came and was not taken.
    bytes: usize,
    /// Of what was sent and did not go out.
    unsent: usize,
    closed: bool,
}

impl Used {
    fn is_full(&self) -> bool {
        self.bytes.max(self.unsent) > MAX_BYTES
    }
}

/// A packet that is to go out; when this is dropped it did, or never will.
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
    /// One whose readers also wait for what is to go out, if they may.
    pub fn new(may_pause: bool) -> Arc<Self> {
        Arc::new(Self { may_pause, ..Self::default() })
    }

    /// Waits until more may come. False if nobody will take it any more.
    pub fn wait_for_capacity(&self) -> bool {
        let full = |used: &mut Used| used.is_full() && !used.closed;
        let used = self.changed.wait_while(self.used(), full);
        !used.unwrap_or_else(PoisonError::into_inner).closed
    }

    /// A packet with so many bytes of frames is handed over.
    pub fn add_received(&self, frames: usize) {
        self.used().bytes += frames + PACKET_OVERHEAD;
    }

    /// Packets with so many bytes of frames in all were taken.
    pub fn mark_taken(&self, packets: usize, frames: usize) {
        self.free(|used| used.bytes = used.bytes.saturating_sub(frames + packets * PACKET_OVERHEAD));
    }

    /// A packet with so many bytes of frames is to go out.
    pub fn track_unsent(self: &Arc<Self>, frames: usize) -> Unsent {
        let bytes = if self.may_pause { frames + PACKET_OVERHEAD } else { 0 };
        self.used().unsent += bytes;
        Unsent { backpressure: self.clone(), bytes }
    }

    /// Makes room, and wakes who waits for it.
    fn free(&self, free: impl FnOnce(&mut Used)) {
        let mut used = self.used();
        let was_full = used.is_full();
        free(&mut used);
        drop(used);
        if was_full {
            self.changed.notify_all();
        }
    }

    /// Nothing is taken any more: whoever waits ends.
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
    use super::super::{FilePort, Pool, Setting, StreamPair, WorkerGroup};
    use super::*;
    use crate::files::Roots;
    use numaio_machine::port::Packet;
    use numaio_machine::port::{Event, Port, MOST_FRAMES};
    use std::io::{self, Read, Write};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::{Duration, Instant};

    /// A peer that sends packets of frames without an end, and counts their bytes.
    struct Endless(Arc<AtomicUsize>);

    impl Read for Endless {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let head = [(MOST_FRAMES as u32).to_be_bytes(), [0; 4]].concat();
            let at = self.0.load(Ordering::SeqCst) % (head.len() + MOST_FRAMES);
            let count = match head.get(at..) {
                Some(rest) if !rest.is_empty() => {
                    let count = buffer.len().min(rest.len());
                    buffer[..count].copy_from_slice(&rest[..count]);
                    count
                }
                _ => buffer.len().min(head.len() + MOST_FRAMES - at),
            };
            self.0.fetch_add(count, Ordering::SeqCst);
            Ok(count)
        }
    }

    /// A peer that reads nothing until this is unlocked.
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

    /// A port without files.
    fn port(ends: StreamPair, may_pause: bool) -> FilePort {
        let pool = Pool::new(2);
        let setting = Setting {
            roots: Roots::open(&[]).expect("nothing to open"),
            worker_groups: vec![WorkerGroup { threads: 1, cpus: None, pool: pool.clone() }],
            most_threads: 1,
            rings: false,
            pool,
            share: |_, _| None,
            sparing: false,
            may_pause,
            network: Vec::new(),
        };
        FilePort::over(setting, ends).expect("threads")
    }

    /// What was read when nothing more was for a while.
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
    fn who_sends_more_than_is_taken_waits_until_it_is_taken() {
        let read = Arc::new(AtomicUsize::new(0));
        let ends = StreamPair { from: Box::new(Endless(read.clone())), to: Box::new(io::sink()) };
        let mut port = port(ends, false);
        let most = MAX_BYTES + 2 * MOST_FRAMES;
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
        // A reader that waits ends with its port.
        let began = Instant::now();
        drop(port);
        while Arc::strong_count(&read) > 1 {
            assert!(began.elapsed() < Duration::from_secs(20), "a thread is left");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn who_reads_no_answers_is_read_no_more_unless_it_is_answers_that_come() {
        for may_pause in [true, false] {
            let (read, lock) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(())));
            let shut = lock.lock().expect("a lock");
            let ends = StreamPair { from: Box::new(Endless(read.clone())), to: Box::new(Shut(lock.clone())) };
            let mut port = port(ends, may_pause);
            // It reads: what is asked next may already be on its way.
            while read.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            for _ in 0..=MAX_BYTES / MOST_FRAMES {
                port.send(Packet { frames: vec![7; MOST_FRAMES], data: None });
            }
            // All of what came is taken: nothing but what did not go out can be in the way.
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
            assert!(more >= MAX_BYTES, "{more} bytes when all had gone out");
        }
    }
}
