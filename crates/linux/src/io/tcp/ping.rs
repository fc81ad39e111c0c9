//! Ping-pong over TCP: one thread at each end, bound to CPUs, with its buffer on a node.
//!
//! One thread serves all rails of a message. On a single rail its calls block, as those of most
//! programs; on several it waits by poll(2) for whichever connection makes progress.

use super::protocol::MAX_RAILS;
use super::streams::{bind_thread, receive, refused, send};
use crate::affinity::Mask;
use crate::clock::nanoseconds;
use crate::memory::{self, Buffer, BufferRequest, FreeMemory};
use crate::probe::window::SlicePlan;
use numaio_machine::ids::NodeId;
use numaio_machine::probe::{ProbeError, Residency};
use numaio_machine::set::CpuSet;
use numaio_machine::workload::Pages;
use rustix::event::{poll, PollFd, PollFlags};
use std::io::{self, ErrorKind};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Instant;

/// Maximum number of round trips of a slice; the slice ends early after them.
const MAX_ROUND_TRIPS: usize = 1 << 20;
/// Stack size of the thread, as for streams.
const STACK_BYTES: usize = 128 << 10;

/// One end of a ping-pong.
#[derive(Debug)]
pub struct PingEnd {
    /// CPUs on which the thread may run.
    pub cpus: CpuSet,
    /// Node of the buffer and of kernel memory allocated by the thread.
    pub memory: NodeId,
    /// A connection for each part of the message.
    pub sockets: Vec<TcpStream>,
    /// Bytes of each part.
    pub parts: Vec<u64>,
}

/// The message in its buffer, with the connections of its parts.
pub struct Message<'a> {
    rails: Vec<RailPart<'a>>,
    buffer: &'a mut Buffer,
    /// Set before the sockets are shut down.
    stopped: &'a AtomicBool,
}

/// The part of a message on one connection.
struct RailPart<'a> {
    socket: &'a TcpStream,
    at: usize,
    bytes: usize,
}

/// Result of a thread's work.
pub struct PingRun<T, C> {
    /// The value of `conduct`.
    pub conducted: C,
    /// The value of `work`, or the error of a connection that was not shut down by this end.
    pub work: io::Result<T>,
    /// Page locations of the buffer.
    pub residency: Residency,
}

/// Stops the thread when dropped.
struct ShutdownOnDrop<'a>(&'a [TcpStream], &'a AtomicBool);

impl Drop for ShutdownOnDrop<'_> {
    fn drop(&mut self) {
        self.1.store(true, Ordering::Release);
        // Shutdown wakes a thread in a system call; an error means that it is closed already.
        self.0.iter().for_each(|socket| drop(socket.shutdown(Shutdown::Both)));
    }
}

/// Runs `work` on a bound thread, and `conduct` meanwhile, which can ask whether the thread has
/// ended. The connections are shut down when `conduct` returns.
///
/// # Errors
/// [`ProbeError`] if the thread or the buffer cannot be placed, and errors of `conduct`.
pub fn run<T: Send, C, E: From<ProbeError>>(
    free_memory: &FreeMemory,
    end: &PingEnd,
    work: impl FnOnce(&mut Message) -> io::Result<T> + Send,
    conduct: impl FnOnce(&dyn Fn() -> bool) -> Result<C, E>,
) -> Result<PingRun<T, C>, E> {
    for socket in &end.sockets {
        prepare_socket(socket).map_err(|error| refused("set up a connection", &error))?;
    }
    let bytes = end.parts.iter().sum();
    let wanted = [BufferRequest { node: end.memory, bytes, offset_lines: 0 }];
    let mut buffers = memory::map_buffers(free_memory, Pages::Base, &wanted)?;
    // With one node binding is unnecessary, and sandboxes often forbid it.
    let bind = (!free_memory.has_one_node()).then_some(end.memory);
    let (mask, stopped) = (&Mask::of(&end.cpus), &AtomicBool::new(false));
    let (prepared_sender, prepared) = channel();
    thread::scope(|scope| {
        let ending = ShutdownOnDrop(&end.sockets, stopped);
        let buffers = &mut buffers;
        let task = move || {
            let buffer = buffers.first_mut()?;
            let ready = bind_thread(mask, bind).and_then(|()| buffer.fill());
            let before = memory::locate_pages(buffer);
            let is_ready = ready.is_ok();
            // The other end of this channel waits for the result.
            let _ = prepared_sender.send(ready);
            let done =
                is_ready.then(|| work(&mut Message { rails: rails(end), buffer: &mut *buffer, stopped }))?;
            Some((done, [before, memory::locate_pages(buffer)]))
        };
        let builder = thread::Builder::new().name("ping".to_owned()).stack_size(STACK_BYTES);
        let thread = builder.spawn_scoped(scope, task).map_err(|error| refused("start a thread", &error))?;
        let lost = || Err(refused("start a thread", &io::Error::other("it ended early")));
        prepared.recv().unwrap_or_else(|_| lost())?;
        let conducted = conduct(&|| thread.is_finished());
        drop(ending);
        let ended = thread.join().ok().flatten();
        let (work, pages) = ended.ok_or_else(|| refused("run a thread", &io::Error::other("it panicked")))?;
        Ok(PingRun { conducted: conducted?, work, residency: memory::merge(pages, 0) })
    })
}

