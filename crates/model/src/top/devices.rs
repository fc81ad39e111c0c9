//! Rates of devices.

use numaio_machine::devices::{Device, DeviceCounters};
use numaio_schema::TopDevice;

/// Returns the rates of the devices that have counters, by name.
///
/// `seconds` is the time since the earlier counters; without earlier counters rates are unknown, as
/// are those of a counter that was reset.
pub fn top_devices(
    devices: &[Device],
    before: Option<&DeviceCounters>,
    after: &DeviceCounters,
    seconds: f64,
) -> Vec<TopDevice> {
    let rate = |before: Option<u64>, after: u64| {
        let grown = after.checked_sub(before?)?;
        (seconds > 0.0).then(|| grown as f64 / seconds)
    };
    let top_device = |(index, device): (usize, &Device)| {
        let (after, before) = (after.of(index)?, before.and_then(|before| before.of(index)));
        Some(TopDevice {
            name: device.distinct_name(devices),
            kind: device.kind,
            node: device.locality.node,
            read_bytes_per_s: rate(before.map(|before| before.read), after.read),
            write_bytes_per_s: rate(before.map(|before| before.write), after.write),
        })
    };
    let mut found: Vec<TopDevice> = devices.iter().enumerate().filter_map(top_device).collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}
