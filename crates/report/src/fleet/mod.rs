//! Formats groups, hosts and checks of a fleet.

mod check_text;

pub use check_text::fleet_check_text;
