//! Sending and receiving threads, bound to CPUs, with buffers on a node.

use super::line_connection::describe_error;
use crate::affinity::Mask;
use crate::clock::nanoseconds;
use crate::interrupt::interrupted;
use crate::memory::{self, Buffer, BufferRequest, FreeMemory, PageLocations, Policy};
use numaio_machine::ids::NodeId;
use numaio_machine::probe::{ProbeError, Residency};
use numaio_machine::set::CpuSet;
use numaio_machine::workload::Pages;
use std::io::{self, ErrorKind};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Interval between checks for an interrupt while waiting.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Stack size of a thread, as for copying threads.
const STACK_BYTES: usize = 128 << 10;

/// Streams with the same placement.
#[derive(Debug)]
pub struct PlacedGroup {
    /// CPUs on which the threads may run.
    pub cpus: CpuSet,
    /// Node of the buffers and of kernel memory allocated by the threads.
    pub memory: NodeId,
    /// Whether the streams receive rather than send.
    pub receives: bool,
    /// One connection per stream.
    pub sockets: Vec<TcpStream>,
}

/// Message size and number of messages per stream buffer.
#[derive(Debug, Clone, Copy)]
pub struct MessageLayout {
    /// Bytes per message.
    pub bytes: u64,
    /// Messages per buffer; a stream cycles through its buffer.
    pub per_buffer: u32,
}

/// Prepared streams of a run.
#[derive(Debug)]
pub struct StreamSet {
    streams: Vec<Stream>,
    groups: usize,
    epoch: Instant,
    state: Mutex<SetState>,
    changed: Condvar,
    stopped: AtomicBool,
    earliest_ns: AtomicU64,
    latest_ns: AtomicU64,
}

/// One connection and its byte count, on separate cache lines because the count changes constantly.
#[derive(Debug)]
#[repr(align(128))]
struct Stream {
    moved: AtomicU64,
    socket: TcpStream,
    group: usize,
    receives: bool,
}

#[derive(Debug, Default)]
struct SetState {
    /// Number of prepared threads.
    prepared: usize,
    /// Whether the threads may start.
    started: bool,
    /// Error of preparing a thread.
    refused: Option<ProbeError>,
    /// First error of moving bytes.
    first_error: Option<String>,
}

/// Runs one thread per stream. Calls `conduct` when all are prepared and stops them when it
/// returns. Returns the value of `conduct`, and the page locations of each group's buffers.
///
/// # Errors
/// [`ProbeError`] if threads or buffers cannot be placed, and errors of `conduct`.
pub fn run<T>(
    free_memory: &FreeMemory,
    messages: MessageLayout,
    groups: Vec<PlacedGroup>,
    conduct: impl FnOnce(&StreamSet) -> Result<T, ProbeError>,
) -> Result<(T, Vec<Residency>), ProbeError> {
    let mut places: Vec<(Mask, NodeId)> = Vec::new();
    let mut streams = Vec::new();
    for (index, group) in groups.into_iter().enumerate() {
        let mask = Mask::of(&group.cpus);
        for socket in group.sockets {
            prepare_socket(&socket).map_err(|error| refused("set up a stream", &error))?;
            places.push((mask.clone(), group.memory));
            let moved = AtomicU64::new(0);
            streams.push(Stream { moved, socket, group: index, receives: group.receives });
        }
    }
    let groups = streams.iter().map(|stream| stream.group + 1).max().unwrap_or(0);
    let bytes = messages.bytes.saturating_mul(messages.per_buffer.into());
    let wanted: Vec<BufferRequest> =
        places.iter().map(|(_, node)| BufferRequest { node: *node, bytes, offset_lines: 0 }).collect();
    let buffers = memory::map_buffers(free_memory, Pages::Base, &wanted)?;
    let set = &StreamSet::new(streams, groups);
    // With one node binding is unnecessary, and sandboxes often forbid it.
    let free = free_memory.has_one_node();
    thread::scope(|scope| {
        // Stops the threads on every path, so that the scope can end.
        let ending = ShutdownOnDrop(set);
        let mut threads = Vec::new();
        for (index, (buffer, (mask, node))) in buffers.into_iter().zip(places).enumerate() {
            let task = move || {
                set.run_stream(index, buffer, &mask, (!free).then_some(node), messages.bytes as usize)
            };
            let builder = thread::Builder::new().name(format!("tcp-{index}")).stack_size(STACK_BYTES);
            let thread = builder.spawn_scoped(scope, task);
            threads.push(thread.map_err(|error| refused("start a thread", &error))?);
        }
        set.wait_until_prepared()?;
        let given = conduct(set);
        drop(ending);
        let mut pages: Vec<Vec<PageLocations>> = vec![Vec::new(); groups];
        for (stream, thread) in set.streams.iter().zip(threads) {
            pages[stream.group].extend(thread.join().ok().flatten().unwrap_or_default());
        }
        let residency = pages.into_iter().map(|looks| memory::merge(looks, 0)).collect();
        Ok((given?, residency))
    })
}

