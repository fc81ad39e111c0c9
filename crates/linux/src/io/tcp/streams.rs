//! Threads that send or receive, bound to CPUs, with buffers on a node.

use super::line_connection::describe_error;
use crate::affinity::Mask;
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

/// How often one who waits for others looks for Ctrl-C.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Stack of a thread; as for threads that copy.
const STACK_BYTES: usize = 128 << 10;

/// Streams that are placed alike.
#[derive(Debug)]
pub struct PlacedGroup {
    /// CPUs on which each thread may run.
    pub cpus: CpuSet,
    /// Node of their buffers, and of what the kernel takes for them.
    pub memory: NodeId,
    /// Whether they receive; they send otherwise.
    pub receives: bool,
    /// A connection for each stream.
    pub sockets: Vec<TcpStream>,
}

/// Bytes of a message, and how many of them a stream's buffer holds.
#[derive(Debug, Clone, Copy)]
pub struct MessageLayout {
    /// Bytes of one.
    pub bytes: u64,
    /// How many a buffer holds; a stream goes through it from the beginning to the end, and again.
    pub per_buffer: u32,
}

/// Streams that are ready to move bytes.
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

/// One connection, and what its thread moved through it. Alone on its cache lines: the count changes all the time.
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
    /// Threads that are prepared.
    prepared: usize,
    /// Whether they may go.
    started: bool,
    /// Why one could not be prepared.
    refused: Option<ProbeError>,
    /// What broke while bytes were moved, the first of it.
    first_error: Option<String>,
}

/// Runs a thread for each stream. `conduct` is called when all of them are prepared, and they end when it does.
/// Gives what it gave, and where the pages of each group's buffers were.
///
/// # Errors
/// [`ProbeError`] if threads or buffers cannot be placed; what `conduct` gives.
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
    // With one node there is nothing to bind, and sandboxes often forbid to.
    let free = free_memory.has_one_node();
    thread::scope(|scope| {
        // Whatever happens here, the threads end, and with them the scope.
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

/// Ends all streams when dropped.
struct ShutdownOnDrop<'a>(&'a StreamSet);

impl Drop for ShutdownOnDrop<'_> {
    fn drop(&mut self) {
        self.0.stopped.store(true, Ordering::Release);
        // Whoever waits for the kernel is woken by this; errors tell that the connection is gone already.
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

    /// Lets all streams go.
    pub fn start(&self) {
        self.state().started = true;
        self.changed.notify_all();
    }

    /// Bytes received by each group until now; 0 of one that sends.
    pub fn received(&self) -> Vec<u64> {
        let mut sums = vec![0; self.groups];
        for stream in self.streams.iter().filter(|stream| stream.receives) {
            sums[stream.group] += stream.moved.load(Ordering::Relaxed);
        }
        sums
    }

    /// Bytes that all streams sent or received until now.
    pub fn moved(&self) -> u64 {
        self.streams.iter().map(|stream| stream.moved.load(Ordering::Relaxed)).sum()
    }

    /// What broke, if something did.
    pub fn first_error(&self) -> Option<String> {
        self.state().first_error.clone()
    }

    /// Time between the first and the last stream's start, in nanoseconds.
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

    /// What a thread does; gives where its pages were before and after.
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
        let start_ns = u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX);
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

/// Binds the calling thread, and the memory that it takes.
fn bind_thread(mask: &Mask, bind: Option<NodeId>) -> Result<(), ProbeError> {
    mask.apply().map_err(|error| refused("bind a thread to its CPUs", &error))?;
    // The kernel's own pages for what is sent are taken by the thread that sends, under its policy.
    let policy = bind.map(Policy::bind);
    let applied = policy.map_or(Ok(()), |policy| policy.apply());
    applied.map_err(|error| refused("set the memory policy of a thread", &error))
}

fn refused(what: &str, error: &io::Error) -> ProbeError {
    ProbeError::Refused { what: what.to_owned(), why: error.to_string() }
}

/// A stream's calls wait as long as they need: the end comes by shutdown.
fn prepare_socket(socket: &TcpStream) -> io::Result<()> {
    socket.set_nonblocking(false)?;
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
            // A message at a time; of one that went only in part, the rest.
            let bytes = (message - at % message).min(all - at);
            let done = match self.receives {
                true => receive(fd, buffer, at, bytes)?,
                false => send(fd, buffer, at, bytes)?,
            };
            at = if at + done == all { 0 } else { at + done };
            moved += done as u64;
            // Nobody else writes it.
            self.moved.store(moved, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Sends some bytes of a buffer; gives how many the kernel took.
fn send(fd: RawFd, buffer: &Buffer, at: usize, bytes: usize) -> io::Result<usize> {
    let bytes = bytes.min(buffer.bytes() - at);
    // SAFETY: the bytes lie in the buffer, which lives through the call and is only read.
    let sent = || unsafe { libc::send(fd, buffer.start().add(at).cast(), bytes, libc::MSG_NOSIGNAL) };
    retry_on_eintr(sent)
}

/// Receives into a part of a buffer; gives how many bytes came, at least one.
fn receive(fd: RawFd, buffer: &mut Buffer, at: usize, bytes: usize) -> io::Result<usize> {
    let bytes = bytes.min(buffer.bytes() - at);
    // SAFETY: the bytes lie in the buffer, which lives through the call and is ours alone by `&mut`.
    let received = || unsafe { libc::recv(fd, buffer.start().add(at).cast(), bytes, 0) };
    match retry_on_eintr(received)? {
        0 => Err(io::Error::new(ErrorKind::ConnectionReset, "closed")),
        bytes => Ok(bytes),
    }
}

/// Calls again what a signal broke off.
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
