//! How packets get to the other side.
//!
//! On a stream a packet is two numbers of four bytes, the highest first: bytes of frames, and bytes of data. Then come
//! the frames, then the data.

use super::backpressure::{Backpressure, Unsent};
use super::pool::{Pool, Slab};
use super::stream_set::StreamSetLink;
use crate::interrupt::interrupted;
use numaio_machine::port::{Event, Packet, BLOCK, MOST_FRAMES};
use std::fmt;
use std::io::{self, Read, Write};
use std::sync::mpsc::{channel, sync_channel, Receiver, Sender, SyncSender};
use std::sync::Arc;
use std::thread::Builder;
use std::time::{Duration, Instant};

/// How long a side waits at its end for the next packet of what was sent to go out; one that was interrupted, for all of them.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Waits until all that was sent went out, or nothing does any more. Who writes says so of each packet, and drops its end at last.
pub fn await_drained(finished: &Receiver<()>) {
    await_progress(finished, DRAIN_TIMEOUT, interrupted);
}

fn await_progress(finished: &Receiver<()>, last: Duration, is_interrupted: impl Fn() -> bool) {
    let began = Instant::now();
    while finished.recv_timeout(last).is_ok() && !(is_interrupted() && began.elapsed() >= last) {}
}

/// Two streams to the other side.
pub struct StreamPair {
    /// What comes from there.
    pub from: Box<dyn Read + Send>,
    /// What goes there.
    pub to: Box<dyn Write + Send>,
}

impl fmt::Debug for StreamPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ends").finish_non_exhaustive()
    }
}

/// What is wrong with what comes from a stream.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// It ended.
    #[error("it was closed by the other side")]
    Closed,
    /// It ended in the midst of a packet.
    #[error("it was cut")]
    Truncated,
    /// A packet is larger than any may be.
    #[error("a packet of {frames} bytes of frames and {data} bytes of data came, more than there may be")]
    TooLong {
        /// Bytes of frames.
        frames: u32,
        /// Bytes of data.
        data: u32,
    },
    /// Packets are numbered, and this number came twice or not at all.
    #[error("packet {0} came twice, or not at all")]
    OutOfOrder(u64),
    /// The kernel's.
    #[error("{0}")]
    Failed(io::Error),
}

/// A packet that waits until it is written, and counts until then.
pub type Queued = (Packet<Slab>, Unsent);

#[derive(Debug)]
pub enum Link {
    /// What is sent is there: nothing waits to go out.
    Memory(Sender<Event<Slab>>),
    Streams {
        packets: Option<Sender<Queued>>,
        finished: Receiver<()>,
        backpressure: Arc<Backpressure>,
    },
    StreamSet(StreamSetLink),
}

impl Link {
    pub fn memory(peer: Sender<Event<Slab>>) -> Self {
        Self::Memory(peer)
    }

    /// What comes and what goes is counted in `backpressure`; what comes waits while there is none.
    pub fn streams(
        ends: StreamPair,
        events: Sender<Event<Slab>>,
        pool: &Arc<Pool>,
        backpressure: &Arc<Backpressure>,
    ) -> io::Result<Self> {
        // Of several packets one word is enough.
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

    /// Hands a packet over. Who hears of it no more is told otherwise that the link is gone.
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
            Self::Memory(peer) => drop(peer.send(Event::Closed("the other side ended".to_owned()))),
            Self::Streams { packets, finished, .. } => {
                packets.take();
                await_drained(finished);
            }
            // It ends by itself.
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

/// Why no more comes; none if nobody takes it.
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

/// Writes a packet, with something in front of it, and tells when its data is on its way.
///
/// # Errors
/// Those of the stream.
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
        // First, so that who hears of it finds the buffer free.
        drop(slab);
        drop(events.send(Event::Sent(length)));
    }
    Ok(())
}

/// Reads a packet; an end before its first byte is `on_eof`.
///
/// # Errors
/// [`LinkError`]: those of the stream; it ended, or announces more than a packet may have.
pub fn read_packet<R: Read + ?Sized>(
    from: &mut R,
    pool: &Arc<Pool>,
    on_eof: LinkError,
) -> Result<Packet<Slab>, LinkError> {
    let mut head = [0; 8];
    read_exact_or(from, &mut head, on_eof)?;
    let number = |bytes: &[u8]| bytes.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
    let (frames, data) = (number(&head[..4]), number(&head[4..]));
    if frames as usize > MOST_FRAMES || data as usize > BLOCK {
        return Err(LinkError::TooLong { frames, data });
    }
    let mut bytes = vec![0; frames as usize];
    read_exact_or(from, &mut bytes, LinkError::Truncated)?;
    let data = match data {
        0 => None,
        length => {
            // None if the port is closed: nobody hears why.
            let mut slab = pool.take().ok_or(LinkError::Closed)?;
            read_exact_or(from, &mut slab.as_mut()[..length as usize], LinkError::Truncated)?;
            Some((slab, length as usize))
        }
    };
    Ok(Packet { frames: bytes, data })
}

/// Fills a buffer; an end before its first byte is `on_eof`.
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
    /// What reading failed with.
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

    /// However long it takes, as long as something goes out; unless somebody waits for the end.
    #[test]
    fn the_last_packets_are_waited_for() {
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
        endless.join().expect("it ends when nobody waits");
    }

    #[test]
    fn packets_come_as_they_were_sent_and_lies_are_refused() {
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
        let (events, heard) = channel();
        let (progress, _over) = sync_channel(1);
        write_packets(Box::new(Shared(out.clone())), &queue, &events, &progress).expect("written");
        drop(events);
        assert!(matches!(heard.iter().collect::<Vec<_>>()[..], [Event::Sent(3)]), "one of them has data");
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
