//! `numaio fleet host-report`: the part of a run on one host.

use crate::commands::doctor;
use crate::failure::{Failure, INTERRUPTED};
use crate::machine::Machine;
use crate::options::{integer, Common};
use crate::output;
use clap::Args;
use numaio_fleet::launch::host_report::{measure, HostFacts, HostRequest};
use numaio_fleet::launch::{frame, machine_id, LaunchError};
use numaio_linux::interrupt;
use numaio_machine::conditions;
use numaio_machine::discover::discover;
use numaio_schema::TopologyDocument;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

/// Arguments of `numaio fleet host-report`.
#[derive(Debug, Args)]
pub struct HostReportArgs {
    /// ID of the run
    #[arg(long, value_name = "ID")]
    pub run: String,
    /// Name of this host in the fleet
    #[arg(long, value_name = "NAME")]
    pub host: String,
    /// Write the report to FILE; - for standard output, in a frame with a checksum
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,
    /// End the command after SECONDS
    #[arg(long, value_name = "SECONDS", default_value = "3600", value_parser = integer(1..=u32::MAX))]
    pub time_limit: u32,
    /// End when standard input closes: the connection to the launcher is lost
    #[arg(long)]
    pub attached: bool,
    /// Arguments of numaio that measure; the topology alone by default
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Runs `numaio fleet host-report`.
pub fn run(common: &Common, args: &HostReportArgs) -> Result<ExitCode, Failure> {
    interrupt::install().map_err(Failure::new)?;
    if args.attached {
        thread::spawn(end_with_stdin);
    }
    output::check(&args.output)?;
    let request = HostRequest {
        host: args.host.clone(),
        run: args.run.clone(),
        machine_options: machine_options(common),
        command: args.command.clone(),
        time_limit: Duration::from_secs(args.time_limit.into()),
    };
    let facts = read_facts(common)?;
    let (report, stderr) =
        measure(facts, &request, &interrupt::interrupted).map_err(|error| match error {
            LaunchError::Interrupted => {
                Failure { code: INTERRUPTED, ..Failure::new("interrupted; no report") }
            }
            error => Failure::from(error),
        })?;
    stderr.lines().for_each(|line| output::remark(common, line));
    let text = serde_json::to_string(&report).map_err(Failure::new)?;
    match args.output == Path::new("-") {
        true => output::print(&frame::encode(&text))?,
        false => drop(output::write(&args.output, &text)?),
    }
    Ok(if report.failure.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Requests an end when the launcher closes the connection, as when it was killed.
fn end_with_stdin() {
    let mut buffer = [0; 256];
    while matches!(std::io::stdin().read(&mut buffer), Ok(1..)) {}
    interrupt::request();
}

/// Returns the options that select the machine, for a child process.
pub fn machine_options(common: &Common) -> Vec<String> {
    let machine = common.machine.iter().flat_map(|name| ["--machine".to_owned(), name.clone()]);
    let sysroot =
        common.sysroot.iter().flat_map(|path| ["--sysroot".to_owned(), path.to_string_lossy().into_owned()]);
    machine.chain(sysroot).collect()
}

fn read_facts(common: &Common) -> Result<HostFacts, Failure> {
    let machine = Machine::pick(common)?;
    let topology = discover(&machine);
    let conditions = conditions::read(&machine);
    let diagnosis = doctor::diagnose(common, &machine, &topology, &conditions, &doctor::Scope::default())?;
    Ok(HostFacts {
        machine_id: machine_id::read(&machine),
        topology: TopologyDocument::with_time(topology, machine.observed_at()),
        conditions,
        diagnosis: Some(diagnosis),
    })
}
