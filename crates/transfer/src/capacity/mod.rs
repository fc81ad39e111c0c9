//! The capacity that a daemon lends to transfers: what a transfer knows of it, and how it keeps to
//! it.
//!
//! A transfer and a daemon exchange lines of JSON over a socket ([`messages`]). A [`link`] receives
//! the present rate, and reports the progress. A [`paced_port`] delays the reads or writes of data
//! accordingly. A transfer on the daemon's host submits itself ([`local_broker`]). The daemon's
//! half is `daemon::capacity_queue`.

mod borrow;
pub mod link;
pub mod local_broker;
pub mod messages;
pub mod paced_port;

pub use borrow::{borrow, share_as_far_side, Borrowed};
