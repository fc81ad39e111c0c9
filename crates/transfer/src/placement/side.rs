//! Directories, threads and buffers of a side of a transfer.

use super::groups::{place_groups, PlacedGroups};
use super::machine_view::MachineView;
use super::network::place_connections;
use super::side_options::SideOptions;
use super::worker_group::{with_blocks, MAX_BUFFERS};
use crate::event::{side_name, PlacedConnections, PlacedGroup, PlacementEvent};
use crate::options::Io;
use crate::reporter::{Notice, Reporter};
use crate::TransferError;
use numaio_machine::set::CpuSet;
use numaio_mover::port::BlockSize;
use numaio_mover::wire::Side;
use numaio_mover_linux::files::{Base, Roots};
use numaio_mover_linux::port::{has_io_uring, Pool, Setting, StreamSet, WorkerGroup};
use std::path::{Path, PathBuf};

/// Maximum factor by which the default number of threads grows while threads wait for storage.
const THREAD_GROWTH: usize = 4;

/// Directories, threads and buffers of a side of a transfer.
pub struct SideSetup<'a> {
    /// The opened directories.
    pub roots: Roots,
    /// Initial number of threads.
    pub threads: usize,
    worker_groups: Vec<WorkerGroup>,
    by: &'static str,
    block: BlockSize,
    notes: Vec<String>,
    options: SideOptions<'a>,
    machine: Option<MachineView>,
}

impl<'a> SideSetup<'a> {
    /// Opens directories, and places threads and buffers.
    pub fn new(roots: &[PathBuf], base: &Base, options: SideOptions<'a>) -> Result<Self, TransferError> {
        let paths: Vec<&Path> = roots.iter().map(PathBuf::as_path).collect();
        let side = side_name(options.side);
        let closed = |(path, error)| TransferError::CannotOpenRoot { path, error, side };
        let mut roots = base.roots(&paths).map_err(closed)?;
        if options.side == Side::Sink {
            roots.track_write_errors();
        }
        let paths: Vec<PathBuf> = paths.iter().map(|path| base.on_host(path)).collect();
        let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
        let machine = MachineView::new(&options);
        let PlacedGroups { by, worker_groups, mut notes } = place_groups(&paths, &options, machine.as_ref());
        let threads = worker_groups.iter().map(|group| group.threads).sum();
        let worker_groups =
            worker_groups.iter().map(|group| group.create(threads, options.streams, &mut notes)).collect();
        Ok(Self { roots, threads, worker_groups, by, block: BlockSize::default(), notes, options, machine })
    }

    /// Replaces the buffers if the block size of the transfer is another one.
    pub fn use_blocks(&mut self, block: BlockSize) {
        if std::mem::replace(&mut self.block, block) != block {
            let (notes, streams) = (&mut self.notes, self.options.streams);
            let groups = std::mem::take(&mut self.worker_groups).into_iter();
            self.worker_groups = groups.map(|group| with_blocks(group, block, streams, notes)).collect();
        }
    }

    /// Adds a remark for the user, if this is a local side.
    pub fn add_note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// Returns the settings of a port with data connections, if there are any, and reports the
    /// placement.
    pub fn setting(self, connections: Option<&StreamSet>, reporter: Option<&mut Reporter<'_>>) -> Setting {
        let (network, note) = connections.map(|connections| self.network(connections)).unzip();
        if let Some(reporter) = reporter {
            let notes = self.notes.iter().cloned().chain(note.flatten());
            notes.for_each(|note| reporter.notice(Notice::Placement(note)));
            reporter.placement(self.event(network.clone()));
        }
        let most = self.worker_groups.iter().max_by_key(|group| group.threads);
        let pool = most.map_or_else(|| Pool::new(MAX_BUFFERS), |group| group.pool.clone());
        let most_threads = self.most_threads();
        Setting {
            roots: self.roots,
            worker_groups: self.worker_groups,
            most_threads,
            rings: self.options.io == Io::Auto,
            pool,
            share: self.options.placer.group_to_help(),
            sparing: self.options.may_use_fewer_streams,
            may_pause: self.options.side == Side::Sink,
            network: network.map(|network| network.cpus).unwrap_or_default(),
        }
    }

    /// Returns the maximum number of threads, which exceeds the initial one only by default.
    pub fn most_threads(&self) -> usize {
        let is_explicit = self.options.threads.is_some() || self.options.plan.is_some();
        if is_explicit {
            self.threads
        } else {
            THREAD_GROWTH * self.threads
        }
    }

    /// Places the threads of connections, and returns a note for the user.
    fn network(&self, connections: &StreamSet) -> (PlacedConnections, Option<String>) {
        let taken = self.worker_groups.iter().flat_map(|group| &group.cpus);
        let taken = taken.fold(CpuSet::new(), |all, cpus| all.union(cpus));
        place_connections(self.machine.as_ref(), &connections.peers(), self.options.plan, &taken)
    }

    /// Returns the event of the placement.
    fn event(&self, network: Option<PlacedConnections>) -> PlacementEvent {
        let group = |group: &WorkerGroup| PlacedGroup {
            threads: group.threads,
            cpus: group.cpus.clone(),
            node: group.pool.node(),
        };
        PlacementEvent {
            side: side_name(self.options.side),
            by: self.by,
            block: self.block.length(),
            groups: self.worker_groups.iter().map(group).collect(),
            io: if self.options.io == Io::Auto && has_io_uring() { "io_uring" } else { "threads" },
            network,
        }
    }
}
