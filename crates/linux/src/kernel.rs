//! The running Linux kernel as an implementation of numaio's machine traits.

use crate::hot_pages::IdlePages;
use crate::io::tcp::Peer;
use crate::refusal::refused;
use crate::{control, counted, cuda, hot_pages, locate, mmio, probe, program, relocation, tool, Root};
use numaio_machine::control::{Change, Control, ControlError, PageMove, PageMoveReport, PageRun};
use numaio_machine::hot_pages::{AccessMonitorKind, AccessedRange, MonitoredProcess};
use numaio_machine::ids::CpuId;
use numaio_machine::locate::{Locate, LocateAnswer, LocateError, LocateQuery};
use numaio_machine::probe::{IoOutcome, Outcome, Probe, ProbeError};
use numaio_machine::sysfs::{ReadError, Sysfs};
use numaio_machine::topology::memory_left_bytes;
use numaio_machine::workload::{DiskPath, IoPath, IoWorkload, TcpPath, Workload};
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// The running Linux kernel: reads sysfs, runs workloads, resolves handles and changes settings.
#[derive(Debug)]
pub struct Kernel {
    root: Root,
    /// Sessions with other hosts, for network streams.
    peers: Mutex<Vec<Arc<Peer>>>,
}

impl Kernel {
    /// Opens the root directory `/`.
    ///
    /// # Errors
    /// The kernel's error, if `/` cannot be opened.
    pub fn new() -> io::Result<Self> {
        Ok(Self { root: Root::live()?, peers: Mutex::default() })
    }

    /// Adds a peer session; workloads refer to it by name.
    pub fn add_peer(&self, peer: Peer) {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::new(peer));
    }

    /// Closes the sessions with all peers.
    pub fn disconnect_peers(&self) {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Returns the bits of the disabled prefetchers of a CPU, and those of all its prefetchers.
    ///
    /// # Errors
    /// The registers cannot be read: no root, no module `msr`, or a CPU without such a register.
    pub fn prefetchers(&self, cpu: CpuId) -> Result<(u64, u64), ControlError> {
        control::prefetchers(&self.root, cpu)
    }

    /// Returns the monitor of accesses that this kernel has and that no other program uses.
    ///
    /// # Errors
    /// The reasons why there is none, as text.
    pub fn available_monitor(&self) -> Result<AccessMonitorKind, String> {
        hot_pages::available_monitor(&self.root)
    }

    /// Returns whether a process may have buffers of direct I/O, whose accesses no monitor
    /// observes.
    pub fn uses_direct_io(&self, pid: u32) -> bool {
        hot_pages::uses_direct_io(&self.root, pid)
    }

    /// Returns the regions of each monitor of DAMON, after the end of its aggregation.
    ///
    /// # Errors
    /// A monitor has ended with its process.
    pub fn monitored_regions(&self, monitors: usize) -> Result<Vec<Vec<AccessedRange>>, ControlError> {
        hot_pages::damon::regions(&self.root, monitors)
    }

    /// Sets the idle bits of pages.
    ///
    /// # Errors
    /// Permission is missing, or a process ended.
    pub fn mark_idle(&self, processes: Vec<MonitoredProcess>) -> io::Result<IdlePages> {
        IdlePages::start(&self.root, processes)
    }

    /// Returns which pages were accessed since their idle bits were set.
    ///
    /// # Errors
    /// The bits cannot be read.
    pub fn accessed_since(&self, idle: IdlePages) -> io::Result<Vec<Vec<AccessedRange>>> {
        idle.finish(&self.root)
    }

    /// Returns the newest session with a peer; it replaces older sessions of the same name.
    fn peer(&self, name: &str) -> Result<Arc<Peer>, ProbeError> {
        let peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        let found = peers.iter().rev().find(|peer| peer.name() == name);
        found.cloned().ok_or_else(|| ProbeError::Refused {
            call: format!("streams to {name}"),
            reason: "no numaio session with this peer".to_owned(),
        })
    }

    /// Runs streams to devices of one kind.
    fn io(&self, limit: Option<u64>, io: &IoWorkload) -> Result<IoOutcome, ProbeError> {
        if !io.has_all_devices() {
            return refused("I/O", "a stream group names no device of the workload");
        }
        match &io.path {
            IoPath::Disk(_) => crate::io::disk(&self.root, limit, io, &of_one_kind(io, disk_path)?),
            IoPath::Tcp(path) => {
                self.peer(&path.peer)?.run(&self.root, limit, io, &of_one_kind(io, tcp_path)?)
            }
            IoPath::Gpu { .. } => cuda::run(&self.root, limit, io, &of_one_kind(io, gpu_index)?),
            IoPath::Null => crate::io::null(&self.root, limit, io),
        }
    }
}

