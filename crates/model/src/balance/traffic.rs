//! Traffic of a program with each of its devices, from counters of different kinds.

use numaio_machine::devices::DeviceKind;
use numaio_machine::programs::IoRates;
use numaio_machine::sockets::TrafficRates;
use numaio_schema::{DeviceTraffic, TrafficSource};
use std::collections::BTreeMap;

/// Knowledge of a program's traffic.
#[derive(Debug, Clone, Copy)]
pub struct TrafficInputs<'a> {
    /// Share of the program's open files by index of the device; they sum to 1.
    pub shares: &'a BTreeMap<usize, f64>,
    /// Counters of calls and of storage.
    pub io: Option<&'a IoRates>,
    /// Rates of its TCP sockets by index of the network interface; `None` if unknown.
    pub sockets: Option<&'a BTreeMap<usize, TrafficRates>>,
}

/// Returns the traffic of a program with each device, by index of the device.
///
/// The kernel counts storage traffic by process but not by device, and TCP traffic by socket. Bytes
/// of storage are divided among storage devices by open files. Other devices share the bytes of
/// read(2) and write(2) that neither storage nor sockets moved; so do network interfaces if sockets
/// are unknown.
pub fn device_traffic(
    kind_of: impl Fn(usize) -> Option<DeviceKind>,
    inputs: TrafficInputs<'_>,
) -> BTreeMap<usize, DeviceTraffic> {
    let io = inputs.io.copied().unwrap_or_default();
    let sockets = inputs.sockets.map(|found| {
        let mut sum = TrafficRates::default();
        found.values().for_each(|rates| sum.add(*rates, 1.0));
        sum
    });
    let beyond = |requested: f64, storage: f64, sockets: f64| (requested - storage - sockets).max(0.0);
    let of_sockets = sockets.unwrap_or_default();
    let of_source = |source| match source {
        TrafficSource::Storage => (io.storage_read, io.storage_write),
        _ => (
            beyond(io.requested_read, io.storage_read, of_sockets.received),
            beyond(io.requested_write, io.storage_write, of_sockets.sent),
        ),
    };
    let source_of = |index: usize| Some(source_of(kind_of(index)?, inputs.sockets.is_some()));
    let sum = |source| -> f64 {
        let same = inputs.shares.iter().filter(|(index, _)| source_of(**index) == Some(source));
        same.map(|(_, share)| share).sum()
    };
    let divided = inputs.shares.iter().filter_map(|(index, share)| {
        let source = source_of(*index)?;
        let (read, write) = of_source(source);
        let part = match source {
            TrafficSource::Sockets => 0.0,
            _ => share / sum(source),
        };
        let (read_bytes_per_s, write_bytes_per_s) = (read * part, write * part);
        Some((*index, DeviceTraffic { read_bytes_per_s, write_bytes_per_s, source }))
    });
    let mut traffic: BTreeMap<usize, DeviceTraffic> = divided.collect();
    for (index, rates) in inputs.sockets.into_iter().flatten() {
        let source = TrafficSource::Sockets;
        let (read_bytes_per_s, write_bytes_per_s) = (rates.received, rates.sent);
        traffic.insert(*index, DeviceTraffic { read_bytes_per_s, write_bytes_per_s, source });
    }
    traffic
}

fn source_of(kind: DeviceKind, has_sockets: bool) -> TrafficSource {
    match kind {
        DeviceKind::Nvme | DeviceKind::Block => TrafficSource::Storage,
        DeviceKind::Network if has_sockets => TrafficSource::Sockets,
        _ => TrafficSource::Calls,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn sockets_are_counted_by_interface_and_storage_by_disk() {
        let kinds = [DeviceKind::Block, DeviceKind::Network, DeviceKind::Nvme, DeviceKind::Network];
        let shares = BTreeMap::from([(0, 0.2), (1, 0.6), (2, 0.2)]);
        let io = IoRates {
            requested_read: 120.0,
            requested_write: 500.0,
            storage_read: 100.0,
            storage_write: 0.0,
        };
        let sockets = BTreeMap::from([
            (1, TrafficRates { received: 7.0, sent: 900.0 }),
            (3, TrafficRates { received: 0.0, sent: 5.0 }),
        ]);
        let of = |sockets| {
            let found = device_traffic(
                |index| kinds.get(index).copied(),
                TrafficInputs { shares: &shares, io: Some(&io), sockets },
            );
            let plain = |(index, traffic): (usize, DeviceTraffic)| {
                (index, traffic.read_bytes_per_s, traffic.write_bytes_per_s, traffic.source)
            };
            found.into_iter().map(plain).collect::<Vec<_>>()
        };
        let (storage, counted, calls) =
            (TrafficSource::Storage, TrafficSource::Sockets, TrafficSource::Calls);
        assert_eq!(
            of(Some(&sockets)),
            [
                (0, 50.0, 0.0, storage),
                (1, 7.0, 900.0, counted),
                (2, 50.0, 0.0, storage),
                (3, 0.0, 5.0, counted)
            ]
        );
        assert_eq!(
            of(None),
            [(0, 50.0, 0.0, storage), (1, 20.0, 500.0, calls), (2, 50.0, 0.0, storage)],
            "without a list of sockets the calls are the estimate"
        );
        let idle = BTreeMap::new();
        assert_eq!(of(Some(&idle))[1], (1, 0.0, 0.0, counted), "a connection without data has no traffic");
    }
}
