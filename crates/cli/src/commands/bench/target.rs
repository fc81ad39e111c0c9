//! What `numaio bench disk` reads and writes, and what it may not.

use super::disk::DiskArgs;
use crate::failure::Failure;
use crate::machine::Machine;
use numaio_linux::io::{self, Claim, ClaimError, Facts};
use numaio_machine::topology::Topology;
use numaio_schema::IoDevice;
use std::path::Path;

/// A disk or a file that may be measured.
pub struct Target {
    /// The device it is or lies on.
    pub device: IoDevice,
    /// The name for our own engine.
    pub path: String,
    /// Its length.
    pub bytes: u64,
    /// The right to write, held as long as this is.
    claim: Option<Claim>,
}

impl Target {
    /// The name by which another program finds it.
    pub fn for_others(&self) -> String {
        self.claim.as_ref().map_or_else(|| self.path.clone(), Claim::for_others)
    }
}

/// On this machine. What is to be written is claimed.
pub fn live(
    machine: &Machine,
    topology: &Topology,
    args: &DiskArgs,
    writes: bool,
) -> Result<Target, Failure> {
    match (&args.device, &args.file) {
        (Some(device), _) => raw(machine, topology, device, args, writes),
        (None, Some(file)) => of_file(machine, topology, file, args, writes),
        (None, None) => Err(Failure::usage("neither --device nor --file is given")),
    }
}

/// On a tape: names as they were, nothing is touched.
pub fn recorded(topology: &Topology, args: &DiskArgs) -> Result<Target, Failure> {
    let file = args.file.as_ref().map(|file| file.display().to_string());
    let name = args.device.clone().or_else(|| file.clone()).unwrap_or_default();
    let found = topology.devices.iter().find(|device| device.answers_to(short(&name)));
    let device = found.map_or_else(|| unknown(&name), |found| numaio_measure::io::device(found, file));
    let path = args.device.as_deref().map_or(name.clone(), device_file);
    Ok(Target { device, path, bytes: u64::MAX, claim: None })
}

fn raw(
    machine: &Machine,
    topology: &Topology,
    name: &str,
    args: &DiskArgs,
    writes: bool,
) -> Result<Target, Failure> {
    if let Some(twice) = args.i_know_this_destroys.as_ref().filter(|twice| *twice != name) {
        return Err(Failure::usage(format!("--i-know-this-destroys {twice} is not --device {name}"))
            .hint("both must name the same device"));
    }
    if writes && args.i_know_this_destroys.is_none() {
        let hint = format!("add --direction read, or --i-know-this-destroys {name} to lose what is on it");
        return Err(Failure::usage(format!("writing to {name} destroys what is on it")).hint(hint));
    }
    let path = path_of(topology, name);
    let facts = facts(machine, &path)?;
    if !facts.is_device {
        return Err(Failure::usage(format!("{path} is no block device"))
            .hint("--file PATH measures a file; numaio topology lists devices"));
    }
    let claim = match writes {
        true => Some(claim(machine, &path)?),
        false => None,
    };
    let device = device(topology, &facts, None).unwrap_or_else(|| unknown(short(name)));
    Ok(Target { device, path, bytes: facts.bytes, claim })
}

fn of_file(
    machine: &Machine,
    topology: &Topology,
    file: &Path,
    args: &DiskArgs,
    writes: bool,
) -> Result<Target, Failure> {
    let name = file.display().to_string();
    if file.is_file() && !writes {
        let facts = facts(machine, &name)?;
        let device = device(topology, &facts, Some(name.clone())).unwrap_or_else(|| unknown(&name));
        return Ok(Target { device, path: name, bytes: facts.bytes, claim: None });
    }
    numaio_linux::interrupt::install()
        .map_err(|error| Failure::new(format!("cannot watch for Ctrl-C: {error}")))?;
    let claim = Claim::file(file, args.area).map_err(of_claim)?;
    let facts = facts(machine, &claim.for_others())?;
    let device = device(topology, &facts, Some(name.clone())).unwrap_or_else(|| unknown(&name));
    Ok(Target { device, path: claim.name().to_owned(), bytes: claim.bytes(), claim: Some(claim) })
}

fn claim(machine: &Machine, path: &str) -> Result<Claim, Failure> {
    Claim::device(machine, path).map_err(of_claim)
}

fn facts(machine: &Machine, path: &str) -> Result<Facts, Failure> {
    io::facts(machine, path).map_err(|error| {
        let failure = Failure::new(format!("{path}: {error}"));
        match error.kind() {
            std::io::ErrorKind::PermissionDenied => {
                failure.hint("raw devices are read by root and by the group disk: run as root, or measure a file by --file")
            }
            std::io::ErrorKind::NotFound => failure.hint("numaio topology lists devices"),
            _ => failure,
        }
    })
}

fn of_claim(error: ClaimError) -> Failure {
    let failure = Failure::new(&error);
    match error {
        ClaimError::Exists { .. } => failure
            .hint("name a file that is not there, or a folder; --direction read reads one that is there"),
        ClaimError::InUse { .. } => {
            failure.hint("a device in use is never written; --direction read reads it")
        }
        ClaimError::NoSpace { .. } => failure.hint("a smaller --area needs less"),
        ClaimError::Interrupted => Failure { code: crate::failure::INTERRUPTED, ..failure },
        ClaimError::NoDevice { .. } | ClaimError::Refused { .. } => failure,
    }
}

/// `sdb` of `/dev/sdb`.
fn short(name: &str) -> &str {
    name.strip_prefix("/dev/").unwrap_or(name)
}

fn device_file(name: &str) -> String {
    format!("/dev/{}", short(name))
}

/// The device file of a name: its own, or that of the disk which answers to it, as `0000:3b:00.0`.
fn path_of(topology: &Topology, name: &str) -> String {
    let own = if name.starts_with('/') { name.to_owned() } else { device_file(name) };
    let found = topology.devices.iter().find(|device| device.answers_to(short(name)));
    let others = found.into_iter().flat_map(|device| device.names.iter().map(|name| device_file(name)));
    let is_block = |path: &String| {
        use std::os::unix::fs::FileTypeExt;
        std::fs::metadata(path).is_ok_and(|found| found.file_type().is_block_device())
    };
    std::iter::once(own.clone()).chain(others).find(is_block).unwrap_or(own)
}

/// The device of the topology below which a block device hangs.
fn device(topology: &Topology, facts: &Facts, by_way_of: Option<String>) -> Option<IoDevice> {
    let place = facts.device.as_ref()?;
    let below = |path: &str| place == path || place.starts_with(&format!("{}/", path.trim_end_matches('/')));
    let devices = topology.devices.iter().filter(|device| device.moves_data() && below(&device.path));
    let found = devices.max_by_key(|device| device.path.len());
    let name = place.rsplit('/').next().unwrap_or_default();
    Some(match found {
        Some(found) => numaio_measure::io::device(found, by_way_of),
        None => IoDevice { by_way_of, ..unknown(name) },
    })
}

/// A device of which nothing but its name is known.
fn unknown(name: &str) -> IoDevice {
    IoDevice {
        name: name.to_owned(),
        model: String::new(),
        pci: None,
        node: None,
        by_way_of: None,
        irqs: Vec::new(),
    }
}
