//! Cells of the tables of a snapshot: clean texts, without units in titles.

use crate::phrases::{joined, percent, program_name, short};
use crate::style::clean;
use numaio_machine::ids::NodeId;
use numaio_machine::programs::Pressure;
use numaio_machine::units::{format_size, BandwidthUnit};
use numaio_schema::{BalanceReason, TopDevice, TopNode, TopProgram, TopTransfer, TransferSource};
use std::collections::BTreeMap;

/// Text of an unknown value.
const UNKNOWN: &str = "-";
/// Share from which a node counts as the only one.
const ALONE: f64 = 0.995;

/// Formats a rate in at most 10 characters: `18.5 MB/s`, `270 Mbit/s`.
pub fn format_rate(bytes_per_s: f64, unit: BandwidthUnit) -> String {
    let (base, names, factor) = match unit {
        BandwidthUnit::GigabytesPerS => (1000.0, ["B/s", "kB/s", "MB/s", "GB/s", "TB/s"], 1.0),
        BandwidthUnit::GibibytesPerS => (1024.0, ["B/s", "KiB/s", "MiB/s", "GiB/s", "TiB/s"], 1.0),
        BandwidthUnit::GigabitsPerS => (1000.0, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"], 8.0),
    };
    let mut value = if bytes_per_s.is_finite() { (bytes_per_s * factor).max(0.0) } else { 0.0 };
    let mut power = 0;
    // Rounded first: a value close to the next unit is shown in that.
    while value.round() >= 1000.0 && power + 1 < names.len() {
        value /= base;
        power += 1;
    }
    match power > 0 && value < 99.95 {
        true => format!("{value:.1} {}", names[power]),
        false => format!("{value:.0} {}", names[power]),
    }
}

fn rate(bytes_per_s: Option<f64>, unit: BandwidthUnit) -> String {
    bytes_per_s.map_or_else(|| UNKNOWN.to_owned(), |rate| format_rate(rate, unit))
}

/// Formats the shares of nodes: `4`, or `4:60% 7:40%`, or `4:50% 7:20%…`.
pub(super) fn place(amounts: impl Iterator<Item = (NodeId, f64)>) -> String {
    let mut amounts: Vec<(NodeId, f64)> = amounts.filter(|(_, amount)| *amount > 0.0).collect();
    let sum: f64 = amounts.iter().map(|(_, amount)| amount).sum();
    amounts.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let share = |(node, amount): &(NodeId, f64)| format!("{node}:{:.0}%", amount / sum * 100.0);
    match amounts.as_slice() {
        [] => UNKNOWN.to_owned(),
        [(node, amount), ..] if amount / sum >= ALONE => node.to_string(),
        [first] => share(first),
        [first, second] => format!("{} {}", share(first), share(second)),
        [first, second, ..] => format!("{} {}…", share(first), share(second)),
    }
}

/// Returns the nodes on which a program runs: by CPU time, or by threads if that is unknown.
fn cpu_place(program: &TopProgram) -> String {
    let used: f64 = program.cpus_on.values().sum();
    match used > 0.0 {
        true => place(program.cpus_on.iter().map(|(node, cpus)| (*node, *cpus))),
        false => place(program.threads_on.iter().map(|(node, count)| (*node, f64::from(*count)))),
    }
}

fn memory_place(bytes_on: &BTreeMap<NodeId, u64>) -> String {
    place(bytes_on.iter().map(|(node, bytes)| (*node, *bytes as f64)))
}

/// Returns the cells of a node, for [`NODE_COLUMNS`](super::NODE_COLUMNS).
pub fn node_cells(node: &TopNode, unit: BandwidthUnit) -> Vec<String> {
    let busy = node.busy_cpus.filter(|_| node.cpus > 0);
    let size = |bytes: u64| node.total_bytes.map_or_else(|| UNKNOWN.to_owned(), |_| format_size(bytes));
    vec![
        node.node.to_string(),
        node.cpus.to_string(),
        busy.map_or_else(|| UNKNOWN.to_owned(), |busy| percent(busy / f64::from(node.cpus))),
        size(node.total_bytes.unwrap_or(0)),
        size(node.free_bytes),
        size(node.reclaimable_bytes),
        rate(node.traffic.and_then(|traffic| traffic.total_bytes_per_s), unit),
        rate(node.device_bytes_per_s, unit),
    ]
}

/// Returns the cells of a device, for [`DEVICE_COLUMNS`](super::DEVICE_COLUMNS).
pub fn device_cells(device: &TopDevice, unit: BandwidthUnit) -> Vec<String> {
    vec![
        clean(&short(&device.name)),
        device.kind.name().to_owned(),
        device.node.map_or_else(|| UNKNOWN.to_owned(), |node| node.to_string()),
        rate(device.read_bytes_per_s, unit),
        rate(device.write_bytes_per_s, unit),
    ]
}

/// Returns the cells of a program, for [`PROGRAM_COLUMNS`](super::PROGRAM_COLUMNS).
pub fn program_cells(program: &TopProgram, unit: BandwidthUnit) -> Vec<String> {
    let unknown = || UNKNOWN.to_owned();
    let bytes_on = program.bytes_on();
    let devices = program.devices.iter().map(|used| short(&used.device));
    vec![
        program.pid.to_string(),
        clean(&program_name(&program.name, program.guest.as_deref())),
        program.cpus.map_or_else(unknown, |cpus| format!("{cpus:.2}")),
        cpu_place(program),
        program.bytes().map_or_else(unknown, format_size),
        bytes_on.as_ref().map_or_else(unknown, memory_place),
        program.remote.map_or_else(unknown, |remote| percent(remote.share)),
        rate(program.io_bytes_per_s(), unit),
        clean(&joined(devices, ", ")),
        clean(&balance_cell(program, unit)),
    ]
}

/// Returns the node to which balancing would move, and its gain; empty to stay.
fn balance_cell(program: &TopProgram, unit: BandwidthUnit) -> String {
    let Some(balance) = program.balance.as_ref().filter(|balance| !balance.is_unmodeled()) else {
        return program.advice.clone().unwrap_or_default();
    };
    match (balance.to, &balance.reason) {
        (Some(node), BalanceReason::Gain { gain_bytes_per_s, .. }) => {
            format!("{node}: +{}", format_rate(*gain_bytes_per_s, unit))
        }
        (Some(node), _) => node.to_string(),
        (None, _) => String::new(),
    }
}

/// Returns the cells of a transfer, for [`TRANSFER_COLUMNS`](super::TRANSFER_COLUMNS).
pub fn transfer_cells(transfer: &TopTransfer, unit: BandwidthUnit) -> Vec<String> {
    let source = match (transfer.source, transfer.job) {
        (TransferSource::Daemon, _) => "daemon".to_owned(),
        (TransferSource::Job, Some(job)) => format!("job {job}"),
        (TransferSource::Job, None) => "job".to_owned(),
    };
    let state = match transfer.position {
        Some(position) => format!("{} {position}", transfer.state),
        None => transfer.state.clone(),
    };
    vec![
        source,
        clean(&short(&transfer.user)),
        clean(&short(&transfer.subject)),
        clean(&state),
        rate(transfer.bytes_per_s, unit),
        format_size(transfer.bytes),
        clean(&joined(transfer.devices.iter().map(|name| short(name)), ", ")),
    ]
}

/// Formats the pressure: the shares of time in which tasks waited.
pub fn pressure_line(pressure: &Pressure) -> String {
    let part = |what: &str, share: Option<f64>| format!("{what} {}", share.map_or(UNKNOWN.into(), percent));
    let parts = [part("CPU", pressure.cpu), part("memory", pressure.memory), part("I/O", pressure.io)];
    format!("Pressure: {}", parts.join(", "))
}
