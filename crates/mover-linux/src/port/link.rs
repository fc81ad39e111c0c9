//! Transport of packets to the peer.

use super::backpressure::Backpressure;
use super::link_activity::{LinkActivity, ObservedReader};
use super::packet::{read_packet, write_packet, LinkError};
use super::pool::{Pool, Slab};
use super::send_queue::{await_drained, Queued};
use super::stream_pair::StreamPair;
use super::stream_set::StreamSetLink;
use numaio_mover::port::{Event, Packet};
use std::io::{self, Read, Write};
use std::sync::mpsc::{channel, sync_channel, Receiver, Sender, SyncSender};
use std::sync::Arc;
use std::thread::Builder;

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
    /// pauses while it is full. Waiting for the peer is recorded in `activity`.
    pub fn streams(
        ends: StreamPair,
        events: Sender<Event<Slab>>,
        pool: &Arc<Pool>,
        (backpressure, activity): (&Arc<Backpressure>, &Arc<LinkActivity>),
    ) -> io::Result<Self> {
        // A capacity of one suffices: several pending reports mean the same as one.
        let ((packets, queue), (progress, finished)) = (channel(), sync_channel(1));
        let (writer_events, sent) = (events.clone(), activity.clone());
        let write = move || {
            let reports = (&writer_events, &progress);
            if let Err(error) = write_packets(ends.to, &queue, &sent, reports) {
                drop(writer_events.send(Event::Closed(error.to_string())));
            }
            drop(progress);
        };
        let (pool, reads, activity) = (pool.clone(), backpressure.clone(), activity.clone());
        let mut from = ends.from;
        let read = move || {
            let from = ObservedReader::new(&mut *from, &activity, 0);
            if let Some(why) = read_packets(from, &pool, &reads, &events) {
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
    activity: &LinkActivity,
    (events, progress): (&Sender<Event<Slab>>, &SyncSender<()>),
) -> io::Result<()> {
    while let Ok((packet, _counted)) = queue.recv() {
        activity.add_sent(write_packet(&mut *to, &[], packet, events)?);
        let _ = progress.try_send(());
    }
    Ok(())
}

/// Returns why reading stopped; none if the receiver was dropped.
fn read_packets(
    mut from: impl Read,
    pool: &Arc<Pool>,
    backpressure: &Backpressure,
    events: &Sender<Event<Slab>>,
) -> Option<LinkError> {
    while backpressure.wait_for_capacity() {
        let packet = match read_packet(&mut from, pool, LinkError::Closed) {
            Ok(packet) => packet,
            Err(why) => return Some(why),
        };
        backpressure.add_received(packet.frames.len());
        events.send(Event::Received(packet)).ok()?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let activity = LinkActivity::new(1);
        let to = Box::new(Shared(out.clone()));
        write_packets(to, &queue, &activity, (&events, &progress)).expect("written");
        assert_eq!(activity.sent(), out.lock().expect("a lock").len() as u64);
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
