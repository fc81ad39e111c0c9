//! How much may have come that nobody took yet. Data that comes has buffers, of which there are so many; frames have not.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Bytes of frames that may wait to be taken; each reader may add one packet.
const MOST: usize = 64 << 20;
/// What a packet takes besides its frames, in bytes: more than its place in a channel.
const EACH: usize = 256;

/// Room for what comes. Who reads a link waits while it is full; who takes what came never waits.
#[derive(Debug, Default)]
pub struct Room {
    used: Mutex<Used>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Used {
    bytes: usize,
    over: bool,
}

impl Used {
    fn is_full(&self) -> bool {
        self.bytes > MOST
    }
}

impl Room {
    /// Waits until more may come. False if nobody will take it any more.
    pub fn wait(&self) -> bool {
        let full = |used: &mut Used| used.is_full() && !used.over;
        let used = self.changed.wait_while(self.used(), full);
        !used.unwrap_or_else(PoisonError::into_inner).over
    }

    /// A packet with so many bytes of frames is handed over.
    pub fn add(&self, frames: usize) {
        self.used().bytes += frames + EACH;
    }

    /// Packets with so many bytes of frames in all were taken.
    pub fn take(&self, packets: usize, frames: usize) {
        let mut used = self.used();
        let was_full = used.is_full();
        used.bytes = used.bytes.saturating_sub(frames + packets * EACH);
        drop(used);
        if was_full {
            self.changed.notify_all();
        }
    }

    /// Nothing is taken any more: whoever waits ends.
    pub fn end(&self) {
        self.used().over = true;
        self.changed.notify_all();
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Crew, Ends, FilePort, Pool, Setting};
    use super::*;
    use crate::files::Roots;
    use numaio_machine::port::{Event, Port, MOST_FRAMES};
    use std::io::{self, Read};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::Arc;
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
        let (read, pool) = (Arc::new(AtomicUsize::new(0)), Pool::new(2));
        let setting = Setting {
            roots: Roots::open(&[]).expect("nothing to open"),
            crews: vec![Crew { threads: 1, cpus: None, pool: pool.clone() }],
            most_threads: 1,
            rings: false,
            pool,
            share: |_, _| None,
            sparing: false,
            network: Vec::new(),
        };
        let ends = Ends { from: Box::new(Endless(read.clone())), to: Box::new(io::sink()) };
        let mut port = FilePort::over(setting, ends).expect("threads");
        let most = MOST + 2 * MOST_FRAMES;
        let first = settled(&read);
        assert!((MOST..most).contains(&first), "{first} bytes");
        let mut events = Vec::new();
        port.wait(Duration::from_secs(5), &mut events);
        let bytes = |event: &Event<_>| match event {
            Event::Received(packet) => packet.frames.len(),
            other => panic!("{other:?}"),
        };
        assert!((MOST..most).contains(&events.iter().map(bytes).sum()));
        let second = settled(&read) - first;
        assert!((MOST..most).contains(&second), "{second} bytes more");
        // A reader that waits ends with its port.
        let began = Instant::now();
        drop(port);
        while Arc::strong_count(&read) > 1 {
            assert!(began.elapsed() < Duration::from_secs(20), "a thread is left");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
