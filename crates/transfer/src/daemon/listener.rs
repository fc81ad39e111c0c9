//! The listening process: counts connections, starts a session for each, and passes data
//! connections to their sessions. It reads only the tickets that clients send.

use super::accounting::{Accounting, SessionStartTime};
use super::capacity_queue::{CapacityQueue, QueuedTransferPlace, REPORT_INTERVAL};
use super::config::Config;
use super::device_capacity::DeviceCapacity;
use super::error::DaemonError;
use super::loaded_config::LoadedConfig;
use super::local_users;
use super::log::{LimitedLog, Log};
use super::notify::notify;
use super::open_files;
use super::pending_connections::{PendingConnections, PendingSlot};
use super::session_ipc::{
    AdmissionReply, AdmissionRequest, SessionEnd, SessionReport, SessionStart, MAX_REQUEST_BYTES,
};
use super::session_table::{client_network, SessionSlot, SessionTable, SLOT_WAIT};
use crate::json_lines::{send, LineReader};
use crate::keys;
use numaio_linux::interrupt;
use numaio_linux::process::{is_super_user, this_program, ProcessHandle};
use numaio_linux::wait::ready;
use numaio_mover_linux::port::net::{self, hand_over, FullNotice, NetError, Ticket};
use numaio_schema::LentCapacity;
use std::io;
use std::mem;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Child;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Builder};
use std::time::{Duration, Instant};

/// How often the process checks for signals that did not wake it.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// How often it checks whether a session still accepts data connections while none arrive.
const SESSION_END_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Pause after an error of accept(2), for example too many open files.
const ACCEPT_ERROR_PAUSE: Duration = Duration::from_millis(100);

/// Serves until a signal stops the daemon, and lends its `devices` to the transfers.
///
/// # Errors
/// The daemon cannot begin to serve.
pub fn run(
    log: &Log,
    path: &Path,
    loaded: LoadedConfig,
    devices: Vec<DeviceCapacity>,
) -> Result<(), DaemonError> {
    if is_super_user() && !loaded.config.as_root {
        return Err(DaemonError::IsRoot);
    }
    open_files::provide(&loaded.config)?;
    interrupt::install_for_service()?;
    let listeners = listen(&loaded.config)?;
    log.configure(loaded.config.log);
    let host = keys::read(&loaded.config.key.value).and_then(|key| keys::public(&key));
    let host = host.map_or_else(|_| String::new(), |key| key.to_string());
    let queue = CapacityQueue::new(devices, &loaded.config.limits, host);
    let (sessions, pending) = (Arc::new(SessionTable::new(queue)), Arc::new(PendingConnections::default()));
    let mut loaded = Arc::new(loaded);
    // Clients of one socket must not use up the lines about those of the other one.
    let (refusals, local_refusals) = (LimitedLog::new(log), LimitedLog::new(log));
    let (accounting, shared_config) = (Arc::new(Accounting::new(log)), Arc::new(Mutex::new(loaded.clone())));
    accounting.run_in_background(&sessions, &shared_config);
    sessions.queue.run_in_background()?;
    let local = loaded.config.local.clone();
    if let Some(local) = &local {
        let path = local.socket.value.clone();
        local_users::serve((log, &local_refusals), local, &sessions.queue)
            .map_err(|error| DaemonError::CannotServeLocally { path, error })?;
    }
    for listener in &listeners {
        log.info(&format!("listening at {}", listener.local_addr()?));
    }
    notify("READY=1");
    while !interrupt::interrupted() {
        if interrupt::hung_up() {
            loaded = reload(log, path, loaded);
            *shared_config.lock().unwrap_or_else(PoisonError::into_inner) = loaded.clone();
        }
        refusals.flush();
        local_refusals.flush();
        for listener in ready(&listeners, POLL_INTERVAL)? {
            match listener.accept() {
                Ok((socket, address)) => {
                    let daemon = DaemonParts {
                        log: log.clone(),
                        refusals: refusals.clone(),
                        sessions: sessions.clone(),
                        pending: pending.clone(),
                        accounting: accounting.clone(),
                        loaded: loaded.clone(),
                    };
                    AcceptedConnection::new(daemon, address).receive(socket);
                }
                // The client has disconnected.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => {
                    refusals.error(&format!("cannot accept connections: {error}"));
                    thread::sleep(ACCEPT_ERROR_PAUSE);
                }
            }
        }
    }
    drop(listeners);
    if let Some(local) = local {
        local_users::close(&local.socket.value);
    }
    notify("STOPPING=1");
    sessions.shut_down(log, loaded.config.stop);
    Ok(())
}

