//! Runs of a command on each host of a fleet.
//!
//! [`slurm`] submits one job for each host, and [`foreground`] starts one process for each host, by
//! [`ssh`] or srun, and receives its report on stdout in a [`frame`]. On the host, [`host_report`]
//! measures. The [`run_directory`] holds the run and the reports, and [`status`] derives the state
//! of each host from it and from Slurm.

pub mod foreground;
pub mod frame;
pub mod host_report;
pub mod hosts;
pub mod limited_command;
pub mod machine_id;
pub mod run_directory;
pub mod slurm;
pub mod ssh;
pub mod status;
pub mod stored_run;

use numaio_schema::DocumentError;
use std::io;
use std::path::{Path, PathBuf};

/// An error of launching a run or reading its state.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// A program is missing or cannot be executed.
    #[error("cannot start '{program}': {error}")]
    CannotStart {
        /// Name of the program.
        program: String,
        /// The error of the kernel.
        error: io::Error,
    },
    /// A program failed, or did not exit in time.
    #[error("'{command}' {why}")]
    CommandFailed {
        /// The program with its first arguments.
        command: String,
        /// How it ended, with the end of its stderr.
        why: String,
    },
    /// A program printed something that numaio does not understand.
    #[error("'{command}' printed unexpected output: {why}")]
    UnexpectedOutput {
        /// The program with its first arguments.
        command: String,
        /// The fault.
        why: String,
    },
    /// A file or directory of the run.
    #[error("cannot {action} '{}': {error}", path.display())]
    File {
        /// The action as a verb: `read`, `write`, `create`, `lock`.
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// The error of the kernel.
        error: io::Error,
    },
    /// The description of a run cannot be read.
    #[error("cannot read the run '{}': {error}", path.display())]
    Document {
        /// Its file.
        path: PathBuf,
        /// The fault.
        error: DocumentError,
    },
    /// The description of a run contains what `numaio fleet run` would reject.
    #[error("cannot use the run '{}': {why}", path.display())]
    InvalidRun {
        /// Its file.
        path: PathBuf,
        /// The fault.
        why: String,
    },
    /// No run has this ID.
    #[error("no run '{id}' in '{}'", directory.display())]
    UnknownRun {
        /// The ID.
        id: String,
        /// The directory of runs.
        directory: PathBuf,
    },
    /// Another process launches this run.
    #[error("another process launches the run in '{}'", directory.display())]
    Locked {
        /// Directory of the run.
        directory: PathBuf,
    },
    /// Slurm's configuration has no switches.
    #[error("Slurm has no topology of switches for --at-once-per switch")]
    NoTopology,
    /// Slurm lacks a node or partition that was requested.
    #[error("{0}")]
    NotInSlurm(String),
    /// The limit of hosts at the same time is lower than the number of job arrays.
    #[error("--at-once {at_once} is below the number of job arrays, {arrays}, of at most {size} hosts each")]
    TooFewAtOnce {
        /// The requested limit.
        at_once: u32,
        /// The number of job arrays.
        arrays: usize,
        /// Slurm's `MaxArraySize`.
        size: usize,
    },
    /// A signal requested the end.
    #[error("interrupted")]
    Interrupted,
}

impl LaunchError {
    /// Returns the error of an operation on a file.
    fn file(action: &'static str, path: &Path, error: io::Error) -> Self {
        Self::File { action, path: path.to_owned(), error }
    }
}
