//! The listening process: counts connections, starts a session for each, and passes data
//! connections to their sessions. It reads only the tickets that clients send.

use super::config::Config;
use super::notify::notify;
use super::pending_connections::{PendingConnections, PendingSlot};
use super::session_ipc::{
    receive, send, AdmissionRequest, DataConnectionsRequest, SessionStart, MAX_REQUEST_BYTES,
};
use super::session_table::{client_network, SessionSlot, SessionTable};
use super::{log, LoadedConfig};
use crate::failure::Failure;
use crate::options::Common;
use numaio_linux::interrupt;
use numaio_linux::process::{is_super_user, this_program, ProcessHandle};
use numaio_linux::wait::ready;
use numaio_mover_linux::port::net::{self, hand_over, NetError, Ticket};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ExitCode};
use std::sync::Arc;
use std::thread::{self, Builder};
use std::time::{Duration, Instant};

/// How often the process checks for signals that did not wake it.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// How often it checks whether a session still accepts data connections while none arrive.
const SESSION_END_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Pause after an error of accept(2), for example too many open files.
const ACCEPT_ERROR_PAUSE: Duration = Duration::from_millis(100);

/// Serves until a signal stops the daemon.
pub fn run(common: &Common, path: &Path, loaded: LoadedConfig) -> Result<ExitCode, Failure> {
    if is_super_user() && !loaded.config.as_root {
        return Err(Failure::new("a daemon does not run as root").hint(
            "run it as a separate user, as the unit in docs/copy/daemon.md does; as_root = true in its file allows root, \
             and then users with write access can create files that only root can create",
        ));
    }
    interrupt::install_for_service().map_err(Failure::new)?;
    let listeners = listen(&loaded.config)?;
    let (sessions, pending) = (Arc::new(SessionTable::default()), Arc::new(PendingConnections::default()));
    let mut loaded = Arc::new(loaded);
    for listener in &listeners {
        log(common, &format!("listening at {}", listener.local_addr().map_err(Failure::new)?));
    }
    notify("READY=1");
    while !interrupt::interrupted() {
        if interrupt::hung_up() {
            loaded = reload(common, path, loaded);
        }
        for listener in ready(&listeners, POLL_INTERVAL).map_err(Failure::new)? {
            match listener.accept() {
                Ok((socket, address)) => {
                    AcceptedConnection::new(common, &sessions, &pending, &loaded, address).receive(socket);
                }
                // The client has disconnected.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => {
                    log(common, &format!("cannot accept connections: {error}"));
                    thread::sleep(ACCEPT_ERROR_PAUSE);
                }
            }
        }
    }
    drop(listeners);
    notify("STOPPING=1");
    sessions.shut_down(common, loaded.config.stop);
    Ok(ExitCode::SUCCESS)
}

/// Listens on all configured addresses.
fn listen(config: &Config) -> Result<Vec<TcpListener>, Failure> {
    let bind = |address: SocketAddr| {
        let bound =
            net::listen(address).and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
        bound.map_err(|error| {
            let failure = Failure::new(format!("cannot listen on {address}: {error}"));
            match error.kind() {
                io::ErrorKind::AddrInUse => {
                    failure.hint("another daemon may use the address; listen configures the addresses")
                }
                _ => failure,
            }
        })
    };
    config.listen.iter().map(|address| bind(address.value)).collect()
}

/// Reads the file again; the old configuration stays if the new one has errors.
fn reload(common: &Common, path: &Path, old: Arc<LoadedConfig>) -> Arc<LoadedConfig> {
    match LoadedConfig::reload(path) {
        Ok(new) => {
            let same = |one: &Config, other: &Config| {
                one.listen.iter().map(|at| at.value).eq(other.listen.iter().map(|at| at.value))
            };
            if !same(&old.config, &new.config) {
                log(common, "restart the daemon to apply the new listen");
            }
            if is_super_user() && !new.config.as_root {
                log(common, "restart the daemon to apply the new as_root: it still runs as root");
            }
            log(common, &format!("reloaded {}", path.display()));
            let new = Arc::new(new);
            check_roots(common, path, new.clone());
            new
        }
        Err(failure) => {
            log(common, &format!("{}; keeping the previous configuration", failure.message));
            old
        }
    }
}

/// Checks roots in a separate thread, so that an unresponsive file server does not delay other
/// clients.
fn check_roots(common: &Common, path: &Path, loaded: Arc<LoadedConfig>) {
    let (ours, path) = (common.clone(), path.to_owned());
    let look = move || loaded.check_roots(&ours, &path);
    if let Err(error) = Builder::new().name("roots".to_owned()).spawn(look) {
        log(common, &format!("cannot check the roots: no thread: {error}"));
    }
}

