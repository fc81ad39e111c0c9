//! Guests of a host: what is remote, and on which nodes they should be.

mod packing;
mod status;

pub use packing::{plan_guests, GuestPlanError, GuestPlanInputs, GuestTarget, PlannedGuests};
pub use status::guest_status;