/// Stops all streams when dropped.
struct ShutdownOnDrop<'a>(&'a StreamSet);

impl Drop for ShutdownOnDrop<'_> {
    fn drop(&mut self) {
        self.0.stopped.store(true, Ordering::Release);
        // Shutdown wakes threads in system calls; errors mean that the connection is closed
        // already.
        self.0.streams.iter().for_each(|stream| drop(stream.socket.shutdown(Shutdown::Both)));
        self.0.state().started = true;
        self.0.changed.notify_all();
    }
}

impl StreamSet {
    fn new(streams: Vec<Stream>, groups: usize) -> Self {
        Self {
            streams,
            groups,
            epoch: Instant::now(),
            state: Mutex::default(),
            changed: Condvar::new(),
            stopped: AtomicBool::new(false),
            earliest_ns: AtomicU64::new(u64::MAX),
            latest_ns: AtomicU64::new(0),
        }
    }

    /// Starts all streams.
    pub fn start(&self) {
        self.state().started = true;
        self.changed.notify_all();
    }

    /// Returns the bytes received by each group so far; 0 for sending groups.
    pub fn received(&self) -> Vec<u64> {
        let mut sums = vec![0; self.groups];
        for stream in self.streams.iter().filter(|stream| stream.receives) {
            sums[stream.group] += stream.moved.load(Ordering::Relaxed);
        }
        sums
    }

    /// Returns the bytes sent or received by all streams so far.
    pub fn moved(&self) -> u64 {
        self.streams.iter().map(|stream| stream.moved.load(Ordering::Relaxed)).sum()
    }

    /// Returns the first error of a stream.
    pub fn first_error(&self) -> Option<String> {
        self.state().first_error.clone()
    }

    /// Returns the time between the first and the last stream's start, in nanoseconds.
    pub fn start_skew_ns(&self) -> u64 {
        let (first, last) = (&self.earliest_ns, &self.latest_ns);
        last.load(Ordering::Relaxed).saturating_sub(first.load(Ordering::Relaxed))
    }

    fn state(&self) -> MutexGuard<'_, SetState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_until_prepared(&self) -> Result<(), ProbeError> {
        let mut state = self.state();
        while state.prepared < self.streams.len() {
            if let Some(error) = &state.refused {
                return Err(error.clone());
            }
            if interrupted() {
                return Err(ProbeError::Interrupted);
            }
            let waited = self.changed.wait_timeout(state, POLL_INTERVAL);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }

    /// Runs one stream; returns its page locations before and after the run.
    fn run_stream(
        &self,
        index: usize,
        mut buffer: Buffer,
        mask: &Mask,
        bind: Option<NodeId>,
        message: usize,
    ) -> Option<Vec<PageLocations>> {
        let stream = &self.streams[index];
        let prepared = bind_thread(mask, bind).and_then(|()| buffer.fill());
        let before = memory::locate_pages(&buffer);
        match prepared {
            Ok(()) => self.state().prepared += 1,
            Err(error) => self.state().refused = Some(error),
        }
        self.changed.notify_all();
        let state = self.changed.wait_while(self.state(), |state| !state.started);
        drop(state);
        let start_ns = nanoseconds(self.epoch);
        self.earliest_ns.fetch_min(start_ns, Ordering::Relaxed);
        self.latest_ns.fetch_max(start_ns, Ordering::Relaxed);
        let moved = stream.move_until_stopped(&mut buffer, message, &self.stopped);
        if let Err(error) = moved {
            if !self.stopped.load(Ordering::Acquire) {
                let what = format!("stream {}: {}", index + 1, describe_error(&error));
                self.state().first_error.get_or_insert(what);
            }
        }
        Some(vec![before, memory::locate_pages(&buffer)])
    }
}

