//! A session: a process that serves one connection. It authenticates the client, opens the
//! requested root, confines itself to it, and then runs one side of the transfer like `numaio peer`
//! does.

use super::config::{Config, Root, User, ANONYMOUS};
use super::error::DaemonError;
use super::hello::{CapacityExchange, DaemonGreeting, DaemonHello, MAX_LINE_BYTES};
use super::log::Log;
use super::session_ipc::{
    AdmissionReply, AdmissionRequest, SessionEnd, SessionReport, SessionStart, MAX_START_BYTES,
};
use crate::capacity::link::CapacityLink;
use crate::json_lines::{receive, send, LineReader};
use crate::keys;
use crate::line::{json_line, sanitize};
use crate::peer::data_connections::DataPath;
use crate::peer::{serve as serve_transfer, GrantKind, Grants, ServedTransfer};
use crate::placement::Placer;
use crate::TransferError;
use numaio_linux::interrupt;
use numaio_linux::process::is_super_user;
use numaio_mover::report::TransferOutcome;
use numaio_mover::wire::Side;
use numaio_mover_linux::confine::{confine, ConfinementStatus};
use numaio_mover_linux::files::{Base, Rights};
use numaio_mover_linux::port::net::control::{accept, ControlChannel};
use numaio_mover_linux::port::net::{receive_socket, PublicKey};
use numaio_schema::{TransferCounts, TransferDirection, TransferResult};
use std::cell::RefCell;
use std::io;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// How long the daemon may take to reply; it runs on the same machine.
const DAEMON_REPLY_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a refused client may take to read the reason.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(2);

/// An admitted user with the requested root and the daemon's side of the transfer.
pub struct AdmittedUser<'a> {
    /// Name of the user.
    pub user: &'a str,
    limits: &'a User,
    /// Name of the root.
    pub root: &'a str,
    /// The daemon's side of the transfer.
    pub side: Side,
}

/// Sockets of a session to its daemon.
struct DaemonSockets {
    ipc: UnixStream,
    /// For changes of what the daemon lends.
    changes: UnixStream,
}

/// Serves the connection on stdout; stdin is the IPC socket of the daemon.
///
/// Returns whether the transfer is done.
///
/// # Errors
/// The process was not started by a daemon. Errors of the session are logged.
pub fn run(log: &Log, placer: &dyn Placer) -> Result<bool, DaemonError> {
    interrupt::install()?;
    let ipc = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let socket = TcpStream::from(io::stdout().as_fd().try_clone_to_owned()?);
    ipc.set_read_timeout(Some(DAEMON_REPLY_TIMEOUT))?;
    let Some(changes) = receive_socket(&ipc).map_err(DaemonError::NotASession)? else { return Ok(false) };
    let daemon = DaemonSockets { ipc, changes: changes.into() };
    let ipc = &daemon.ipc;
    let start: Option<SessionStart> =
        receive(ipc, MAX_START_BYTES, Some(DAEMON_REPLY_TIMEOUT)).map_err(DaemonError::NotASession)?;
    let Some(SessionStart { config, caller }) = start else { return Ok(false) };
    let config = Config::parse(&config).map_err(|_| DaemonError::InvalidSessionConfig)?;
    log.configure(config.log);
    let identity = RefCell::default();
    let served = serve((log, &caller), &config, (&daemon, &socket, &identity), placer);
    let is_done = served.as_ref().is_ok_and(|served| served.outcome == TransferOutcome::Done);
    let report = match (identity.into_inner().user, served) {
        (Some(identity), served) => SessionReport::End(identity.end(served)),
        (None, Err(error)) => SessionReport::Unauthenticated(sanitize(&error.to_string())),
        (None, Ok(_)) => return Ok(is_done),
    };
    if send(ipc, &report).is_err() {
        // The daemon has exited.
        let (SessionReport::End(SessionEnd { reason: why, .. }) | SessionReport::Unauthenticated(why)) =
            report
        else {
            return Ok(is_done);
        };
        log.warning(&format!("{caller}: the session has ended, and the daemon has exited: {why}"));
    }
    Ok(is_done)
}

/// A session's knowledge of its client.
#[derive(Default)]
struct ClientIdentity {
    /// Set once the client has authenticated, or has requested a root that is open to anyone.
    user: Option<IdentifiedUser>,
}

/// An authenticated user, with the request as far as it is known.
struct IdentifiedUser {
    user: String,
    /// Name of a configured root; otherwise empty.
    root: String,
    direction: Option<TransferDirection>,
}

