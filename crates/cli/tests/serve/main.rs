//! `numaio serve` and its sessions, as a client uses them.

mod accounting;
mod anonymous;
mod capacity;
mod client;
mod daemon;
mod options;
mod queue;
mod serve;
#[path = "../support/mod.rs"]
mod support;
