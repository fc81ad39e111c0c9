//! Measured I/O on a tape, evaluated again from its runs.

use super::measuring::{self, MeasuredMachine};
use crate::failure::{self, Failure};
use crate::machine::Machine;
use crate::options::Common;
use crate::store::Kind;
use crate::{documents, output};
use numaio_machine::ids::NodeId;
use numaio_machine::topology::Topology;
use numaio_machine::workload::{DiskPath, IoPath, Sampling, StreamGroup, Workload};
use numaio_measure::engine::{Cuda, Disk, Engine, Fio};
use numaio_measure::io::{IoSelection, MixPart};
use numaio_measure::{IoOptions, Rule};
use numaio_schema::{IoCell, IoEngine, IoRecord, Load};

/// Returns the measured I/O of a machine without load: that on a tape, then the saved one, newest
/// first.
///
/// # Errors
/// Ctrl-C was pressed.
pub fn measured(common: &Common, machine: &Machine, topology: &Topology) -> Result<Vec<IoRecord>, Failure> {
    let mut measured = records(common, machine, topology)?;
    measured.retain(|record| record.provenance.load.is_empty());
    measured.reverse();
    measured.extend(documents::saved_io(common, Kind::Io, &topology.identity));
    Ok(measured)
}

/// Returns every I/O record of a tape.
///
/// Records of disks and GPUs are computed again from the raw runs with the recorded options; others
/// are returned unchanged.
///
/// # Errors
/// Ctrl-C was pressed.
pub fn records(common: &Common, machine: &Machine, topology: &Topology) -> Result<Vec<IoRecord>, Failure> {
    let Some(tape) = machine.tape() else { return Ok(Vec::new()) };
    let quiet = Common { quiet: true, ..common.clone() };
    let mut records = Vec::new();
    for (document, (first, end)) in &tape.documents {
        let Ok(stored) = IoRecord::from_json(&document.to_string()) else { continue };
        let runs = tape.runs.get(*first..*end).unwrap_or_default().iter();
        let is_loaded = !stored.provenance.load.is_empty();
        let runs = runs.filter_map(|(workload, _)| without_load(workload, is_loaded));
        let Some((engine, window, most_bytes)) =
            runs.into_iter().find_map(|workload| engine(&stored, workload))
        else {
            records.push(stored);
            continue;
        };
        match replay(&quiet, machine, topology, &stored, (engine.as_ref(), window, most_bytes)) {
            Ok(record) => records.push(record),
            Err(failure) if failure.code == failure::INTERRUPTED => return Err(failure),
            Err(failure) => {
                output::remark(common, &format!("I/O of {}: {}", stored.device.name, failure.message))
            }
        }
    }
    Ok(records)
}

/// Returns a workload that ran beside a load, or one that ran without.
fn without_load(workload: &Workload, is_loaded: bool) -> Option<&Workload> {
    match workload {
        Workload::Loaded(loaded) => is_loaded.then_some(&*loaded.workload),
        workload => (!is_loaded).then_some(workload),
    }
}

/// Returns the engine of a recorded workload, its window, and its byte limit.
///
/// None if the engine cannot be replayed, or the workload is not a measurement.
fn engine(stored: &IoRecord, workload: &Workload) -> Option<(Box<dyn Engine>, Sampling, Option<u64>)> {
    match (stored.method.engine, workload) {
        (IoEngine::Disk, Workload::Io(io)) => match &io.path {
            IoPath::Disk(path) => Some((Box::new(Disk { path: path.clone() }), io.sampling, io.max_bytes)),
            _ => None,
        },
        (IoEngine::Cuda, Workload::Io(io)) => match io.path {
            IoPath::Gpu { device } => Some((Box::new(Cuda { device }), io.sampling, io.max_bytes)),
            _ => None,
        },
        (IoEngine::Fio, Workload::Tool(tool)) => {
            let (method, order) = stored.method.disk?;
            let (bytes, direct) = (stored.method.area_bytes?, stored.method.direct?);
            let disk = DiskPath { path: String::new(), offset: 0, bytes, method, direct, order };
            let (fio, window) = Fio::of_run(tool, disk)?;
            Some((Box::new(fio), window, None))
        }
        _ => None,
    }
}

/// Repeats the campaign of a record on the recorded runs.
fn replay(
    common: &Common,
    machine: &Machine,
    topology: &Topology,
    stored: &IoRecord,
    (engine, window, most_bytes): (&dyn Engine, Sampling, Option<u64>),
) -> Result<IoRecord, Failure> {
    let requested = &stored.method.rounds;
    let rule = Rule {
        precision: requested.precision,
        time_limit_s: requested.time_limit_s,
        seed: requested.seed,
        ..Rule::default()
    };
    let (window_ms, slices) = match window {
        Sampling::Window { milliseconds, slices } => (milliseconds, slices),
        Sampling::Repetitions { .. } => {
            return Err(Failure::new("cannot replay runs that were not sampled by a time window"))
        }
    };
    let mut block_bytes: Vec<u64> = Vec::new();
    let mut mixes: Vec<Vec<MixPart>> = Vec::new();
    for cell in &stored.cells {
        push_unique(&mut block_bytes, cell.block_bytes);
        push_unique(&mut mixes, mix_parts(cell));
    }
    let what = IoSelection::Mixes(mixes);
    let (depth, operations) = (stored.method.depth, vec![None]);
    let options = IoOptions { what, block_bytes, operations, depth, window_ms, slices, most_bytes, rule };
    let load: Vec<Load> = stored.provenance.load.iter().map(|load| load.load.clone()).collect();
    let setting = MeasuredMachine::under(machine, topology, &load);
    let device = stored.device.clone();
    let mut record = measuring::measure_io(common, setting, machine.time(), engine, device, &options)?;
    record.method.represented = stored.method.represented.clone();
    Ok(record)
}

fn push_unique<T: PartialEq>(list: &mut Vec<T>, value: T) {
    if !list.contains(&value) {
        list.push(value);
    }
}

fn mix_parts(cell: &IoCell) -> Vec<MixPart> {
    let part = |(group, cpu_node): (&StreamGroup, &NodeId)| MixPart {
        cpu_node: *cpu_node,
        memory: group.memory,
        streams: group.streams,
        direction: group.direction,
        device: 0,
    };
    cell.groups.iter().zip(&cell.cpu_nodes).map(part).collect()
}
