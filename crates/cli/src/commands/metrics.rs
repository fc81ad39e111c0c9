//! `numaio metrics`: writes metrics of transfers and of the machine for monitoring.

use super::{doctor, placement};
use crate::failure::Failure;
use crate::machine::Machine;
use crate::options::Common;
use crate::output;
use clap::{Args, ValueEnum};
use numaio_machine::devices::bytes_moved;
use numaio_machine::discover::discover;
use numaio_machine::findings::Finding;
use numaio_machine::topology::Topology;
use numaio_report::{metrics_text, DaemonStatus, MetricSources, MetricsFormat};
use numaio_schema::{DaemonState, Job};
use numaio_transfer::daemon::{LoadedConfig, Log};
use numaio_transfer::jobs;
use numaio_transfer::transfer_records::{self, RecordHistory};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Configuration file of the daemon whose records are read by default.
const DEFAULT_CONFIG: &str = "/etc/numaio/serve.toml";

/// Write metrics of transfers, jobs, devices, findings and the model for monitoring
///
/// Sessions come from the records of numaio serve (records in its configuration file), jobs from
/// numaio copy of this user, findings from the checks of numaio doctor, classes from the saved
/// model. Sources that do not exist are left out. Nothing is measured or changed.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct MetricsArgs {
    /// Read records of numaio serve from DIR
    #[arg(long, value_name = "DIR", conflicts_with = "config")]
    pub records: Option<PathBuf>,
    /// Read the directory of records from this configuration file of numaio serve; default:
    /// /etc/numaio/serve.toml if it exists
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Add the label user: names of users are personal data, and each adds series
    #[arg(long)]
    pub by_user: bool,
    /// Format: openmetrics for most programs, prometheus for node_exporter
    #[arg(long, value_name = "FORMAT", default_value = "openmetrics")]
    pub format: MetricsFormatArg,
    /// Write to FILE atomically (- for standard output)
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Format of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MetricsFormatArg {
    /// OpenMetrics 1.0
    Openmetrics,
    /// Prometheus text format 0.0.4, which node_exporter reads
    Prometheus,
}

const AFTER_HELP: &str = "\
Examples:
  numaio metrics --records /var/lib/numaio/transfers
  numaio metrics --format prometheus -o /var/lib/prometheus/node-exporter/numaio.prom

Exit status: 0 written; 1 failed; 2 wrong usage.";

/// The known sessions of a daemon.
#[derive(Default)]
struct SessionSources {
    history: Option<RecordHistory>,
    state: Option<DaemonState>,
}

/// Runs `numaio metrics`.
pub fn run(common: &Common, args: &MetricsArgs) -> Result<ExitCode, Failure> {
    let machine = Machine::pick(common)?;
    if let Some(path) = &args.output {
        output::check(path)?;
    }
    let sessions = match records_directory(common, args, &machine)? {
        Some(directory) => read_sessions(common, &directory)?,
        None => SessionSources::default(),
    };
    let daemon = match (&sessions.history, &sessions.state) {
        (None, _) => DaemonStatus::Unknown,
        (Some(_), Some(state)) if transfer_records::is_running(state) => DaemonStatus::Up(state),
        (Some(_), _) => DaemonStatus::Down,
    };
    let jobs = if machine.is_live() { read_jobs(common)? } else { Vec::new() };
    let topology = discover(&machine);
    let models = placement::models(common, &machine, &topology, None)?;
    let diagnosed = doctor::diagnose_machine(common, &machine, &topology, &models)?;
    let findings: Vec<Finding> = diagnosed.into_iter().map(|found| found.finding).collect();
    let sources = MetricSources {
        version: env!("CARGO_PKG_VERSION"),
        by_user: args.by_user,
        transfers: sessions.history.as_ref().map(|history| &history.totals),
        daemon,
        jobs: &jobs,
        topology: Some(&topology),
        device_bytes: &device_bytes(&machine, &topology),
        findings: &findings,
        model: models.first(),
    };
    let format = match args.format {
        MetricsFormatArg::Openmetrics => MetricsFormat::OpenMetrics,
        MetricsFormatArg::Prometheus => MetricsFormat::Prometheus,
    };
    let text = metrics_text(&sources, format).map_err(Failure::new)?;
    match &args.output {
        Some(path) => drop(output::write(path, &text)?),
        None => output::print(&text)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the directory of records, if one is given or configured.
fn records_directory(
    common: &Common,
    args: &MetricsArgs,
    machine: &Machine,
) -> Result<Option<PathBuf>, Failure> {
    if args.records.is_some() {
        return Ok(args.records.clone());
    }
    let config = match &args.config {
        Some(config) => config,
        None if machine.is_live() && Path::new(DEFAULT_CONFIG).exists() => Path::new(DEFAULT_CONFIG),
        None => return Ok(None),
    };
    let log = Log::new(output::stderr_sink(), common.quiet);
    match LoadedConfig::records_directory(config) {
        Ok(directory) => {
            if directory.is_none() && args.config.is_some() {
                return Err(Failure::file(config, "it configures no records")
                    .hint("add records = \"/var/lib/numaio/transfers\" to it, and restart the daemon"));
            }
            Ok(directory)
        }
        // Monitoring of the machine does not depend on the daemon.
        Err(error) if args.config.is_none() => {
            output::remark(common, &format!("left out the sessions of the daemon: {error}"));
            Ok(None)
        }
        Err(error) => {
            log.errors_of(&error);
            Err(error.into())
        }
    }
}

fn read_sessions(common: &Common, directory: &Path) -> Result<SessionSources, Failure> {
    if !directory.is_dir() {
        return Err(Failure::file(directory, "the directory of records does not exist")
            .hint("numaio serve creates it when it starts with records in its configuration file"));
    }
    let history = transfer_records::read(directory).map_err(|error| {
        Failure::new(format!("cannot read records in '{}': {error}", directory.display()))
    })?;
    history.remarks.iter().for_each(|remark| output::remark(common, remark));
    let state = transfer_records::read_state(directory).unwrap_or_else(|error| {
        output::remark(common, &format!("left out the state of the daemon: {error}"));
        None
    });
    Ok(SessionSources { history: Some(history), state })
}

fn read_jobs(common: &Common) -> Result<Vec<Job>, Failure> {
    let (jobs, errors) = jobs::all()?;
    errors.iter().for_each(|error| output::remark(common, &error.to_string()));
    Ok(jobs)
}

/// Reads the traffic counters of devices.
fn device_bytes(machine: &Machine, topology: &Topology) -> Vec<(usize, u64)> {
    let devices = topology.devices.iter().enumerate();
    devices
        .filter_map(|(index, device)| Some((index, bytes_moved(machine, device.kind, &device.names)?)))
        .collect()
}
