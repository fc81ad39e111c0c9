//! Evidence on the bandwidth of devices: measured I/O, copy models and STREAM.

use numaio_machine::inventory::Inventory;
use numaio_machine::set::NodeSet;
use numaio_machine::topology::Topology;
use numaio_machine::workload::{Direction, StreamOp};
use numaio_schema::{DeviceBandwidth, IoEngine, IoRecord, Model, StreamRecord, ValueSource};

/// A stored document and its name.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedDocument<T> {
    /// Its file, or the tape that contains it.
    pub name: String,
    /// The document.
    pub document: T,
}

/// A machine and its measurements, each kind newest first.
#[derive(Debug)]
pub struct DeviceEvidence<'a> {
    /// The machine.
    pub topology: &'a Topology,
    /// Its disks, file systems and interfaces.
    pub inventory: &'a Inventory,
    /// Measured I/O.
    pub records: &'a [NamedDocument<IoRecord>],
    /// Copy models.
    pub models: &'a [NamedDocument<Model>],
    /// STREAM.
    pub streams: &'a [NamedDocument<StreamRecord>],
}

/// How measurements of a device are recognized.
#[derive(Debug, Clone, Default)]
pub(super) struct MeasuredName<'a> {
    /// Names of the device in records.
    pub names: Vec<&'a str>,
    /// Whether the engine is one of networks.
    pub is_network: bool,
    /// Whether I/O through the page cache counts.
    pub is_cached: bool,
}

/// A bandwidth of both directions: from the device, and to it.
pub(super) type BothWays = [Option<DeviceBandwidth>; 2];

impl DeviceEvidence<'_> {
    /// Returns the measured bandwidth: the best node's median of the most streams, from the newest
    /// record.
    ///
    /// `mounts` are the mount points of the device, for measurements of files on it.
    pub(super) fn measured(&self, device: &MeasuredName<'_>, mounts: &[String]) -> BothWays {
        let records = || {
            self.records.iter().filter(|NamedDocument { document: record, .. }| {
                let is_tool_of_networks =
                    matches!(record.method.engine, IoEngine::Tcp | IoEngine::Iperf3 | IoEngine::Perftest);
                let is_tool_of_disks = matches!(record.method.engine, IoEngine::Disk | IoEngine::Fio);
                let is_engine = if device.is_network { is_tool_of_networks } else { is_tool_of_disks };
                is_engine
                    && (device.is_cached || record.method.direct != Some(false))
                    && record.provenance.is_fit_for_placement()
                    && self.is_of(record, device, mounts)
            })
        };
        [Direction::Read, Direction::Write].map(|direction| {
            records().find_map(|NamedDocument { name, document: record }| {
                let bytes_per_s = best_median(record, direction)?;
                let source = ValueSource::Measured {
                    document: name.clone(),
                    measured_at: record.provenance.measured_at,
                };
                Some(DeviceBandwidth::Known { bytes_per_s, source })
            })
        })
    }

    /// Returns whether a record is of a device: by the file that was accessed, or by name.
    fn is_of(&self, record: &IoRecord, device: &MeasuredName<'_>, mounts: &[String]) -> bool {
        let reached = record.device.reached_via.as_deref();
        let reached = reached.or_else(|| record.device.name.starts_with('/').then_some(&*record.device.name));
        let is_named = |name: &str| device.names.contains(&name);
        if device.is_network {
            return is_named(&record.device.name);
        }
        match reached {
            Some(path) if path.starts_with("/dev/") && !path.starts_with("/dev/shm") => {
                is_named(path.trim_start_matches("/dev/mapper/").trim_start_matches("/dev/"))
            }
            Some(path) if path.starts_with('/') => {
                let holder = self.inventory.file_system_above(path);
                holder.is_some_and(|holder| holder.mounts.iter().any(|mount| mounts.contains(mount)))
            }
            _ => is_named(&record.device.name),
        }
    }

    /// Returns the best bandwidth that the copy model gives devices on a node.
    pub(super) fn modeled(&self, nodes: &NodeSet, direction: Direction) -> Option<(f64, ValueSource)> {
        self.models.iter().find_map(|NamedDocument { name, document: model }| {
            let targets = model.targets.iter().filter(|target| nodes.contains(target.target));
            let of = targets.flat_map(|target| &target.directions).filter(|of| of.direction == direction);
            let rates = of.flat_map(|of| &of.nodes).map(|node| node.bytes_copied_per_s);
            let best = rates.filter(is_rate).max_by(f64::total_cmp)?;
            Some((best, model_source(name, model)))
        })
    }

    /// Returns the bandwidth of memory: copies within the best node, by the copy model or STREAM.
    pub(super) fn memory(&self) -> Option<DeviceBandwidth> {
        let modeled = self.models.iter().find_map(|NamedDocument { name, document: model }| {
            let local = model.targets.iter().flat_map(|target| {
                let nodes = target.directions.iter().flat_map(|of| &of.nodes);
                nodes.filter(|node| node.node == target.target).map(|node| node.bytes_copied_per_s)
            });
            let bytes_per_s = local.filter(is_rate).max_by(f64::total_cmp)?;
            Some(DeviceBandwidth::Known { bytes_per_s, source: model_source(name, model) })
        });
        modeled.or_else(|| {
            self.streams.iter().find_map(|NamedDocument { name, document: record }| {
                let cells = record.cells.iter().filter(|cell| cell.op == StreamOp::Copy);
                let local = cells.filter(|cell| cell.cpu_node == cell.memory_node);
                // STREAM counts a copied byte twice: it is read and written.
                let rates = local.filter_map(|cell| cell.bytes_per_s.median()).map(|rate| rate / 2.0);
                let bytes_per_s = rates.max_by(f64::total_cmp)?;
                let measured_at = record.provenance.measured_at;
                let source = ValueSource::Measured { document: name.clone(), measured_at };
                Some(DeviceBandwidth::Known { bytes_per_s, source })
            })
        })
    }
}

fn is_rate(rate: &f64) -> bool {
    rate.is_finite() && *rate > 0.0
}

fn model_source(name: &str, model: &Model) -> ValueSource {
    let measured_at = model.record.provenance.measured_at;
    ValueSource::Model { document: name.to_owned(), measured_at }
}

/// Returns the best node's median of the most streams in a direction.
fn best_median(record: &IoRecord, direction: Direction) -> Option<f64> {
    let cells = record.cells.iter().filter_map(|cell| {
        let (_, _, of) = cell.placement()?;
        (of == direction).then_some((cell.streams(), cell.bytes_per_s.median()?))
    });
    let cells: Vec<(u32, f64)> = cells.collect();
    let most = cells.iter().map(|(streams, _)| *streams).max()?;
    let of_most = cells.into_iter().filter(|(streams, _)| *streams == most);
    of_most.map(|(_, rate)| rate).max_by(f64::total_cmp)
}
