//! Hints and exit statuses of the errors of transfers.

use super::{cannot_write, Failure, FAILED, INTERRUPTED, USAGE};
use numaio_transfer::daemon::DaemonError;
use numaio_transfer::endpoint::EndpointError;
use numaio_transfer::jobs::JobOutcome;
use numaio_transfer::ssh;
use numaio_transfer::TransferError;
use std::borrow::Cow;
use std::io;
use std::process::ExitCode;

/// Hint after an interrupted transfer.
pub const RESUME_HINT: &str = "run the same command again to resume";

const REMOTE_SYNTAX: &str =
    "numaio copy supports HOST:PATH by ssh ([ADDRESS]:PATH for IPv6), and numaio://HOST/ROOT/PATH for daemons";

impl From<TransferError> for Failure {
    fn from(error: TransferError) -> Self {
        match error {
            TransferError::CannotWrite { path, error } => cannot_write(&path, &error),
            error => {
                let hint = hint_about_this_host(&error).or_else(|| hint_about_others(&error));
                Self { code: exit_status(&error), ..Self::new(&error) }.maybe_hint(hint)
            }
        }
    }
}

fn exit_status(error: &TransferError) -> u8 {
    match error {
        TransferError::Endpoint(_)
        | TransferError::InvalidPattern { .. }
        | TransferError::InvalidModes { .. }
        | TransferError::TooFewStreams { .. }
        | TransferError::UnresolvedAddress { .. }
        | TransferError::NoName { .. }
        | TransferError::FromDaemonToHost
        | TransferError::LocalFile { .. }
        | TransferError::SourceIsDestination { .. }
        | TransferError::SourceInside { .. }
        | TransferError::JobNotFound { .. } => USAGE,
        TransferError::InterruptedBeforeReply { .. } => INTERRUPTED,
        TransferError::RemoteFailed { status, .. } => *status,
        _ => FAILED,
    }
}

/// Returns the hint about what the user typed, and about files of this host.
fn hint_about_this_host(error: &TransferError) -> Option<Cow<'static, str>> {
    let hint = match error {
        TransferError::Endpoint(error) => return Some(hint_about_endpoint(error)),
        TransferError::FromDaemonToHost => {
            "run numaio copy on one of the two hosts, or copy to this host first"
        }
        TransferError::LocalFile { host, .. } => {
            return Some(format!("run it there: ssh {host} numaio copy ...").into())
        }
        TransferError::SourceIsDestination { why, .. } => why,
        TransferError::SourceInside { .. } => "name directories that do not contain the source",
        TransferError::NotMarked { .. } => {
            "--inplace, --delete, --remove-source-files and --backup-dir could destroy a source that is reached there by \
             another path; make the directory writable, or omit these options"
        }
        TransferError::NotADirectory { .. } => "name a directory, or a path that does not exist",
        TransferError::ShardRunning { .. } => "wait until all shards have ended, then run it again",
        TransferError::ProcNotMounted => "mount it, or bind it into the container: mount -t proc proc /proc",
        TransferError::KeyNotFound { .. } => "numaio keygen generates a key",
        TransferError::KeyNotPrivate { .. } => {
            "chmod 600 it; generate a new one if others could have read it"
        }
        TransferError::KeyExists { path } => {
            let path = path.display();
            return Some(
                format!(
                    "numaio keygen --public {path} prints its public key; peers that know it will not recognize a \
                     new key"
                )
                .into(),
            );
        }
        TransferError::InvalidKnownDaemon { .. } => "remove or fix the line; comment lines begin with #",
        TransferError::NoStateDirectory => "set XDG_STATE_HOME or HOME",
        TransferError::JobNotFound { .. } => "numaio jobs lists all jobs",
        TransferError::CannotStart { .. } => missing_ssh_hint(),
        TransferError::NoForcedCommand { .. } => {
            "--restrict is for command=\"numaio copy --restrict DIR\" in ~/.ssh/authorized_keys"
        }
        _ => return None,
    };
    Some(hint.into())
}

/// Returns the hint about another host.
fn hint_about_others(error: &TransferError) -> Option<Cow<'static, str>> {
    let hint = match error {
        TransferError::RequestTooLong => "run numaio copy there, or copy in parts",
        TransferError::OwnerNotPermitted { kind: "group", .. } => {
            "other users can set the groups that they belong to"
        }
        TransferError::NotNumaio { host, .. } => {
            return Some(
                format!(
                    "ssh {host} true must print nothing: a login script may print something; or the remote numaio \
                     has another version: use the same version on both hosts"
                )
                .into(),
            )
        }
        TransferError::PeerTimedOut { host, .. } => {
            return Some(
                format!(
                    "a login there may read standard input, a directory not respond, or a router drop large packets \
                     (path MTU): then ping -M do -s 1472 {host} fails and a smaller size works; --timeout sets the \
                     limit, 0 means none"
                )
                .into(),
            )
        }
        TransferError::NoDataConnection { channel, .. } => {
            return Some(
                format!(
                    "open the port in the firewall, pass a range if it is in use, or use --tunnel to send data \
                     through {channel}"
                )
                .into(),
            )
        }
        TransferError::NoAnswer { status: Some(ssh::NOT_FOUND), .. } => {
            "numaio is not installed there, or not on the PATH of ssh sessions: --bootstrap copies this one there, \
             --remote-numaio sets another path"
        }
        TransferError::NoAnswer { host, status }
        | TransferError::UnidentifiedSystem { host, status: status @ Some(ssh::SSH_FAILED) } => {
            return Some(exit_status_hint(host, *status, "").into())
        }
        TransferError::UnidentifiedSystem { .. } => "--bootstrap needs a shell and a home directory there",
        TransferError::OtherSystem { .. } => "install numaio for that system there, and set --remote-numaio",
        TransferError::CannotInstall { what, .. } if what.starts_with("run it") => {
            "a static build runs everywhere (make static); the home directory may be mounted noexec"
        }
        TransferError::CannotInstall { .. } => "copy numaio manually, and set --remote-numaio",
        TransferError::NotAnEvent(_) => {
            "use the same version of numaio on all hosts, and a remote shell that prints nothing on startup"
        }
        TransferError::RemoteKilled { .. } | TransferError::RemoteInterrupted { .. } => RESUME_HINT,
        error => return hint_about_daemon(error),
    };
    Some(hint.into())
}