/// Listens on all configured addresses.
fn listen(config: &Config) -> Result<Vec<TcpListener>, DaemonError> {
    let bind = |address: SocketAddr| {
        let bound =
            net::listen(address).and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
        bound.map_err(|error| DaemonError::CannotListen { address, error })
    };
    config.listen.iter().map(|address| bind(address.value)).collect()
}

/// Reads the file again; the old configuration stays if the new one has errors.
fn reload(log: &Log, path: &Path, old: Arc<LoadedConfig>) -> Arc<LoadedConfig> {
    let new = LoadedConfig::reload(path).and_then(|new| open_files::provide(&new.config).map(|()| new));
    match new {
        Ok(new) => {
            let same = |one: &Config, other: &Config| {
                one.listen.iter().map(|at| at.value).eq(other.listen.iter().map(|at| at.value))
            };
            if !same(&old.config, &new.config) {
                log.warning("restart the daemon to apply the new listen");
            }
            let local = |config: &Config| {
                config.local.as_ref().map(|local| (local.socket.value.clone(), local.limits()))
            };
            if local(&old.config) != local(&new.config) {
                log.warning("restart the daemon to apply the new [local]");
            }
            if is_super_user() && !new.config.as_root {
                log.warning("restart the daemon to apply the new as_root: it still runs as root");
            }
            log.configure(new.config.log);
            log.info(&format!("reloaded {}", path.display()));
            let new = Arc::new(new);
            check_roots(log, path, new.clone());
            new
        }
        Err(error) => {
            log.errors_of(&error);
            log.error(&format!("{error}; keeping the previous configuration"));
            old
        }
    }
}

/// Checks roots in a separate thread, so that an unresponsive file server does not delay other
/// clients.
fn check_roots(log: &Log, path: &Path, loaded: Arc<LoadedConfig>) {
    let (ours, path) = (log.clone(), path.to_owned());
    let look = move || loaded.check_roots(&ours, &path);
    if let Err(error) = Builder::new().name("roots".to_owned()).spawn(look) {
        log.error(&format!("cannot check the roots: no thread: {error}"));
    }
}

/// The state of a daemon that its connections share.
struct DaemonParts {
    log: Log,
    refusals: LimitedLog,
    sessions: Arc<SessionTable>,
    pending: Arc<PendingConnections>,
    accounting: Arc<Accounting>,
    loaded: Arc<LoadedConfig>,
}

/// An accepted connection, with the state of the daemon that serves it.
struct AcceptedConnection {
    daemon: DaemonParts,
    caller: SocketAddr,
}

impl AcceptedConnection {
    fn new(daemon: DaemonParts, caller: SocketAddr) -> Arc<Self> {
        // An IPv6 socket reports IPv4 addresses as IPv6 ones.
        let caller = SocketAddr::new(caller.ip().to_canonical(), caller.port());
        Arc::new(Self { daemon, caller })
    }

    /// Logs why the peer was not served, or waits.
    fn log(&self, why: &dyn std::fmt::Display) {
        self.daemon.refusals.warning(&format!("{}: {why}", self.caller));
    }

    fn receive(self: Arc<Self>, socket: TcpStream) {
        let pending_slot = match PendingSlot::take(
            &self.daemon.pending,
            client_network(self.caller.ip()),
            &self.daemon.loaded.config.limits,
        ) {
            Ok(pending_slot) => pending_slot,
            // Closing the socket without a reply is cheapest: most of these are data connections.
            Err(why) => return self.log(&why),
        };
        let connection = self.clone();
        let admit = move || {
            if let Err(error) = connection.admit(pending_slot, socket) {
                connection.log(&error);
            }
        };
        if let Err(error) = Builder::new().name("session".to_owned()).spawn(admit) {
            self.log(&format!("cannot start a thread: {error}"));
        }
    }

