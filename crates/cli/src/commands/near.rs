//! `numaio near`: resolution of handles to devices and nodes.

use super::{placement, tape_io};
use crate::failure::{self, Failure};
use crate::machine::Machine;
use crate::options::Common;
use crate::output;
use crate::output::json;
use clap::Args as ClapArgs;
use numaio_machine::devices::Device;
use numaio_machine::discover::discover;
use numaio_machine::near::{resolve, Handle, ResolveContext, Resolved};
use numaio_machine::topology::Topology;
use numaio_schema::{MachineExpectation, NearDocument};
use std::path::PathBuf;
use std::process::ExitCode;

/// Show the devices and nodes behind a file, host, interface, disk or process
///
/// numaio follows each handle through bonds, bridges, volumes, RAID, mounts and routes down to
/// devices and their nodes. If a handle leads to no device, for example a file in memory, the
/// output shows that, and the exit status is 1.
#[derive(Debug, ClapArgs)]
pub struct ResolveArgs {
    /// Devices, paths, hosts or processes to resolve
    ///
    /// eth0, bond0, mlx5_0, nvme0n1, dm-0: name of a network interface, RDMA device or block
    /// device. 0000:3b:00.0 or 3b:00.0: PCI address. /data/set1, file:NAME, /dev/mapper/x: path,
    /// recognized by a slash or the prefix file:. host:NAME[:PORT]: another machine. cuda:0,
    /// GPU-UUID: GPU. pid:N: open files and sockets of a process.
    #[arg(value_name = "HANDLE", required = true)]
    pub handles: Vec<Handle>,
    /// Show every step with its source and value
    #[arg(long, conflicts_with = "json")]
    pub explain: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Write to FILE (- for standard output)
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Runs `numaio near`.
pub fn run(common: &Common, args: &ResolveArgs) -> Result<ExitCode, Failure> {
    let machine = Machine::pick(common)?;
    if let Some(path) = &args.output {
        output::check(path)?;
    }
    let topology = discover(&machine);
    let context = ResolveContext { root: &machine, locate: &machine, topology: &topology };
    let found: Vec<Resolved> = args.handles.iter().map(|handle| resolve(context, handle)).collect();
    if let Some(unknown) = found.iter().find(|found| found.is_unknown()) {
        return Err(failure::unresolved(unknown));
    }
    let without_device = found.iter().any(|found| found.devices.is_empty());
    let expected = expectation(common, &machine, &topology, &found)?;
    let style = output::style(common);
    let text = match args.json {
        true => json(&NearDocument::new(topology.identity.fingerprint.clone(), found, expected))?,
        false => {
            let devices = numaio_report::expectation_text(&expected, &style);
            format!("{}{devices}", numaio_report::near_text(&found, args.explain, &style))
        }
    };
    match &args.output {
        Some(path) => drop(output::write(path, &text)?),
        None => output::print(&text)?,
    }
    Ok(if without_device { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Returns what the devices of handles can transfer, and what their nodes' devices can together.
fn expectation(
    common: &Common,
    machine: &Machine,
    topology: &Topology,
    found: &[Resolved],
) -> Result<MachineExpectation, Failure> {
    let models = placement::models(common, machine, topology, None)?;
    let io = tape_io::measured(common, machine, topology)?;
    let devices = found.iter().flat_map(|found| &found.devices);
    let devices: Vec<&Device> = devices.filter_map(|near| topology.devices.get(near.index)).collect();
    let names: Vec<String> = devices.iter().map(|device| device.distinct_name(&topology.devices)).collect();
    let mut expected = placement::expectation(topology, &models, &io);
    expected.devices.retain(|of| names.contains(&of.device));
    expected.at_once.retain(|of| names.iter().any(|name| of.devices.contains(name)));
    Ok(expected)
}