impl ClientIdentity {
    /// Sets the user with a key, if there is one.
    fn authenticate(&mut self, config: &Config, key: PublicKey) {
        let user = config.user(key).map(|(user, _)| user.to_owned());
        self.user = user.map(|user| IdentifiedUser { user, root: String::new(), direction: None });
    }

    /// Sets the request of the user's hello.
    fn set_request(&mut self, config: &Config, hello: &str) {
        let Ok(hello) = serde_json::from_str::<DaemonHello>(hello) else { return };
        if self.user.is_none() && hello.user.is_none() {
            let anonymous = config.anonymous(&hello.root, hello.side());
            let user = anonymous.map(|(user, _)| user.to_owned());
            self.user = user.map(|user| IdentifiedUser { user, root: String::new(), direction: None });
        }
        let Some(user) = &mut self.user else { return };
        user.direction = Some(direction_of(hello.side()));
        if config.roots.contains_key(&hello.root) {
            user.root = hello.root;
        }
    }
}

impl IdentifiedUser {
    /// Returns the report of the end.
    fn end(self, served: Result<ServedTransfer, DaemonError>) -> SessionEnd {
        let Self { user, root, direction } = self;
        let (result, reason) = match &served {
            Ok(served) => result_of(served),
            Err(error) => (result_of_error(error), error.to_string()),
        };
        let (transfer, is_retry, counts) = match served {
            Ok(served) => (served.series.clone(), served.is_retry, counts_of(&served)),
            Err(_) => Default::default(),
        };
        let reason = sanitize(reason.trim_start_matches("refused: "));
        SessionEnd { user, root, direction, result, reason, transfer, is_retry, counts }
    }
}

fn result_of(served: &ServedTransfer) -> (TransferResult, String) {
    let failed = served.totals.failed;
    match (&served.outcome, failed) {
        (TransferOutcome::Done, 0) => (TransferResult::Done, String::new()),
        (TransferOutcome::Done, failed) => (TransferResult::DoneWithFailures, format!("{failed} failed")),
        (TransferOutcome::Failed, _) if served.is_cut => (TransferResult::Interrupted, served.reason.clone()),
        (TransferOutcome::Failed, _) => (TransferResult::Failed, served.reason.clone()),
    }
}

fn result_of_error(error: &DaemonError) -> TransferResult {
    match error {
        DaemonError::ClientRefused(_) => TransferResult::Refused,
        DaemonError::Io(_) | DaemonError::Transfer(TransferError::Disconnected | TransferError::Io(_)) => {
            TransferResult::Interrupted
        }
        _ => TransferResult::Failed,
    }
}

fn counts_of(served: &ServedTransfer) -> TransferCounts {
    let ServedTransfer { totals, entries, received, sent, .. } = served;
    TransferCounts {
        files: entries.files,
        entries: totals.entries,
        moved: totals.moved,
        failed: totals.failed,
        bytes: totals.bytes,
        received: *received,
        sent: *sent,
    }
}

fn direction_of(side: Side) -> TransferDirection {
    match side {
        Side::Source => TransferDirection::Read,
        Side::Sink => TransferDirection::Write,
    }
}

fn serve(
    (log, caller): (&Log, &str),
    config: &Config,
    (daemon, socket, identity): (&DaemonSockets, &TcpStream, &RefCell<ClientIdentity>),
    placer: &dyn Placer,
) -> Result<ServedTransfer, DaemonError> {
    let own = keys::read(&config.key.value)?.keys()?;
    // Confine the process before it reads anything from an unauthenticated peer.
    let unresponsive = |name: &str| log.error(&format!("{caller}: root '{name}' does not respond"));
    let roots = open_roots(config, config.limits.login_grace / 2, open_root, unresponsive);
    let rules: Vec<_> =
        roots.iter().filter_map(|(root, rights)| Some((root.directory()?, *rights))).collect();
    confine(&rules)?;
    // The daemon enforces the time limit; this one applies only if the daemon has exited.
    let limit = 2 * config.limits.login_grace;
    let mut channel =
        accept(socket, &own, limit).map_err(|error| DaemonError::NoSessionChannel(error.to_string()))?;
    identity.borrow_mut().authenticate(config, channel.peer());
    let hello = channel.read_line(MAX_LINE_BYTES, limit)?;
    identity.borrow_mut().set_request(config, &hello);
    let entered = enter_root(config, daemon, &mut channel, &hello);
    let greeting = match &entered {
        Ok((_, grants, _)) => DaemonGreeting::Welcome { streams: grants.streams, capacity: grants.exchange },
        Err(Denial::Refused(why)) => DaemonGreeting::refused(why),
        Err(Denial::Busy(why)) => DaemonGreeting::busy(why),
    };
    channel.write_line(json_line(&greeting)?.trim_end())?;
    let (admitted, grants, confined) = match entered {
        Ok(entered) => entered,
        Err(Denial::Refused(why) | Denial::Busy(why)) => {
            channel.close(REFUSAL_TIMEOUT);
            return Err(DaemonError::ClientRefused(why));
        }
    };
    let AdmittedUser { user, root, side, .. } = admitted;
    let without = match confined {
        ConfinementStatus::Full => "",
        ConfinementStatus::Partial => ", confined by an older Landlock",
        ConfinementStatus::Unsupported => ", without Landlock",
    };
    let does = if side == Side::Source { "reads" } else { "writes to" };
    let process = std::process::id();
    log.info(&format!("{caller}: {user} {does} {root} (process {process}{without})"));
    let daemon = daemon.ipc.try_clone()?;
    let data_path = DataPath { keys: own, daemon, request_connections };
    let (ends, carrier) = channel.into_streams()?;
    let served = serve_transfer(ends, Some(&grants), Some(&data_path), placer);
    drop(carrier);
    Ok(served?)
}

