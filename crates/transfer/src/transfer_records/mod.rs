//! Records of a daemon's sessions in a directory: a file of lines for each day, totals of past
//! days, and the daemon's state.
//!
//! The totals make counters independent of the deletion of old files: they contain all days up to
//! one, and later days are read from their files. Days are in UTC.

mod appending;
mod daemon_state;
mod day_files;
mod history;
mod retention;
mod totals_file;

pub use appending::append;
pub use daemon_state::{is_running, read_state, write_state};
pub use history::{read, RecordHistory};
pub use retention::{delete_old, fold};
pub use totals_file::read_totals;

#[cfg(test)]
mod tests;
