//! Limits of devices themselves: measured, or by the narrowest link.

use numaio_machine::devices::{Device, DeviceKind, PcieLink};
use numaio_machine::topology::Topology;
use numaio_machine::workload::Direction;
use numaio_schema::{DeviceBandwidth, IoEngine, IoRecord, ValueSource};

/// Returns the limit of a device in a direction: I/O measured on its own node (`records` of the
/// machine, newest first), else the narrowest of its port, its PCI Express link and the links of
/// the bridges above it, on a real machine.
pub fn device_limit(
    topology: &Topology,
    device: &Device,
    records: &[&IoRecord],
    direction: Direction,
) -> DeviceBandwidth {
    let of_device = of_device(device, records);
    let measured = of_device.into_iter().find_map(|record| {
        let bytes_per_s = measured_limit(record, device, direction)?;
        let (document, measured_at) =
            (record.method.engine.title().to_owned(), record.provenance.measured_at);
        Some(DeviceBandwidth::Known { bytes_per_s, source: ValueSource::Measured { document, measured_at } })
    });
    let links = || {
        let (bytes_per_s, link) = narrowest_link(topology, device)?;
        Some(DeviceBandwidth::Known { bytes_per_s, source: ValueSource::Link { link } })
    };
    let unknown = || DeviceBandwidth::Unknown { measure: bench_command(&device.name(), Some(device.kind)) };
    measured.or_else(links).unwrap_or_else(unknown)
}

/// Returns the records of a device that may rank nodes.
pub(super) fn of_device<'a>(device: &Device, records: &[&'a IoRecord]) -> Vec<&'a IoRecord> {
    let is_of = |record: &&&IoRecord| device.has_name(&record.device.name) && shows_bandwidth(record);
    records.iter().filter(is_of).copied().collect()
}

/// Whether a record shows what its device and the paths carry.
fn shows_bandwidth(record: &IoRecord) -> bool {
    record.provenance.is_fit_for_placement()
        && record.method.engine != IoEngine::Null
        && record.method.direct != Some(false)
        && !is_latency_bound(record)
}

/// Returns the most that a device carried from one node in one direction, if that shows what paths
/// carry.
pub(super) fn highest_rate(record: &IoRecord) -> Option<f64> {
    let single = record.cells.iter().filter(|cell| cell.placement().is_some());
    let rates = single.filter_map(|cell| cell.bytes_per_s.median());
    rates.max_by(f64::total_cmp).filter(|_| shows_bandwidth(record))
}

/// Whether each group of a disk's streams had one request at a time: its rate follows from the
/// latency, not from a path.
fn is_latency_bound(record: &IoRecord) -> bool {
    let groups = record.cells.iter().flat_map(|cell| &cell.groups);
    let streams = groups.map(|group| group.streams).max().unwrap_or(0);
    let is_disk = matches!(record.method.engine, IoEngine::Disk | IoEngine::Fio);
    is_disk && u64::from(streams) * u64::from(record.method.depth) <= 1
}

/// Returns the highest measured bandwidth, if the device's own node was among the measured ones:
/// that of another node may be limited by its path.
fn measured_limit(record: &IoRecord, device: &Device, direction: Direction) -> Option<f64> {
    let placements = record.cells.iter().filter_map(|cell| {
        let (cpu_node, memory, of) = cell.placement()?;
        let median = cell.bytes_per_s.median()?;
        (of == direction).then_some((Some(cpu_node) == device.locality.node && cpu_node == memory, median))
    });
    let placements: Vec<(bool, f64)> = placements.collect();
    let is_known = placements.iter().any(|(is_own, _)| *is_own);
    placements.into_iter().map(|(_, rate)| rate).filter(|_| is_known).max_by(f64::total_cmp)
}

/// Returns the narrowest link between a device's medium and its node, with its name. `None` in a
/// virtual machine: links and ports that a hypervisor presents limit nothing.
fn narrowest_link(topology: &Topology, device: &Device) -> Option<(f64, String)> {
    if topology.surroundings.virtual_machine {
        return None;
    }
    let port = device.port_bits_per_s.map(|bits| port_limit(bits as f64));
    let bridges = topology.devices.iter().filter(|bridge| {
        bridge.kind == DeviceKind::Bridge && bridge.pci.is_some_and(|pci| device.upstream.contains(&pci))
    });
    let above = bridges.filter_map(|bridge| {
        let (bytes_per_s, link) = link_limit(bridge.link?);
        Some((bytes_per_s, format!("{link} of the bridge {}", bridge.name())))
    });
    let own = device.link.map(link_limit);
    own.into_iter().chain(port).chain(above).min_by(|one, other| one.0.total_cmp(&other.0))
}

/// Returns the limit of a port, with its name.
pub(crate) fn port_limit(bits_per_s: f64) -> (f64, String) {
    (bits_per_s / 8.0, format!("port at {} Gbit/s", bits_per_s / 1e9))
}

/// Returns the limit of a link, with its name.
pub(crate) fn link_limit(link: PcieLink) -> (f64, String) {
    (link.max_data_bytes_per_s(), format!("PCIe {} GT/s x{}", link.gt_per_s, link.lanes))
}

/// Returns the command that measures a device; disks are only read.
pub fn bench_command(name: &str, kind: Option<DeviceKind>) -> String {
    match kind {
        Some(DeviceKind::Network) => "numaio bench net --peer HOST".to_owned(),
        Some(DeviceKind::Rdma) => format!("numaio bench rdma --peer HOST --device {name}"),
        Some(DeviceKind::Gpu | DeviceKind::Accelerator) => format!("numaio bench gpu --device {name}"),
        _ => format!("numaio bench disk --device {name} --direction read"),
    }
}
