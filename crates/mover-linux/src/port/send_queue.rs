//! Queue of packets to be written, and waiting for it to drain.

use super::backpressure::Unsent;
use super::pool::Slab;
use numaio_linux::interrupt::interrupted;
use numaio_mover::port::Packet;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// Time to wait at the end for the next sent packet to be written; after an interrupt, for all of
/// them.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// A packet waiting to be written, and its accounting.
pub type Queued = (Packet<Slab>, Unsent);

/// Waits until all sent packets are written or progress stops. The writer reports each packet and
/// drops its sender when done.
pub fn await_drained(finished: &Receiver<()>) {
    await_progress(finished, DRAIN_TIMEOUT, interrupted);
}

fn await_progress(finished: &Receiver<()>, last: Duration, is_interrupted: impl Fn() -> bool) {
    let began = Instant::now();
    while finished.recv_timeout(last).is_ok() && !(is_interrupted() && began.elapsed() >= last) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;

    /// Draining has no deadline while packets are written, unless the user interrupts.
    #[test]
    fn drain_waits_while_packets_are_written() {
        const LONG: Duration = Duration::from_secs(60);
        let (progress, finished) = sync_channel(1);
        let is_out = std::sync::atomic::AtomicBool::new(false);
        let is_done = || is_out.load(std::sync::atomic::Ordering::SeqCst);
        std::thread::scope(|scope| {
            let is_out = &is_out;
            scope.spawn(move || {
                for _ in 0..1_000 {
                    let _ = progress.try_send(());
                    std::thread::yield_now();
                }
                is_out.store(true, std::sync::atomic::Ordering::SeqCst);
                drop(progress);
            });
            await_progress(&finished, LONG, || false);
            assert!(is_done());
        });
        let (progress, finished) = sync_channel(1);
        let endless = std::thread::spawn(move || while progress.send(()).is_ok() {});
        await_progress(&finished, Duration::from_millis(1), || true);
        drop(finished);
        endless.join().expect("the writer stops without a receiver");
    }
}