/// Returns the hint about a daemon to connect to.
fn hint_about_daemon(error: &TransferError) -> Option<Cow<'static, str>> {
    Some(match error {
        TransferError::SessionClosed { .. } => "the daemon closed the session; see its log".into(),
        TransferError::DaemonUnreachable { .. } => {
            "start numaio serve there, or use HOST:PATH for ssh".into()
        }
        TransferError::NoDaemonChannel { .. } => {
            "the port may belong to another program, or the daemon be at a limit: see its log".into()
        }
        TransferError::DaemonFull { .. } => {
            "run the same command again later, or wait longer: --retry sets the limit, --retry forever removes it"
                .into()
        }
        TransferError::OtherDaemonKey { .. } => {
            "ask its administrator for the key; nothing was sent".into()
        }
        TransferError::UnknownDaemon { key, .. } => {
            format!("if its administrator confirms the key, add --trust {key} once").into()
        }
        TransferError::DaemonKeyChanged { host, key, list, .. } => format!(
            "ask its administrator; if the key is new, remove the line of {host} from {}, and add --trust {key} \
             once",
            list.display()
        )
        .into(),
        _ => return None,
    })
}

/// Returns the hint about a text that is not a path with or without a host.
fn hint_about_endpoint(error: &EndpointError) -> Cow<'static, str> {
    match error {
        EndpointError::Empty => "use . for the current directory".into(),
        EndpointError::InvalidDaemonAddress { .. } => "write numaio://[USER@]HOST[:PORT]/ROOT/PATH".into(),
        EndpointError::NoHost { text } => {
            format!("write ./{text} for a file with a colon in its name").into()
        }
        EndpointError::InvalidBrackets { text } => {
            format!("write [fd00::1]:PATH for an IPv6 address, ./{text} for a file of that name").into()
        }
        EndpointError::Url { .. } | EndpointError::RsyncModule { .. } => REMOTE_SYNTAX.into(),
        EndpointError::OtherHome { .. } => {
            "write the absolute path, or HOST:./~NAME for a file of that name".into()
        }
        EndpointError::DifferentHosts => "run a separate copy for each".into(),
    }
}

impl From<DaemonError> for Failure {
    fn from(error: DaemonError) -> Self {
        let failure = Self::new(&error);
        match error {
            DaemonError::UnreadableConfig { .. } => {
                failure.hint("--config names the file; numaio serve --help shows an example")
            }
            DaemonError::InvalidConfig { .. } => failure.hint("docs/copy/daemon.md describes the file"),
            DaemonError::IsRoot => failure.hint(
                "run it as a separate user, as the unit in docs/copy/daemon.md does; as_root = true in its file \
                 allows root, and then users with write access can create files that only root can create",
            ),
            DaemonError::TooFewFiles { .. } => failure.hint(
                "raise it by LimitNOFILE= of the unit or by ulimit -n, or lower connections in [limits]",
            ),
            DaemonError::CannotListen { error, .. } if error.kind() == io::ErrorKind::AddrInUse => {
                failure.hint("another daemon may use the address; listen configures the addresses")
            }
            DaemonError::CannotServeLocally { error, .. } if error.kind() == io::ErrorKind::AddrInUse => {
                failure.hint("another daemon serves this host; socket in [local] configures the path")
            }
            DaemonError::CannotServeLocally { error, .. } if error.kind() == io::ErrorKind::NotFound => {
                failure.hint("create the directory for the daemon's user, as RuntimeDirectory= of systemd does")
            }
            DaemonError::Transfer(error) => error.into(),
            DaemonError::ConfigIsNotText { .. }
            | DaemonError::CannotListen { .. }
            | DaemonError::CannotServeLocally { .. }
            | DaemonError::NotASession(_)
            | DaemonError::InvalidSessionConfig
            | DaemonError::NoSessionChannel(_)
            | DaemonError::ClientRefused(_)
            | DaemonError::Io(_) => failure,
        }
    }
}

/// Returns the hint about an ssh program that cannot be started.
fn missing_ssh_hint() -> &'static str {
    match std::env::var_os(ssh::PROGRAM_VARIABLE) {
        Some(_) => "NUMAIO_SSH names a program with its options, with quotes as in a shell",
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
