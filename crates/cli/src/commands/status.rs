//! `numaio status`: the nodes of running processes, and which are remote to their devices.

use super::{placement, tape_io};
use crate::failure::Failure;
use crate::machine::Machine;
use crate::options::{integer, Common};
use crate::output;
use crate::output::json;
use clap::Args;
use numaio_machine::discover::discover_quick;
use numaio_machine::guests;
use numaio_machine::near::{resolve_process, OwnConnections, ResolveContext, Resolved, RULE_DENIED};
use numaio_machine::process;
use numaio_machine::sysfs::ReadErrorKind;
use numaio_machine::topology::Topology;
use numaio_schema::{MachineExpectation, ProcessStatus, Status, UnreadableProcess, STATUS_SCHEMA};
use std::iter;
use std::panic::resume_unwind;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

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
    let topology = discover_quick(&machine);
    let models = placement::models(common, &machine, &topology, None)?;
    let io = tape_io::measured(common, &machine, &topology)?;
    let expected = placement::expectation(&topology, &models, &io);
    let mut status = Status {
        schema: STATUS_SCHEMA.to_owned(),
        machine: topology.identity.fingerprint.clone(),
        observed_at: machine.time(),
        processes: Vec::new(),
        unreadable: Vec::new(),
    };
    let is_other = |pid: &u32| *pid != std::process::id();
    let pids = match args.all {
        true => process::pids(&machine).into_iter().filter(is_other).collect(),
        false => args.pids.clone(),
    };
    let inspection = Inspection {
        machine: &machine,
        topology: &topology,
        expected: &expected,
        own: OwnConnections::default(),
    };
    let found = in_two_threads(&pids, |pid| match args.all {
        true => inspection.process_with_devices(*pid),
        false => inspection.process(*pid).map(Some),
    });
    for (pid, found) in pids.into_iter().zip(found) {
        match found {
            Ok(process) => status.processes.extend(process),
            // --all skips processes that are not readable or have ended.
            Err(_) if args.all => {}
            Err(ReadErrorKind::Absent) => {
                return Err(
                    Failure::new(format!("process {pid} not found")).hint("ps -e lists all processes")
                );
            }
            Err(why) => status.unreadable.push(UnreadableProcess { pid, reason: why.to_string() }),
        }
    }
    let text = match args.json {
        true => json(&status)?,
        false => numaio_report::status_text(&status, args.explain, &output::style(common)),
    };
    output::print(&text)?;
    Ok(if status.unreadable.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Inspects processes of this machine.
struct Inspection<'a> {
    machine: &'a Machine,
    topology: &'a Topology,
    expected: &'a MachineExpectation,
    own: OwnConnections,
}

impl Inspection<'_> {
    fn process(&self, pid: u32) -> Result<ProcessStatus, ReadErrorKind> {
        let process = process::read(self.machine, pid)?;
        Ok(self.with_guest(numaio_place::status(self.topology, &process, &self.open(pid)?, self.expected)))
    }

    /// Inspects a process that uses a device; of others, threads and pages are not read.
    fn process_with_devices(&self, pid: u32) -> Result<Option<ProcessStatus>, ReadErrorKind> {
        let open = self.open(pid)?;
        if open.devices.is_empty() {
            return Ok(None);
        }
        let process = process::read(self.machine, pid)?;
        Ok(Some(self.with_guest(numaio_place::status(self.topology, &process, &open, self.expected))))
    }

    /// Names the virtual machine that a process runs.
    fn with_guest(&self, status: ProcessStatus) -> ProcessStatus {
        let configuration = guests::configuration_of(self.machine, status.pid);
        let guest = configuration.map(|configuration| configuration.guest_name(status.pid));
        ProcessStatus { guest, ..status }
    }

    /// Resolves the devices behind the open files of a process.
    fn open(&self, pid: u32) -> Result<Resolved, ReadErrorKind> {
        let ground = ResolveContext { root: self.machine, locate: self.machine, topology: self.topology };
        let open = resolve_process(ground, pid, &self.own);
        match open.findings.iter().any(|finding| finding.rule == RULE_DENIED) {
            true => Err(ReadErrorKind::Denied),
            false => Ok(open),
        }
    }
}

/// Maps items by two threads, in order: most of the time passes in the kernel.
fn in_two_threads<T: Sync, R: Send>(items: &[T], map: impl Fn(&T) -> R + Sync) -> Vec<R> {
    if items.len() < 2 {
        return items.iter().map(map).collect();
    }
    let next = AtomicUsize::new(0);
    let work = || -> Vec<(usize, R)> {
        let take = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|index| *index < items.len());
        iter::from_fn(take).map(|index| (index, map(&items[index]))).collect()
    };
    let (mut results, others) = thread::scope(|scope| {
        let other = scope.spawn(work);
        (work(), other.join().unwrap_or_else(|panic| resume_unwind(panic)))
    });
    results.extend(others);
    results.sort_unstable_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}