/// An accepted connection, with the state of the daemon that serves it.
struct AcceptedConnection {
    common: Common,
    sessions: Arc<SessionTable>,
    pending: Arc<PendingConnections>,
    loaded: Arc<LoadedConfig>,
    caller: SocketAddr,
}

impl AcceptedConnection {
    fn new(
        common: &Common,
        sessions: &Arc<SessionTable>,
        pending: &Arc<PendingConnections>,
        loaded: &Arc<LoadedConfig>,
        caller: SocketAddr,
    ) -> Arc<Self> {
        // An IPv6 socket reports IPv4 addresses as IPv6 ones.
        let caller = SocketAddr::new(caller.ip().to_canonical(), caller.port());
        let (common, sessions, pending, loaded) =
            (common.clone(), sessions.clone(), pending.clone(), loaded.clone());
        Arc::new(Self { common, sessions, pending, loaded, caller })
    }

    fn log(&self, why: &dyn std::fmt::Display) {
        log(&self.common, &format!("{}: {why}", self.caller));
    }

    fn receive(self: Arc<Self>, socket: TcpStream) {
        let pending_slot = match PendingSlot::take(
            &self.pending,
            client_network(self.caller.ip()),
            &self.loaded.config.limits,
        ) {
            Ok(pending_slot) => pending_slot,
            // Closing the socket without a reply is cheapest.
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
        let LoadedConfig { config, .. } = &*self.loaded;
        let limit = config.limits.opening;
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
        let slot = SessionSlot::take(&self.sessions, self.caller.ip(), config).map_err(io::Error::other)?;
        // Waiting for a slot does not count towards the client's time limit.
        self.serve(&slot, socket, began + wait_began.elapsed())
    }

    /// Runs the session until its process exits. The client's time to authenticate starts at
    /// `began`.
    fn serve(&self, slot: &SessionSlot, socket: TcpStream, began: Instant) -> io::Result<()> {
        let (ipc, mut child) = start(&self.common, socket)?;
        // Without pidfds (before Linux 5.3) the session keeps running when the daemon exits.
        if let Ok(running) = ProcessHandle::child(&child) {
            slot.set_process(running);
        }
        let admitted = admit_session(slot, &ipc, &self.loaded, (self.caller, began));
        match admitted {
            // If the session has exited, its exit status is more precise.
            Ok(()) => drop(self.hand_over_data(&ipc)),
            Err(_) => child.kill()?,
        }
        let status = child.wait()?;
        match status.signal() {
            Some(signal) if admitted.is_ok() => {
                self.log(&format!("the session was killed by signal {signal}"))
            }
            _ => {}
        }
        admitted
    }

    /// Passes a session the data connections that it claims, until it closes its socket.
    fn hand_over_data(&self, ipc: &UnixStream) -> io::Result<()> {
        let Some(DataConnectionsRequest { ticket }) = receive(ipc, MAX_REQUEST_BYTES, None)? else {
            return Ok(());
        };
        let Some(claim) = self.pending.claim(Ticket(ticket)) else { return Ok(()) };
        // The session sends nothing more, so that a readable socket means that it has closed it.
        while ready(&[ipc], Duration::ZERO)?.is_empty() {
            if let Ok(socket) = claim.connections.recv_timeout(SESSION_END_POLL_INTERVAL) {
                hand_over(ipc, &socket)?;
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

/// Exchanges messages with a session until its user is admitted or refused.
fn admit_session(
    slot: &SessionSlot,
    ipc: &UnixStream,
    loaded: &LoadedConfig,
    (caller, began): (SocketAddr, Instant),
) -> io::Result<()> {
    let limit = loaded.config.limits.opening;
    ipc.set_write_timeout(Some(limit))?;
    send(ipc, &SessionStart { config: loaded.text.clone(), caller: caller.to_string() })?;
    let request: Option<AdmissionRequest> = receive(ipc, MAX_REQUEST_BYTES, Some(left(limit, began)))
        .map_err(|error| match error.kind() {
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => late(limit),
            _ => error,
        })?;
    // A session that sends no request has logged the reason.
    request.map_or(Ok(()), |request| send(ipc, &slot.admit_user(&request.user, &loaded.config)))
}

/// Starts a session process with the connection as its stdout and an IPC socket as its stdin.
fn start(common: &Common, socket: TcpStream) -> io::Result<(UnixStream, Child)> {
    let (ipc, theirs) = UnixStream::pair()?;
    let mut command = this_program();
    // A separate process group: Ctrl-C interrupts only the daemon, which then stops its sessions.
    command.args(["serve", "--session"]).env_clear().process_group(0);
    if common.quiet {
        command.arg("--quiet");
    }
    command.stdin(OwnedFd::from(theirs)).stdout(OwnedFd::from(socket));
    Ok((ipc, command.spawn()?))
}
