//! `numaio near`: what people hold, resolved to devices and nodes.

use super::json;
use crate::args::Common;
use crate::failure::{self, Failure};
use crate::machine::Machine;
use crate::output;
use clap::Args as ClapArgs;
use numaio_machine::discover::discover;
use numaio_machine::near::{resolve, Handle, ResolveContext, Resolved};
use numaio_schema::NearDocument;
use std::path::PathBuf;
use std::process::ExitCode;

/// Show near which devices and nodes a file, host, interface, disk or process is.
///
/// Each handle is followed through bonds, bridges, volumes, RAID, mounts and routes down to devices and their
/// nodes. Where it leads to no device, as a file in memory, that is said, and the exit status is 1.
#[derive(Debug, ClapArgs)]
pub struct ResolveArgs {
    /// What to be near to
    ///
    /// eth0, bond0, mlx5_0, nvme0n1, dm-0: a network interface, RDMA device or block device by name.
    /// 0000:3b:00.0 or 3b:00.0: a PCI address. /data/set1, file:NAME, /dev/mapper/x: a path, if it has a slash or
    /// stands after file:. host:NAME[:PORT]: another machine. cuda:0, GPU-UUID: a GPU. pid:N: what a process has
    /// open.
    #[arg(value_name = "HANDLE", required = true)]
    pub handles: Vec<Handle>,
    /// Show every step: what was looked at, and what that said
    #[arg(long, conflicts_with = "json")]
    pub explain: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Write into FILE (- for standard output)
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

pub fn run(common: &Common, args: &ResolveArgs) -> Result<ExitCode, Failure> {
    let machine = Machine::pick(common)?;
    if let Some(path) = &args.output {
        output::check(path)?;
    }
    let topology = discover(&machine);
    let ground = ResolveContext { root: &machine, locate: &machine, topology: &topology };
    let found: Vec<Resolved> = args.handles.iter().map(|handle| resolve(ground, handle)).collect();
    if let Some(unknown) = found.iter().find(|found| found.is_unknown()) {
        return Err(failure::unresolved(unknown));
    }
    let nowhere = found.iter().any(|found| found.devices.is_empty());
    let text = match args.json {
        true => json(&NearDocument::new(topology.identity.fingerprint.clone(), found))?,
        false => numaio_report::near_text(&found, args.explain, &output::style(common)),
    };
    match &args.output {
        Some(path) => drop(output::write(path, &text)?),
        None => output::print(&text)?,
    }
    Ok(if nowhere { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