/// Requests the data connections with a ticket from the daemon, and returns the socket over which
/// they arrive.
fn request_connections(ipc: &UnixStream, ticket: [u8; 16]) -> io::Result<UnixStream> {
    ipc.set_read_timeout(Some(DAEMON_REPLY_TIMEOUT))?;
    send(ipc, &SessionReport::DataConnections(ticket))?;
    let socket = receive_socket(ipc)?.ok_or_else(|| io::Error::other("the daemon has exited"))?;
    Ok(socket.into())
}

/// Opens all roots with `open`, and reports a root that does not respond within `patience`.
///
/// Without the report the log would only blame the client, whose session the daemon kills for being
/// late.
fn open_roots<T>(
    config: &Config,
    patience: Duration,
    open: impl Fn(&Root) -> Option<T>,
    unresponsive: impl Fn(&str) + Send,
) -> Vec<T> {
    let (begin, started_roots) = channel();
    thread::scope(|scope| {
        let watch = scope.spawn(move || {
            let mut last = None;
            loop {
                match (started_roots.recv_timeout(patience), last) {
                    (Ok(name), _) => last = Some(name),
                    (Err(RecvTimeoutError::Timeout), Some(name)) => return unresponsive(name),
                    (Err(RecvTimeoutError::Timeout), None) => {}
                    (Err(RecvTimeoutError::Disconnected), _) => return,
                }
            }
        });
        let opened = config.roots.iter().filter_map(|(name, root)| {
            // The watching thread has stopped after a report.
            let _ = begin.send(name.as_str());
            open(root)
        });
        let opened = opened.collect();
        drop(begin);
        // The watching thread must have finished: confinement applies only to the calling thread.
        drop(watch.join());
        opened
    })
}

/// Opens a root with the most rights that any user has on it; `None` if it cannot be opened.
fn open_root(root: &Root) -> Option<(Base, Rights)> {
    let rights = if root.is_written() { Rights::Write } else { Rights::Read };
    Some((Base::below(&root.path.value).ok()?, rights))
}

/// Why a client is not served.
enum Denial {
    /// Permanently.
    Refused(String),
    /// At the moment.
    Busy(String),
}

/// Authorizes the client and opens the root. Afterwards this process cannot access anything else.
fn enter_root<'c>(
    config: &'c Config,
    daemon: &DaemonSockets,
    channel: &mut ControlChannel,
    hello: &str,
) -> Result<(AdmittedUser<'c>, Grants, ConfinementStatus), Denial> {
    let (admitted, hello) = admit(config, channel.peer(), hello).map_err(Denial::Refused)?;
    let broken = |what: &dyn std::fmt::Display| Denial::Busy(format!("cannot serve: {what}"));
    let request = AdmissionRequest {
        user: admitted.user.to_owned(),
        root: admitted.root.to_owned(),
        direction: direction_of(admitted.side),
        // A client without a key learns nothing about devices.
        capacity: Some(hello.capacity).filter(|_| admitted.user != ANONYMOUS),
    };
    let (capacity, exchange) = wait_for_admission(daemon, request, channel)?;
    let root = &config.roots[admitted.root];
    // The root may be mounted again later.
    let closed = |error| Denial::Busy(format!("cannot open root '{}': {error}", admitted.root));
    let entered = Base::below(&root.path.value).map_err(closed)?;
    let directory = entered.directory().ok_or_else(|| broken(&"the root was not opened"))?;
    let rights = if admitted.side == Side::Source { Rights::Read } else { Rights::Write };
    let confined = confine(&[(directory, rights)]).map_err(|error| broken(&error))?;
    let grants = Grants {
        kind: GrantKind::Daemon(admitted.side),
        streams: admitted.limits.streams,
        bytes_per_second: admitted.limits.bytes_per_second,
        // On a daemon that does not run as root, set-ID bits would grant the rights of its user.
        set_id: config.as_root && is_super_user(),
        base: entered,
        capacity: Some(capacity),
        exchange,
    };
    Ok((admitted, grants, confined))
}

