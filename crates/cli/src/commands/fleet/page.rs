//! The report of a fleet, for `numaio report --fleet`.

use super::store_access;
use crate::failure::Failure;
use numaio_machine::units::BandwidthUnit;
use numaio_model::{fleet, fleet_summary};
use numaio_report::FleetPage;
use numaio_schema::{CheckOptions, FleetCheck, FleetData, FleetSummary};
use std::path::Path;

/// Reads a store, and checks it with default options.
fn read(store: &Path) -> Result<(FleetData, FleetCheck), Failure> {
    let data = store_access::open(store)?.load()?;
    let check = fleet::check(&data, &CheckOptions::default());
    Ok((data, check))
}

/// Returns the check of a store.
pub fn check_of(store: &Path) -> Result<FleetCheck, Failure> {
    Ok(read(store)?.1)
}

/// Returns the groups of a store.
pub fn summary_of(store: &Path) -> Result<FleetSummary, Failure> {
    let data = store_access::open(store)?.load()?;
    fleet_summary(&data, None).map_err(Failure::new)
}

/// Returns the page of a store.
pub fn page(store: &Path, unit: BandwidthUnit) -> Result<String, Failure> {
    let (data, check) = read(store)?;
    let maps = fleet::deviation_maps(&data, &check.groups);
    let found: Vec<&str> =
        check.hosts.iter().filter(|host| host.has_findings()).map(|host| host.host.as_str()).collect();
    let histories = fleet::host_histories(&data, &maps, &found);
    Ok(numaio_report::fleet_html(&FleetPage { check: &check, maps: &maps, histories: &histories, unit }))
}
