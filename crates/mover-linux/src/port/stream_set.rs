//! A link over several connections. Packets are numbered, sent on whichever connection is free, and
//! delivered in order.
//!
//! Each packet is preceded by its number (8 bytes, big-endian). One thread per outgoing connection
//! takes packets from a shared queue; one thread per incoming connection reads. Packets that arrive
//! early are held, so that their connection need not wait for a slower one; they may use half of
//! the buffers that connections leave. When that space is full, a reader blocks with its packet. So
//! the pool needs more buffers than there are connections, or the next packet in order might get
//! none.
//!
//! Delivered packets that were not taken are limited by `backpressure`, at which all readers pause.
//! The outgoing queue never blocks the sender: data is bounded by the buffers of the pool, entries
//! by the source's window, and answers by `backpressure`, since a sink with many unsent answers
//! stops reading.

use super::backpressure::Backpressure;
use super::link_activity::{LinkActivity, ObservedReader};
use super::net::{limit_unsent, min_round_trip, DataStream, UnpacedPhase};
use super::packet::{read_exact_or, read_packet, write_packet, LinkError};
use super::pinning::pin_thread;
use super::pool::{Pool, Slab};
use super::send_queue::{await_drained, Queued};
use numaio_linux::affinity::Mask;
use numaio_machine::set::CpuSet;
use numaio_mover::port::{Event, Packet, MAX_FRAME_BYTES};
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, ErrorKind, Read};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::sync::mpsc::{channel, sync_channel, Receiver, Sender, SyncSender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;

/// Maximum bytes of frames in packets that arrived early.
const MAX_EARLY_FRAME_BYTES: usize = 4 * MAX_FRAME_BYTES;

/// Round-trip times below this belong to a local network.
const SHORT_RTT: Duration = Duration::from_millis(1);

/// Data connections to the peer.
#[derive(Debug)]
pub struct StreamSet {
    /// Incoming connections.
    pub from: Vec<Box<dyn DataStream>>,
    /// Outgoing connections.
    pub to: Vec<Box<dyn DataStream>>,
}

impl StreamSet {
    /// Returns the peer's address of each connection, outgoing ones first; none for a lost
    /// connection or an IPv6 address scoped to an interface (RFC 4007), which no route lookup can
    /// resolve.
    pub fn peers(&self) -> Vec<Option<IpAddr>> {
        let peer = |socket: &TcpStream| match socket.peer_addr().ok()? {
            SocketAddr::V6(address) if address.scope_id() != 0 => None,
            address => Some(address.ip().to_canonical()),
        };
        self.to.iter().chain(&self.from).map(|stream| peer(stream.socket())).collect()
    }
}

/// Sending end of the link.
pub struct StreamSetLink {
    packets: Option<Sender<Queued>>,
    finished: Receiver<()>,
    shared: Arc<Shared>,
}

impl fmt::Debug for StreamSetLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamSetLink").finish_non_exhaustive()
    }
}

struct Shared {
    sockets: Vec<TcpStream>,
    events: Sender<Event<Slab>>,
    backpressure: Arc<Backpressure>,
    order: Mutex<PacketOrder>,
    changed: Condvar,
}

/// Order in which received packets are delivered.
#[derive(Debug)]
struct PacketOrder {
    /// Number of the next packet to deliver.
    next: u64,
    /// Packets that arrived early, by number.
    early: BTreeMap<u64, Packet<Slab>>,
    /// Maximum number of early packets.
    max_early: usize,
    /// Numbers of packets whose readers wait for space.
    blocked: Vec<u64>,
    /// Incoming connections that are still open.
    open: usize,
    /// Whether closing was already reported.
    closed: bool,
}

impl PacketOrder {
    /// Returns whether the next packet can never arrive: every reader is blocked or its connection
    /// has closed.
    fn is_stuck(&self) -> bool {
        let waits = !self.blocked.is_empty() || !self.early.is_empty();
        waits && self.blocked.len() == self.open && !self.blocked.contains(&self.next)
    }

    /// Returns whether an early packet can be held.
    fn can_hold(&self, packet: &Packet<Slab>) -> bool {
        let frames: usize = self.early.values().map(|packet| packet.frames.len()).sum();
        self.early.len() < self.max_early && frames + packet.frames.len() <= MAX_EARLY_FRAME_BYTES
    }

