//! `numaio fleet check`: hosts that differ from like hosts or from their own past.

use super::dates::{date, date_or_document, TimeOption};
use super::store_access;
use crate::commands::placement;
use crate::failure::Failure;
use crate::options::{percent, Common};
use crate::output::{self, json};
use clap::{Args, ValueEnum};
use numaio_fleet::store::FleetStore;
use numaio_machine::topology::Topology;
use numaio_model::{fleet, fleet_summary};
use numaio_report::GroupTopology;
use numaio_schema::{
    CheckOptions, Document, FleetData, HostReport, IoRecord, Model, TopologyDocument, HOST_REPORT_SCHEMA,
    MODEL_SCHEMA, TOPOLOGY_SCHEMA,
};
use std::path::PathBuf;
use std::process::ExitCode;

/// Find hosts that are slower than like hosts, configured differently, or slower than they were
///
/// Exit status: 1 if a host was found.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The store
    #[arg(value_name = "DB")]
    pub store: PathBuf,
    /// Check only figures measured at or after this date; older ones are the past [UTC]
    #[arg(long, value_name = "DATE", value_parser = date)]
    pub since: Option<u64>,
    /// Compare each host with its figures up to this date, or up to the time of a document by its
    /// id
    #[arg(long, value_name = "DATE|ID", value_parser = date_or_document)]
    pub baseline: Option<TimeOption>,
    /// Smallest deviation that counts, in percent
    #[arg(long, value_name = "PERCENT", default_value = "5", value_parser = percent)]
    pub least: f64,
    /// Accepted share of false hosts among the reported ones, in percent
    #[arg(long, value_name = "PERCENT", default_value = "1", value_parser = percent)]
    pub fdr: f64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Print commands and configuration for a scheduler instead; nothing is executed
    #[arg(long, value_name = "FORMAT", conflicts_with = "json")]
    pub format: Option<SchedulerFormat>,
}

/// Output for a scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SchedulerFormat {
    /// Commands that drain hosts with findings; features and gres.conf by measured classes
    Slurm,
    /// Feature files of Node Feature Discovery
    Nfd,
    /// Configuration of the balloons policy of nri-plugins
    Balloons,
}

/// Runs `numaio fleet check`.
pub fn run(common: &Common, args: &CheckArgs) -> Result<ExitCode, Failure> {
    let store = store_access::open(&args.store)?;
    let baseline = args.baseline.map(|baseline| time(&store, baseline)).transpose()?;
    let options =
        CheckOptions { least: args.least, false_discovery_rate: args.fdr, since: args.since, baseline };
    let data = store.load()?;
    let check = fleet::check(&data, &options);
    let text = match args.format {
        Some(format) => {
            let groups = group_topologies(&store, &data)?;
            match format {
                SchedulerFormat::Slurm => numaio_report::slurm_actions(&check, &groups),
                SchedulerFormat::Nfd => numaio_report::node_features(&check, &groups),
                SchedulerFormat::Balloons => numaio_report::balloons(&groups),
            }
        }
        None if args.json => json(&check)?,
        None => numaio_report::fleet_check_text(&check, &output::style(common)),
    };
    output::print(&text)?;
    Ok(ExitCode::from(u8::from(check.has_findings())))
}

/// Returns the time of an option in seconds since 1970.
fn time(store: &FleetStore, option: TimeOption) -> Result<u64, Failure> {
    match option {
        TimeOption::Seconds(seconds) => Ok(seconds),
        TimeOption::Document(id) => store.time_of_document(id)?.ok_or_else(|| {
            Failure::usage(format!("there is no document {id} in the store"))
                .hint("numaio fleet export lists documents with their ids in documents.csv")
        }),
    }
}

/// Returns each group with the newest topology of one of its hosts, and what the devices of this
/// host can transfer: of the first host with a model, else of the first with a topology.
fn group_topologies(store: &FleetStore, data: &FleetData) -> Result<Vec<GroupTopology>, Failure> {
    let summary = fleet_summary(data, None).map_err(Failure::new)?;
    let mut groups = Vec::new();
    for group in summary.groups {
        let mut known = None;
        for host in &group.group.hosts {
            let Some(topology) = newest_topology(store, host)? else { continue };
            let (models, io) = newest_measurements(store, host)?;
            let is_modelled = !models.is_empty();
            if is_modelled || known.is_none() {
                let expected = placement::expectation(&topology, &models, &io);
                known = Some((topology, expected));
            }
            if is_modelled {
                break;
            }
        }
        let (topology, expected) = known.unwrap_or_default();
        groups.push(GroupTopology { name: group.group.name, hosts: group.group.hosts, topology, expected });
    }
    Ok(groups)
}

/// Returns the newest models and I/O of a host: of its report, else of a model alone.
fn newest_measurements(store: &FleetStore, host: &str) -> Result<(Vec<Model>, Vec<IoRecord>), Failure> {
    let (mut models, mut io) = (Vec::new(), Vec::new());
    let report = store.newest_text(host, &[HOST_REPORT_SCHEMA])?;
    let report = report.and_then(|text| HostReport::from_json(&text).ok());
    for value in report.into_iter().flat_map(|report| report.documents) {
        match Document::from_json(&value.to_string()) {
            Ok(Document::Model(model)) => models.push(*model),
            Ok(Document::Io(record)) => io.push(*record),
            _ => {}
        }
    }
    if models.is_empty() {
        let alone = store.newest_text(host, &[MODEL_SCHEMA])?;
        models.extend(alone.and_then(|text| Model::from_json(&text).ok()));
    }
    Ok((models, io))
}

fn newest_topology(store: &FleetStore, host: &str) -> Result<Option<Topology>, Failure> {
    let kinds = [HOST_REPORT_SCHEMA, TOPOLOGY_SCHEMA];
    let Some(text) = store.newest_text(host, &kinds)? else { return Ok(None) };
    let report = HostReport::from_json(&text).map(|report| report.topology);
    let document = report.or_else(|_| TopologyDocument::from_json(&text));
    Ok(document.ok().map(|document| document.topology))
}
