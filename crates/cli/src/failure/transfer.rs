//! Hints and exit statuses of the errors of transfers.

use super::{cannot_write, Failure, INTERRUPTED, USAGE};
use numaio_transfer::jobs::JobOutcome;
use numaio_transfer::ssh;
use numaio_transfer::TransferError;
use std::process::ExitCode;

impl From<TransferError> for Failure {
    fn from(error: TransferError) -> Self {
        let failure = Self::new(&error);
        match error {
            TransferError::File { .. }
            | TransferError::Io(_)
            | TransferError::NoKeyDirectory
            | TransferError::NotAKey { .. }
            | TransferError::InvalidKey { .. }
            | TransferError::NoPublicKey
            | TransferError::InvalidJob { .. }
            | TransferError::NoJobNumber { .. } => failure,
            TransferError::CannotWrite { path, error } => cannot_write(&path, &error),
            TransferError::CannotStart { .. } => failure.hint(missing_ssh_hint()),
            TransferError::NoAnswer { status: Some(ssh::NOT_FOUND), .. } => failure.hint(
                "numaio is not installed there, or not on the PATH of ssh sessions: --bootstrap copies this one \
                 there, --remote-numaio sets another path",
            ),
            TransferError::NoAnswer { host, status }
            | TransferError::UnidentifiedSystem { host, status: status @ Some(ssh::SSH_FAILED) } => {
                failure.hint(exit_status_hint(&host, status, ""))
            }
            TransferError::UnidentifiedSystem { .. } => {
                failure.hint("--bootstrap needs a shell and a home directory there")
            }
            TransferError::KeyNotFound { .. } => failure.hint("numaio keygen generates a key"),
            TransferError::KeyNotPrivate { .. } => {
                failure.hint("chmod 600 it; generate a new one if others could have read it")
            }
            TransferError::KeyExists { path } => failure.hint(format!(
                "numaio keygen --public {} prints its public key; peers that know it will not recognize a new key",
                path.display()
            )),
            TransferError::InvalidKnownDaemon { .. } => {
                failure.hint("remove or fix the line; comment lines begin with #")
            }
            TransferError::NoStateDirectory => failure.hint("set XDG_STATE_HOME or HOME"),
            TransferError::JobNotFound { .. } => {
                Self { code: USAGE, ..failure.hint("numaio jobs lists all jobs") }
            }
        }
    }
}

/// Returns the hint about an ssh program that cannot be started.
fn missing_ssh_hint() -> &'static str {
    match std::env::var_os(ssh::PROGRAM_VARIABLE) {
        Some(_) => "NUMAIO_SSH names a program and options separated by blanks, without quotes",
        None => "Debian's package is openssh-client",
    }
}

/// Returns the hint about a process on a host that exited with `status` instead of replying; its
/// stderr has been printed.
///
/// `instead` follows "try ssh HOST true".
pub fn exit_status_hint(host: &str, status: Option<i32>, instead: &str) -> String {
    match status {
        Some(ssh::SSH_FAILED) => {
            let ssh = ssh::program();
            format!("ssh failed to connect: try {} {host} true{instead}", ssh.to_string_lossy())
        }
        Some(ssh::NOT_FOUND) => {
            "numaio is not installed there, or not on the PATH of ssh sessions: install it, or set --remote-numaio"
                .to_owned()
        }
        Some(status @ 1..) => format!(
            "the remote command exited with status {status}; use the same version of numaio on both hosts"
        ),
        _ => "the remote numaio may be older: use the same version on both hosts".to_owned(),
    }
}

/// Returns the outcome of a job by the exit status of its command.
pub fn job_outcome(result: &Result<ExitCode, Failure>) -> JobOutcome {
    match result {
        Ok(code) if *code == ExitCode::SUCCESS => JobOutcome::Done,
        Ok(code) if *code == ExitCode::from(INTERRUPTED) => JobOutcome::Interrupted,
        Ok(_) => JobOutcome::SomeFailed,
        Err(failure) => JobOutcome::Failed(failure.message.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hint_depends_on_the_exit_status_of_ssh() {
        let no_answer = |status| {
            let failure = Failure::from(TransferError::NoAnswer { host: "h".into(), status });
            assert_eq!((failure.message.as_str(), failure.code), ("no numaio answers on h", 1));
            failure.hint.expect("a hint")
        };
        assert!(no_answer(Some(255)).starts_with("ssh failed to connect: try "));
        assert!(no_answer(Some(127)).contains("--bootstrap"));
        assert!(no_answer(Some(2)).starts_with("the remote command exited with status 2;"));
        for status in [None, Some(0)] {
            assert!(no_answer(status).starts_with("the remote numaio may be older"));
        }
        let unidentified = |status| {
            let error = TransferError::UnidentifiedSystem { host: "h".into(), status };
            Failure::from(error).hint.expect("a hint")
        };
        assert!(unidentified(Some(255)).ends_with(" h true"));
        assert!(unidentified(Some(127)).starts_with("--bootstrap needs a shell"));
    }

    #[test]
    fn unknown_job_is_a_usage_error() {
        let failure = Failure::from(TransferError::JobNotFound { id: 7 });
        assert_eq!((failure.message.as_str(), failure.code), ("job 7 not found", USAGE));
        assert_eq!(failure.hint.as_deref(), Some("numaio jobs lists all jobs"));
    }
}
