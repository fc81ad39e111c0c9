//! Transport of packets to the peer.
//!
//! On a stream, a packet is two big-endian 4-byte lengths (frames, then data), followed by the
//! frames and the data.

use super::backpressure::{Backpressure, Unsent};
use super::pool::{Pool, Slab};
use super::stream_set::StreamSetLink;
use numaio_linux::interrupt::interrupted;
use numaio_mover::port::{Event, Packet, BLOCK, MAX_FRAME_BYTES};
use std::fmt;
use std::io::{self, Read, Write};
use std::sync::mpsc::{channel, sync_channel, Receiver, Sender, SyncSender};
use std::sync::Arc;
use std::thread::Builder;
use std::time::{Duration, Instant};

/// Time to wait at the end for the next sent packet to be written; after an interrupt, for all of
/// them.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Waits until all sent packets are written or progress stops. The writer reports each packet and
/// drops its sender when done.
pub fn await_drained(finished: &Receiver<()>) {
    await_progress(finished, DRAIN_TIMEOUT, interrupted);
}

fn await_progress(finished: &Receiver<()>, last: Duration, is_interrupted: impl Fn() -> bool) {
    let began = Instant::now();
    while finished.recv_timeout(last).is_ok() && !(is_interrupted() && began.elapsed() >= last) {}
}

/// A pair of byte streams to the peer.
pub struct StreamPair {
    /// Incoming stream.
    pub from: Box<dyn Read + Send>,
    /// Outgoing stream.
    pub to: Box<dyn Write + Send>,
}

impl fmt::Debug for StreamPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ends").finish_non_exhaustive()
    }
}

/// Error in data received from the link.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The stream ended.
    #[error("connection closed by the peer")]
    Closed,
    /// The stream ended within a packet.
    #[error("connection lost within a packet")]
    Truncated,
    /// A packet exceeds the size limit.
    #[error("packet too large: {frames} bytes of frames and {data} bytes of data")]
    TooLong {
        /// Bytes of frames.
        frames: u32,
        /// Bytes of data.
        data: u32,
    },
    /// A packet number was received twice or is missing.
    #[error("packet {0} received twice or missing")]
    OutOfOrder(u64),
    /// I/O error.
    #[error("{0}")]
    Failed(io::Error),
}

/// A packet waiting to be written, and its accounting.
pub type Queued = (Packet<Slab>, Unsent);

/// A link to the peer.
#[derive(Debug)]
pub enum Link {
    /// In-memory link: packets are delivered immediately.
    Memory(Sender<Event<Slab>>),
    Streams {
        packets: Option<Sender<Queued>>,
        finished: Receiver<()>,
        backpressure: Arc<Backpressure>,
    },
    StreamSet(StreamSetLink),
}

impl Link {
    /// Creates a link to a port of this process.
    pub fn memory(peer: Sender<Event<Slab>>) -> Self {
        Self::Memory(peer)
    }

    /// Starts the threads of a stream link. Packets are counted in `backpressure`, and reading
    /// pauses while it is full.
    pub fn streams(
        ends: StreamPair,
        events: Sender<Event<Slab>>,
        pool: &Arc<Pool>,
        backpressure: &Arc<Backpressure>,
    ) -> io::Result<Self> {
        // A capacity of one suffices: several pending reports mean the same as one.
        let ((packets, queue), (progress, finished)) = (channel(), sync_channel(1));
        let writer_events = events.clone();
        let write = move || {
            if let Err(error) = write_packets(ends.to, &queue, &writer_events, &progress) {
                drop(writer_events.send(Event::Closed(error.to_string())));
            }
            drop(progress);
        };
        let (pool, reads) = (pool.clone(), backpressure.clone());
        let read = move || {
            if let Some(why) = read_packets(ends.from, &pool, &reads, &events) {
                drop(events.send(Event::Closed(why.to_string())));
            }
        };
        Builder::new().name("link out".to_owned()).spawn(write)?;
        Builder::new().name("link in".to_owned()).spawn(read)?;
        Ok(Self::Streams { packets: Some(packets), finished, backpressure: backpressure.clone() })
    }

