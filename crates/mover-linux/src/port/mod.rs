//! Transfer port of the Linux kernel: pinned worker threads that read and write files, and a link
//! to the peer.

mod backpressure;
mod compression;
mod growth;
mod link;
mod link_activity;
pub mod net;
mod packet;
mod pinning;
mod pool;
mod ring;
mod send_queue;
mod storage_stall;
mod stream_pair;
mod stream_set;
mod work_queue;
mod worker;
mod worker_group;

pub use packet::{read_packet, write_packet, LinkError};
pub use pinning::can_pin;
pub use pool::{Pool, Slab};
pub use ring::has_io_uring;
pub use stream_pair::StreamPair;
pub use stream_set::{streams_needed, StreamSet};
pub use work_queue::{GroupLoad, WorkSharing};
pub use worker_group::WorkerGroup;

use crate::files::Roots;
use backpressure::Backpressure;
use growth::{busy_time, Growth};
use link::Link;
pub use link_activity::LinkActivity;
use numaio_linux::affinity::Mask;
use numaio_machine::set::CpuSet;
use numaio_mover::port::{Event, Operation, Packet, Port, Ticket};
use std::io;
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};
use storage_stall::StorageStall;
use stream_set::StreamSetLink;
use work_queue::WorkQueue;
use worker::Worker;

/// Configuration of a port.
#[derive(Debug)]
pub struct Setting {
    /// Directories below which files are read and written.
    pub roots: Roots,
    /// Groups of worker threads, at least one.
    pub worker_groups: Vec<WorkerGroup>,
    /// Index of the storage device of each root; roots without one are on the first.
    pub root_devices: Vec<usize>,
    /// Maximum number of threads while threads wait for storage; the configured number if that is
    /// larger.
    pub most_threads: usize,
    /// Whether threads may submit blocks of large files to io_uring(7).
    pub rings: bool,
    /// Buffers for data received from the link; usually the pool of a worker group.
    pub pool: Arc<Pool>,
    /// Decides which group an idle thread helps.
    pub share: WorkSharing,
    /// Whether to write to fewer connections than available on a path where that is faster.
    pub sparing: bool,
    /// Whether reading from the link pauses while much sent data is still unsent. A sink may pause,
    /// since it answers everything it receives. A source may not, since it must always read
    /// answers: otherwise both sides could wait for each other.
    pub may_pause: bool,
    /// CPU sets assigned to the connections' threads in turn; threads are unpinned if empty.
    pub network: Vec<CpuSet>,
}

impl Setting {
    /// Returns the setting of a port with one group of worker threads, whose number is fixed.
    pub fn new(roots: Roots, threads: usize, pool: Arc<Pool>) -> Self {
        Self {
            roots,
            worker_groups: vec![WorkerGroup::new(threads, None, pool.clone())],
            root_devices: Vec::new(),
            most_threads: threads,
            rings: false,
            pool,
            share: |_, _| None,
            sparing: false,
            may_pause: true,
            network: Vec::new(),
        }
    }
}

/// Port whose worker threads use blocking I/O and io_uring.
#[derive(Debug)]
pub struct FilePort {
    roots: Arc<Roots>,
    work: Arc<WorkQueue>,
    events: Receiver<Event<Slab>>,
    link: Option<Link>,
    activity: Arc<LinkActivity>,
    /// Accounting of received packets that were not yet taken, and of sent packets that are not yet
    /// written.
    backpressure: Arc<Backpressure>,
    worker_groups: Vec<WorkerGroup>,
    rings: bool,
    done: Sender<Event<Slab>>,
    workers: Vec<JoinHandle<()>>,
    growth: Growth,
    storage: StorageStall,
    /// Whether dropping the port does not wait for its threads.
    leaves_threads: bool,
}

impl FilePort {
    /// Creates two ports that are linked in memory, for a transfer within one process. Data is
    /// passed without a copy.
    ///
    /// # Errors
    /// I/O error if threads cannot be started.
    pub fn pair(one: Setting, other: Setting) -> io::Result<(Self, Self)> {
        let ((to_one, from_one), (to_other, from_other)) = (channel(), channel());
        // Both sides belong to this process, so unread packets are not limited.
        let link =
            |to: &Sender<Event<Slab>>| (Link::memory(to.clone()), Arc::default(), LinkActivity::new(0));
        let (to_one_link, to_other_link) = (link(&to_one), link(&to_other));
        let one = Self::new(one, (to_one, from_one), to_other_link)?;
        let other = Self::new(other, (to_other, from_other), to_one_link)?;
        Ok((one, other))
    }

    /// Creates a port whose link is a pair of byte streams to another process.
    ///
    /// # Errors
    /// I/O error if threads cannot be started.
    pub fn over(setting: Setting, ends: StreamPair) -> io::Result<Self> {
        let ((to_us, from_us), backpressure) = (channel(), Backpressure::new(setting.may_pause));
        let activity = LinkActivity::new(1);
        let link = Link::streams(ends, to_us.clone(), &setting.pool, (&backpressure, &activity))?;
        Self::new(setting, (to_us, from_us), (link, backpressure, activity))
    }

    /// Creates a port whose link is several connections to another process.
    ///
    /// # Errors
    /// I/O error if threads cannot be started, a direction has no connection, or there are fewer
    /// buffers than connections.
    pub fn over_streams(setting: Setting, streams: StreamSet) -> io::Result<Self> {
        let ((to_us, from_us), backpressure) = (channel(), Backpressure::new(setting.may_pause));
        let options = (setting.sparing, &setting.network[..]);
        let activity = LinkActivity::new(streams.from.len());
        let shared = (&backpressure, &activity);
        let link = StreamSetLink::new(streams, options, to_us.clone(), &setting.pool, shared)?;
        Self::new(setting, (to_us, from_us), (Link::StreamSet(link), backpressure, activity))
    }

