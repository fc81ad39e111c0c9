//! Formats groups, hosts and checks of a fleet.

mod check_text;
mod host_text;
mod names;
mod page;
mod scheduler;
mod summary_text;
mod value;

pub use check_text::fleet_check_text;
pub use host_text::fleet_host_text;
pub use page::{fleet_html, FleetPage};
pub use scheduler::{balloons, node_features, slurm_actions, GroupTopology};
pub use summary_text::fleet_summary_text;

pub(crate) use names::host_list;
pub(crate) use value::{nodes, percent_from, quantity, with_unit};