    /// Returns whether a packet number was already received.
    fn is_duplicate(&self, number: u64) -> bool {
        number < self.next || self.early.contains_key(&number)
    }
}

impl StreamSetLink {
    /// Creates a link over `streams`. If `sparing`, fewer connections are written to where that is
    /// faster. Threads are assigned `placements` in turn, or unpinned if empty. Packets are counted
    /// in `backpressure`, and waiting for the peer is recorded in `activity`.
    pub fn new(
        streams: StreamSet,
        (sparing, placements): (bool, &[CpuSet]),
        events: Sender<Event<Slab>>,
        pool: &Arc<Pool>,
        (backpressure, activity): (&Arc<Backpressure>, &Arc<LinkActivity>),
    ) -> io::Result<Self> {
        let StreamSet { from, mut to } = streams;
        if from.is_empty() || to.is_empty() || from.len() >= pool.count() {
            return Err(io::Error::other(
                "expected at least one connection per direction and fewer connections than buffers",
            ));
        }
        let sockets = from.iter().chain(&to).map(|stream| stream.socket().try_clone());
        let (early, max_early) = (BTreeMap::new(), (pool.count() - from.len()) / 2);
        let order =
            PacketOrder { next: 0, early, max_early, blocked: Vec::new(), open: from.len(), closed: false };
        let shared = Arc::new(Shared {
            sockets: sockets.collect::<io::Result<_>>()?,
            events,
            backpressure: backpressure.clone(),
            order: Mutex::new(order),
            changed: Condvar::new(),
        });
        let (packets, queue) = channel();
        // If a thread cannot be started, `progress` must be dropped before the link, whose drop
        // waits for all senders.
        let (link, progress) = {
            let (progress, finished) = sync_channel(1);
            (Self { packets: Some(packets), finished, shared }, progress)
        };
        let queue = Arc::new(Mutex::new((0, queue)));
        let mut placements = placements.iter().map(Mask::of).cycle();
        let is_short = is_short(&to);
        let mut unused = to.split_off(if sparing && is_short { enough_streams(to.len()) } else { to.len() });
        if !is_short {
            to.iter().try_for_each(|stream| limit_unsent(stream.socket()))?;
        }
        for (index, mut stream) in to.into_iter().enumerate() {
            let (shared, queue, progress) = (link.shared.clone(), queue.clone(), progress.clone());
            let (mut unused, mask) = (std::mem::take(&mut unused), placements.next());
            let activity = activity.clone();
            Builder::new().name(format!("data out {index}")).spawn(move || {
                pin_thread(mask.as_ref());
                let written = write_stream(&mut *stream, is_short, &queue, (&shared, &progress, &activity));
                let closed = written.and_then(|()| unused.iter_mut().try_for_each(|stream| stream.close()));
                if let Err(error) = closed {
                    shared.end(&write_error_text(&error));
                }
                drop(progress);
            })?;
        }
        for (index, mut stream) in from.into_iter().enumerate() {
            let (shared, pool, mask) = (link.shared.clone(), pool.clone(), placements.next());
            let activity = activity.clone();
            Builder::new().name(format!("data in {index}")).spawn(move || {
                pin_thread(mask.as_ref());
                let mut reader = ObservedReader::new(&mut *stream, &activity, index);
                if let Err(error) = read_stream(&mut reader, &pool, &shared) {
                    shared.end(&error.to_string());
                }
            })?;
        }
        Ok(link)
    }

    /// Queues a packet to be sent on any connection.
    pub fn send(&self, packet: Packet<Slab>) {
        if let Some(packets) = &self.packets {
            let counted = self.shared.backpressure.track_unsent(packet.frames.len());
            drop(packets.send((packet, counted)));
        }
    }
}

impl StreamSetLink {
    /// Closes all connections at once.
    pub fn abort(&self) {
        self.shared.end("connection closed locally");
    }
}

impl Drop for StreamSetLink {
    fn drop(&mut self) {
        self.packets.take();
        await_drained(&self.finished);
        self.shared.end("connection closed locally");
    }
}

