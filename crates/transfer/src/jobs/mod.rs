//! Jobs: recorded transfers of this user.

mod recorder;
mod records;

pub use recorder::{environment, json, JobOutcome, JobRecorder};
pub use records::{all, find, is_local, lock, parse, to_command_arg, to_os_string};
