//! `numaio cost`: what the place of a program's memory and devices costs it.

mod observe;

use super::placement;
use crate::documents;
use crate::failure::Failure;
use crate::machine::Machine;
use crate::options::{integer, run_limit, Common};
use crate::output::{self, json};
use crate::store::Kind;
use clap::Args;
use numaio_machine::discover::discover;
use numaio_machine::process;
use numaio_model::{placement_cost, CostEvidence, MachineEvidence};
use numaio_schema::{Document, LatencyRecord, ProgramCost, StreamRecord, COST_SCHEMA};
use observe::Subject;
use std::process::ExitCode;

/// Predict how much slower a program runs than with its best placement
///
/// numaio observes the CPUs, the memory and the devices of the program and its descendants, and
/// hardware counters where there are any. The prediction uses the newest saved measurements of
/// this machine: numaio stream, latency, model and bench. What is unknown widens the interval.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct CostArgs {
    /// Process to observe, with its descendants
    #[arg(value_name = "PID", value_parser = integer(1..=u32::MAX), required_unless_present = "command", conflicts_with = "command")]
    pub pid: Option<u32>,
    /// Program to run and observe, with its arguments; its output is not shown
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
    /// Time for which a process is observed, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = run_limit, conflicts_with = "command", allow_negative_numbers = true)]
    pub seconds: f64,
    /// Time limit of a program, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = run_limit, allow_negative_numbers = true)]
    pub run_limit: f64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

const AFTER_HELP: &str = "\
Examples:
  numaio cost 4711 --seconds 30
  numaio cost -- ./solver input.dat

Exit status: 0 success; 1 the program cannot be observed; 2 wrong usage; 127 the program does not exist;
130 interrupted.";

/// Runs `numaio cost`.
pub fn run(common: &Common, args: &CostArgs) -> Result<ExitCode, Failure> {
    let machine = Machine::pick(common)?;
    if !machine.is_live() {
        return Err(Failure::usage("a recorded machine has no running programs")
            .hint("omit --machine and --sysroot to examine this machine"));
    }
    let topology = discover(&machine);
    let models = placement::models(common, &machine, &topology, None)?;
    let io = documents::saved_io(common, Kind::Io, &topology.identity);
    let (stream, latency) = measurements(common, &topology.identity);
    let (subject, name) = match args.pid {
        Some(pid) => {
            let found = process::threads(&machine, pid);
            let found = found.map_err(|why| Failure::process("observe", pid, &why))?;
            (Subject::Process { pid, seconds: args.seconds }, found.name)
        }
        None => {
            let subject = Subject::Command { command: &args.command, limit_s: args.run_limit };
            (subject, args.command.join(" "))
        }
    };
    let traffic = observe::observe(&machine, &topology, &subject)?;
    let machine_evidence = MachineEvidence { topology: &topology, models: &models, io: &io, interrupts: &[] };
    let evidence =
        CostEvidence { machine: machine_evidence, stream: stream.as_ref(), latency: latency.as_ref() };
    let cost = placement_cost(&evidence, &traffic);
    let cost = ProgramCost {
        schema: COST_SCHEMA.to_owned(),
        machine: topology.identity.fingerprint.clone(),
        observed_at: machine.time(),
        pid: args.pid,
        name,
        traffic,
        memory: cost.memory,
        devices: cost.devices,
        slowdown: cost.slowdown,
        best: cost.best,
        unknown: cost.unknown,
    };
    output::print(&match args.json {
        true => json(&cost)?,
        false => numaio_report::cost_text(&cost, &output::style(common)),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Reads the newest saved STREAM and latency measurements.
fn measurements(
    common: &Common,
    identity: &numaio_machine::topology::Identity,
) -> (Option<StreamRecord>, Option<LatencyRecord>) {
    let newest = |kind| documents::saved(common, kind, identity).find_map(|path| documents::read(&path).ok());
    let stream = match newest(Kind::Stream) {
        Some(Document::Stream(record)) => Some(*record),
        _ => None,
    };
    let latency = match newest(Kind::Latency) {
        Some(Document::Latency(record)) => Some(*record),
        _ => None,
    };
    (stream, latency)
}
