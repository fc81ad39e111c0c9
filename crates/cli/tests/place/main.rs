//! End-to-end tests of `numaio place`, `run`, `irq`, `undo` and `--pause-balancing`.

mod balance;
mod balancing;
mod irq;
mod place_and_run;
mod program_formats;
#[path = "../support/mod.rs"]
mod support;
