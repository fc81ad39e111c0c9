//! A link over several connections. Packets are numbered; each goes out on whichever connection is free, and is handed
//! over in the order of the numbers.
//!
//! In front of a packet stands its number, in eight bytes, the highest first. A thread for each connection takes packets
//! from one queue, and a thread for each reads. A packet that is not in turn yet is put aside, so that its connection does not
//! stand still for a slower one; for that up to half of the buffers are used that connections leave. If there is no room a reader
//! waits with its packet: so the pool must have more buffers than there are connections, or the packet that is in turn
//! might get none. What is handed over and not taken has a limit (`backpressure`), at which all readers wait. The queue of what goes out never
//! holds up who sends: what has data is bounded by the buffers of the pool, entries by how many of them a source may have under way, and
//! answers by `backpressure`, too: a sink that has many to send reads no more.

use super::backpressure::Backpressure;
use super::link::{await_drained, read_exact_or, read_packet, write_packet, LinkError, Queued};
use super::net::{limit_unsent, min_round_trip, DataStream, StreamDirection, UnpacedPhase};
use super::pin_thread;
use super::pool::{Pool, Slab};
use crate::affinity::Mask;
use numaio_machine::port::{Event, Packet, MOST_FRAMES};
use numaio_machine::set::CpuSet;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::sync::mpsc::{channel, sync_channel, Receiver, Sender, SyncSender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;

/// Bytes of frames that are put aside at most.
const MAX_EARLY_FRAME_BYTES: usize = 4 * MOST_FRAMES;

/// A round trip that is shorter is that of a machine room.
const SHORT_RTT: Duration = Duration::from_millis(1);

/// Connections to the other side.
#[derive(Debug)]
pub struct StreamSet {
    /// What comes from there.
    pub from: Vec<Box<dyn DataStream>>,
    /// What goes there.
    pub to: Vec<Box<dyn DataStream>>,
}

impl StreamSet {
    /// The address of the other side for each connection, those that go there first; none if it is gone, or its address holds on
    /// one interface alone (RFC 4007), so that no route tells the way there.
    pub fn peers(&self) -> Vec<Option<IpAddr>> {
        let peer = |socket: &TcpStream| match socket.peer_addr().ok()? {
            SocketAddr::V6(address) if address.scope_id() != 0 => None,
            address => Some(address.ip().to_canonical()),
        };
        self.to.iter().chain(&self.from).map(|stream| peer(stream.socket())).collect()
    }
}

/// The end of the link that sends.
pub struct StreamSetLink {
    packets: Option<Sender<Queued>>,
    finished: Receiver<()>,
    shared: Arc<Shared>,
}

impl fmt::Debug for StreamSetLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LanesLink").finish_non_exhaustive()
    }
}

struct Shared {
    sockets: Vec<TcpStream>,
    events: Sender<Event<Slab>>,
    backpressure: Arc<Backpressure>,
    order: Mutex<PacketOrder>,
    changed: Condvar,
}

/// Whose turn it is.
#[derive(Debug)]
struct PacketOrder {
    /// The number of the packet that is handed over next.
    next: u64,
    /// Packets that came before their turn, by number.
    early: BTreeMap<u64, Packet<Slab>>,
    /// How many of these there may be.
    max_early: usize,
    /// Numbers of packets that readers wait with, as there is no room for them.
    blocked: Vec<u64>,
    /// Connections that packets may still come from.
    open: usize,
    /// Whether it was told that the link is gone.
    closed: bool,
}

impl PacketOrder {
    /// Whether the packet that is in turn can come no more, as all wait for it or have ended.
    fn is_stuck(&self) -> bool {
        let waits = !self.blocked.is_empty() || !self.early.is_empty();
        waits && self.blocked.len() == self.open && !self.blocked.contains(&self.next)
    }

    /// Whether a packet can be put aside.
    fn can_hold(&self, packet: &Packet<Slab>) -> bool {
        let frames: usize = self.early.values().map(|packet| packet.frames.len()).sum();
        self.early.len() < self.max_early && frames + packet.frames.len() <= MAX_EARLY_FRAME_BYTES
    }

    /// Whether a packet came before.
    fn is_duplicate(&self, number: u64) -> bool {
        number < self.next || self.early.contains_key(&number)
    }
}

