//! `numaio fleet show`: groups of like hosts, and one host beside its group.

use super::store_access;
use crate::failure::Failure;
use crate::options::Common;
use crate::output::{self, json};
use clap::Args;
use numaio_model::{fleet_host_summary, fleet_summary, FleetNameError};
use numaio_schema::FleetData;
use std::path::PathBuf;
use std::process::ExitCode;

/// Show groups of like hosts with their classes and median figures, or one host beside its group
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// The store
    #[arg(value_name = "DB")]
    pub store: PathBuf,
    /// Show only this group, with each of its hosts
    #[arg(long, value_name = "GROUP")]
    pub group: Option<String>,
    /// Show this host beside its group
    #[arg(long, value_name = "HOST", conflicts_with = "group")]
    pub host: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Runs `numaio fleet show`.
pub fn run(common: &Common, args: &ShowArgs) -> Result<ExitCode, Failure> {
    let data = store_access::open(&args.store)?.load()?;
    let style = output::style(common);
    let text = match &args.host {
        Some(host) => {
            let host = fleet_host_summary(&data, host).map_err(|error| unknown(&data, &error))?;
            match args.json {
                true => json(&host)?,
                false => numaio_report::fleet_host_text(&host, &style),
            }
        }
        None => {
            let summary =
                fleet_summary(&data, args.group.as_deref()).map_err(|error| unknown(&data, &error))?;
            match args.json {
                true => json(&summary)?,
                false => numaio_report::fleet_summary_text(&summary, &style),
            }
        }
    };
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the error of an unknown name, with names that exist.
fn unknown(data: &FleetData, error: &FleetNameError) -> Failure {
    const MOST: usize = 10;
    let failure = Failure::usage(error);
    let names: Vec<String> = match error {
        FleetNameError::Group(_) => {
            numaio_model::fleet::groups(data).into_iter().map(|group| group.name).collect()
        }
        FleetNameError::Host(_) => data.hosts.iter().map(|host| host.name.clone()).collect(),
    };
    match names.len() {
        0 => failure.hint("the store has no hosts: numaio fleet add DB DOCUMENT..."),
        few if few <= MOST => failure.hint(format!("names: {}", names.join(", "))),
        many => failure.hint(format!("{many} names, such as {}", names[..MOST].join(", "))),
    }
}
