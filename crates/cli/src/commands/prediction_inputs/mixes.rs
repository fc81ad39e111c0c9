//! Mixes of streams, measured on a disk as its saved measurement was.

use crate::args::Common;
use crate::commands::bench::{device_near, short};
use crate::commands::measuring::{self, MeasuredMachine};
use crate::failure::Failure;
use crate::machine::Machine;
use crate::output;
use crate::store::Kind;
use numaio_linux::io::{best_method, disk_facts, lockable_bytes, Claim};
use numaio_machine::topology::Topology;
use numaio_machine::workload::{Direction, DiskOrder, DiskPath};
use numaio_measure::engine::{Disk, Engine, Fio};
use numaio_measure::io::{IoSelection, MixPart};
use numaio_measure::{IoOptions, Rule};
use numaio_schema::{Capacities, IoDevice, IoEngine, IoRecord, NodeStreams};
use std::path::Path;

/// What is measured, and how it was before.
pub struct MixRequest<'a> {
    /// The measurement that the prediction rests on.
    pub like: &'a IoRecord,
    /// Direction, block size and operation.
    pub capacities: &'a Capacities,
    /// The mixes, each as one run at a time.
    pub mixes: &'a [Vec<NodeStreams>],
    /// A file that is not there yet.
    pub file: Option<&'a Path>,
    /// The disk or volume on which everything may be lost. Without it, and without a file, nothing is written.
    pub destroys: Option<&'a str>,
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
    request: &MixRequest,
) -> Result<IoRecord, Failure> {
    let fingerprint = &topology.identity.fingerprint;
    let keep = measuring::should_save(machine, !request.keep, Kind::Io, fingerprint)?;
    let IoTarget { path, claim, reached_via } = open_target(common, machine, topology, request)?;
    let engine = engine(request, path, claim.as_ref())?;
    let setting = MeasuredMachine { root: machine, probe: machine, topology, source: machine.source() };
    let now = machine.time();
    let options = IoOptions {
        what: IoSelection::Mixes(
            request.mixes.iter().map(|mix| parts(mix, request.capacities.direction)).collect(),
        ),
        block_bytes: vec![request.capacities.block_bytes],
        operations: vec![request.capacities.operation.clone()],
        depth: request.like.method.depth,
        window_ms: WINDOW_MS,
        rule: Rule {
            seed: now,
            precision: request.like.method.rounds.precision,
            least_visits: LEAST_VISITS,
            ..Rule::default()
        },
        ..IoOptions::default()
    };
    let device = IoDevice { reached_via, ..request.like.device.clone() };
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

fn engine(request: &MixRequest, path: DiskPath, claim: Option<&Claim>) -> Result<Box<dyn Engine>, Failure> {
    match request.like.method.engine {
        IoEngine::Disk => Ok(Box::new(Disk { path })),
        IoEngine::Fio => {
            let name = claim.map_or_else(|| path.path.clone(), Claim::proc_path);
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

/// Where to read or write.
struct IoTarget {
    path: DiskPath,
    /// The right to write there.
    claim: Option<Claim>,
    /// The file or volume by which the disk is reached, for the record.
    reached_via: Option<String>,
}

/// The name of a device that was measured before, and the volume by which it was reached, if it was one.
fn device_path(device: &IoDevice, is_block: impl Fn(&str) -> bool) -> (String, Option<String>) {
    let volume = device.reached_via.clone().filter(|path| is_block(path));
    (volume.clone().unwrap_or_else(|| format!("/dev/{}", device.name)), volume)
}

/// What is lost must be named by the very path that is opened: that is one of an old document, and may be a volume on the device.
fn check_destroys(destroys: Option<&str>, path: &str, writes: bool) -> Result<(), Failure> {
    let hint = format!(
        "--file PATH writes a file that is not there, or into a folder; --i-know-this-destroys {path} loses what is on \
         {path}"
    );
    match destroys {
        None if writes => {
            Err(Failure::usage("to measure what is written, a place to write to is needed").hint(hint))
        }
        Some(named) if writes && short(named) != short(path) => {
            let what = format!("{path} would be written to, and --i-know-this-destroys names {named}");
            Err(Failure::usage(what).hint(hint))
        }
        _ => Ok(()),
    }
}

/// A volume's name may be another one's by now, as that of a loop device.
fn check_volume(volume: &str, then: &str, now: Option<&str>) -> Result<(), Failure> {
    match now {
        Some(now) if now == then => Ok(()),
        now => {
            let now = now.unwrap_or("no device that is known");
            Err(Failure::new(format!("{volume} lay on {then} when it was measured, and lies on {now}"))
                .hint(format!("numaio bench disk --device {volume} --direction read measures it as it is")))
        }
    }
}

/// Where to read or write. Files are made and claimed, and so is a device that is written to.
fn open_target(
    common: &Common,
    machine: &Machine,
    topology: &Topology,
    request: &MixRequest,
) -> Result<IoTarget, Failure> {
    let method = &request.like.method;
    let area = method.area_bytes.unwrap_or(AREA);
    let (disk_method, order) = method.disk.unwrap_or_else(|| (best_method().0, DiskOrder::Sequential));
    let path = |path: String, bytes: u64| {
        let bytes = bytes.min(area) / request.capacities.block_bytes * request.capacities.block_bytes;
        let direct = method.direct.unwrap_or(true);
        DiskPath { path, at: 0, bytes, method: disk_method, direct, order }
    };
    if let Some(file) = request.file {
        numaio_linux::interrupt::install()
            .map_err(|error| Failure::new(format!("cannot watch for Ctrl-C: {error}")))?;
        measuring::announce_fill(common, file, area);
        let claim = Claim::file(file, area).map_err(|error| {
            Failure::new(error).hint("--file wants a file that is not there, or a folder")
        })?;
        let path = path(claim.name().to_owned(), claim.bytes());
        return Ok(IoTarget { path, claim: Some(claim), reached_via: Some(file.display().to_string()) });
    }
    let is_block = |path: &str| match machine.is_live() {
        true => disk_facts(machine, path).is_ok_and(|found| found.is_device),
        false => path.starts_with("/dev/"),
    };
    let (name, reached_via) = device_path(&request.like.device, is_block);
    if !machine.is_live() {
        return Ok(IoTarget { path: path(name, u64::MAX), claim: None, reached_via });
    }
    let writes = request.capacities.direction == Direction::Write;
    check_destroys(request.destroys, &name, writes)?;
    if let Some(volume) = &reached_via {
        let now = device_near(machine, topology, volume, None).map(|device| device.name);
        check_volume(volume, &request.like.device.name, now.as_deref())?;
    }
    let claim = match writes {
        true => Some(Claim::device(machine, &name).map_err(Failure::new)?),
        false => None,
    };
    let found = disk_facts(machine, &name).map_err(|error| {
        Failure::new(format!("{name}: {error}")).hint("--file PATH measures a file on the disk")
    })?;
    output::remark(
        common,
        &output::sanitize(&format!("{name} is {}", if writes { "written to" } else { "read" })),
    );
    Ok(IoTarget { path: path(name, found.bytes), claim, reached_via })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_is_measured_again_and_a_file_is_not() {
        let of = |reached_via: Option<&str>| {
            let device = IoDevice {
                name: "sda".to_owned(),
                model: String::new(),
                pci: None,
                node: None,
                reached_via: reached_via.map(str::to_owned),
                irqs: Vec::new(),
            };
            let (path, volume) = device_path(&device, |path| path == "/dev/mapper/data");
            (path, volume)
        };
        assert_eq!(of(None), ("/dev/sda".to_owned(), None));
        assert_eq!(of(Some("/mnt/old.file")), ("/dev/sda".to_owned(), None));
        let volume = "/dev/mapper/data".to_owned();
        assert_eq!(of(Some(&volume)), (volume.clone(), Some(volume)));
    }

    #[test]
    fn nothing_is_lost_that_was_not_named() {
        let lost =
            |named, writes| check_destroys(named, "/dev/loop0", writes).map_err(|failure| failure.message);
        assert_eq!(lost(Some("loop0"), true).and(lost(Some("/dev/loop0"), true)), Ok(()));
        for named in ["vda", "/dev/vda", "/dev/loop", ""] {
            let refused = lost(Some(named), true).expect_err("it is not the one");
            assert!(refused.contains("/dev/loop0 would be written to"), "{refused}");
        }
        let failure = check_destroys(None, "/dev/loop0", true).expect_err("nothing is named");
        assert!(failure.hint.is_some_and(|hint| hint.contains("--i-know-this-destroys /dev/loop0")));
        assert_eq!(lost(None, false), Ok(()));
    }

    #[test]
    fn a_volume_of_another_device_is_not_measured_as_this_ones() {
        let checked = |now| check_volume("/dev/loop0", "vda", now).map_err(|failure| failure.message);
        assert_eq!(checked(Some("vda")), Ok(()));
        assert!(checked(Some("vdb")).is_err_and(|what| what.contains("lies on vdb")));
        assert!(checked(None).is_err_and(|what| what.contains("/dev/loop0 lay on vda")));
    }
}
