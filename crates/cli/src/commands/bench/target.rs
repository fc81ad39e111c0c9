//! What `numaio bench disk` reads and writes, and what it may not.

use super::disk::DiskArgs;
use crate::args::Common;
use crate::commands::measuring;
use crate::failure::Failure;
use crate::machine::Machine;
use numaio_linux::io::{self, Claim, ClaimError, DiskFacts};
use numaio_machine::near::{resolve, Handle, ResolveContext};
use numaio_machine::topology::Topology;
use numaio_machine::workload::Direction;
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
        self.claim.as_ref().map_or_else(|| self.path.clone(), Claim::proc_path)
    }
}

/// On this machine. What is to be written is claimed.
pub fn live(
    common: &Common,
    machine: &Machine,
    topology: &Topology,
    args: &DiskArgs,
) -> Result<Target, Failure> {
    let writes = args.places.direction.list().contains(&Direction::Write);
    match (&args.device, &args.file) {
        (Some(device), _) => raw_device(machine, topology, device, args, writes),
        (None, Some(file)) => file_target(common, machine, topology, file, args, writes),
        (None, None) => Err(Failure::usage("neither --device nor --file is given")
            .hint("--device DEV measures a disk, --file DIR a file that is made there and removed")),
    }
}

/// None: for the engine that moves nothing.
pub fn none() -> Target {
    Target { device: unknown("null"), path: String::new(), bytes: 0, claim: None }
}

fn raw_device(
    machine: &Machine,
    topology: &Topology,
    name: &str,
    args: &DiskArgs,
    writes: bool,
) -> Result<Target, Failure> {
    if let Some(confirmed) = args.i_know_this_destroys.as_ref().filter(|confirmed| *confirmed != name) {
        return Err(Failure::usage(format!("--i-know-this-destroys {confirmed} is not --device {name}"))
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
    let mut device = device_near(machine, topology, &path, None).unwrap_or_else(|| unknown(short(name)));
    // A loop device or a volume is named beside the disk that it lies on.
    let is_it =
        topology.devices.iter().any(|found| found.name() == device.name && found.has_name(short(name)));
    device.reached_via = Some(path.clone()).filter(|_| !is_it && device.name != short(name));
    Ok(Target { device, path, bytes: facts.bytes, claim })
}

fn file_target(
    common: &Common,
    machine: &Machine,
    topology: &Topology,
    file: &Path,
    args: &DiskArgs,
    writes: bool,
) -> Result<Target, Failure> {
    let name = file.display().to_string();
    let device = || {
        let path = std::path::absolute(file).unwrap_or_else(|_| file.to_owned()).display().to_string();
        device_near(machine, topology, &path, Some(name.clone())).unwrap_or_else(|| unknown(&name))
    };
    if file.is_file() && !writes {
        let facts = facts(machine, &name)?;
        return Ok(Target { device: device(), path: name.clone(), bytes: facts.bytes, claim: None });
    }
    numaio_linux::interrupt::install()
        .map_err(|error| Failure::new(format!("cannot watch for Ctrl-C: {error}")))?;
    measuring::announce_fill(common, file, args.area);
    let claim = Claim::file(file, args.area).map_err(claim_failure)?;
    let (path, bytes) = (claim.name().to_owned(), claim.bytes());
    Ok(Target { device: device(), path, bytes, claim: Some(claim) })
}

fn claim(machine: &Machine, path: &str) -> Result<Claim, Failure> {
    Claim::device(machine, path).map_err(claim_failure)
}

fn facts(machine: &Machine, path: &str) -> Result<DiskFacts, Failure> {
    io::disk_facts(machine, path).map_err(|error| {
        let failure = Failure::new(format!("{path}: {error}"));
        match error.kind() {
            std::io::ErrorKind::PermissionDenied => {
                failure.hint(
                    "raw devices are read by root and by the group disk, and in a container only if it was given them: \
                     run as root, or measure a file by --file",
                )
            }
            std::io::ErrorKind::NotFound => failure.hint("numaio topology lists devices"),
            _ => failure,
        }
    })
}

fn claim_failure(error: ClaimError) -> Failure {
    let failure = Failure::new(&error);
    match error {
        ClaimError::Exists { .. } => failure
            .hint("name a file that is not there, or a folder; --direction read reads one that is there"),
        ClaimError::InUse { .. } => {
            failure.hint("a device in use is never written; --direction read reads it")
        }
        ClaimError::NoSpace { .. } => failure.hint("a smaller --area needs less"),
        ClaimError::Interrupted => Failure { code: crate::failure::INTERRUPTED, ..failure },
        ClaimError::NotBlockDevice { .. } | ClaimError::Refused { .. } => failure,
    }
}

/// `sdb` of `/dev/sdb`.
pub fn short(name: &str) -> &str {
    name.strip_prefix("/dev/").unwrap_or(name)
}

fn device_file(name: &str) -> String {
    format!("/dev/{}", short(name))
}

/// The device file of a name: its own, or that of the disk which answers to it, as `0000:3b:00.0`.
fn path_of(topology: &Topology, name: &str) -> String {
    let own = if name.starts_with('/') { name.to_owned() } else { device_file(name) };
    let found = topology.devices.iter().find(|device| device.has_name(short(name)));
    let others = found.into_iter().flat_map(|device| device.names.iter().map(|name| device_file(name)));
    let is_block = |path: &String| {
        use std::os::unix::fs::FileTypeExt;
        std::fs::metadata(path).is_ok_and(|found| found.file_type().is_block_device())
    };
    std::iter::once(own.clone()).chain(others).find(is_block).unwrap_or(own)
}

/// The device near which a path is, through volumes and file systems; of several their names, and
/// their node if they have one in common.
pub fn device_near(
    machine: &Machine,
    topology: &Topology,
    path: &str,
    reached_via: Option<String>,
) -> Option<IoDevice> {
    let found =
        resolve(ResolveContext { root: machine, locate: machine, topology }, &Handle::Path(path.to_owned()));
    let devices = || found.devices.iter().filter_map(|near| topology.devices.get(near.index));
    match found.devices.len() {
        0 => None,
        1 => devices().next().map(|device| numaio_measure::io::device(device, reached_via)),
        _ => {
            let names: Vec<String> = devices().map(|device| device.name()).collect();
            let node = found.nodes.first().filter(|_| found.nodes.len() == 1).map(|near| near.node);
            let irqs = devices().flat_map(|device| device.irqs.clone()).collect();
            Some(IoDevice { node, reached_via, irqs, ..unknown(&names.join("+")) })
        }
    }
}

/// A device of which nothing but its name is known.
fn unknown(name: &str) -> IoDevice {
    IoDevice {
        name: name.to_owned(),
        model: String::new(),
        pci: None,
        node: None,
        reached_via: None,
        irqs: Vec::new(),
    }
}
