//! A session: a process for one connection. It finds out whose it is, enters the root that is asked for, confines itself to
//! it, and then is the side of a transfer that ssh would start.

use super::config::{Config, Root, User};
use super::log;
use super::session_ipc::{
    receive, send, AdmissionReply, AdmissionRequest, DataConnectionsRequest, SessionStart, MAX_START_BYTES,
};
use crate::args::Common;
use crate::commands::copy::daemon_hello::{DaemonGreeting, DaemonHello, MAX_LINE_BYTES};
use crate::commands::copy::peer::{serve as serve_transfer, DaemonService, Grants};
use crate::commands::copy::DataPath;
use crate::failure::Failure;
use crate::keys;
use crate::output::harmless;
use numaio_linux::confine::{confine, ConfinementStatus, Rights};
use numaio_linux::files::Base;
use numaio_linux::interrupt;
use numaio_linux::port::net::control::{accept, ControlChannel};
use numaio_linux::port::net::{has_kernel_tls, PublicKey};
use numaio_linux::process::is_super_user;
use numaio_mover::report::TransferOutcome;
use numaio_mover::wire::Side;
use std::io;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// How long the daemon may take to answer; it is the same machine.
const DAEMON_REPLY_TIMEOUT: Duration = Duration::from_secs(60);

/// How long somebody who is refused may take to hear it.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(2);

/// What is to be done for whom.
pub struct AdmittedUser<'a> {
    pub user: &'a str,
    limits: &'a User,
    pub root: &'a str,
    pub side: Side,
}

/// Serves the connection that is standard output; standard input leads to the daemon.
pub fn run(common: &Common) -> Result<ExitCode, Failure> {
    interrupt::install().map_err(Failure::new)?;
    let ipc = UnixStream::from(io::stdin().as_fd().try_clone_to_owned().map_err(Failure::new)?);
    let socket = TcpStream::from(io::stdout().as_fd().try_clone_to_owned().map_err(Failure::new)?);
    let start: Option<SessionStart> = receive(&ipc, MAX_START_BYTES, Some(DAEMON_REPLY_TIMEOUT))
        .map_err(|error| Failure::new(format!("a session is started by numaio serve: {error}")))?;
    let Some(SessionStart { config, caller }) = start else { return Ok(ExitCode::FAILURE) };
    let config = Config::parse(&config).map_err(|_| Failure::new("the daemon's file has faults"))?;
    let done = serve(common, &config, &caller, (&ipc, &socket));
    Ok(match done {
        Ok(TransferOutcome::Done) => ExitCode::SUCCESS,
        Ok(TransferOutcome::Failed) => ExitCode::FAILURE,
        Err(failure) => {
            log(common, &format!("{caller}: {}", harmless(&failure.message)));
            ExitCode::FAILURE
        }
    })
}

