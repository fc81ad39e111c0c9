//! `numaio status`: the nodes of running processes, and which are remote to their devices.

use super::placement;
use crate::failure::Failure;
use crate::machine::Machine;
use crate::options::{integer, Common};
use crate::output;
use crate::output::json;
use clap::Args;
use numaio_machine::discover::discover;
use numaio_machine::ids::NodeId;
use numaio_machine::near::{resolve, Handle, ResolveContext, RULE_DENIED};
use numaio_machine::process;
use numaio_machine::sysfs::ReadErrorKind;
use numaio_machine::topology::Topology;
use numaio_schema::{Model, ProcessStatus, Status, UnreadableProcess, STATUS_SCHEMA};
use std::process::ExitCode;

/// Options of `numaio status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Process IDs
    #[arg(value_name = "PID", value_parser = integer(1..=u32::MAX), required_unless_present = "all")]
    pub pids: Vec<u32>,
    /// Show all visible processes that use a device; those of other users need root
    #[arg(long, conflicts_with = "pids")]
    pub all: bool,
    /// Show the path from each process to its devices
    #[arg(long, conflicts_with = "json")]
    pub explain: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Runs `numaio status`.
pub fn run(common: &Common, args: &StatusArgs) -> Result<ExitCode, Failure> {
    let machine = Machine::pick(common)?;
    if !machine.is_live() {
        return Err(Failure::usage("a recorded machine has no running processes")
            .hint("omit --machine and --sysroot to examine this machine"));
    }
    let topology = discover(&machine);
    let models = placement::models(common, &machine, &topology, None)?;
    let models: Vec<&Model> = models.iter().collect();
    let best = |node: NodeId| numaio_model::best_nodes(&topology, node, &models);
    let mut status = Status {
        schema: STATUS_SCHEMA.to_owned(),
        machine: topology.identity.fingerprint.clone(),
        seen_at: machine.time(),
        processes: Vec::new(),
        unseen: Vec::new(),
    };
    let is_other = |pid: &u32| *pid != std::process::id();
    let pids = match args.all {
        true => process::pids(&machine).into_iter().filter(is_other).collect(),
        false => args.pids.clone(),
    };
    for pid in pids {
        match inspect(&machine, &topology, pid, &best) {
            Ok(process) if args.all && process.devices.is_empty() => {}
            Ok(process) => status.processes.push(process),
            // --all skips processes that are not readable or have ended.
            Err(_) if args.all => {}
            Err(ReadErrorKind::Absent) => {
                return Err(
                    Failure::new(format!("process {pid} not found")).hint("ps -e lists all processes")
                );
            }
            Err(why) => status.unseen.push(UnreadableProcess { pid, why: why.to_string() }),
        }
    }
    let text = match args.json {
        true => json(&status)?,
        false => numaio_report::status_text(&status, args.explain, &output::style(common)),
    };
    output::print(&text)?;
    Ok(if status.unseen.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn inspect(
    machine: &Machine,
    topology: &Topology,
    pid: u32,
    best: &dyn Fn(NodeId) -> numaio_machine::set::NodeSet,
) -> Result<ProcessStatus, ReadErrorKind> {
    let process = process::read(machine, pid)?;
    let open = resolve(ResolveContext { root: machine, locate: machine, topology }, &Handle::Process(pid));
    if open.findings.iter().any(|finding| finding.rule == RULE_DENIED) {
        return Err(ReadErrorKind::Denied);
    }
    Ok(numaio_place::status(topology, &process, &open, best))
}