    /// Sends a packet. Write errors are reported by [`Event::Closed`].
    pub fn send(&self, packet: Packet<Slab>) {
        match self {
            Self::Memory(peer) => drop(peer.send(Event::Received(packet))),
            Self::Streams { packets: Some(packets), backpressure, .. } => {
                let counted = backpressure.track_unsent(packet.frames.len());
                drop(packets.send((packet, counted)));
            }
            Self::Streams { packets: None, .. } => {}
            Self::StreamSet(link) => link.send(packet),
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        match self {
            Self::Memory(peer) => drop(peer.send(Event::Closed("peer exited".to_owned()))),
            Self::Streams { packets, finished, .. } => {
                packets.take();
                await_drained(finished);
            }
            // The set drains itself when dropped.
            Self::StreamSet(_) => {}
        }
    }
}

fn write_packets(
    mut to: Box<dyn Write + Send>,
    queue: &Receiver<Queued>,
    events: &Sender<Event<Slab>>,
    progress: &SyncSender<()>,
) -> io::Result<()> {
    while let Ok((packet, _counted)) = queue.recv() {
        write_packet(&mut *to, &[], packet, events)?;
        let _ = progress.try_send(());
    }
    Ok(())
}

/// Returns why reading stopped; none if the receiver was dropped.
fn read_packets(
    mut from: Box<dyn Read + Send>,
    pool: &Arc<Pool>,
    backpressure: &Backpressure,
    events: &Sender<Event<Slab>>,
) -> Option<LinkError> {
    while backpressure.wait_for_capacity() {
        let packet = match read_packet(&mut *from, pool, LinkError::Closed) {
            Ok(packet) => packet,
            Err(why) => return Some(why),
        };
        backpressure.add_received(packet.frames.len());
        events.send(Event::Received(packet)).ok()?;
    }
    None
}

/// Writes a packet after a `prefix`, and reports when its data is written.
///
/// # Errors
/// I/O errors of the stream.
pub fn write_packet<W: Write + ?Sized>(
    to: &mut W,
    prefix: &[u8],
    packet: Packet<Slab>,
    events: &Sender<Event<Slab>>,
) -> io::Result<()> {
    let data = packet.data.as_ref().map_or(&[][..], |(slab, length)| &slab.as_ref()[..*length]);
    let (frames, lengths) = (&packet.frames[..], [packet.frames.len(), data.len()]);
    let [frames_length, data_length] = lengths.map(|length| (length as u32).to_be_bytes());
    to.write_all(&[prefix, &frames_length, &data_length, frames].concat())?;
    to.write_all(data)?;
    to.flush()?;
    if let Some((slab, length)) = packet.data {
        // Dropped first, so that the receiver of the event finds the buffer free.
        drop(slab);
        drop(events.send(Event::Sent(length)));
    }
    Ok(())
}

/// Reads a packet; an end of file before its first byte is the error `on_eof`.
///
/// # Errors
/// [`LinkError`]: an I/O error, a truncated packet, or lengths beyond the limits.
pub fn read_packet<R: Read + ?Sized>(
    from: &mut R,
    pool: &Arc<Pool>,
    on_eof: LinkError,
) -> Result<Packet<Slab>, LinkError> {
    let mut head = [0; 8];
    read_exact_or(from, &mut head, on_eof)?;
    let number = |bytes: &[u8]| bytes.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
    let (frames, data) = (number(&head[..4]), number(&head[4..]));
    if frames as usize > MAX_FRAME_BYTES || data as usize > BLOCK {
        return Err(LinkError::TooLong { frames, data });
    }
    let mut bytes = vec![0; frames as usize];
    read_exact_or(from, &mut bytes, LinkError::Truncated)?;
    let data = match data {
        0 => None,
        length => {
            // No buffer if the port is closed, where the error is not reported.
            let mut slab = pool.take().ok_or(LinkError::Closed)?;
            read_exact_or(from, &mut slab.as_mut()[..length as usize], LinkError::Truncated)?;
            Some((slab, length as usize))
        }
    };
    Ok(Packet { frames: bytes, data })
}

/// Fills a buffer; an end of file before its first byte is the error `on_eof`.
pub fn read_exact_or<R: Read + ?Sized>(
    from: &mut R,
    buffer: &mut [u8],
    on_eof: LinkError,
) -> Result<(), LinkError> {
    let mut used = 0;
    while used < buffer.len() {
        match from.read(&mut buffer[used..]) {
            Ok(0) if used == 0 => return Err(on_eof),
            Ok(0) => return Err(LinkError::Truncated),
            Ok(count) => used += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(LinkError::from_io(error)),
        }
    }
    Ok(())
}

impl LinkError {
    /// Converts an I/O error of a stream.
    pub fn from_io(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof => Self::Truncated,
            _ => Self::Failed(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn packets_round_trip_and_invalid_lengths_are_rejected() {
        let (pool, out) = (Pool::new(2), std::sync::Arc::new(std::sync::Mutex::new(Vec::new())));
        struct Shared(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);
        impl Write for Shared {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.lock().expect("a lock").extend_from_slice(bytes);
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let ((to, queue), backpressure) = (channel(), Backpressure::new(true));
        let mut slab = pool.take().expect("a buffer");
        slab.as_mut()[..3].copy_from_slice(b"abc");
        let send = |packet| to.send((packet, backpressure.track_unsent(0))).expect("sent");
        send(Packet { frames: b"frames".to_vec(), data: Some((slab, 3)) });
        send(Packet { frames: b"x".to_vec(), data: None });
        drop(to);
        let (events, reported) = channel();
        let (progress, _over) = sync_channel(1);
        write_packets(Box::new(Shared(out.clone())), &queue, &events, &progress).expect("written");
        drop(events);
        assert!(matches!(reported.iter().collect::<Vec<_>>()[..], [Event::Sent(3)]), "one of them has data");
        let bytes = out.lock().expect("a lock").clone();
        let mut from = &bytes[..];
        let first = read_packet(&mut from, &pool, LinkError::Closed).expect("a packet");
        assert_eq!(first.frames, b"frames");
        assert!(first.data.is_some_and(|(slab, length)| &slab.as_ref()[..length] == b"abc"));
        assert_eq!(read_packet(&mut from, &pool, LinkError::Closed).expect("a packet").frames, b"x");
        assert!(matches!(read_packet(&mut from, &pool, LinkError::Closed), Err(LinkError::Closed)));
        assert!(matches!(read_packet(&mut &bytes[..9], &pool, LinkError::Closed), Err(LinkError::Truncated)));
        let lie = [&u32::MAX.to_be_bytes()[..], &[0; 4]].concat();
        assert!(matches!(
            read_packet(&mut &lie[..], &pool, LinkError::Closed),
            Err(LinkError::TooLong { .. })
        ));
    }
}