fn serve(
    common: &Common,
    config: &Config,
    caller: &str,
    (ipc, socket): (&UnixStream, &TcpStream),
) -> Result<TransferOutcome, Failure> {
    let own = keys::read(&config.key.value)?.keys().map_err(Failure::new)?;
    // Before anything of a stranger is read.
    let unresponsive = |name: &str| log(common, &format!("{caller}: root {name:?} does not answer"));
    let roots = open_roots(config, config.limits.opening / 2, open_root, unresponsive);
    let rules: Vec<_> =
        roots.iter().filter_map(|(root, rights)| Some((root.directory()?, *rights))).collect();
    // A confined process cannot find it out.
    let kernel_tls = config.kernel_tls && has_kernel_tls();
    confine(&rules).map_err(Failure::new)?;
    // It is the daemon that ends it in time; this counts when there is none any more.
    let limit = 2 * config.limits.opening;
    let mut channel =
        accept(socket, &own, limit).map_err(|error| Failure::new(format!("no session: {error}")))?;
    let hello = channel.read_line(MAX_LINE_BYTES, limit).map_err(Failure::new)?;
    let entered = enter_root(config, ipc, &channel, &hello);
    let greeting = match &entered {
        Ok((_, grants, _)) => DaemonGreeting::Welcome { streams: grants.streams },
        Err(Denial::Refused(why)) => DaemonGreeting::refused(why),
        Err(Denial::Busy(why)) => DaemonGreeting::busy(why),
    };
    channel.write_line(&serde_json::to_string(&greeting).map_err(Failure::new)?).map_err(Failure::new)?;
    let (admitted, grants, confined) = match entered {
        Ok(entered) => entered,
        Err(Denial::Refused(why) | Denial::Busy(why)) => {
            channel.close(REFUSAL_TIMEOUT);
            return Err(Failure::new(format!("refused: {why}")));
        }
    };
    let AdmittedUser { user, root, side, .. } = admitted;
    let does = if side == Side::Source { "reads" } else { "writes to" };
    let without = match confined {
        ConfinementStatus::Full => "",
        ConfinementStatus::Partial => ", confined by an older Landlock",
        ConfinementStatus::Unsupported => ", without Landlock",
    };
    let process = std::process::id();
    log(common, &format!("{caller}: {user} {does} {root} (process {process}{without})"));
    let daemon = ipc.try_clone().map_err(Failure::new)?;
    let data_path = DataPath { keys: own, kernel_tls, daemon, request_connections };
    let (ends, carrier) = channel.into_streams().map_err(Failure::new)?;
    let ended = serve_transfer(ends, Some(&DaemonService { grants, data_path }));
    drop(carrier);
    let (ended, failed) = ended?;
    let how = match (&ended, failed) {
        (TransferOutcome::Done, 0) => "done".to_owned(),
        (TransferOutcome::Done, failed) => format!("done, {failed} failed"),
        (TransferOutcome::Failed, _) => "given up".to_owned(),
    };
    log(common, &format!("{caller}: {user} {does} {root}: {how}"));
    Ok(ended)
}

/// Asks for the data connections with a ticket.
fn request_connections(ipc: &UnixStream, ticket: [u8; 16]) -> io::Result<()> {
    ipc.set_read_timeout(None)?;
    send(ipc, &DataConnectionsRequest { ticket })
}

/// What `open` makes of roots. One that does not answer for so long is told, as that of a server that is gone: the daemon will end this
/// process, and say that it is its caller who is late.
fn open_roots<T>(
    config: &Config,
    patience: Duration,
    open: impl Fn(&Root) -> Option<T>,
    unresponsive: impl Fn(&str) + Send,
) -> Vec<T> {
    let (begin, begun) = channel();
    thread::scope(|scope| {
        let watch = scope.spawn(move || {
            let mut last = None;
            loop {
                match (begun.recv_timeout(patience), last) {
                    (Ok(name), _) => last = Some(name),
                    (Err(RecvTimeoutError::Timeout), Some(name)) => return unresponsive(name),
                    (Err(RecvTimeoutError::Timeout), None) => {}
                    (Err(RecvTimeoutError::Disconnected), _) => return,
                }
            }
        });
        let opened = config.roots.iter().filter_map(|(name, root)| {
            // Nobody listens any more if one was silent.
            let _ = begin.send(name.as_str());
            open(root)
        });
        let opened = opened.collect();
        drop(begin);
        // It is gone before this process confines itself, which takes hold of the thread alone that does so.
        drop(watch.join());
        opened
    })
}

/// A root, and what is done in it at the most; none if it is not there.
fn open_root(root: &Root) -> Option<(Base, Rights)> {
    let rights = if root.is_written() { Rights::Write } else { Rights::Read };
    Some((Base::below(&root.path.value).ok()?, rights))
}

/// Why somebody is not served.
enum Denial {
    /// Never.
    Refused(String),
    /// Not now.
    Busy(String),
}

