//! Guests of a host: what is remote, and on which nodes they should be.

mod extremes;
mod packing;
mod status;

pub use extremes::{extreme_nodes, ExtremeNodes};
pub use packing::{plan_guests, GuestPlanError, GuestPlanInputs, GuestTarget, PlannedGuests};
pub use status::{guest_status, remote_symptoms};
