//! The port of this kernel: threads near a device that read and write files, and a link to the other side.

mod backpressure;
mod compression;
mod growth;
mod link;
pub mod net;
mod pool;
mod ring;
mod stream_set;
mod work_queue;
mod worker;

pub use link::{read_packet, write_packet, LinkError, StreamPair};
pub use pool::{Pool, Slab};
pub use ring::has_io_uring;
pub use stream_set::{streams_needed, StreamSet};
pub use work_queue::{GroupLoad, WorkSharing};

use crate::affinity::Mask;
use crate::files::Roots;
use backpressure::Backpressure;
use growth::{busy_time, Growth};
use link::Link;
use numaio_machine::port::{Event, Operation, Packet, Port, Ticket};
use numaio_machine::set::CpuSet;
use std::io;
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};
use stream_set::StreamSetLink;
use work_queue::WorkQueue;
use worker::Worker;

/// What a port is made of.
#[derive(Debug)]
pub struct Setting {
    /// Where files are.
    pub roots: Roots,
    /// Threads that read and write: at least one crew.
    pub worker_groups: Vec<WorkerGroup>,
    /// How many threads there may be in all where they wait for storage; as many as there are if it is fewer.
    pub most_threads: usize,
    /// Whether threads leave blocks of large files to io_uring(7), where they may.
    pub rings: bool,
    /// Where data from a stream is put; one of a crew's as a rule.
    pub pool: Arc<Pool>,
    /// Which crew helps which.
    pub share: WorkSharing,
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
pub struct WorkerGroup {
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
    work: Arc<WorkQueue>,
    events: Receiver<Event<Slab>>,
    link: Option<Link>,
    /// What came over the link and was not taken yet, and what did not go out yet.
    backpressure: Arc<Backpressure>,
    worker_groups: Vec<WorkerGroup>,
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
    pub fn over(setting: Setting, ends: StreamPair) -> io::Result<Self> {
        let ((to_us, from_us), backpressure) = (channel(), Backpressure::new(setting.may_pause));
        let link = Link::streams(ends, to_us.clone(), &setting.pool, &backpressure)?;
        Self::new(setting, (to_us, from_us), (link, backpressure))
    }

    /// A port whose link is several connections to another process.
    ///
    /// # Errors
    /// The kernel's, if threads cannot be started; or there are no connections of one direction, or more than buffers.
    pub fn over_streams(setting: Setting, lanes: StreamSet) -> io::Result<Self> {
        let ((to_us, from_us), backpressure) = (channel(), Backpressure::new(setting.may_pause));
        let way = (setting.sparing, &setting.network[..]);
        let link = StreamSetLink::new(lanes, way, to_us.clone(), &setting.pool, &backpressure)?;
        Self::new(setting, (to_us, from_us), (Link::StreamSet(link), backpressure))
    }

    fn new(
        setting: Setting,
        (done, events): (Sender<Event<Slab>>, Receiver<Event<Slab>>),
        (link, backpressure): (Link, Arc<Backpressure>),
    ) -> io::Result<Self> {
        let mut port = Self {
            roots: Arc::new(setting.roots),
            work: Arc::new(WorkQueue::new(&setting.worker_groups, setting.share)),
            events,
            link: Some(link),
            backpressure,
            worker_groups: setting.worker_groups,
            rings: setting.rings,
            done,
            workers: Vec::new(),
            growth: Growth::new(setting.most_threads, Instant::now()),
        };
        for group in 0..port.worker_groups.len() {
            (0..port.worker_groups[group].threads.max(1)).try_for_each(|_| port.spawn_worker(group))?;
        }
        Ok(port)
    }

    /// Starts a thread of a crew.
    fn spawn_worker(&mut self, number: usize) -> io::Result<()> {
        let group = &self.worker_groups[number];
        let worker = Worker {
            group: number,
            work: self.work.clone(),
            roots: self.roots.clone(),
            pool: group.pool.clone(),
            done: self.done.clone(),
            mask: group.cpus.as_ref().map(Mask::of),
            may_use_ring: self.rings,
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
        if !self.growth.should_double(threads, now, busy_time(), self.work.has_backlog() && !is_short) {
            return;
        }
        for number in 0..self.worker_groups.len() {
            let threads = self.worker_groups[number].threads.max(1);
            // Where there can be no more there are as many as there were.
            if (0..threads).try_for_each(|_| self.spawn_worker(number)).is_err() {
                return;
            }
            self.worker_groups[number].threads = 2 * threads;
            self.work.set_threads(number, 2 * threads);
        }
    }
}

/// Tries whether a thread may be bound to CPUs, with one that ends at once.
///
/// # Errors
/// The kernel's, if none of them is there for this process, a sandbox forbids to bind, or no thread can be started.
pub fn can_pin(cpus: &CpuSet) -> io::Result<()> {
    let mask = Mask::of(cpus);
    let tried = Builder::new().name("settle".to_owned()).spawn(move || mask.apply())?;
    tried.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
}

/// Binds the calling thread. One that may not run there runs elsewhere: slower, and not wrong.
fn pin_thread(mask: Option<&Mask>) {
    mask.into_iter().for_each(|mask| drop(mask.apply()));
}

impl Port for FilePort {
    type Buffer = Slab;

    fn submit(&mut self, ticket: Ticket, operation: Operation<Slab>) {
        let exclusive = self.roots.exclusive_file(&operation, || self.work.is_behind()).cloned();
        self.work.add(ticket, operation, exclusive);
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
            self.backpressure.mark_taken(packets, bytes);
        }
    }
}

impl Drop for FilePort {
    fn drop(&mut self) {
        // What was sent goes out before the link is closed.
        self.link.take();
        self.backpressure.close();
        self.work.close();
        // What was not sent in time holds buffers for as long as the other side likes.
        self.worker_groups.iter().for_each(|group| group.pool.close());
        // Buffers that wait to be heard of may be what a worker waits for.
        while self.workers.iter().any(|worker| !worker.is_finished()) {
            drop(self.events.recv_timeout(Duration::from_millis(5)));
        }
    }
}
