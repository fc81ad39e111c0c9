//! The port of this kernel: threads near a device that read and write files, and a link to the other side.

mod link;
mod pool;

pub use link::{Ends, LinkError};
pub use pool::{Pool, Slab};

use crate::affinity::Mask;
use crate::files::Roots;
use link::Link;
use numaio_machine::ids::NodeId;
use numaio_machine::port::{Event, Operation, Packet, Port, Ticket};
use numaio_machine::set::CpuSet;
use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// How many operations a worker looks at to find one near it: more than a port has buffers as a rule.
const LOOK_AHEAD: usize = 64;

/// What a port is made of.
#[derive(Debug)]
pub struct Setting {
    /// Where files are.
    pub roots: Roots,
    /// Threads that read and write: at least one crew.
    pub crews: Vec<Crew>,
    /// Where data from a stream is put; one of a crew's as a rule.
    pub pool: Arc<Pool>,
}

/// Threads in one place. All crews of a port serve one queue.
#[derive(Debug, Clone)]
pub struct Crew {
    /// How many, at least one.
    pub threads: usize,
    /// Where they run; anywhere if there is none.
    pub cpus: Option<CpuSet>,
    /// Where they put what they read.
    pub pool: Arc<Pool>,
}

/// A port over threads that block.
#[derive(Debug)]
pub struct FilePort {
    work: Arc<Work>,
    events: Receiver<Event<Slab>>,
    link: Option<Link>,
    workers: Vec<JoinHandle<()>>,
}

/// What waits for a thread.
#[derive(Debug, Default)]
struct Work {
    queue: Mutex<Queue>,
    ready: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<(Ticket, Operation<Slab>)>,
    closed: bool,
}

impl FilePort {
    /// Two ports whose links are each other: a transfer within one process. Data is handed over, not copied.
    ///
    /// # Errors
    /// The kernel's, if threads cannot be started.
    pub fn pair(one: Setting, other: Setting) -> io::Result<(Self, Self)> {
        let ((to_one, from_one), (to_other, from_other)) = (channel(), channel());
        let one = Self::new(one, (to_one.clone(), from_one), Link::memory(to_other.clone()))?;
        let other = Self::new(other, (to_other, from_other), Link::memory(to_one))?;
        Ok((one, other))
    }

    /// A port whose link is a pair of streams to another process.
    ///
    /// # Errors
    /// The kernel's, if threads cannot be started.
    pub fn over(setting: Setting, ends: Ends) -> io::Result<Self> {
        let (to_us, from_us) = channel();
        let link = Link::streams(ends, to_us.clone(), &setting.pool)?;
        Self::new(setting, (to_us, from_us), link)
    }

    fn new(
        setting: Setting,
        (to_us, events): (Sender<Event<Slab>>, Receiver<Event<Slab>>),
        link: Link,
    ) -> io::Result<Self> {
        let work = Arc::new(Work::default());
        let mut port = Self { work: work.clone(), events, link: Some(link), workers: Vec::new() };
        let roots = Arc::new(setting.roots);
        let crews = setting.crews.iter();
        let workers = crews.flat_map(|crew| std::iter::repeat_n(crew, crew.threads.max(1)));
        for (index, crew) in workers.enumerate() {
            let (work, roots, pool) = (work.clone(), roots.clone(), crew.pool.clone());
            let (done, mask) = (to_us.clone(), crew.cpus.as_ref().map(Mask::of));
            let run = move || {
                // A thread that may not run there runs elsewhere: slower, and not wrong.
                mask.into_iter().for_each(|mask| drop(mask.apply()));
                while let Some((ticket, operation)) = work.next(pool.node()) {
                    let outcome = roots.run(operation, || pool.take());
                    if done.send(Event::Done(ticket, outcome)).is_err() {
                        return;
                    }
                }
            };
            port.workers.push(Builder::new().name(format!("files {index}")).spawn(run)?);
        }
        Ok(port)
    }
}

impl Work {
    /// What a worker on a node does next; waits until there is something, and is none at the end.
    fn next(&self, node: Option<NodeId>) -> Option<(Ticket, Operation<Slab>)> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(next) = queue.take(node) {
                return Some(next);
            }
            if queue.closed {
                return None;
            }
            queue = self.ready.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Queue {
    /// The oldest whose data does not lie on another node, if it is among the first; else the oldest, as an idle
    /// thread helps nobody.
    fn take(&mut self, node: Option<NodeId>) -> Option<(Ticket, Operation<Slab>)> {
        let mut first = self.waiting.iter().take(LOOK_AHEAD);
        let own = first.position(|(_, operation)| match operation {
            Operation::Write { data: Some(slab), .. } => slab.node().is_none() || slab.node() == node,
            _ => true,
        });
        self.waiting.remove(own.unwrap_or(0))
    }
}

impl Port for FilePort {
    type Buffer = Slab;

    fn submit(&mut self, ticket: Ticket, operation: Operation<Slab>) {
        let mut queue = self.work.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.waiting.push_back((ticket, operation));
        drop(queue);
        self.work.ready.notify_one();
    }

    fn send(&mut self, packet: Packet<Slab>) {
        if let Some(link) = &self.link {
            link.send(packet);
        }
    }

    fn wait(&mut self, most: Duration, events: &mut Vec<Event<Slab>>) {
        match self.events.recv_timeout(most) {
            Ok(event) => events.push(event),
            // Our own workers hold the other end.
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
        }
        events.extend(self.events.try_iter());
    }
}

impl Drop for FilePort {
    fn drop(&mut self) {
        // What was sent goes out before the link is closed.
        self.link.take();
        let mut queue = self.work.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.closed = true;
        queue.waiting.clear();
        drop(queue);
        self.work.ready.notify_all();
        // Buffers that wait to be heard of may be what a worker waits for.
        while self.workers.iter().any(|worker| !worker.is_finished()) {
            drop(self.events.recv_timeout(Duration::from_millis(5)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_takes_what_lies_near_it_first_and_all_at_last() {
        let pools = [Pool::placed(1, Some(NodeId(0))), Pool::placed(1, Some(NodeId(1)))];
        let write = |pool: &Arc<Pool>| Operation::Write {
            puts: Vec::new(),
            data: Some(pool.take()),
            hash: |_| Default::default(),
        };
        let mut queue = Queue::default();
        let sync = Operation::Sync { root: 0 };
        queue.waiting.extend([(1, write(&pools[0])), (2, write(&pools[1])), (3, sync)]);
        let mut take = || queue.take(Some(NodeId(1))).map(|(ticket, _)| ticket);
        assert_eq!([take(), take(), take(), take()], [Some(2), Some(3), Some(1), None]);
    }
}
