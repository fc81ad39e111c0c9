//! Measurement of stream mixes on a disk, with the method of a saved measurement.

use crate::commands::bench::{device_near, short};
use crate::commands::measuring::{self, MeasuredMachine};
use crate::failure::Failure;
use crate::machine::Machine;
use crate::options::Common;
use crate::output;
use crate::store::Kind;
use numaio_linux::io::{best_method, disk_facts, lockable_bytes, Claim};
use numaio_machine::topology::Topology;
use numaio_machine::workload::{Direction, DiskOrder, DiskPath};
use numaio_measure::engine::{Disk, Engine, Fio};
use numaio_measure::io::{IoSelection, MixPart};
use numaio_measure::{IoOptions, Rule};
use numaio_schema::{Capacities, IoDevice, IoEngine, IoRecord, Load, NodeStreams};
use std::path::Path;

/// The mixes to measure, and how.
pub struct MixRequest<'a> {
    /// The measurement that the prediction uses; its engine and method are repeated.
    pub reference: &'a IoRecord,
    /// Direction, block size and operation.
    pub capacities: &'a Capacities,
    /// The mixes, each measured separately.
    pub mixes: &'a [Vec<NodeStreams>],
    /// New file to write to, or a directory for one.
    pub file: Option<&'a Path>,
    /// Disk or volume to write to; all data on it is lost. Without this and `file`, nothing is
    /// written.
    pub destroys: Option<&'a str>,
    /// Load beside every visit.
    pub load: &'a [Load],
    /// Whether to save the measurement.
    pub save: bool,
    /// Length of a visit in milliseconds. A long one averages over the bursts in which the many
    /// requests of a mix complete on a busy machine.
    pub window_ms: u32,
    /// Time limit of the measurement in seconds.
    pub time_limit_s: f64,
}

/// Bytes of the disk or file that are used, if the reference measurement does not contain them.
const DEFAULT_AREA: u64 = 1 << 30;

/// Minimum visits. The noise of other cells is not available for a mix, and the interval of a
/// median by order statistics requires six values.
const MIN_VISITS: u32 = 6;

/// Measures mixes with the engine, method, order, depth and block size of the reference, and saves
/// them.
///
/// # Errors
/// If the device is not a disk, if writing would destroy data, or if the measurement fails.
pub fn measure_mixes(
    common: &Common,
    machine: &Machine,
    topology: &Topology,
    request: &MixRequest,
) -> Result<IoRecord, Failure> {
    let fingerprint = &topology.identity.fingerprint;
    let save = measuring::should_save(machine, !request.save, Kind::Io, fingerprint)?;
    let IoTarget { path, claim, reached_via } = open_target(common, machine, topology, request)?;
    let engine = engine(request, path, claim.as_ref())?;
    let setting = MeasuredMachine::under(machine, topology, request.load);
    let now = machine.time();
    let options = IoOptions {
        what: IoSelection::Mixes(
            request.mixes.iter().map(|mix| parts(mix, request.capacities.direction)).collect(),
        ),
        block_bytes: vec![request.capacities.block_bytes],
        operations: vec![request.capacities.operation.clone()],
        depth: request.reference.method.depth,
        window_ms: request.window_ms,
        rule: Rule {
            seed: now,
            precision: request.reference.method.rounds.precision,
            least_visits: MIN_VISITS,
            time_limit_s: request.time_limit_s,
            ..Rule::default()
        },
        ..IoOptions::default()
    };
    let device = IoDevice { reached_via, ..request.reference.device.clone() };
    let record = measuring::measure_io(common, setting, now, engine.as_ref(), device, &options)?;
    if save {
        measuring::save(common, Kind::Io, &record.provenance, &record, topology)?;
    }
    Ok(record)
}

/// Converts a mix to parts with local buffers.
fn parts(mix: &[NodeStreams], direction: Direction) -> Vec<MixPart> {
    let part = |flow: &NodeStreams| MixPart {
        cpu_node: flow.node,
        memory: flow.node,
        streams: flow.streams,
        direction,
        device: 0,
    };
    mix.iter().map(part).collect()
}

/// Creates the engine of the reference measurement.
fn engine(request: &MixRequest, path: DiskPath, claim: Option<&Claim>) -> Result<Box<dyn Engine>, Failure> {
    match request.reference.method.engine {
        IoEngine::Disk => Ok(Box::new(Disk { path })),
        IoEngine::Fio => {
            let name = claim.map_or_else(|| path.path.clone(), Claim::proc_path);
            Ok(Box::new(Fio {
                path: DiskPath { path: name, ..path },
                registered: lockable_bytes() == u64::MAX,
            }))
        }
        other => {
            let message = format!("mixes can only be measured on disks, not with {}", other.title());
            Err(Failure::new(message).hint("omit --measure; numaio bench measures this device"))
        }
    }
}

/// The disk or file to read from or write to.
struct IoTarget {
    path: DiskPath,
    /// The claim that permits writing.
    claim: Option<Claim>,
    /// The file or volume through which the disk is accessed, for the record.
    reached_via: Option<String>,
}

/// Returns the path to a measured device, and the volume through which it was measured, if any.
fn device_path(device: &IoDevice, is_block: impl Fn(&str) -> bool) -> (String, Option<String>) {
    let volume = device.reached_via.clone().filter(|path| is_block(path));
    (volume.clone().unwrap_or_else(|| format!("/dev/{}", device.name)), volume)
}

