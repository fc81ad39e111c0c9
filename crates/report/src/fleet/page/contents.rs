//! Contents of the page of a fleet.

use numaio_machine::units::BandwidthUnit;
use numaio_schema::{DeviationMap, FindingKind, FleetCheck, HostCheck, HostHistory};

/// Contents of the page of a fleet.
#[derive(Debug, Clone, Copy)]
pub struct FleetPage<'a> {
    /// The check.
    pub check: &'a FleetCheck,
    /// Deviations of all figures, by group.
    pub maps: &'a [DeviationMap],
    /// Histories of hosts with findings.
    pub histories: &'a [HostHistory],
    /// Unit of bandwidths.
    pub unit: BandwidthUnit,
}

/// The mark of a host in the heat map: 0 none, 1 a setting, 2 worse figures, 3 structure.
pub(super) fn mark(host: &HostCheck) -> u8 {
    match host.gravest() {
        Some(FindingKind::Structure) => 3,
        Some(FindingKind::Figures) => 2,
        Some(FindingKind::Setting) => 1,
        None => 0,
    }
}