impl StreamSetLink {
    /// Connections of `streams`, of which fewer are written to where that is better, if it is to be `sparing`. Their threads
    /// take `placements` in turn, or run anywhere if there are none. What comes and what goes is counted in `backpressure`.
    pub fn new(
        streams: StreamSet,
        (sparing, placements): (bool, &[CpuSet]),
        events: Sender<Event<Slab>>,
        pool: &Arc<Pool>,
        backpressure: &Arc<Backpressure>,
    ) -> io::Result<Self> {
        let StreamSet { from, mut to } = streams;
        if from.is_empty() || to.is_empty() || from.len() >= pool.count() {
            return Err(io::Error::other(
                "there are too few buffers for so many connections, or no connections",
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
        // Of both `progress` is dropped first where a thread cannot be started: the link waits at its end for who may still say something.
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
        for (index, stream) in to.into_iter().enumerate() {
            let (shared, queue, progress) = (link.shared.clone(), queue.clone(), progress.clone());
            let (mut unused, mask) = (std::mem::take(&mut unused), placements.next());
            Builder::new().name(format!("lane out {index}")).spawn(move || {
                pin_thread(mask.as_ref());
                let written = stream.into_one_way(StreamDirection::Outgoing).and_then(|mut stream| {
                    write_stream(&mut *stream, is_short, &queue, (&shared, &progress))
                });
                let closed = written.and_then(|()| unused.iter_mut().try_for_each(|stream| stream.close()));
                if let Err(error) = closed {
                    shared.end(&write_error_text(&error));
                }
                drop(progress);
            })?;
        }
        for (index, stream) in from.into_iter().enumerate() {
            let (shared, pool, mask) = (link.shared.clone(), pool.clone(), placements.next());
            Builder::new().name(format!("lane in {index}")).spawn(move || {
                pin_thread(mask.as_ref());
                let stream = stream.into_one_way(StreamDirection::Incoming).map_err(LinkError::from_io);
                if let Err(error) = stream.and_then(|mut stream| read_stream(&mut *stream, &pool, &shared)) {
                    shared.end(&error.to_string());
                }
            })?;
        }
        Ok(link)
    }

    pub fn send(&self, packet: Packet<Slab>) {
        if let Some(packets) = &self.packets {
            let counted = self.shared.backpressure.track_unsent(packet.frames.len());
            drop(packets.send((packet, counted)));
        }
    }
}

impl Drop for StreamSetLink {
    fn drop(&mut self) {
        self.packets.take();
        await_drained(&self.finished);
        self.shared.end("it was closed here");
    }
}

impl Shared {
    fn order(&self) -> MutexGuard<'_, PacketOrder> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The link is gone: all threads end, and whoever listens is told why, once.
    fn end(&self, why: &str) {
        let was_over = std::mem::replace(&mut self.order().closed, true);
        self.changed.notify_all();
        self.backpressure.close();
        // First, so that nothing more is sent by who hears of it: the other side is to see a lost connection, after
        // which it tries again, and not to hear that we lost it.
        self.sockets.iter().for_each(|socket| drop(socket.shutdown(Shutdown::Both)));
        if !was_over {
            drop(self.events.send(Event::Closed(why.to_owned())));
        }
    }

    /// Hands a packet over when it is its turn. False if there is nobody any more to hand it to.
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
        let mut heard = false;
        while let Some(packet) = in_turn {
            // Within the lock, so that the next one comes behind it.
            self.backpressure.add_received(packet.frames.len());
            heard = self.events.send(Event::Received(packet)).is_ok();
            order.next += 1;
            let next = order.next;
            in_turn = order.early.remove(&next);
        }
        self.changed.notify_all();
        Ok(heard)
    }

    /// A connection ended in order.
    fn closed(&self) {
        let mut order = self.order();
        order.open -= 1;
        let is_last = order.open == 0;
        let why = if order.is_stuck() { LinkError::OutOfOrder(order.next) } else { LinkError::Closed };
        drop(order);
        // Others may wait for a packet that does not come any more.
        self.changed.notify_all();
        if is_last {
            self.end(&why.to_string());
        }
    }
}

/// How many of `most` connections are enough on the way of another one.
pub fn streams_needed(way: &TcpStream, most: usize) -> usize {
    match min_round_trip(way).is_some_and(|time| time < SHORT_RTT) {
        true => enough_streams(most),
        false => most,
    }
}

/// Whether the way is short. On a long one each connection is needed: one that loses a packet stands still for a while.
fn is_short(streams: &[Box<dyn DataStream>]) -> bool {
    let round_trip = streams.iter().filter_map(|stream| min_round_trip(stream.socket())).min();
    round_trip.is_some_and(|time| time < SHORT_RTT)
}

/// How many connections of some are enough on a short way: no more than there are CPUs for, at both ends of which each takes
/// up most of one.
fn enough_streams(streams: usize) -> usize {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    streams.min(cpus.div_ceil(2))
}

fn write_stream(
    stream: &mut dyn DataStream,
    is_short: bool,
    queue: &Mutex<(u64, Receiver<Queued>)>,
    (shared, progress): (&Shared, &SyncSender<()>),
) -> io::Result<()> {
    let mut unpaced = UnpacedPhase::new(stream.socket(), is_short);
    loop {
        let (number, (packet, _counted)) = {
            let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
            let Ok(queued) = queue.1.recv() else { break };
            queue.0 += 1;
            (queue.0 - 1, queued)
        };
        write_packet(stream, &number.to_be_bytes(), packet, &shared.events)?;
        let _ = progress.try_send(());
        unpaced.update(stream.socket());
    }
    stream.close()
}

fn read_stream(stream: &mut dyn DataStream, pool: &Arc<Pool>, shared: &Shared) -> Result<(), LinkError> {
    // Whoever waits here has nothing that others could wait for.
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
