//! The other host: a numaio that serves there, started by us over ssh, or found where the user
//! says.

use super::serve::ServerHello;
use crate::failure::Failure;
use crate::ssh::{self, ManagedProcess};
use clap::Args;
use numaio_linux::io::tcp::{Peer, PeerError, PROTOCOL};
use std::io::{BufRead, BufReader, Read};
use std::net::IpAddr;
use std::process::{Command, Stdio};
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// How long ssh and the numaio there may take until that serves.
const START_LIMIT: Duration = Duration::from_secs(60);
/// The arguments of a numaio that serves whoever started it.
const SERVE: [&str; 4] = ["bench", "net", "--serve", "--attached"];
/// Longest line in which it says so.
const LONGEST_LINE: u64 = 4096;
/// How long it may take to end when we are done.
const STOP_LIMIT: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "The other host")]
pub struct RemoteArgs {
    /// The other host, as for ssh; localhost for this one
    ///
    /// numaio starts itself there over ssh, unless --port names one that serves already.
    #[arg(long, value_name = "HOST")]
    pub peer: Option<String>,
    /// Port of a numaio that serves there (numaio bench net --serve)
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// What that numaio printed; better in the environment, where no list of processes shows it
    #[arg(long, value_name = "TOKEN", env = "NUMAIO_TOKEN", hide_env_values = true)]
    pub token: Option<String>,
    /// Address of the other host by which streams go, if it is not that of its name
    #[arg(long, value_name = "ADDRESS")]
    pub via: Option<IpAddr>,
    /// Where numaio is there, if it is not on the PATH of an ssh session; a path, not a command
    #[arg(long, value_name = "PATH", default_value = "numaio", value_parser = ssh::remote_path)]
    pub remote_numaio: String,
}

/// The other host.
pub struct RemoteHost {
    /// The session.
    pub peer: Peer,
    /// Its address without the port, as tools want it.
    pub host: String,
    /// What we started; after the session, which ends first.
    pub started: Option<ManagedProcess>,
}

/// Begins a session with the other host.
pub fn connect_to(args: &RemoteArgs) -> Result<RemoteHost, Failure> {
    let Some(name) = args.peer.as_deref() else {
        return Err(Failure::usage("there is no other host")
            .hint("name it by --peer HOST (localhost for this one), or serve one by --serve"));
    };
    if name.is_empty() || name.starts_with('-') {
        return Err(Failure::usage(format!("{name:?} is no host")));
    }
    let host = match args.via {
        Some(address) => address.to_string(),
        None if is_local(name) => "127.0.0.1".to_owned(),
        None => name.rsplit('@').next().unwrap_or(name).to_owned(),
    };
    if let Some(port) = args.port {
        let token = args.token.as_deref().ok_or_else(|| {
            Failure::usage("the server wants a token")
                .hint("it printed one: give it by NUMAIO_TOKEN or --token")
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

/// This very program, in a process of its own.
fn local_server(host: &str) -> Result<Command, Failure> {
    let own = std::env::current_exe()
        .map_err(|error| Failure::new(format!("cannot find this program: {error}")))?;
    let mut command = Command::new(own);
    command.args(SERVE).args(["--bind", host]);
    Ok(command)
}

/// What ssh's configuration makes of a name.
fn ssh_hostname(name: &str) -> Option<String> {
    let output = Command::new("ssh").args(["-G", "--", name]).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.lines().find_map(|line| line.strip_prefix("hostname ")).map(|name| name.trim().to_owned())
}

fn start(command: Command, name: &str) -> Result<(ManagedProcess, ServerHello), Failure> {
    let hint = "ssh is Debian's openssh-client; or serve there by hand: numaio bench net --serve";
    let mut started = ManagedProcess::start(command, STOP_LIMIT, hint)?;
    let stdout = started.stdout.take();
    let (to, from) = channel();
    thread::spawn(move || {
        let mut line = String::new();
        let read = stdout.map(|stdout| BufReader::new(stdout.take(LONGEST_LINE)).read_line(&mut line));
        drop(to.send(read.is_some_and(|read| read.is_ok()).then_some(line)));
    });
    let line = match from.recv_timeout(START_LIMIT) {
        Ok(line) => line.unwrap_or_default(),
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
            return Err(Failure::new(format!("{name} did not answer for {} s", START_LIMIT.as_secs())));
        }
    };
    match serde_json::from_str::<ServerHello>(&line) {
        Ok(hello) if hello.numaio_net == PROTOCOL => Ok((started, hello)),
        Ok(hello) => Err(Failure::new(format!(
            "the numaio on {name} speaks version {} of the protocol, and this one version {PROTOCOL}",
            hello.numaio_net
        ))
        .hint("use the same numaio at both ends")),
        Err(_) => {
            let failure = Failure::new(format!("no numaio serves on {name}"));
            let instead = ", or serve there by hand with numaio bench net --serve and name its --port";
            Err(ssh::with_hint(failure, name, started.status(), instead))
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
                "a firewall may keep the port: serve with a --port that it lets through; --via names another address",
            ),
            PeerError::Refused { .. } => failure.hint("every session has a token of its own: the server prints it"),
            PeerError::NotNumaio { .. } => failure.hint("numaio bench net --serve tells the port to name"),
        }
    })
}