/// Removes timeouts, since shutdown ends blocked calls, and sends small messages at once.
fn prepare_socket(socket: &TcpStream) -> io::Result<()> {
    socket.set_nonblocking(false)?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(None)?;
    socket.set_write_timeout(None)
}

/// Returns the connections that carry a part, with the place of the part in the message.
fn rails(end: &PingEnd) -> Vec<RailPart<'_>> {
    let mut at = 0;
    let mut rails = Vec::new();
    for (socket, bytes) in end.sockets.iter().zip(&end.parts) {
        let bytes = *bytes as usize;
        if bytes > 0 {
            rails.push(RailPart { socket, at, bytes });
        }
        at += bytes;
    }
    rails
}

impl Message<'_> {
    /// Sends the message and waits for its return, repeatedly: a warm-up slice, then those of the
    /// plan. Returns the times of the round trips of each slice in nanoseconds.
    ///
    /// # Errors
    /// The error of a connection. A run that is stopped returns what was measured before.
    pub fn ping(&mut self, plan: SlicePlan) -> io::Result<Vec<Vec<u64>>> {
        let epoch = Instant::now();
        let mut slices = Vec::new();
        for slice in 0..=plan.slices {
            let mut times = Vec::new();
            let mut before = nanoseconds(epoch);
            let end = before.saturating_add(plan.slice_ns);
            // A slice has at least one round trip, so that large messages have samples too.
            while times.is_empty() || (before < end && times.len() < MAX_ROUND_TRIPS) {
                if self.move_all(false)?.and(self.move_all(true)?).is_none() {
                    return Ok(slices);
                }
                let now = nanoseconds(epoch);
                times.push(now - before);
                before = now;
            }
            if slice > 0 {
                slices.push(times);
            }
        }
        Ok(slices)
    }

    /// Returns each message when it has arrived completely, until the run is stopped.
    ///
    /// # Errors
    /// The error of a connection.
    pub fn echo(&mut self) -> io::Result<()> {
        while self.move_all(true)?.and(self.move_all(false)?).is_some() {}
        Ok(())
    }

    /// Sends or receives all parts; none if the run is stopped.
    fn move_all(&mut self, receives: bool) -> io::Result<Option<()>> {
        match self.move_parts(receives) {
            Ok(()) => Ok(Some(())),
            Err(_) if self.stopped.load(Ordering::Acquire) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn move_parts(&mut self, receives: bool) -> io::Result<()> {
        let flags = if self.rails.len() == 1 { 0 } else { libc::MSG_DONTWAIT };
        let mut done = [0; MAX_RAILS];
        loop {
            let (mut is_complete, mut has_moved) = (true, false);
            for (rail, done) in self.rails.iter().zip(&mut done) {
                if *done == rail.bytes {
                    continue;
                }
                let (fd, at, left) = (rail.socket.as_raw_fd(), rail.at + *done, rail.bytes - *done);
                let moved = match receives {
                    true => receive(fd, self.buffer, at, left, flags),
                    false => send(fd, self.buffer, at, left, flags),
                };
                match moved {
                    Ok(bytes) => (*done, has_moved) = (*done + bytes, true),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error),
                }
                is_complete &= *done == rail.bytes;
            }
            if is_complete {
                return Ok(());
            }
            if !has_moved {
                self.wait(&done, receives)?;
            }
        }
    }

    /// Waits until a connection with an incomplete part is ready.
    fn wait(&self, done: &[usize], receives: bool) -> io::Result<()> {
        let events = if receives { PollFlags::IN } else { PollFlags::OUT };
        let waiting = self.rails.iter().zip(done).filter(|(rail, done)| **done < rail.bytes);
        let mut ready: Vec<PollFd> = waiting.map(|(rail, _)| PollFd::new(rail.socket, events)).collect();
        match poll(&mut ready, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Root;
    use numaio_machine::ids::CpuId;
    use std::net::TcpListener;

    /// Returns both ends of a number of connections.
    fn connections(count: usize) -> (Vec<TcpStream>, Vec<TcpStream>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let pair = |_| {
            let near = TcpStream::connect(address).expect("a connection");
            (near, listener.accept().expect("a connection").0)
        };
        (0..count).map(pair).unzip()
    }

    fn end(sockets: Vec<TcpStream>, parts: &[u64]) -> PingEnd {
        // The kernel ignores CPUs that do not exist.
        let cpus = (0..64).map(CpuId).collect();
        PingEnd { cpus, memory: NodeId(0), sockets, parts: parts.to_vec() }
    }

    /// Sends messages to an end that returns them; returns the times of each slice.
    fn exchange(parts: &[u64], plan: SlicePlan) -> Vec<Vec<u64>> {
        let (near, far) = connections(parts.len());
        let (near, far) = (end(near, parts), end(far, parts));
        let root = &Root::live().expect("a root");
        thread::scope(|scope| {
            let echo = scope.spawn(move || {
                let free = FreeMemory::new(root, None);
                let wait = |is_finished: &dyn Fn() -> bool| {
                    while !is_finished() {
                        thread::yield_now();
                    }
                    Ok::<(), ProbeError>(())
                };
                run(&free, &far, |message| message.echo(), wait).expect("an echo").work
            });
            let free = FreeMemory::new(root, None);
            let wait = |is_finished: &dyn Fn() -> bool| {
                while !is_finished() {
                    thread::yield_now();
                }
                Ok::<(), ProbeError>(())
            };
            let ran = run(&free, &near, |message| message.ping(plan), wait).expect("a run");
            let closed = echo.join().expect("a result").expect_err("the connection was closed");
            assert_eq!(closed.kind(), ErrorKind::ConnectionReset);
            ran.work.expect("round trips")
        })
    }

    #[test]
    fn messages_return_over_one_and_several_rails() {
        let plan = SlicePlan::new(20, 2);
        for parts in [&[1][..], &[8 << 20], &[3, 5], &[0, 7, 0], &[4 << 20, 1 << 20, 9]] {
            let slices = exchange(parts, plan);
            assert_eq!(slices.len(), 2, "{parts:?}");
            assert!(slices.iter().all(|times| !times.is_empty()), "{parts:?}: {slices:?}");
        }
    }

    #[test]
    fn stopped_run_returns_complete_slices() {
        let (near, far) = connections(1);
        let root = Root::live().expect("a root");
        let free = FreeMemory::new(&root, None);
        // The far end never replies.
        let stop = |_: &dyn Fn() -> bool| Ok::<u32, ProbeError>(7);
        let ran = run(&free, &end(near, &[64]), |message| message.ping(SlicePlan::new(20, 2)), stop);
        let ran = ran.expect("a run");
        assert_eq!((ran.conducted, ran.work.expect("no error").len()), (7, 0));
        drop(far);
    }
}
