//! Directories, threads and buffers of a side of a transfer.

use super::groups::{place_groups, PlacedGroups};
use super::machine_view::MachineView;
use super::network::place_connections;
use super::side_options::SideOptions;
use super::storage::{rotational, StorageDevice, THREAD_GROWTH};
use super::worker_group::{with_blocks, MAX_BUFFERS, MOST_BYTES};
use crate::event::{side_name, PlacedConnections, PlacedGroup, PlacementEvent};
use crate::options::Io;
use crate::reporter::{Notice, Reporter};
use crate::TransferError;
use numaio_machine::set::CpuSet;
use numaio_mover::port::BlockSize;
use numaio_mover::source::{ReadOrder, SourceDevice, SourceStorage};
use numaio_mover::wire::Side;
use numaio_mover_linux::files::{Base, Roots};
use numaio_mover_linux::port::{has_io_uring, Pool, Setting, StreamSet, WorkerGroup};
use std::path::{Path, PathBuf};

/// Directories, threads and buffers of a side of a transfer.
pub struct SideSetup<'a> {
    /// The opened directories.
    pub roots: Roots,
    /// Initial number of threads.
    pub threads: usize,
    worker_groups: Vec<WorkerGroup>,
    /// The storage devices of the directories, if there are several.
    devices: Vec<StorageDevice>,
    /// Whether the disk below each directory is rotational.
    rotational: Vec<bool>,
    by: &'static str,
    block: BlockSize,
    notes: Vec<String>,
    /// Remarks about what the user typed, which the other side shows if this is a peer.
    pub remarks: Vec<String>,
    options: SideOptions<'a>,
    machine: Option<MachineView>,
}

impl<'a> SideSetup<'a> {
    /// Opens directories, and places threads and buffers for the files at `places`, one in each
    /// directory.
    pub fn new(
        (roots, places): (&[PathBuf], &[PathBuf]),
        base: &Base,
        options: SideOptions<'a>,
    ) -> Result<Self, TransferError> {
        let all_roots = roots;
        let paths: Vec<&Path> = roots.iter().map(PathBuf::as_path).collect();
        let side = side_name(options.side);
        let closed = |(path, error)| TransferError::CannotOpenRoot { path, error, side };
        let mut roots = base.roots(&paths).map_err(closed)?;
        if options.side == Side::Sink {
            roots.track_write_errors();
        }
        let on_host = |(root, place): (&PathBuf, &PathBuf)| {
            // A missing file fails later, alone.
            let place = base.on_host(place);
            if place.exists() {
                place
            } else {
                base.on_host(root)
            }
        };
        let places: Vec<PathBuf> = all_roots.iter().zip(places).map(on_host).collect();
        let paths: Vec<&Path> = places.iter().map(PathBuf::as_path).collect();
        let rotational = match options.side {
            Side::Source => rotational(&paths),
            // Only the order of reads depends on it.
            Side::Sink => Vec::new(),
        };
        let machine = MachineView::new(&options);
        let PlacedGroups { by, worker_groups, devices, mut notes } =
            place_groups(&paths, &options, machine.as_ref());
        let threads = worker_groups.iter().map(|group| group.threads).sum();
        let worker_groups =
            worker_groups.iter().map(|group| group.create(threads, options.streams, &mut notes)).collect();
        let block = BlockSize::default();
        let remarks = Vec::new();
        Ok(Self {
            roots,
            threads,
            worker_groups,
            devices,
            rotational,
            by,
            block,
            notes,
            remarks,
            options,
            machine,
        })
    }

    /// Replaces the buffers if the block size of the transfer is another one.
    pub fn use_blocks(&mut self, block: BlockSize) {
        if std::mem::replace(&mut self.block, block) != block {
            let (notes, streams) = (&mut self.notes, self.options.streams);
            let groups = std::mem::take(&mut self.worker_groups);
            let size = (block, MOST_BYTES / groups.len().max(1));
            let groups = groups.into_iter().map(|group| with_blocks(group, size, streams, notes));
            self.worker_groups = groups.collect();
        }
    }

    /// Returns the settings of a port with data connections, if there are any, and reports the
    /// placement.
    pub fn setting(self, connections: Option<&StreamSet>, reporter: Option<&mut Reporter<'_>>) -> Setting {
        let (network, note) = connections.map(|connections| self.network(connections)).unzip();
        if let Some(reporter) = reporter {
            let notes = self.notes.iter().cloned().chain(note.flatten());
            notes.for_each(|note| reporter.notice(Notice::Placement(note)));
            self.remarks.iter().for_each(|remark| reporter.notice(Notice::Remark(remark.clone())));
            reporter.placement(self.event(network.clone()));
        }
        let most = self.worker_groups.iter().max_by_key(|group| group.threads);
        let pool = most.map_or_else(|| Pool::new(MAX_BUFFERS), |group| group.pool.clone());
        let most_threads = self.most_threads();
        Setting {
            root_devices: self.root_devices(),
            roots: self.roots,
            worker_groups: self.worker_groups,
            most_threads,
            rings: self.options.io == Io::Auto,
            pool,
            share: match self.options.work_sharing {
                true => self.options.placer.group_to_help(),
                false => |_, _| None,
            },
            sparing: self.options.may_use_fewer_streams,
            may_pause: self.options.side == Side::Sink,
            network: network.map(|network| network.cpus).unwrap_or_default(),
        }
    }

    /// Returns the maximum number of threads, which exceeds the initial one only by default.
    pub fn most_threads(&self) -> usize {
        let is_explicit = self.options.threads.is_some() || self.options.plan.is_some();
        match is_explicit {
            true => self.threads,
            false if self.devices.is_empty() => THREAD_GROWTH * self.threads,
            false => self.worker_groups.iter().map(|group| group.max_threads).sum(),
        }
    }

    /// Returns the index of the storage device of each directory; none if there is one device.
    fn root_devices(&self) -> Vec<usize> {
        let roots = self.devices.iter().map(|device| device.roots.len()).sum();
        let device_of = |root| self.devices.iter().position(|device| device.roots.contains(&root));
        (0..roots).map(|root| device_of(root).unwrap_or_default()).collect()
    }

    /// Returns the storage devices, as the source of a transfer reads them in an order.
    pub fn source_storage(&self, order: ReadOrder) -> SourceStorage {
        let order_of = |is_rotational: bool| match order {
            ReadOrder::PhysicalIfSlow if !is_rotational => ReadOrder::Inode,
            order => order,
        };
        let single = SourceDevice {
            reads: self.most_threads().max(2 * self.threads),
            order: order_of(self.rotational.contains(&true)),
        };
        let device = |(index, device): (usize, &StorageDevice)| {
            let groups = || self.worker_groups.iter().filter(|group| group.device == index);
            let threads: usize = groups().map(|group| group.threads).sum();
            let max_threads: usize = groups().map(|group| group.max_threads).sum();
            let is_rotational = |root: &usize| self.rotational.get(*root).copied().unwrap_or_default();
            SourceDevice {
                reads: max_threads.max(2 * threads),
                order: order_of(device.roots.iter().any(is_rotational)),
            }
        };
        let devices = self.devices.iter().enumerate().map(device).collect();
        SourceStorage::new(devices, self.root_devices()).unwrap_or_else(|| SourceStorage::single(single))
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
            device: group.name.clone(),
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