    /// Passes a data connection to its session; starts a session for any other connection.
    fn admit(&self, pending_slot: PendingSlot, socket: TcpStream) -> io::Result<()> {
        let LoadedConfig { config, .. } = &*self.daemon.loaded;
        let limit = config.limits.login_grace;
        let began = Instant::now();
        socket.set_nonblocking(false)?;
        let ticket = match Ticket::of(&socket, limit) {
            // The client has disconnected.
            Err(NetError::Refused) => return Ok(()),
            Err(NetError::TimedOut) => return Err(late(limit)),
            ticket => ticket.map_err(io::Error::other)?,
        };
        if let Some(ticket) = ticket {
            return match pending_slot.wait(ticket, socket, left(limit, began)) {
                true => Ok(()),
                false => Err(io::Error::other("data connection with an unknown ticket")),
            };
        }
        // Data connections of running sessions need the pending slot more than a waiting client
        // does.
        drop(pending_slot);
        let wait_began = Instant::now();
        let mut is_logged = false;
        let inform = |notice: FullNotice| {
            if notice.position.is_some() && !mem::replace(&mut is_logged, true) {
                self.log(&format_args!("waits for a slot: {}", notice.reason));
            }
            notice.send(&socket)
        };
        let slot = SessionSlot::take(&self.daemon.sessions, self.caller.ip(), config, inform)
            .map_err(io::Error::other)?;
        // Waiting for a slot does not count towards the client's time limit.
        self.serve(&slot, socket, began + wait_began.elapsed())
    }

    /// Runs the session until its process exits. The client's time to authenticate starts at
    /// `began`.
    fn serve(&self, slot: &SessionSlot, socket: TcpStream, began: Instant) -> io::Result<()> {
        let DaemonParts { log, loaded, accounting, .. } = &self.daemon;
        let start_time = SessionStartTime::now();
        let address = socket.local_addr().ok().map(|address| address.ip().to_canonical());
        let (ipc, changes, mut child) = start(log, socket)?;
        log.debug(&format!("{}: started process {}", self.caller, child.id()));
        // Without pidfds (before Linux 5.3) the session keeps running when the daemon exits.
        if let Ok(running) = ProcessHandle::child(&child) {
            slot.set_process(running);
        }
        let mut reports = LineReader::new(&ipc);
        let first = admit_session(
            (slot, &self.daemon.sessions.queue),
            (&ipc, &mut reports),
            loaded,
            (self.caller, address, began),
        );
        let (admitted, end) = match &first {
            Ok(FirstReport::Answered(session)) => {
                (Some(&session.request), self.run_admitted(session, (&ipc, &changes), reports))
            }
            Ok(FirstReport::Ended(end)) => (None, end.clone()),
            Err(_) => {
                child.kill()?;
                (None, None)
            }
        };
        let status = child.wait()?;
        first.as_ref().map_err(|error| io::Error::new(error.kind(), error.to_string()))?;
        accounting.session_ended(loaded, (self.caller, &start_time), admitted, (end, status));
        Ok(())
    }

    /// Serves an admitted session until its end, and returns its last report.
    fn run_admitted(
        &self,
        session: &AnsweredSession,
        (ipc, changes): (&UnixStream, &UnixStream),
        reports: LineReader<&UnixStream>,
    ) -> Option<SessionEnd> {
        thread::scope(|scope| {
            if let Some(place) = &session.place {
                let exchange = || drop(place.exchange(changes, None));
                if let Err(error) = Builder::new().name("rates".to_owned()).spawn_scoped(scope, exchange) {
                    self.daemon.log.error(&format!("cannot start a thread: {error}"));
                }
            }
            let end = self.receive_end(ipc, reports).ok().flatten();
            // Ends the other thread; fails if the session has exited.
            let _ = changes.shutdown(Shutdown::Both);
            end
        })
    }

    /// Receives the reports of an admitted session until its end, and passes it the data
    /// connections that it requests.
    fn receive_end(
        &self,
        ipc: &UnixStream,
        mut reports: LineReader<&UnixStream>,
    ) -> io::Result<Option<SessionEnd>> {
        loop {
            match reports.receive(MAX_REQUEST_BYTES, None)? {
                None => return Ok(None),
                Some(SessionReport::End(end)) => return Ok(Some(end)),
                // A session that has closed its socket still reports its end.
                Some(SessionReport::DataConnections(ticket)) => {
                    drop(self.hand_over_data(ipc, &reports, Ticket(ticket)));
                }
                Some(_) => return Err(io::Error::other("unexpected message of a session")),
            }
        }
    }

    /// Passes a session its data connections, until it closes their socket or reports again.
    fn hand_over_data(
        &self,
        ipc: &UnixStream,
        reports: &LineReader<&UnixStream>,
        ticket: Ticket,
    ) -> io::Result<()> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_write_timeout(Some(self.daemon.loaded.config.limits.login_grace))?;
        hand_over(ipc, &theirs)?;
        drop(theirs);
        let Some(claim) = self.daemon.pending.claim(ticket) else { return Ok(()) };
        while !reports.has_more() && ready(&[ipc, &ours], Duration::ZERO)?.is_empty() {
            if let Ok(socket) = claim.connections.recv_timeout(SESSION_END_POLL_INTERVAL) {
                hand_over(&ours, &socket)?;
                self.daemon.log.debug(&format!("{}: assigned a data connection", self.caller));
            }
        }
        Ok(())
    }
}