/// Returns the result of `of` for the path of each device.
fn of_one_kind<'a, T>(
    io: &'a IoWorkload,
    of: impl Fn(&'a IoPath) -> Option<T>,
) -> Result<Vec<T>, ProbeError> {
    let paths: Option<Vec<T>> = io.paths().map(of).collect();
    paths.map_or_else(|| refused("I/O", "the devices are of different kinds"), Ok)
}

fn disk_path(path: &IoPath) -> Option<&DiskPath> {
    match path {
        IoPath::Disk(disk) => Some(disk),
        _ => None,
    }
}

fn tcp_path(path: &IoPath) -> Option<&TcpPath> {
    match path {
        IoPath::Tcp(tcp) => Some(tcp),
        _ => None,
    }
}

fn gpu_index(path: &IoPath) -> Option<u32> {
    match path {
        IoPath::Gpu { device } => Some(*device),
        _ => None,
    }
}

impl Sysfs for Kernel {
    fn read(&self, path: &str) -> Result<Vec<u8>, ReadError> {
        self.root.read(path)
    }
    fn list(&self, path: &str) -> Result<Vec<String>, ReadError> {
        self.root.list(path)
    }
    fn resolve(&self, path: &str) -> Result<String, ReadError> {
        self.root.resolve(path)
    }
    fn lines(&self, path: &str, line: &mut dyn FnMut(&[u8])) -> Result<(), ReadError> {
        self.root.lines(path, line)
    }
    fn link_name(&self, path: &str) -> Result<String, ReadError> {
        self.root.link_name(path)
    }
    fn hold(&self, directory: &str) -> Option<Box<dyn Sysfs + '_>> {
        self.root.hold(directory)
    }
}

impl Probe for Kernel {
    fn run(&self, workload: &Workload) -> Result<Outcome, ProbeError> {
        let limit = memory_left_bytes(&self.root);
        match workload {
            Workload::Copy(copy) => probe::copy(&self.root, limit, copy, None).map(Outcome::Copy),
            Workload::Stream(stream) => probe::stream(&self.root, limit, stream, None).map(Outcome::Stream),
            Workload::Latency(latency) => probe::latency(&self.root, limit, latency).map(Outcome::Latency),
            Workload::Io(io) => self.io(limit, io).map(Outcome::Io),
            Workload::Ping(ping) => self.peer(&ping.peer)?.ping(&self.root, limit, ping).map(Outcome::Ping),
            Workload::Mmio(workload) => mmio::run(&self.root, workload).map(Outcome::Mmio),
            Workload::Tool(tool) => match &tool.peer {
                Some(peer) => self.peer(&peer.peer)?.tool(tool, peer, tool::run).map(Outcome::Tool),
                None => tool::run(tool).map(Outcome::Tool),
            },
            Workload::Program(workload) => program::run(&self.root, workload).map(Outcome::Program),
            Workload::Counted(workload) => counted::run(&self.root, limit, workload).map(Outcome::Counted),
            Workload::Loaded(loaded) => {
                let run = |workload: &Workload| self.run(workload);
                probe::loaded(&self.root, limit, loaded, run).map(Outcome::Loaded)
            }
        }
    }
}

impl Control for Kernel {
    fn apply(&self, change: &Change) -> Result<Change, ControlError> {
        control::apply(&self.root, change)
    }
    fn page_runs(&self, pid: u32, ranges: &[Range<u64>]) -> Result<Vec<PageRun>, ControlError> {
        relocation::page_runs(pid, ranges)
    }
    fn move_pages(&self, wanted: &PageMove) -> Result<PageMoveReport, ControlError> {
        relocation::move_pages(&self.root, wanted)
    }
}

impl Locate for Kernel {
    fn locate(&self, question: &LocateQuery) -> Result<LocateAnswer, LocateError> {
        locate::locate(question)
    }
}