/// Waits until the daemon admits the user, and informs the client of its place in the queue.
/// Returns what the daemon lends.
fn wait_for_admission(
    DaemonSockets { ipc, changes }: &DaemonSockets,
    request: AdmissionRequest,
    channel: &mut ControlChannel,
) -> Result<(CapacityLink, CapacityExchange), Denial> {
    let broken = |error: io::Error| Denial::Busy(format!("cannot serve: {error}"));
    let is_anonymous = request.user == ANONYMOUS;
    send(ipc, &SessionReport::Admission(request)).map_err(broken)?;
    loop {
        match receive(ipc, MAX_LINE_BYTES, Some(DAEMON_REPLY_TIMEOUT)).map_err(broken)? {
            Some(AdmissionReply::Admitted(lent, exchange)) => {
                let changes = changes.try_clone().map_err(broken)?;
                let link = CapacityLink::start(LineReader::new(changes), Some(lent)).map_err(broken)?;
                return Ok((link, exchange));
            }
            Some(AdmissionReply::Queued(mut lent)) => {
                if is_anonymous {
                    lent.reason = "others are served first".to_owned();
                }
                let greeting = json_line(&DaemonGreeting::queued(&lent)).map_err(broken)?;
                // Fails if the client has disconnected, which frees its place in the queue.
                channel.write_line(greeting.trim_end()).map_err(broken)?;
            }
            Some(AdmissionReply::Refused(why)) => return Err(Denial::Busy(why)),
            None => return Err(Denial::Busy("the daemon has exited".to_owned())),
        }
    }
}

/// Checks whether a user may do what the hello requests, and returns also the hello; the error is
/// the reason for the refusal.
pub fn admit<'c>(
    config: &'c Config,
    key: PublicKey,
    hello: &str,
) -> Result<(AdmittedUser<'c>, DaemonHello), String> {
    let hello = DaemonHello::parse(hello)?;
    let anonymous = || config.anonymous(&hello.root, hello.side()).filter(|_| hello.user.is_none());
    let (user, limits) = config.user(key).or_else(anonymous).ok_or_else(|| match hello.has_no_key {
        true => "clients without a key have no access here (numaio keygen generates a key)".to_owned(),
        false => format!("no user here has the key {key} (numaio keygen --public)"),
    })?;
    if let Some(other) = hello.user.as_deref().filter(|other| *other != user) {
        return Err(format!("the key belongs to {user}, not to {other}"));
    }
    let side = hello.side();
    let found = config.roots.get_key_value(&hello.root).filter(|(_, root)| {
        // Users without access to a root cannot find out whether it exists.
        [Side::Source, Side::Sink].into_iter().any(|side| root.allows(user, side))
    });
    let (root, rights) = found.ok_or_else(|| format!("there is no root {:?} for {user}", hello.root))?;
    match (rights.allows(user, side), side) {
        (true, _) => Ok((AdmittedUser { user, limits, root, side }, hello)),
        (false, Side::Source) => Err(format!("{user} may not read from {root}, only write to it")),
        (false, Side::Sink) => Err(format!("{user} may not write to {root}, only read from it")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;

    #[test]
    fn reports_an_unresponsive_root() {
        let root = |name: &str| format!("[root.{name}]\npath = \"/{name}\"\nread = \"*\"\n");
        let user =
            "[user.u]\nkeys = \"ed25519:d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a\"\n";
        let text = format!("key = \"/k\"\n{}{}{}{user}", root("hangs"), root("one"), root("two"));
        let config = Config::parse(&text).expect("a valid file");
        let path = |root: &Root| Some(root.path.value.clone());
        let (sender, reports) = sync_channel(1);
        let unresponsive = |name: &str| sender.send(name.to_owned()).expect("a receiver");
        let hang = |root: &Root| {
            if root.path.value.ends_with("hangs") {
                assert_eq!(reports.recv().as_deref(), Ok("hangs"));
            }
            path(root)
        };
        let opened = open_roots(&config, Duration::from_millis(20), hang, unresponsive);
        assert_eq!(opened.len(), 3, "the root responded in the end");
        let never = Duration::from_secs(300);
        assert_eq!(open_roots(&config, never, path, |name| panic!("{name} answered")), opened);
    }
}