impl Shared {
    fn order(&self) -> MutexGuard<'_, PacketOrder> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the link: all threads stop, and the reason is reported once.
    fn end(&self, why: &str) {
        let was_over = std::mem::replace(&mut self.order().closed, true);
        self.changed.notify_all();
        self.backpressure.close();
        // Sockets are shut down first, so that the peer sees a lost connection, after which it
        // retries, rather than our report of one.
        self.sockets.iter().for_each(|socket| drop(socket.shutdown(Shutdown::Both)));
        if !was_over {
            drop(self.events.send(Event::Closed(why.to_owned())));
        }
    }

    /// Delivers a packet in order. False if the receiver was dropped.
    fn hand_over(&self, number: u64, packet: Packet<Slab>) -> Result<bool, LinkError> {
        let mut order = self.order();
        while !order.closed && number != order.next {
            if order.is_duplicate(number) {
                return Err(LinkError::OutOfOrder(number));
            }
            if order.can_hold(&packet) {
                order.early.insert(number, packet);
                return Ok(true);
            }
            order.blocked.push(number);
            if order.is_stuck() {
                return Err(LinkError::OutOfOrder(order.next));
            }
            order = self.changed.wait(order).unwrap_or_else(PoisonError::into_inner);
            order.blocked.retain(|held| *held != number);
        }
        let mut in_turn = (!order.closed).then_some(packet);
        let mut is_delivered = false;
        while let Some(packet) = in_turn {
            // Under the lock, so that the next packet follows this one.
            self.backpressure.add_received(packet.frames.len());
            is_delivered = self.events.send(Event::Received(packet)).is_ok();
            order.next += 1;
            let next = order.next;
            in_turn = order.early.remove(&next);
        }
        self.changed.notify_all();
        Ok(is_delivered)
    }

    /// Handles the orderly end of a connection.
    fn closed(&self) {
        let mut order = self.order();
        order.open -= 1;
        let is_last = order.open == 0;
        let why = if order.is_stuck() { LinkError::OutOfOrder(order.next) } else { LinkError::Closed };
        drop(order);
        // Other readers may wait for a packet that can no longer arrive.
        self.changed.notify_all();
        if is_last {
            self.end(&why.to_string());
        }
    }
}

/// Returns how many of `most` connections are needed on the path of an existing connection.
pub fn streams_needed(path: &TcpStream, most: usize) -> usize {
    match min_round_trip(path).is_some_and(|time| time < SHORT_RTT) {
        true => enough_streams(most),
        false => most,
    }
}

/// Returns whether the path is short. On a long path every connection is needed, since one that
/// loses a packet stalls for a while.
fn is_short(streams: &[Box<dyn DataStream>]) -> bool {
    let round_trip = streams.iter().filter_map(|stream| min_round_trip(stream.socket())).min();
    round_trip.is_some_and(|time| time < SHORT_RTT)
}

/// Returns the number of connections that saturate a short path: each one nearly occupies a CPU at
/// both ends.
fn enough_streams(streams: usize) -> usize {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    streams.min(cpus.div_ceil(2))
}

fn write_stream(
    stream: &mut dyn DataStream,
    is_short: bool,
    queue: &Mutex<(u64, Receiver<Queued>)>,
    (shared, progress, activity): (&Shared, &SyncSender<()>, &LinkActivity),
) -> io::Result<()> {
    let mut unpaced = UnpacedPhase::new(stream.socket(), is_short);
    loop {
        let (number, (packet, _counted)) = {
            let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
            let Ok(queued) = queue.1.recv() else { break };
            queue.0 += 1;
            (queue.0 - 1, queued)
        };
        activity.add_sent(write_packet(stream, &number.to_be_bytes(), packet, &shared.events)?);
        let _ = progress.try_send(());
        unpaced.update(stream.socket());
    }
    stream.close()
}

fn read_stream(stream: &mut impl Read, pool: &Arc<Pool>, shared: &Shared) -> Result<(), LinkError> {
    // A reader that pauses here holds no packet that others could wait for.
    while shared.backpressure.wait_for_capacity() {
        let mut number = [0; 8];
        match read_exact_or(stream, &mut number, LinkError::Closed) {
            Err(LinkError::Closed) => {
                shared.closed();
                return Ok(());
            }
            read => read?,
        }
        let packet = read_packet(stream, pool, LinkError::Truncated)?;
        if !shared.hand_over(u64::from_be_bytes(number), packet)? {
            return Ok(());
        }
    }
    Ok(())
}

fn write_error_text(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => LinkError::Truncated.to_string(),
        _ => error.to_string(),
    }
}
