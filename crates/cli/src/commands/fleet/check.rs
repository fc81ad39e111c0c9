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
        // Without figures of copies no host has a model, and the others need not be read.
        let has_model = !group.classes.is_empty();
        let mut known = None;
        for host in &group.group.hosts {
            let Some(host) = known_host(store, host)? else { continue };
            let is_sought = !has_model || !host.models.is_empty();
            if is_sought || known.is_none() {
                known = Some(host);
            }
            if is_sought {
                break;
            }
        }
        let KnownHost { topology, models, io } = known.unwrap_or_default();
        let expected = placement::expectation(&topology, &models, &io);
        groups.push(GroupTopology { name: group.group.name, hosts: group.group.hosts, topology, expected });
    }
    Ok(groups)
}

/// The newest documents of a host.
#[derive(Default)]
struct KnownHost {
    topology: Topology,
    /// Of its report, else a model alone.
    models: Vec<Model>,
    io: Vec<IoRecord>,
}

/// Returns the newest documents of a host; `None` without a topology.
fn known_host(store: &FleetStore, host: &str) -> Result<Option<KnownHost>, Failure> {
    let Some(text) = store.newest_text(host, &[HOST_REPORT_SCHEMA, TOPOLOGY_SCHEMA])? else {
        return Ok(None);
    };
    let (topology, report) = match HostReport::with_document_texts(&text) {
        Ok(report) => (report.topology.topology.clone(), Some(report)),
        Err(_) => {
            let Ok(document) = TopologyDocument::from_json(&text) else { return Ok(None) };
            let earlier = store.newest_text(host, &[HOST_REPORT_SCHEMA])?;
            (document.topology, earlier.and_then(|text| HostReport::with_document_texts(&text).ok()))
        }
    };
    let (mut models, mut io) = (Vec::new(), Vec::new());
    for text in report.into_iter().flat_map(|report| report.documents) {
        match Document::from_json(text.get()) {
            Ok(Document::Model(model)) => models.push(*model),
            Ok(Document::Io(record)) => io.push(*record),
            _ => {}
        }
    }
    if models.is_empty() {
        let alone = store.newest_text(host, &[MODEL_SCHEMA])?;
        models.extend(alone.and_then(|text| Model::from_json(&text).ok()));
    }
    Ok(Some(KnownHost { topology, models, io }))
}
