//! A link over several connections. Packets are numbered; each goes out on whichever connection is free, and is handed
//! over in the order of the numbers.
//!
//! In front of a packet stands its number, in eight bytes, the highest first. A thread for each connection takes packets
//! from one queue, and a thread for each reads. A packet that is not in turn yet is put aside, so that its connection does not
//! stand still for a slower one; for that up to half of the buffers are used that connections leave. If there is no room a reader
//! waits with its packet: so the pool must have more buffers than there are connections, or the packet that is in turn
//! might get none. What is handed over and not taken has a limit (`room`), at which all readers wait. The queue of what goes out never
//! holds up who sends: what has data is bounded by the buffers of the pool, entries by how many of them a source may have under way, and
//! answers by `room`, too: a sink that has many to send reads no more.

use super::link::{await_last, read_packet, read_whole, write_packet, LinkError, Queued};
use super::net::{keep_little_unsent, least_round_trip, Beginning, Lane, Way};
use super::pool::{Pool, Slab};
use super::room::Room;
use super::settle;
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
const MOST_ASIDE: usize = 4 * MOST_FRAMES;

/// A round trip that is shorter is that of a machine room.
const SHORT: Duration = Duration::from_millis(1);

/// Connections to the other side.
#[derive(Debug)]
pub struct Lanes {
    /// What comes from there.
    pub from: Vec<Box<dyn Lane>>,
    /// What goes there.
    pub to: Vec<Box<dyn Lane>>,
}

impl Lanes {
    /// The address of the other side for each connection, those that go there first; none if it is gone, or its address holds on
    /// one interface alone (RFC 4007), so that no route tells the way there.
    pub fn peers(&self) -> Vec<Option<IpAddr>> {
        let peer = |socket: &TcpStream| match socket.peer_addr().ok()? {
            SocketAddr::V6(address) if address.scope_id() != 0 => None,
            address => Some(address.ip().to_canonical()),
        };
        self.to.iter().chain(&self.from).map(|lane| peer(lane.socket())).collect()
    }
}

/// The end of the link that sends.
pub struct LanesLink {
    packets: Option<Sender<Queued>>,
    over: Receiver<()>,
    shared: Arc<Shared>,
}

impl fmt::Debug for LanesLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LanesLink").finish_non_exhaustive()
    }
}

struct Shared {
    sockets: Vec<TcpStream>,
    events: Sender<Event<Slab>>,
    room: Arc<Room>,
    turns: Mutex<Turns>,
    changed: Condvar,
}

/// Whose turn it is.
#[derive(Debug)]
struct Turns {
    /// The number of the packet that is handed over next.
    next: u64,
    /// Packets that came before their turn, by number.
    aside: BTreeMap<u64, Packet<Slab>>,
    /// How many of these there may be.
    most: usize,
    /// Numbers of packets that readers wait with, as there is no room for them.
    held: Vec<u64>,
    /// Connections that packets may still come from.
    open: usize,
    /// Whether it was told that the link is gone.
    over: bool,
}

impl Turns {
    /// Whether the packet that is in turn can come no more, as all wait for it or have ended.
    fn is_stuck(&self) -> bool {
        let waits = !self.held.is_empty() || !self.aside.is_empty();
        waits && self.held.len() == self.open && !self.held.contains(&self.next)
    }

    /// Whether a packet can be put aside.
    fn have_room_for(&self, packet: &Packet<Slab>) -> bool {
        let frames: usize = self.aside.values().map(|packet| packet.frames.len()).sum();
        self.aside.len() < self.most && frames + packet.frames.len() <= MOST_ASIDE
    }

    /// Whether a packet came before.
    fn had(&self, number: u64) -> bool {
        number < self.next || self.aside.contains_key(&number)
    }
}

impl LanesLink {
    /// Connections of `lanes`, of which fewer are written to where that is better, if it is to be `sparing`. Their threads
    /// take `places` in turn, or run anywhere if there are none. What comes and what goes is counted in `room`.
    pub fn new(
        lanes: Lanes,
        (sparing, places): (bool, &[CpuSet]),
        events: Sender<Event<Slab>>,
        pool: &Arc<Pool>,
        room: &Arc<Room>,
    ) -> io::Result<Self> {
        let Lanes { from, mut to } = lanes;
        if from.is_empty() || to.is_empty() || from.len() >= pool.count() {
            return Err(io::Error::other(
                "there are too few buffers for so many connections, or no connections",
            ));
        }
        let sockets = from.iter().chain(&to).map(|lane| lane.socket().try_clone());
        let (aside, most) = (BTreeMap::new(), (pool.count() - from.len()) / 2);
        let turns = Turns { next: 0, aside, most, held: Vec::new(), open: from.len(), over: false };
        let shared = Arc::new(Shared {
            sockets: sockets.collect::<io::Result<_>>()?,
            events,
            room: room.clone(),
            turns: Mutex::new(turns),
            changed: Condvar::new(),
        });
        let (packets, queue) = channel();
        // Of both `said` is dropped first where a thread cannot be started: the link waits at its end for who may still say something.
        let (link, said) = {
            let (said, over) = sync_channel(1);
            (Self { packets: Some(packets), over, shared }, said)
        };
        let queue = Arc::new(Mutex::new((0, queue)));
        let mut places = places.iter().map(Mask::of).cycle();
        let is_short = is_short(&to);
        let mut unused = to.split_off(if sparing && is_short { enough(to.len()) } else { to.len() });
        if !is_short {
            to.iter().try_for_each(|lane| keep_little_unsent(lane.socket()))?;
        }
        for (index, lane) in to.into_iter().enumerate() {
            let (shared, queue, said) = (link.shared.clone(), queue.clone(), said.clone());
            let (mut unused, mask) = (std::mem::take(&mut unused), places.next());
            Builder::new().name(format!("lane out {index}")).spawn(move || {
                settle(mask.as_ref());
                let written = lane
                    .only(Way::Out)
                    .and_then(|mut lane| write_lane(&mut *lane, is_short, &queue, (&shared, &said)));
                let closed = written.and_then(|()| unused.iter_mut().try_for_each(|lane| lane.close()));
                if let Err(error) = closed {
                    shared.end(&words(&error));
                }
                drop(said);
            })?;
        }
        for (index, lane) in from.into_iter().enumerate() {
            let (shared, pool, mask) = (link.shared.clone(), pool.clone(), places.next());
            Builder::new().name(format!("lane in {index}")).spawn(move || {
                settle(mask.as_ref());
                let lane = lane.only(Way::In).map_err(LinkError::of);
                if let Err(error) = lane.and_then(|mut lane| read_lane(&mut *lane, &pool, &shared)) {
                    shared.end(&error.to_string());
                }
            })?;
        }
        Ok(link)
    }

