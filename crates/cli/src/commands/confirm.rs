//! Confirms a model with the devices of its targets: one node per class and direction is measured
//! with the device itself (Li et al., ICPP 2013, section V-B).

use super::bench::{self, BenchRecords};
use crate::device_arguments::device_of_data;
use crate::failure::Failure;
use crate::machine::Machine;
use crate::options::Common;
use crate::output;
use numaio_machine::devices::{Device, DeviceKind};
use numaio_machine::set::NodeSet;
use numaio_machine::topology::Topology;
use numaio_machine::workload::Direction;
use numaio_model::{bench_command, expect_bandwidth, BandwidthEvidence, BandwidthSubject};
use numaio_report::{confirmation_text, ConfirmedDirection};
use numaio_schema::{IoRecord, Model};
use std::io::{self, BufRead, IsTerminal};

/// Limits of each measurement: classes differ by more than this precision.
const LIMITS: &str = "--streams 8 --precision 5 --seconds 30 --window 250";
/// Seconds in [`LIMITS`].
const SECONDS: usize = 30;

/// Returns the devices to confirm with: `requested`, or without names those of the targets that can
/// be measured without losing data and without another host.
///
/// # Errors
/// A device that is unknown, is on no target, or needs another host.
pub fn devices<'a>(
    topology: &'a Topology,
    requested: &[String],
    targets: &NodeSet,
) -> Result<Vec<&'a Device>, Failure> {
    if requested.is_empty() {
        return Ok(measurable(topology, targets));
    }
    let check = |name: &String| {
        let device = device_of_data(topology, name)?;
        if needs_peer(device) {
            return Err(Failure::usage(format!("'{name}' is measured together with another host"))
                .hint(format!("after the model: {}", command(device))));
        }
        match device.locality.node.filter(|node| targets.contains(*node)) {
            Some(_) => Ok(device),
            None => Err(Failure::usage(format!("'{name}' is not on a target of this model"))
                .hint(format!("numaio model --device {name} --confirm {name}"))),
        }
    };
    requested.iter().map(check).collect()
}

/// Returns the devices of the targets that are measured without losing data or another host.
fn measurable<'a>(topology: &'a Topology, targets: &NodeSet) -> Vec<&'a Device> {
    let is_target = |device: &&Device| device.locality.node.is_some_and(|node| targets.contains(node));
    let devices = topology.devices.iter().filter(|device| device.carries_data()).filter(is_target);
    devices.filter(|device| !needs_peer(device)).collect()
}

fn needs_peer(device: &Device) -> bool {
    matches!(device.kind, DeviceKind::Network | DeviceKind::Rdma)
}

fn command(device: &Device) -> String {
    bench_command(&device.name(), Some(device.kind))
}

/// Asks on a terminal whether to confirm a model; false without a terminal, and with a single node.
pub fn wants_confirmation(common: &Common, topology: &Topology, devices: &[&Device]) -> bool {
    let has_choice = topology.memory_nodes().len() > 1;
    if common.quiet
        || !has_choice
        || devices.is_empty()
        || !io::stdin().is_terminal()
        || !io::stderr().is_terminal()
    {
        return false;
    }
    let names: Vec<String> = devices.iter().map(|device| device.name()).collect();
    output::remark(
        common,
        &format!(
            "measure {} itself, on a node of each class? It is only read, for at most {} s. [y/N]",
            names.join(", "),
            SECONDS * devices.len()
        ),
    );
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).is_ok() && answer.trim().eq_ignore_ascii_case("y")
}

/// Measures each device on a node of each class, saves the records, and prints expected and
/// measured bandwidth.
///
/// # Errors
/// No device could be measured; one that fails beside others is a remark.
pub fn confirm(
    common: &Common,
    (machine, topology): (&Machine, &Topology),
    model: &Model,
    devices: &[&Device],
    is_saved: bool,
) -> Result<(), Failure> {
    let mut failed = None;
    let mut is_confirmed = false;
    for device in devices {
        match measure(common, machine, device, is_saved) {
            Ok(records) => {
                is_confirmed = true;
                let directions = directions(topology, model, device, &records);
                output::print(&confirmation_text(&device.name(), &directions, &output::style(common)))?;
            }
            Err(failure) if devices.len() > 1 && failed.is_none() => {
                output::remark(common, &format!("{}: {}", device.name(), failure.message));
                failed = Some(failure);
            }
            Err(failure) => return Err(failure),
        }
    }
    match failed.filter(|_| !is_confirmed) {
        Some(failure) => Err(failure),
        None => Ok(()),
    }
}

fn measure(
    common: &Common,
    machine: &Machine,
    device: &Device,
    is_saved: bool,
) -> Result<Vec<IoRecord>, Failure> {
    let save = if is_saved { "" } else { " --no-save" };
    let line = format!("{} {LIMITS}{save}", command(device));
    let words = line.strip_prefix("numaio bench ").unwrap_or(&line);
    let command = bench::parse_line(words).map_err(Failure::new)?;
    match bench::measure(common, machine, &command)? {
        BenchRecords::Io(records) => Ok(records),
        BenchRecords::Aggregate(_) | BenchRecords::Ping(_) | BenchRecords::Mmio(_) => Ok(Vec::new()),
    }
}

/// Returns the bandwidth that the model and the device's limit bound, and the measured one.
fn directions(
    topology: &Topology,
    model: &Model,
    device: &Device,
    records: &[IoRecord],
) -> Vec<ConfirmedDirection> {
    let name = device.name();
    let subject = BandwidthSubject::of(device, &name);
    let newest: Vec<&IoRecord> = records.iter().rev().collect();
    let expect = |records: &[&IoRecord], direction| {
        expect_bandwidth(BandwidthEvidence { topology, models: &[model], records }, subject, direction, &[])
    };
    let pair = |direction| ConfirmedDirection {
        expected: expect(&[], direction),
        measured: expect(&newest, direction),
    };
    [Direction::Write, Direction::Read]
        .map(pair)
        .into_iter()
        .filter(ConfirmedDirection::is_measured)
        .collect()
}
