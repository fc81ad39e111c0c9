//! Plans: how many threads and bytes on each way between storage, memory and network. See docs/planning.md.

mod instance;
mod problem;
mod ranges;
mod search;
mod simplex;
mod time;

pub use problem::Refused;

#[cfg(test)]
mod trial;