    fn new(
        setting: Setting,
        (done, events): (Sender<Event<Slab>>, Receiver<Event<Slab>>),
        (link, backpressure, activity): (Link, Arc<Backpressure>, Arc<LinkActivity>),
    ) -> io::Result<Self> {
        let work = WorkQueue::new(&setting.worker_groups, setting.root_devices, setting.share);
        let mut port = Self {
            work: Arc::new(work.keeping_order(setting.roots.writes_in_order())),
            roots: Arc::new(setting.roots),
            events,
            link: Some(link),
            activity,
            backpressure,
            worker_groups: setting.worker_groups,
            rings: setting.rings,
            done,
            workers: Vec::new(),
            growth: Growth::new(setting.most_threads, Instant::now()),
            storage: StorageStall::default(),
            leaves_threads: false,
        };
        for group in 0..port.worker_groups.len() {
            (0..port.worker_groups[group].threads.max(1)).try_for_each(|_| port.spawn_worker(group))?;
        }
        Ok(port)
    }

    /// Returns the activity of the link, which also counts bytes until the port is dropped.
    pub fn activity(&self) -> Arc<LinkActivity> {
        self.activity.clone()
    }

    /// Returns how long nothing has arrived from the peer while this side waited for it; zero while
    /// this side does not read because its own storage is slow.
    pub fn silence(&self) -> Duration {
        self.activity.silence()
    }

    /// Returns how long no operation has completed, although the storage has some to complete; zero
    /// while the threads wait for buffers, which the peer holds up.
    pub fn storage_stall(&self) -> Duration {
        match self.work.is_waiting_for_buffer() {
            true => Duration::ZERO,
            false => self.storage.duration(),
        }
    }

    /// Makes dropping the port leave its threads, which wait for storage that does not respond.
    pub fn leave_threads(&mut self) {
        self.leaves_threads = true;
    }

    /// Closes the connections to a peer that does not respond, so that dropping the port does not
    /// wait for it. Streams of a process close when it is killed.
    pub fn abort_link(&self) {
        if let Some(Link::StreamSet(link)) = &self.link {
            link.abort();
        }
    }

    /// Starts a thread of a worker group.
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
        let name = format!("{} {}", group.name.as_deref().unwrap_or("files"), self.workers.len());
        let started = Builder::new().name(name).spawn(move || worker.run());
        let failed = |error: io::Error| {
            let message = format!("cannot start thread {}: {error}", self.workers.len());
            io::Error::new(error.kind(), message)
        };
        let worker = started.map_err(failed)?;
        self.workers.push(worker);
        Ok(())
    }

    /// Doubles the worker groups with queued operations if threads wait for storage.
    fn grow(&mut self) {
        let (threads, now) = (self.workers.len(), Instant::now());
        if !self.growth.is_due(threads, now) {
            return;
        }
        // Buffers run short where the link is slow: more threads would wait for buffers, too.
        let is_short = self.work.was_short_of_buffers();
        let is_growing = |(number, group): &(usize, &WorkerGroup)| {
            2 * group.threads.max(1) <= group.max_threads && self.work.has_backlog(*number)
        };
        let growing = self.worker_groups.iter().enumerate().filter(is_growing);
        let growing: Vec<usize> = growing.map(|(number, _)| number).collect();
        let added = growing.iter().map(|number| self.worker_groups[*number].threads.max(1)).sum();
        let is_behind = !growing.is_empty() && !is_short;
        if !self.growth.should_grow((threads, added), now, busy_time(), is_behind) {
            return;
        }
        for number in growing {
            let threads = self.worker_groups[number].threads.max(1);
            // If no more threads can be started, the port keeps its current ones.
            if (0..threads).try_for_each(|_| self.spawn_worker(number)).is_err() {
                return;
            }
            self.worker_groups[number].threads = 2 * threads;
            self.work.set_threads(number, 2 * threads);
        }
    }
}

impl Port for FilePort {
    type Buffer = Slab;

    fn submit(&mut self, ticket: Ticket, operation: Operation<Slab>) {
        self.storage.submitted(ticket, &operation);
        let exclusive = self.roots.exclusive_file(&operation, || self.work.is_behind()).cloned();
        let root = self.roots.root_read_by(&operation);
        self.work.add(ticket, operation, (root, exclusive));
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
            // Disconnection cannot happen: our own workers hold the sender.
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
        }
        events.extend(self.events.try_iter());
        for event in &events[before..] {
            if let Event::Done(ticket, _) = event {
                self.storage.completed(*ticket);
            }
        }
        // Taken in one batch, since packets arriving meanwhile could keep an incremental loop
        // running forever.
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
        // Sent packets are written before the link is closed.
        self.link.take();
        self.backpressure.close();
        self.work.close();
        // Packets that were not sent in time hold buffers for as long as the peer likes.
        self.worker_groups.iter().for_each(|group| group.pool.close());
        // A worker may wait for a buffer held by an event that was not received yet.
        while !self.leaves_threads && self.workers.iter().any(|worker| !worker.is_finished()) {
            drop(self.events.recv_timeout(Duration::from_millis(5)));
        }
    }
}
