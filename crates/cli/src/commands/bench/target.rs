//! The disk or file that `numaio bench disk` accesses, and its checks.

use super::disk_args::DiskArgs;
use crate::commands::measuring;
use crate::failure::Failure;
use crate::machine::Machine;
use crate::options::Common;
use numaio_linux::io::{self, Claim, ClaimError, DiskFacts};
use numaio_machine::near::{resolve, Handle, ResolveContext};
use numaio_machine::topology::Topology;
use numaio_machine::workload::Direction;
use numaio_schema::IoDevice;
use std::path::Path;

/// A checked disk or file to measure.
pub struct Target {
    /// The device, or the device of the file.
    pub device: IoDevice,
    /// The path for numaio's own engine.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// The claim to write, held by the target.
    claim: Option<Claim>,
}

impl Target {
    /// Returns the path for other programs.
    pub fn path_for_tools(&self) -> String {
        self.claim.as_ref().map_or_else(|| self.path.clone(), Claim::proc_path)
    }
}

/// Checks the requested targets on this machine, and claims those that are written.
pub fn live(
    common: &Common,
    machine: &Machine,
    topology: &Topology,
    args: &DiskArgs,
) -> Result<Vec<Target>, Failure> {
    if args.device.is_empty() && args.file.is_empty() {
        return Err(Failure::usage("expected --device or --file")
            .hint("--device DEV measures a disk, --file DIR a temporary file in DIR"));
    }
    let writes = args.placement.direction.list().contains(&Direction::Write);
    let is_device = |name: &&String| args.device.contains(name);
    if let Some(other) = args.i_know_this_destroys.iter().find(|name| !is_device(name)) {
        let named = args.device.join("' and '");
        return Err(Failure::usage(format!(
            "--i-know-this-destroys names '{other}', and --device '{named}'"
        ))
        .hint("specify the same device twice"));
    }
    let devices = args.device.iter().map(|name| raw_device(machine, topology, name, args, writes));
    let files = args.file.iter().map(|file| file_target(common, machine, topology, file, args, writes));
    devices.chain(files).collect()
}

/// Returns an empty target for the engine that moves no data.
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
    if writes && !args.i_know_this_destroys.iter().any(|confirmed| confirmed == name) {
        let hint = format!("add --direction read, or --i-know-this-destroys {name} to destroy its data");
        return Err(Failure::usage(format!("writing to '{name}' destroys its data")).hint(hint));
    }
    let path = path_of(topology, name);
    let facts = facts(machine, &path)?;
    if !facts.is_device {
        return Err(Failure::usage(format!("'{path}' is not a block device"))
            .hint("--file PATH measures a file; numaio topology lists devices"));
    }
    let claim = match writes {
        true => Some(claim(machine, &path)?),
        false => None,
    };
    let mut device = device_near(machine, topology, &path, None).unwrap_or_else(|| unknown(short(name)));
    // A loop device or a volume is recorded with the disk that it is on.
    let is_disk =
        topology.devices.iter().any(|found| found.name() == device.name && found.has_name(short(name)));
    device.reached_via = Some(path.clone()).filter(|_| !is_disk && device.name != short(name));
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
        .map_err(|error| Failure::new(format!("cannot handle Ctrl-C: {error}")))?;
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
        let failure = Failure::new(format!("cannot access '{path}': {error}"));
        match error.kind() {
            std::io::ErrorKind::PermissionDenied => failure.hint(
                "reading a device requires root or the group disk, and in a container a device mapping; \
                     or measure a file by --file",
            ),
            std::io::ErrorKind::NotFound => failure.hint("numaio topology lists devices"),
            _ => failure,
        }
    })
}

fn claim_failure(error: ClaimError) -> Failure {
    let failure = Failure::new(&error);
    match error {
        ClaimError::Exists { .. } => {
            failure.hint("specify a new file or a directory; --direction read reads an existing file")
        }
        ClaimError::InUse { .. } => failure.hint("devices in use are only read, by --direction read"),
        ClaimError::NoSpace { .. } => failure.hint("reduce --area"),
        ClaimError::Interrupted => Failure { code: crate::failure::INTERRUPTED, ..failure },
        ClaimError::NotBlockDevice { .. } | ClaimError::Refused { .. } => failure,
    }
}

/// Removes the prefix `/dev/` of a device name.
pub fn short(name: &str) -> &str {
    name.strip_prefix("/dev/").unwrap_or(name)
}

fn device_file(name: &str) -> String {
    format!("/dev/{}", short(name))
}

/// Returns the device file of a name or an alias such as `0000:3b:00.0`.
fn path_of(topology: &Topology, name: &str) -> String {
    let own = if name.starts_with('/') { name.to_owned() } else { device_file(name) };
    let found = topology.devices.iter().find(|device| device.has_name(short(name)));
    let aliases = found.into_iter().flat_map(|device| device.names.iter().map(|name| device_file(name)));
    let is_block = |path: &String| {
        use std::os::unix::fs::FileTypeExt;
        std::fs::metadata(path).is_ok_and(|found| found.file_type().is_block_device())
    };
    std::iter::once(own.clone()).chain(aliases).find(is_block).unwrap_or(own)
}

/// Resolves the device of a path through volumes and file systems.
///
/// Several devices are described by their joined names and their common node, if any.
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

/// Returns a device with only its name.
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