    pub fn send(&self, packet: Packet<Slab>) {
        if let Some(packets) = &self.packets {
            let counted = self.shared.room.send(packet.frames.len());
            drop(packets.send((packet, counted)));
        }
    }
}

impl Drop for LanesLink {
    fn drop(&mut self) {
        self.packets.take();
        await_last(&self.over);
        self.shared.end("it was closed here");
    }
}

impl Shared {
    fn turns(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The link is gone: all threads end, and whoever listens is told why, once.
    fn end(&self, why: &str) {
        let was_over = std::mem::replace(&mut self.turns().over, true);
        self.changed.notify_all();
        self.room.end();
        // First, so that nothing more is sent by who hears of it: the other side is to see a lost connection, after
        // which it tries again, and not to hear that we lost it.
        self.sockets.iter().for_each(|socket| drop(socket.shutdown(Shutdown::Both)));
        if !was_over {
            drop(self.events.send(Event::Closed(why.to_owned())));
        }
    }

    /// Hands a packet over when it is its turn. False if there is nobody any more to hand it to.
    fn hand_over(&self, number: u64, packet: Packet<Slab>) -> Result<bool, LinkError> {
        let mut turns = self.turns();
        while !turns.over && number != turns.next {
            if turns.had(number) {
                return Err(LinkError::Order(number));
            }
            if turns.have_room_for(&packet) {
                turns.aside.insert(number, packet);
                return Ok(true);
            }
            turns.held.push(number);
            if turns.is_stuck() {
                return Err(LinkError::Order(turns.next));
            }
            turns = self.changed.wait(turns).unwrap_or_else(PoisonError::into_inner);
            turns.held.retain(|held| *held != number);
        }
        let mut in_turn = (!turns.over).then_some(packet);
        let mut heard = false;
        while let Some(packet) = in_turn {
            // Within the lock, so that the next one comes behind it.
            self.room.add(packet.frames.len());
            heard = self.events.send(Event::Received(packet)).is_ok();
            turns.next += 1;
            let next = turns.next;
            in_turn = turns.aside.remove(&next);
        }
        self.changed.notify_all();
        Ok(heard)
    }

    /// A connection ended in order.
    fn closed(&self) {
        let mut turns = self.turns();
        turns.open -= 1;
        let is_last = turns.open == 0;
        let why = if turns.is_stuck() { LinkError::Order(turns.next) } else { LinkError::Closed };
        drop(turns);
        // Others may wait for a packet that does not come any more.
        self.changed.notify_all();
        if is_last {
            self.end(&why.to_string());
        }
    }
}

/// How many of `most` connections are enough on the way of another one.
pub fn enough_on(way: &TcpStream, most: usize) -> usize {
    match least_round_trip(way).is_some_and(|time| time < SHORT) {
        true => enough(most),
        false => most,
    }
}

/// Whether the way is short. On a long one each connection is needed: one that loses a packet stands still for a while.
fn is_short(lanes: &[Box<dyn Lane>]) -> bool {
    let round_trip = lanes.iter().filter_map(|lane| least_round_trip(lane.socket())).min();
    round_trip.is_some_and(|time| time < SHORT)
}

/// How many connections of some are enough on a short way: no more than there are CPUs for, at both ends of which each takes
/// up most of one.
fn enough(lanes: usize) -> usize {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    lanes.min(cpus.div_ceil(2))
}

fn write_lane(
    lane: &mut dyn Lane,
    is_short: bool,
    queue: &Mutex<(u64, Receiver<Queued>)>,
    (shared, said): (&Shared, &SyncSender<()>),
) -> io::Result<()> {
    let mut beginning = Beginning::new(lane.socket(), is_short);
    loop {
        let (number, (packet, _counted)) = {
            let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
            let Ok(queued) = queue.1.recv() else { break };
            queue.0 += 1;
            (queue.0 - 1, queued)
        };
        write_packet(lane, &number.to_be_bytes(), packet, &shared.events)?;
        let _ = said.try_send(());
        beginning.look(lane.socket());
    }
    lane.close()
}

fn read_lane(lane: &mut dyn Lane, pool: &Arc<Pool>, shared: &Shared) -> Result<(), LinkError> {
    // Whoever waits here has nothing that others could wait for.
    while shared.room.wait() {
        let mut number = [0; 8];
        match read_whole(lane, &mut number, LinkError::Closed) {
            Err(LinkError::Closed) => {
                shared.closed();
                return Ok(());
            }
            read => read?,
        }
        let packet = read_packet(lane, pool, LinkError::Cut)?;
        if !shared.hand_over(u64::from_be_bytes(number), packet)? {
            return Ok(());
        }
    }
    Ok(())
}

fn words(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => LinkError::Cut.to_string(),
        _ => error.to_string(),
    }
}
