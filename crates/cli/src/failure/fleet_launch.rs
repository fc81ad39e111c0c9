//! Hints and exit statuses of the errors of launching runs of a fleet.

use super::{cannot_write, Failure, INTERRUPTED, USAGE};
use numaio_fleet::launch::LaunchError;

impl From<LaunchError> for Failure {
    fn from(error: LaunchError) -> Self {
        let failure = Self::new(&error);
        match error {
            LaunchError::File { action: "write", path, error } => cannot_write(&path, &error),
            LaunchError::UnknownRun { .. } => Self { code: USAGE, ..failure }
                .hint("pass the directory of the run, as numaio fleet run printed it"),
            LaunchError::NotInSlurm(_) => {
                Self { code: USAGE, ..failure }.hint("sinfo lists nodes and partitions")
            }
            LaunchError::NoTopology => Self { code: USAGE, ..failure }
                .hint("topology.conf(5) describes switches; --at-once-per fleet limits all hosts together"),
            LaunchError::TooFewAtOnce { .. } => Self { code: USAGE, ..failure }
                .hint("raise --at-once, or measure fewer nodes at a time with --nodelist"),
            LaunchError::Locked { .. } => {
                failure.hint("wait for it, or interrupt it; numaio fleet status shows the state of its hosts")
            }
            LaunchError::CannotStart { program, .. } => match program.as_str() {
                "ssh" => {
                    failure.hint("install ssh (Debian: openssh-client); NUMAIO_SSH names another program")
                }
                "numaio" => failure,
                _ => failure.hint("install the commands of Slurm (Debian: slurm-client), or use --on ssh"),
            },
            LaunchError::Interrupted => Self { code: INTERRUPTED, ..failure },
            _ => failure,
        }
    }
}
