//! Connection to the other host, to a server that runs there or that is started by ssh.

use crate::failure::transfer::exit_status_hint;
use crate::failure::Failure;
use crate::options::{address, port};
use crate::output::stderr_sink;
use clap::Args;
use numaio_linux::io::tcp::{Peer, PeerError};
use numaio_mover_linux::port::net::Secret;
use numaio_transfer::bench_connections::{connect, connect_started};
use numaio_transfer::remote::ssh_hostname::HostnameLookup;
use numaio_transfer::ssh::{self, ManagedProcess};
use std::net::IpAddr;
use std::process::Command;
use std::time::Duration;

/// Time limit for ssh and the remote numaio to start serving.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Arguments of a numaio that serves the process that started it.
const SERVE: [&str; 4] = ["bench", "net", "--serve", "--attached"];
/// Time limit for the remote process to exit at the end.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// Options of the connection to the other host.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "The other host")]
pub struct RemoteArgs {
    /// The other host, as for ssh; localhost for this one
    ///
    /// numaio starts itself there by ssh, unless --port selects a running server.
    #[arg(long, value_name = "HOST")]
    pub peer: Option<String>,
    /// Port of a running server (numaio bench net --serve)
    #[arg(long, value_name = "PORT", value_parser = port)]
    pub port: Option<u16>,
    /// Token that the server printed; prefer the environment, which process lists do not show
    #[arg(long, value_name = "TOKEN", env = "NUMAIO_TOKEN", hide_env_values = true)]
    pub token: Option<String>,
    /// Address of the other host for streams, if it differs from the host name's
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub via: Option<IpAddr>,
    /// Path of numaio on the other host, if it is not in PATH; or a command that starts it, with
    /// words separated by blanks: 'sudo numaio'
    #[arg(long, value_name = "COMMAND", default_value = "numaio", value_parser = ssh::remote_command)]
    pub remote_numaio: String,
}

/// A connection to the other host.
pub struct RemoteHost {
    /// The session.
    pub peer: Peer,
    /// Its address without the port, for tools.
    pub host: String,
    /// The started process, dropped after the session.
    pub started: Option<ManagedProcess>,
}

/// Connects to the other host, and starts a server there if necessary.
pub fn connect_to(args: &RemoteArgs) -> Result<RemoteHost, Failure> {
    let Some(name) = args.peer.as_deref() else {
        return Err(Failure::usage("no other host specified")
            .hint("specify --peer HOST (localhost for this one), or --serve to serve another host"));
    };
    if name.is_empty() || name.starts_with('-') {
        return Err(Failure::usage(format!("invalid host '{name}'")));
    }
    let host = match args.via {
        Some(address) => address.to_string(),
        None if is_local(name) => "127.0.0.1".to_owned(),
        None => name.rsplit('@').next().unwrap_or(name).to_owned(),
    };
    if let Some(port) = args.port {
        let token = parse_token(args.token.as_deref())?;
        let peer = connect(&host, port, &token).map_err(session_failure)?;
        return Ok(RemoteHost { peer, host, started: None });
    }
    let (command, host) = match is_local(name) {
        true => (local_server(&host)?, host),
        false => {
            let program = ssh::program();
            let of_ssh = || HostnameLookup::start(&program, name).name();
            let host = if args.via.is_some() { host } else { of_ssh().unwrap_or(host) };
            (ssh::numaio_command(&program, name, &args.remote_numaio, &SERVE), host)
        }
    };
    let (started, peer) = start(command, name, &host)?;
    Ok(RemoteHost { peer, host, started: Some(started) })
}

/// Parses the token of a running server. Messages do not show it, since it is a secret.
fn parse_token(token: Option<&str>) -> Result<Secret, Failure> {
    let token = token.ok_or_else(|| {
        Failure::usage("the server requires a token")
            .hint("it printed the token; pass it by NUMAIO_TOKEN or --token")
    })?;
    let token = token.trim();
    token.parse().map_err(|error| {
        Failure::usage(format!("invalid token of {} characters: {error}", token.chars().count())).hint(
            "copy the line that numaio bench net --serve printed; both hosts need the same version of numaio",
        )
    })
}

fn is_local(name: &str) -> bool {
    matches!(name, "localhost" | "127.0.0.1" | "::1")
}

/// Returns the command that starts this program as a server.
fn local_server(host: &str) -> Result<Command, Failure> {
    let own = std::env::current_exe()
        .map_err(|error| Failure::new(format!("cannot find the program file of this process: {error}")))?;
    let mut command = Command::new(own);
    command.args(SERVE).args(["--bind", host]);
    Ok(command)
}

/// Starts a server, and opens a session over its standard streams.
fn start(command: Command, name: &str, host: &str) -> Result<(ManagedProcess, Peer), Failure> {
    let hint = "install ssh (Debian: openssh-client), or start numaio bench net --serve on the other host";
    let mut started = ManagedProcess::start(command, STOP_TIMEOUT, stderr_sink())
        .map_err(|error| Failure::from(error).hint(hint))?;
    match connect_started(host, &mut started, START_TIMEOUT) {
        Ok(peer) => Ok((started, peer)),
        Err(PeerError::NotNumaio { .. }) => {
            let instead = ", or start numaio bench net --serve there and specify its --port";
            let failure = Failure::new(format!("cannot start numaio on '{name}'"));
            Err(failure.hint(exit_status_hint(name, started.status(), instead)))
        }
        // No token is involved.
        Err(error @ PeerError::Refused { .. }) => Err(Failure::new(error)),
        Err(error) => Err(session_failure(error)),
    }
}

fn session_failure(error: PeerError) -> Failure {
    let failure = Failure::new(&error);
    match error {
        PeerError::Unreachable { .. } => failure.hint(
            "a firewall may block the port: serve with a permitted --port, or use another address (--via)",
        ),
        PeerError::Refused { .. } => failure.hint("each session has a new token, which the server prints"),
        PeerError::NotNumaio { .. } => failure.hint("numaio bench net --serve prints the port"),
        PeerError::OtherVersion { .. } | PeerError::Silent { .. } => failure,
    }
}
