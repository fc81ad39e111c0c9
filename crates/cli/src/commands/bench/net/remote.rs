//! Connection to the other host, to a server that runs there or that is started by ssh.

use super::serve::ServerHello;
use crate::failure::transfer::exit_status_hint;
use crate::failure::Failure;
use crate::options::{address, port};
use crate::output::stderr_sink;
use clap::Args;
use numaio_linux::io::tcp::{Peer, PeerError, PROTOCOL};
use numaio_transfer::ssh::{self, ManagedProcess};
use std::io::{BufRead, BufReader, Read};
use std::net::IpAddr;
use std::process::{Command, Stdio};
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// Time limit for ssh and the remote numaio to start serving.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Arguments of a numaio that serves the process that started it.
const SERVE: [&str; 4] = ["bench", "net", "--serve", "--attached"];
/// Maximum bytes of its greeting.
const MAX_LINE_BYTES: u64 = 4096;
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
    /// Path of numaio on the other host, if it is not in PATH; a path, not a command
    #[arg(long, value_name = "PATH", default_value = "numaio", value_parser = ssh::remote_path)]
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
        let token = args.token.as_deref().ok_or_else(|| {
            Failure::usage("the server requires a token")
                .hint("it printed the token; pass it by NUMAIO_TOKEN or --token")
        })?;
        return Ok(RemoteHost { peer: connect(&host, port, token)?, host, started: None });
    }
    let (started, hello, host) = match is_local(name) {
        true => {
            let (started, hello) = start(local_server(&host)?, name)?;
            (started, hello, host)
        }
        false => {
            let host = if args.via.is_some() { host } else { ssh_hostname(name).unwrap_or(host) };
            let (started, hello) =
                start(ssh::numaio_command("ssh", name, &args.remote_numaio, &SERVE), name)?;
            (started, hello, host)
        }
    };
    Ok(RemoteHost { peer: connect(&host, hello.port, &hello.token)?, host, started: Some(started) })
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

/// Returns the host name that ssh's configuration gives to a name.
fn ssh_hostname(name: &str) -> Option<String> {
    let output = Command::new("ssh").args(["-G", "--", name]).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.lines().find_map(|line| line.strip_prefix("hostname ")).map(|name| name.trim().to_owned())
}

fn start(command: Command, name: &str) -> Result<(ManagedProcess, ServerHello), Failure> {
    let hint = "install ssh (Debian: openssh-client), or start numaio bench net --serve on the other host";
    let mut started = ManagedProcess::start(command, STOP_TIMEOUT, stderr_sink())
        .map_err(|error| Failure::from(error).hint(hint))?;
    let stdout = started.stdout.take();
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut line = String::new();
        let read = stdout.map(|stdout| BufReader::new(stdout.take(MAX_LINE_BYTES)).read_line(&mut line));
        drop(sender.send(read.is_some_and(|read| read.is_ok()).then_some(line)));
    });
    let line = match receiver.recv_timeout(START_TIMEOUT) {
        Ok(line) => line.unwrap_or_default(),
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
            return Err(Failure::new(format!("no reply from '{name}' for {} s", START_TIMEOUT.as_secs())));
        }
    };
    match serde_json::from_str::<ServerHello>(&line) {
        Ok(hello) if hello.numaio_net == PROTOCOL => Ok((started, hello)),
        Ok(hello) => Err(Failure::new(format!(
            "numaio on '{name}' uses protocol version {}, and this one version {PROTOCOL}",
            hello.numaio_net
        ))
        .hint("use the same version of numaio on both hosts")),
        Err(_) => {
            let failure = Failure::new(format!("cannot start numaio on '{name}'"));
            let instead = ", or start numaio bench net --serve there and specify its --port";
            Err(failure.hint(exit_status_hint(name, started.status(), instead)))
        }
    }
}

fn connect(host: &str, port: u16, token: &str) -> Result<Peer, Failure> {
    let address = match host.parse::<IpAddr>() {
        Ok(IpAddr::V6(address)) => format!("[{address}]:{port}"),
        _ => format!("{host}:{port}"),
    };
    Peer::connect(&address, token.trim()).map_err(|error| {
        let failure = Failure::new(&error);
        match error {
            PeerError::Unreachable { .. } => failure.hint(
                "a firewall may block the port: serve with a permitted --port, or use another address (--via)",
            ),
            PeerError::Refused { .. } => failure.hint("each session has a new token, which the server prints"),
            PeerError::NotNumaio { .. } => failure.hint("numaio bench net --serve prints the port"),
        }
    })
}
