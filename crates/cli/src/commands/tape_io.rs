//! Measured I/O that a tape holds, judged anew from its runs.

use super::measuring::{self, MeasuredMachine};
use crate::args::Common;
use crate::failure::{self, Failure};
use crate::machine::Machine;
use crate::output;
use numaio_machine::ids::NodeId;
use numaio_machine::topology::Topology;
use numaio_machine::workload::{DiskPath, IoPath, Sampling, StreamGroup, Workload};
use numaio_measure::engine::{Cuda, Disk, Engine, Fio};
use numaio_measure::io::{IoSelection, MixPart};
use numaio_measure::{IoOptions, Rule};
use numaio_schema::{IoCell, IoEngine, IoRecord};

/// Every record of I/O on a tape. Those of disks and GPUs are made again from the raw runs, with what was asked then;
/// others stand as they were made when it was recorded.
///
/// # Errors
/// After Ctrl-C.
pub fn records(common: &Common, machine: &Machine, topology: &Topology) -> Result<Vec<IoRecord>, Failure> {
    let Some(tape) = machine.tape() else { return Ok(Vec::new()) };
    let quiet = Common { quiet: true, ..common.clone() };
    let mut records = Vec::new();
    for (made, (first, end)) in &tape.documents {
        let Ok(stored) = IoRecord::from_json(&made.to_string()) else { continue };
        let runs = tape.runs.get(*first..*end).unwrap_or_default().iter().map(|(workload, _)| workload);
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

/// What ran a workload of a record, its window, and the bytes after which a run ended early; none if that cannot be made
/// again, or the workload is no measurement.
fn engine(stored: &IoRecord, workload: &Workload) -> Option<(Box<dyn Engine>, Sampling, Option<u64>)> {
    match (stored.method.engine, workload) {
        (IoEngine::Disk, Workload::Io(io)) => match &io.through {
            IoPath::Disk(path) => Some((Box::new(Disk { path: path.clone() }), io.sampling, io.most_bytes)),
            _ => None,
        },
        (IoEngine::Cuda, Workload::Io(io)) => match io.through {
            IoPath::Gpu { device } => Some((Box::new(Cuda { device }), io.sampling, io.most_bytes)),
            _ => None,
        },
        (IoEngine::Fio, Workload::Tool(tool)) => {
            let (method, order) = stored.method.disk?;
            let (bytes, direct) = (stored.method.area_bytes?, stored.method.direct?);
            let disk = DiskPath { path: String::new(), at: 0, bytes, method, direct, order };
            let (fio, window) = Fio::of_run(tool, disk)?;
            Some((Box::new(fio), window, None))
        }
        _ => None,
    }
}

/// The campaign of a record once more, on what was recorded.
fn replay(
    common: &Common,
    machine: &Machine,
    topology: &Topology,
    stored: &IoRecord,
    (engine, window, most_bytes): (&dyn Engine, Sampling, Option<u64>),
) -> Result<IoRecord, Failure> {
    let asked = &stored.method.rounds;
    let rule = Rule {
        precision: asked.precision,
        time_limit_s: asked.time_limit_s,
        seed: asked.seed,
        ..Rule::default()
    };
    let (window_ms, slices) = match window {
        Sampling::Window { milliseconds, slices } => (milliseconds, slices),
        Sampling::Repetitions { .. } => return Err(Failure::new("it was not sampled by a window")),
    };
    let mut block_bytes: Vec<u64> = Vec::new();
    let mut mixes: Vec<Vec<MixPart>> = Vec::new();
    for cell in &stored.cells {
        push_new(&mut block_bytes, cell.block_bytes);
        push_new(&mut mixes, mix_parts(cell));
    }
    let what = IoSelection::Mixes(mixes);
    let (depth, operations) = (stored.method.depth, vec![None]);
    let options = IoOptions { what, block_bytes, operations, depth, window_ms, slices, most_bytes, rule };
    let setting = MeasuredMachine { root: machine, probe: machine, topology, source: machine.source() };
    let device = stored.device.clone();
    let mut record = measuring::measure_io(common, setting, machine.time(), engine, device, &options)?;
    record.method.represented = stored.method.represented.clone();
    Ok(record)
}

fn push_new<T: PartialEq>(to: &mut Vec<T>, value: T) {
    if !to.contains(&value) {
        to.push(value);
    }
}

fn mix_parts(cell: &IoCell) -> Vec<MixPart> {
    let part = |(group, cpu_node): (&StreamGroup, &NodeId)| MixPart {
        cpu_node: *cpu_node,
        memory: group.memory,
        streams: group.streams,
        direction: group.direction,
    };
    cell.groups.iter().zip(&cell.cpu_nodes).map(part).collect()
}