/// Binds the calling thread and its memory allocations.
pub(super) fn bind_thread(mask: &Mask, bind: Option<NodeId>) -> Result<(), ProbeError> {
    mask.apply().map_err(|error| refused("bind a thread to its CPUs", &error))?;
    // The sending thread allocates the kernel's socket buffers, under its policy.
    let policy = bind.map(Policy::bind);
    let applied = policy.map_or(Ok(()), |policy| policy.apply());
    applied.map_err(|error| refused("set the memory policy of a thread", &error))
}

/// Returns the error of a call that the kernel rejected.
pub(super) fn refused(what: &str, error: &io::Error) -> ProbeError {
    ProbeError::Refused { call: what.to_owned(), reason: error.to_string() }
}

/// Removes timeouts, since shutdown ends blocked calls, and restores the kernel's default of
/// joining small messages, which is measured.
fn prepare_socket(socket: &TcpStream) -> io::Result<()> {
    socket.set_nonblocking(false)?;
    socket.set_nodelay(false)?;
    socket.set_read_timeout(None)?;
    socket.set_write_timeout(None)
}

impl Stream {
    fn move_until_stopped(
        &self,
        buffer: &mut Buffer,
        message: usize,
        stopped: &AtomicBool,
    ) -> io::Result<()> {
        let (all, fd) = (buffer.bytes(), self.socket.as_raw_fd());
        let (mut at, mut moved) = (0, 0u64);
        while !stopped.load(Ordering::Relaxed) {
            // One message at a time, or the rest of a partial one.
            let bytes = (message - at % message).min(all - at);
            let done = match self.receives {
                true => receive(fd, buffer, at, bytes, 0)?,
                false => send(fd, buffer, at, bytes, 0)?,
            };
            at = if at + done == all { 0 } else { at + done };
            moved += done as u64;
            // This thread is the only writer.
            self.moved.store(moved, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Sends bytes of a buffer with flags of send(2) and returns how many the kernel accepted.
///
/// # Errors
/// The kernel's error; [`ErrorKind::WouldBlock`] only with `MSG_DONTWAIT`.
pub(super) fn send(fd: RawFd, buffer: &Buffer, at: usize, bytes: usize, flags: i32) -> io::Result<usize> {
    let flags = flags | libc::MSG_NOSIGNAL;
    let bytes = bytes.min(buffer.bytes() - at);
    // SAFETY: the bytes are inside the buffer, which lives through the call and is only read.
    let sent = || unsafe { libc::send(fd, buffer.start().add(at).cast(), bytes, flags) };
    retry_on_eintr(sent)
}

/// Receives into a part of a buffer with flags of recv(2) and returns the number of bytes, at least
/// one.
///
/// # Errors
/// As [`send`], and [`ErrorKind::ConnectionReset`] if the connection was closed.
pub(super) fn receive(
    fd: RawFd,
    buffer: &mut Buffer,
    at: usize,
    bytes: usize,
    flags: i32,
) -> io::Result<usize> {
    let bytes = bytes.min(buffer.bytes() - at);
    // SAFETY: the bytes are inside the buffer, which lives through the call and is ours by `&mut`.
    let received = || unsafe { libc::recv(fd, buffer.start().add(at).cast(), bytes, flags) };
    match retry_on_eintr(received)? {
        0 => Err(io::Error::new(ErrorKind::ConnectionReset, "closed")),
        bytes => Ok(bytes),
    }
}

/// Repeats a system call while signals interrupt it.
fn retry_on_eintr(call: impl Fn() -> isize) -> io::Result<usize> {
    loop {
        match usize::try_from(call()) {
            Ok(bytes) => return Ok(bytes),
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}
