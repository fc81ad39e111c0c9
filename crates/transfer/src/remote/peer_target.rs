//! How to start or connect to a peer.

use super::peer_process::{PeerConnection, PeerProcess, EXIT_TIMEOUT};
use super::peer_wait::PeerWait;
use super::ssh_hostname::HostnameLookup;
use super::{bootstrap, daemon_client};
use crate::daemon::hello::HelloCapacity;
use crate::daemon_address::DaemonAddress;
use crate::endpoint::Host;
use crate::network_options::NetworkOptions;
use crate::peer::messages::PeerWriter;
use crate::reporter::Reporter;
use crate::ssh::attempt_stderr::AttemptStderr;
use crate::ssh::{self, ManagedProcess};
use crate::transfer::RemoteOptions;
use crate::TransferError;
use numaio_mover::wire::Side;
use std::io::Read;
use std::net::SocketAddr;
use std::time::Duration;

/// A peer to connect to.
pub enum PeerTarget<'a> {
    /// The command that starts numaio on a host behind ssh.
    Ssh {
        host: &'a str,
        numaio: String,
        /// Receives the stderr of ssh.
        stderr: AttemptStderr,
    },
    /// The address of a daemon.
    Daemon(&'a DaemonAddress),
}

impl<'a> PeerTarget<'a> {
    /// Determines the peer of a host, and installs numaio there with `--bootstrap`.
    pub fn find(
        host: &'a Host,
        options: &RemoteOptions,
        limit: Option<Duration>,
        reporter: &mut Reporter<'_>,
    ) -> Result<Self, TransferError> {
        match host {
            Host::Ssh(host) => {
                let wait = PeerWait { reporter, host, limit };
                let numaio = bootstrap::ensure_numaio(options, &ssh::program(), wait)?;
                Ok(Self::Ssh { host, numaio, stderr: AttemptStderr::new(options.stderr.clone()) })
            }
            Host::Daemon(address) => Ok(Self::Daemon(address)),
        }
    }

    /// Connects to the peer, which gets the given side. The inner error allows a retry.
    ///
    /// # Errors
    /// Another attempt would fail the same way.
    pub fn connect(
        &self,
        reporter: &mut Reporter<'_>,
        (network, capacity): (&NetworkOptions, HelloCapacity),
        others: &[SocketAddr],
        side: Side,
    ) -> Result<Result<PeerProcess, TransferError>, TransferError> {
        let (host, numaio, stderr) = match self {
            Self::Ssh { host, numaio, stderr } => (host, numaio, stderr.begin()),
            Self::Daemon(address) => {
                return daemon_client::connect_session(reporter, address, (network, capacity), others, side)
            }
        };
        let program = ssh::program();
        let lookup = (!network.tunnel).then(|| HostnameLookup::start(&program, host));
        let command = ssh::numaio_command(program, host, numaio, &["peer", "--copy"]);
        let mut started = ManagedProcess::start(command, EXIT_TIMEOUT, stderr)?;
        let (Some(to), Some(from)) = (started.stdin.take(), started.stdout.take()) else {
            return Err(TransferError::NoStreams { process: "ssh" });
        };
        let (to, from): (PeerWriter, Box<dyn Read + Send>) = (Box::new(to), Box::new(from));
        Ok(Ok(PeerProcess::new(to, from, PeerConnection::Ssh { started, lookup })))
    }

    /// Returns the failure of a peer that did not reply. The inner error allows a retry.
    ///
    /// # Errors
    /// ssh cannot authenticate the user or the host.
    pub fn no_reply<T>(&self, failure: TransferError) -> Result<Result<T, TransferError>, TransferError> {
        match (self, &failure) {
            (Self::Ssh { stderr, .. }, TransferError::NoAnswer { status: Some(ssh::SSH_FAILED), .. })
                if stderr.is_denied() =>
            {
                Err(failure)
            }
            _ => Ok(Err(failure)),
        }
    }

    /// Returns the name of the channel that carries data without data connections.
    pub fn channel_name(&self) -> &'static str {
        match self {
            Self::Ssh { .. } => "ssh",
            Self::Daemon(_) => "the daemon's control connection",
        }
    }
}