/// Checks that the user confirmed the path that a measurement would overwrite. The path comes from
/// an old document, and may be a volume on the device.
fn check_destroys(destroys: Option<&str>, path: &str, writes: bool) -> Result<(), Failure> {
    let hint = format!(
        "--file PATH writes to a new file; --i-know-this-destroys {path} destroys all data on '{path}'"
    );
    match destroys {
        None if writes => {
            let message = "measuring writes requires --file or --i-know-this-destroys";
            Err(Failure::usage(message).hint(hint))
        }
        Some(confirmed) if writes && short(confirmed) != short(path) => {
            let message = format!(
                "the measurement would overwrite '{path}', but --i-know-this-destroys is '{confirmed}'"
            );
            Err(Failure::usage(message).hint(hint))
        }
        _ => Ok(()),
    }
}

/// Checks that a volume is still on the measured device: names such as loop devices are reused.
fn check_volume(volume: &str, measured: &str, current: Option<&str>) -> Result<(), Failure> {
    if current == Some(measured) {
        return Ok(());
    }
    let current = current.map_or("an unknown device".to_owned(), |current| format!("'{current}'"));
    Err(Failure::new(format!("'{volume}' was on '{measured}' when it was measured, and is now on {current}"))
        .hint(format!("measure it again with numaio bench disk --device {volume} --direction read")))
}

/// Opens the disk or file. Creates and claims a file, and claims a device that is written to.
fn open_target(
    common: &Common,
    machine: &Machine,
    topology: &Topology,
    request: &MixRequest,
) -> Result<IoTarget, Failure> {
    let method = &request.reference.method;
    let area = method.area_bytes.unwrap_or(DEFAULT_AREA);
    let (disk_method, order) = method.disk.unwrap_or_else(|| (best_method().0, DiskOrder::Sequential));
    let path = |path: String, bytes: u64| {
        let bytes = bytes.min(area) / request.capacities.block_bytes * request.capacities.block_bytes;
        let direct = method.direct.unwrap_or(true);
        DiskPath { path, offset: 0, bytes, method: disk_method, direct, order }
    };
    if let Some(file) = request.file {
        numaio_linux::interrupt::install()
            .map_err(|error| Failure::new(format!("cannot handle Ctrl-C: {error}")))?;
        measuring::announce_fill(common, file, area);
        let claim = Claim::file(file, area).map_err(|error| {
            Failure::new(error).hint("--file expects a path that does not exist, or a directory")
        })?;
        let path = path(claim.name().to_owned(), claim.bytes());
        return Ok(IoTarget { path, claim: Some(claim), reached_via: Some(file.display().to_string()) });
    }
    let is_block = |path: &str| match machine.is_live() {
        true => disk_facts(machine, path).is_ok_and(|found| found.is_device),
        false => path.starts_with("/dev/"),
    };
    let (name, reached_via) = device_path(&request.reference.device, is_block);
    if !machine.is_live() {
        return Ok(IoTarget { path: path(name, u64::MAX), claim: None, reached_via });
    }
    let writes = request.capacities.direction == Direction::Write;
    check_destroys(request.destroys, &name, writes)?;
    if let Some(volume) = &reached_via {
        let now = device_near(machine, topology, volume, None).map(|device| device.name);
        check_volume(volume, &request.reference.device.name, now.as_deref())?;
    }
    let claim = match writes {
        true => Some(Claim::device(machine, &name).map_err(Failure::new)?),
        false => None,
    };
    let found = disk_facts(machine, &name).map_err(|error| {
        Failure::new(format!("cannot measure '{name}': {error}"))
            .hint("--file PATH measures a file on the disk")
    })?;
    let action = if writes { "writing to" } else { "reading from" };
    output::remark(common, &numaio_transfer::line::sanitize(&format!("{action} '{name}'")));
    Ok(IoTarget { path: path(name, found.bytes), claim, reached_via })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_a_volume_but_not_a_file() {
        let path_of = |reached_via: Option<&str>| {
            let device = IoDevice {
                name: "sda".to_owned(),
                model: String::new(),
                pci: None,
                node: None,
                reached_via: reached_via.map(str::to_owned),
                irqs: Vec::new(),
            };
            device_path(&device, |path| path == "/dev/mapper/data")
        };
        assert_eq!(path_of(None), ("/dev/sda".to_owned(), None));
        assert_eq!(path_of(Some("/mnt/old.file")), ("/dev/sda".to_owned(), None));
        let volume = "/dev/mapper/data".to_owned();
        assert_eq!(path_of(Some(&volume)), (volume.clone(), Some(volume)));
    }

    #[test]
    fn rejects_writes_to_an_unconfirmed_device() {
        let check = |confirmed, writes| {
            check_destroys(confirmed, "/dev/loop0", writes).map_err(|failure| failure.message)
        };
        assert_eq!(check(Some("loop0"), true).and(check(Some("/dev/loop0"), true)), Ok(()));
        for confirmed in ["vda", "/dev/vda", "/dev/loop", ""] {
            let message = check(Some(confirmed), true).expect_err("another device");
            assert!(message.contains("would overwrite '/dev/loop0'"), "{message}");
        }
        let failure = check_destroys(None, "/dev/loop0", true).expect_err("no confirmation");
        assert!(failure.hint.is_some_and(|hint| hint.contains("--i-know-this-destroys /dev/loop0")));
        assert_eq!(check(None, false), Ok(()));
    }

    #[test]
    fn rejects_a_volume_that_moved_to_another_device() {
        let check = |current| check_volume("/dev/loop0", "vda", current).map_err(|failure| failure.message);
        assert_eq!(check(Some("vda")), Ok(()));
        assert!(check(Some("vdb")).is_err_and(|message| message.contains("now on 'vdb'")));
        assert!(check(None).is_err_and(|message| message.contains("'/dev/loop0' was on 'vda'")));
    }
}
