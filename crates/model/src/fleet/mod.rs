//! Hosts of a fleet: groups of like hosts, and hosts that deviate from them or from their past.
//!
//! [`facts`] and [`figures()`] describe one host; [`groups`] and [`check()`] compare all of them.

mod check;
mod deviation_map;
mod deviations;
mod discovery;
mod evidence;
mod facts;
mod figures;
mod fit;
mod group_figures;
mod groups;
pub(crate) mod newest_figures;
mod scale;
mod table;

pub use check::check;
pub use deviation_map::{deviation_maps, host_histories};
pub use facts::{facts, facts_of_topology};
pub use figures::{figures, Figure};
pub use groups::groups;
pub use numaio_schema::CheckOptions;