/// Finds out whose the channel is, and enters the root. From then on this process reaches nothing else.
fn enter_root<'c>(
    config: &'c Config,
    ipc: &UnixStream,
    channel: &ControlChannel,
    hello: &str,
) -> Result<(AdmittedUser<'c>, Grants, ConfinementStatus), Denial> {
    let admitted = admit(config, channel.peer(), hello).map_err(Denial::Refused)?;
    let broken = |what: &dyn std::fmt::Display| Denial::Busy(format!("the daemon cannot serve: {what}"));
    send(ipc, &AdmissionRequest { user: admitted.user.to_owned() }).map_err(|error| broken(&error))?;
    let verdict: Option<AdmissionReply> =
        receive(ipc, MAX_LINE_BYTES, Some(DAEMON_REPLY_TIMEOUT)).map_err(|error| broken(&error))?;
    verdict.unwrap_or_else(|| Err("the daemon is gone".to_owned())).map_err(Denial::Busy)?;
    let root = &config.roots[admitted.root];
    // It may be there again later.
    let closed = |error| Denial::Busy(format!("{} cannot be opened: {error}", admitted.root));
    let entered = Base::below(&root.path.value).map_err(closed)?;
    let directory = entered.directory().ok_or_else(|| broken(&"no root was entered"))?;
    let rights = if admitted.side == Side::Source { Rights::Read } else { Rights::Write };
    let confined = confine(&[(directory, rights)]).map_err(|error| broken(&error))?;
    let grants = Grants {
        side: admitted.side,
        streams: admitted.limits.streams,
        bytes_per_second: admitted.limits.bytes_per_second,
        // A daemon that is not root after all is a user whose rights such bits would hand on.
        set_id: config.as_root && is_super_user(),
        base: entered,
    };
    Ok((admitted, grants, confined))
}

/// Whether what is asked for may be; else why not.
pub fn admit<'c>(config: &'c Config, key: PublicKey, hello: &str) -> Result<AdmittedUser<'c>, String> {
    let (user, limits) =
        config.user(key).ok_or_else(|| format!("no user here has the key {key} (numaio keygen --public)"))?;
    let hello: DaemonHello =
        serde_json::from_str(hello).map_err(|_| "this is no hello of numaio copy".to_owned())?;
    if let Some(other) = hello.user.as_deref().filter(|other| *other != user) {
        return Err(format!("the key is that of {user}, not of {other}"));
    }
    let side = hello.side();
    let found = config.roots.get_key_value(&hello.root).filter(|(_, root)| {
        // Whoever may do nothing in it does not learn that it is there.
        [Side::Source, Side::Sink].into_iter().any(|side| root.allows(user, side))
    });
    let (root, rights) = found.ok_or_else(|| format!("there is no root {:?} for {user}", hello.root))?;
    match (rights.allows(user, side), side) {
        (true, _) => Ok(AdmittedUser { user, limits, root, side }),
        (false, Side::Source) => Err(format!("{user} may not read from {root}, only write to it")),
        (false, Side::Sink) => Err(format!("{user} may not write to {root}, only read from it")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;

    #[test]
    fn a_root_that_does_not_answer_is_told() {
        let root = |name: &str| format!("[root.{name}]\npath = \"/{name}\"\nread = \"*\"\n");
        let user =
            "[user.u]\nkeys = \"ed25519:d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a\"\n";
        let text = format!("key = \"/k\"\n{}{}{}{user}", root("hangs"), root("one"), root("two"));
        let config = Config::parse(&text).expect("a file without faults");
        let path = |root: &Root| Some(root.path.value.clone());
        let (tell, told) = sync_channel(1);
        let unresponsive = |name: &str| tell.send(name.to_owned()).expect("somebody listens");
        let hang = |root: &Root| {
            if root.path.value.ends_with("hangs") {
                assert_eq!(told.recv().as_deref(), Ok("hangs"));
            }
            path(root)
        };
        let opened = open_roots(&config, Duration::from_millis(20), hang, unresponsive);
        assert_eq!(opened.len(), 3, "it answered after all");
        let never = Duration::from_secs(300);
        assert_eq!(open_roots(&config, never, path, |name| panic!("{name} answered")), opened);
    }
}