fn late(limit: Duration) -> io::Error {
    io::Error::other(format!("the client did not authenticate within {} s", limit.as_secs()))
}

/// Returns the rest of a time limit, at least 1 ms because a socket timeout cannot be zero.
fn left(limit: Duration, began: Instant) -> Duration {
    limit.saturating_sub(began.elapsed()).max(Duration::from_millis(1))
}

/// The first report of a session.
enum FirstReport {
    /// It requested admission of a user, and got a reply.
    Answered(AnsweredSession),
    /// It has ended.
    Ended(Option<SessionEnd>),
}

/// A session that was admitted or refused.
struct AnsweredSession {
    request: AdmissionRequest,
    /// Its place among the admitted ones, until the session has ended; `None` if it was refused.
    place: Option<QueuedTransferPlace>,
}

/// Exchanges messages with a session until its user is admitted or refused.
fn admit_session(
    (slot, queue): (&SessionSlot, &Arc<CapacityQueue>),
    (ipc, reports): (&UnixStream, &mut LineReader<&UnixStream>),
    loaded: &LoadedConfig,
    (caller, address, began): (SocketAddr, Option<IpAddr>, Instant),
) -> io::Result<FirstReport> {
    let limit = loaded.config.limits.login_grace;
    ipc.set_write_timeout(Some(limit))?;
    send(ipc, &SessionStart { config: loaded.text.clone(), caller: caller.to_string() })?;
    let report =
        reports.receive(MAX_REQUEST_BYTES, Some(left(limit, began))).map_err(|error| match error.kind() {
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => late(limit),
            _ => error,
        })?;
    match report {
        Some(SessionReport::Admission(request)) => {
            let queued = queue.enter_session(&request, address, &loaded.config);
            let admitted = queued.and_then(|queued| wait_for_turn(&queued, ipc).map(|lent| (queued, lent)));
            let (place, lent) = match admitted {
                Ok(admitted) => admitted,
                Err(why) => {
                    // Fails if the session has ended, which it reports itself.
                    let _ = send(ipc, &AdmissionReply::Refused(why));
                    return Ok(FirstReport::Answered(AnsweredSession { request, place: None }));
                }
            };
            slot.set_user(&request.user);
            let exchange = queue.exchange_with(request.capacity.as_ref());
            let _ = send(ipc, &AdmissionReply::Admitted(lent, exchange));
            Ok(FirstReport::Answered(AnsweredSession { request, place: Some(place) }))
        }
        Some(SessionReport::Unauthenticated(why)) => Err(io::Error::other(why)),
        Some(SessionReport::End(end)) => Ok(FirstReport::Ended(Some(end))),
        Some(SessionReport::DataConnections(_)) => Err(io::Error::other("unexpected message of a session")),
        // A session that sends no report has logged the reason.
        None => Ok(FirstReport::Ended(None)),
    }
}

/// Waits until a session is admitted, and sends it its positions.
///
/// # Errors
/// The reason for the refusal.
fn wait_for_turn(queued: &QueuedTransferPlace, ipc: &UnixStream) -> Result<LentCapacity, String> {
    // A client may see its last session end before the daemon does.
    let mut lent = queued.wait(SLOT_WAIT)?;
    while !lent.state.has_threads() {
        send(ipc, &AdmissionReply::Queued(lent)).map_err(|error| error.to_string())?;
        lent = queued.wait(REPORT_INTERVAL)?;
    }
    Ok(lent)
}

/// Starts a session process with the connection as its stdout and an IPC socket as its stdin.
/// Returns the IPC socket, and one for changes of what the daemon lends.
fn start(log: &Log, socket: TcpStream) -> io::Result<(UnixStream, UnixStream, Child)> {
    let ((ipc, theirs), (changes, their_changes)) = (UnixStream::pair()?, UnixStream::pair()?);
    // Before the first line, of which a reader could take it for a part.
    hand_over(&ipc, &their_changes)?;
    let mut command = this_program();
    // A separate process group: Ctrl-C interrupts only the daemon, which then stops its sessions.
    command.args(["serve", "--session"]).env_clear().process_group(0);
    if log.is_quiet() {
        command.arg("--quiet");
    }
    command.stdin(OwnedFd::from(theirs)).stdout(OwnedFd::from(socket));
    Ok((ipc, changes, command.spawn()?))
}
