//! Mixes of streams, measured on a disk as its saved measurement was.

use crate::args::Common;
use crate::commands::measuring::{self, Measured};
use crate::failure::Failure;
use crate::machine::Machine;
use crate::store::Kind;
use numaio_linux::io::{best_method, facts, lockable_bytes, Claim};
use numaio_machine::topology::Topology;
use numaio_machine::workload::{Direction, DiskOrder, DiskPath};
use numaio_measure::engine::{Disk, Engine, Fio};
use numaio_measure::io::{MixPart, What};
use numaio_measure::{IoOptions, Rule};
use numaio_schema::{Capacities, IoEngine, IoRecord, NodeStreams};
use std::path::Path;

/// What is measured, and how it was before.
pub struct Wanted<'a> {
    /// The measurement that the prediction rests on.
    pub like: &'a IoRecord,
    /// Direction, block size and operation.
    pub capacities: &'a Capacities,
    /// The mixes, each as one run at a time.
    pub mixes: &'a [Vec<NodeStreams>],
    /// A file that is not there yet.
    pub file: Option<&'a Path>,
    /// Whether everything on the device may be lost. Without it, and without a file, nothing is written.
    pub destroys: bool,
    /// Whether to save what is measured.
    pub keep: bool,
}

/// Bytes of the disk or file that are touched, if the measurement before does not tell.
const AREA: u64 = 1 << 30;

/// Length of a visit, in milliseconds: a mix has many requests in flight, which end in bursts on a busy machine.
const WINDOW_MS: u32 = 1000;
/// Visits at the least. A mix is measured alone, so that no other cell's noise stands in for its own, and the interval of
/// a median by order statistics needs six.
const LEAST_VISITS: u32 = 6;

/// Measures mixes by the same engine, method, order, depth and block size as before, and saves them.
///
/// # Errors
/// If the device is no disk, if writing would destroy something, and as measurements do.
pub fn measure_mixes(
    common: &Common,
    machine: &Machine,
    topology: &Topology,
    wanted: &Wanted,
) -> Result<IoRecord, Failure> {
    let fingerprint = &topology.identity.fingerprint;
    let keep = measuring::keep(machine, !wanted.keep, Kind::Io, fingerprint)?;
    let (path, claim) = path(machine, wanted)?;
    let engine = engine(wanted, path, claim.as_ref())?;
    let setting = Measured { root: machine, probe: machine, topology, source: machine.source() };
    let now = machine.time();
    let options = IoOptions {
        what: What::Mixes(wanted.mixes.iter().map(|mix| parts(mix, wanted.capacities.direction)).collect()),
        block_bytes: vec![wanted.capacities.block_bytes],
        operations: vec![wanted.capacities.operation.clone()],
        depth: wanted.like.method.depth,
        window_ms: WINDOW_MS,
        rule: Rule {
            seed: now,
            precision: wanted.like.method.rounds.precision,
            least_visits: LEAST_VISITS,
            ..Rule::default()
        },
        ..IoOptions::default()
    };
    let device = wanted.like.device.clone();
    let record = measuring::measure_io(common, setting, now, engine.as_ref(), device, &options)?;
    if keep {
        measuring::save(common, Kind::Io, &record.provenance, &record, topology)?;
    }
    Ok(record)
}

fn parts(mix: &[NodeStreams], direction: Direction) -> Vec<MixPart> {
    let part = |flow: &NodeStreams| MixPart {
        cpu_node: flow.node,
        memory: flow.node,
        streams: flow.streams,
        direction,
    };
    mix.iter().map(part).collect()
}

fn engine(wanted: &Wanted, path: DiskPath, claim: Option<&Claim>) -> Result<Box<dyn Engine>, Failure> {
    match wanted.like.method.engine {
        IoEngine::Disk => Ok(Box::new(Disk { path })),
        IoEngine::Fio => {
            let name = claim.map_or_else(|| path.path.clone(), Claim::for_others);
            Ok(Box::new(Fio {
                path: DiskPath { path: name, ..path },
                registered: lockable_bytes() == u64::MAX,
            }))
        }
        other => {
            Err(Failure::new(format!("mixes are measured on disks; this was measured by {}", other.title()))
                .hint("leave --measure out; numaio bench measures this device"))
        }
    }
}

/// Where to read or write. Files are made and claimed, and so is a device that is written to.
fn path(machine: &Machine, wanted: &Wanted) -> Result<(DiskPath, Option<Claim>), Failure> {
    let method = &wanted.like.method;
    let area = method.area_bytes.unwrap_or(AREA);
    let (disk_method, order) = method.disk.unwrap_or_else(|| (best_method().0, DiskOrder::Sequential));
    let path = |path: String, bytes: u64| {
        let bytes = bytes.min(area) / wanted.capacities.block_bytes * wanted.capacities.block_bytes;
        let direct = method.direct.unwrap_or(true);
        DiskPath { path, at: 0, bytes, method: disk_method, direct, order }
    };
    if let Some(file) = wanted.file {
        numaio_linux::interrupt::install()
            .map_err(|error| Failure::new(format!("cannot watch for Ctrl-C: {error}")))?;
        let claim = Claim::file(file, area).map_err(|error| {
            Failure::new(error).hint("--file wants a file that is not there, or a folder")
        })?;
        return Ok((path(claim.name().to_owned(), claim.bytes()), Some(claim)));
    }
    let name = format!("/dev/{}", wanted.like.device.name);
    if !machine.is_live() {
        return Ok((path(name, u64::MAX), None));
    }
    let writes = wanted.capacities.direction == Direction::Write;
    if writes && !wanted.destroys {
        return Err(Failure::usage("to measure what is written, a place to write to is needed").hint(
            "name a file that is not there, or a folder, by --file PATH; or the device again by \
             --i-know-this-destroys DEV to lose what is on it",
        ));
    }
    let claim = match writes {
        true => Some(Claim::device(machine, &name).map_err(Failure::new)?),
        false => None,
    };
    let found = facts(machine, &name).map_err(|error| {
        Failure::new(format!("{name}: {error}")).hint("--file PATH measures a file on the disk")
    })?;
    Ok((path(name, found.bytes), claim))
}
