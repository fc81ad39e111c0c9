//! The port of this kernel: threads near a device that read and write files, and a link to the other side.

mod growth;
mod lanes;
mod link;
pub mod net;
mod own;
mod pool;
mod ring;
mod room;
mod work;
mod worker;

pub use lanes::{enough_on, Lanes};
pub use link::{read_packet, write_packet, Ends, LinkError};
pub use pool::{Pool, Slab};
pub use ring::has_rings;
pub use work::{Load, Share};

use crate::affinity::Mask;
use crate::files::Roots;
use growth::{busy, Growth};
use lanes::LanesLink;
use link::Link;
use numaio_machine::port::{Event, Operation, Packet, Port, Ticket};
use numaio_machine::set::CpuSet;
use room::Room;
use std::io;
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};
use work::Work;
use worker::Worker;

/// What a port is made of.
#[derive(Debug)]
pub struct Setting {
    /// Where files are.
    pub roots: Roots,
    /// Threads that read and write: at least one crew.
    pub crews: Vec<Crew>,
    /// How many threads there may be in all where they wait for storage; as many as there are if it is fewer.
    pub most_threads: usize,
    /// Whether threads leave blocks of large files to io_uring(7), where they may.
    pub rings: bool,
    /// Where data from a stream is put; one of a crew's as a rule.
    pub pool: Arc<Pool>,
    /// Which crew helps which.
    pub share: Share,
    /// Whether fewer connections are written to than there are, where that is better.
    pub sparing: bool,
    /// Whether nothing more is read from a link while much of what was sent there waits to go out. A sink's side may, which answers
    /// all that comes; a source's may not, which never stops reading answers: else each could wait for the other one.
    pub may_pause: bool,
    /// CPUs on which the threads of connections run, which take them in turn; anywhere if there are none.
    pub network: Vec<CpuSet>,
}

/// Threads in one place.
#[derive(Debug, Clone)]
pub struct Crew {
    /// How many, at least one.
    pub threads: usize,
    /// Where they run; anywhere if there is none.
    pub cpus: Option<CpuSet>,
    /// Where they put what they read; closed with the port.
    pub pool: Arc<Pool>,
}

/// A port over threads that block.
#[derive(Debug)]
pub struct FilePort {
    roots: Arc<Roots>,
    work: Arc<Work>,
    events: Receiver<Event<Slab>>,
    link: Option<Link>,
    /// What came over the link and was not taken yet, and what did not go out yet.
    room: Arc<Room>,
    crews: Vec<Crew>,
    rings: bool,
    done: Sender<Event<Slab>>,
    workers: Vec<JoinHandle<()>>,
    growth: Growth,
}

impl FilePort {
    /// Two ports whose links are each other: a transfer within one process. Data is handed over, not copied.
    ///
    /// # Errors
    /// The kernel's, if threads cannot be started.
    pub fn pair(one: Setting, other: Setting) -> io::Result<(Self, Self)> {
        let ((to_one, from_one), (to_other, from_other)) = (channel(), channel());
        // Who sends is of this process, and does not fill it: nothing is counted.
        let one =
            Self::new(one, (to_one.clone(), from_one), (Link::memory(to_other.clone()), Arc::default()))?;
        let other = Self::new(other, (to_other, from_other), (Link::memory(to_one), Arc::default()))?;
        Ok((one, other))
    }

    /// A port whose link is a pair of streams to another process.
    ///
    /// # Errors
    /// The kernel's, if threads cannot be started.
    pub fn over(setting: Setting, ends: Ends) -> io::Result<Self> {
        let ((to_us, from_us), room) = (channel(), Room::new(setting.may_pause));
        let link = Link::streams(ends, to_us.clone(), &setting.pool, &room)?;
        Self::new(setting, (to_us, from_us), (link, room))
    }

    /// A port whose link is several connections to another process.
    ///
    /// # Errors
    /// The kernel's, if threads cannot be started; or there are no connections of one direction, or more than buffers.
    pub fn over_lanes(setting: Setting, lanes: Lanes) -> io::Result<Self> {
        let ((to_us, from_us), room) = (channel(), Room::new(setting.may_pause));
        let way = (setting.sparing, &setting.network[..]);
        let link = LanesLink::new(lanes, way, to_us.clone(), &setting.pool, &room)?;
        Self::new(setting, (to_us, from_us), (Link::Lanes(link), room))
    }

    fn new(
        setting: Setting,
        (done, events): (Sender<Event<Slab>>, Receiver<Event<Slab>>),
        (link, room): (Link, Arc<Room>),
    ) -> io::Result<Self> {
        let mut port = Self {
            roots: Arc::new(setting.roots),
            work: Arc::new(Work::new(&setting.crews, setting.share)),
            events,
            link: Some(link),
            room,
            crews: setting.crews,
            rings: setting.rings,
            done,
            workers: Vec::new(),
            growth: Growth::new(setting.most_threads, Instant::now()),
        };
        for crew in 0..port.crews.len() {
            (0..port.crews[crew].threads.max(1)).try_for_each(|_| port.hire(crew))?;
        }
        Ok(port)
    }

    /// Starts a thread of a crew.
    fn hire(&mut self, number: usize) -> io::Result<()> {
        let crew = &self.crews[number];
        let worker = Worker {
            crew: number,
            work: self.work.clone(),
            roots: self.roots.clone(),
            pool: crew.pool.clone(),
            done: self.done.clone(),
            mask: crew.cpus.as_ref().map(Mask::of),
            may_ring: self.rings,
        };
        let name = format!("files {}", self.workers.len());
        let started = Builder::new().name(name).spawn(move || worker.run());
        let refused = |error: io::Error| {
            let words = format!("start a thread, after {}: {error}", self.workers.len());
            io::Error::new(error.kind(), words)
        };
        let worker = started.map_err(refused)?;
        self.workers.push(worker);
        Ok(())
    }

    /// Makes each crew twice as large if its threads wait for storage, and work for threads.
    fn grow(&mut self) {
        let (threads, now) = (self.workers.len(), Instant::now());
        if !self.growth.is_due(threads, now) {
            return;
        }
        // Buffers are short where the link is slow: more threads would wait for them, too.
        let is_short = self.work.was_short_of_buffers();
        if !self.growth.look(threads, now, busy(), self.work.has_backlog() && !is_short) {
            return;
        }
        for number in 0..self.crews.len() {
            let threads = self.crews[number].threads.max(1);
            // Where there can be no more there are as many as there were.
            if (0..threads).try_for_each(|_| self.hire(number)).is_err() {
                return;
            }
            self.crews[number].threads = 2 * threads;
            self.work.grew(number, 2 * threads);
        }
    }
}

/// Tries whether a thread may be bound to CPUs, with one that ends at once.
///
/// # Errors
/// The kernel's, if none of them is there for this process, a sandbox forbids to bind, or no thread can be started.
pub fn can_settle(cpus: &CpuSet) -> io::Result<()> {
    let mask = Mask::of(cpus);
    let tried = Builder::new().name("settle".to_owned()).spawn(move || mask.apply())?;
    tried.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
}

/// Binds the calling thread. One that may not run there runs elsewhere: slower, and not wrong.
fn settle(mask: Option<&Mask>) {
    mask.into_iter().for_each(|mask| drop(mask.apply()));
}

impl Port for FilePort {
    type Buffer = Slab;

    fn submit(&mut self, ticket: Ticket, operation: Operation<Slab>) {
        let alone = self.roots.alone(&operation, || self.work.is_behind()).cloned();
        self.work.add(ticket, operation, alone);
    }

    fn send(&mut self, packet: Packet<Slab>) {
        if let Some(link) = &self.link {
            link.send(packet);
        }
    }

    fn wait(&mut self, most: Duration, events: &mut Vec<Event<Slab>>) {
        self.grow();
        let before = events.len();
        match self.events.recv_timeout(most) {
            Ok(event) => events.push(event),
            // Our own workers hold the other end.
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
        }
        events.extend(self.events.try_iter());
        // Not one by one: what comes meanwhile would be taken, too, without an end.
        let frames = events[before..].iter().filter_map(|event| match event {
            Event::Received(packet) => Some(packet.frames.len()),
            _ => None,
        });
        let (packets, bytes) = frames.fold((0, 0), |(packets, bytes), frames| (packets + 1, bytes + frames));
        if packets > 0 {
            self.room.take(packets, bytes);
        }
    }
}

impl Drop for FilePort {
    fn drop(&mut self) {
        // What was sent goes out before the link is closed.
        self.link.take();
        self.room.end();
        self.work.close();
        // What was not sent in time holds buffers for as long as the other side likes.
        self.crews.iter().for_each(|crew| crew.pool.close());
        // Buffers that wait to be heard of may be what a worker waits for.
        while self.workers.iter().any(|worker| !worker.is_finished()) {
            drop(self.events.recv_timeout(Duration::from_millis(5)));
        }
    }
}
