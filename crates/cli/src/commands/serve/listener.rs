//! The process that listens: it counts connections, starts a session for each, and hands data connections over to theirs. Of what they
//! send it reads tickets alone.

use super::config::Config;
use super::notify::notify;
use super::pending_connections::{PendingConnections, PendingSlot};
use super::session_ipc::{
    receive, send, AdmissionRequest, DataConnectionsRequest, SessionStart, MAX_REQUEST_BYTES,
};
use super::session_table::{client_network, SessionSlot, SessionTable};
use super::{log, LoadedConfig};
use crate::args::Common;
use crate::failure::Failure;
use numaio_linux::interrupt;
use numaio_linux::port::net::{self, hand_over, NetError, Ticket};
use numaio_linux::process::{is_super_user, this_program, ProcessHandle};
use numaio_linux::wait::ready;
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

/// How often it looks whether it was signalled, if that did not wake it.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// How often it looks whether a session still wants data connections, if none came.
const SESSION_END_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// After an error of accept(2), as when there are too many open files.
const ACCEPT_ERROR_PAUSE: Duration = Duration::from_millis(100);

/// Serves until it is asked to end.
pub fn run(common: &Common, path: &Path, loaded: LoadedConfig) -> Result<ExitCode, Failure> {
    if is_super_user() && !loaded.config.as_root {
        return Err(Failure::new("a daemon does not run as root").hint(
            "run it as a user of its own, as the unit in docs/serve.md does; or write as_root = true into its file, and \
             whoever may write to a root may make what only root can there",
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
                // It went away again.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => {
                    log(common, &format!("nobody can be let in: {error}"));
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

/// At all addresses that the file names.
fn listen(config: &Config) -> Result<Vec<TcpListener>, Failure> {
    let bind = |address: SocketAddr| {
        let bound =
            net::listen(address).and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
        bound.map_err(|error| {
            let failure = Failure::new(format!("it cannot listen at {address}: {error}"));
            match error.kind() {
                io::ErrorKind::AddrInUse => {
                    failure.hint("another daemon may be there; listen names the addresses")
                }
                _ => failure,
            }
        })
    };
    config.listen.iter().map(|address| bind(address.value)).collect()
}

/// Reads the file again; what was told stays if it has faults.
fn reload(common: &Common, path: &Path, old: Arc<LoadedConfig>) -> Arc<LoadedConfig> {
    match LoadedConfig::reload(path) {
        Ok(new) => {
            let same = |one: &Config, other: &Config| {
                one.listen.iter().map(|at| at.value).eq(other.listen.iter().map(|at| at.value))
            };
            if !same(&old.config, &new.config) {
                log(common, "listen counts when the daemon is started again");
            }
            if is_super_user() && !new.config.as_root {
                log(common, "as_root counts when the daemon is started again: it still runs as root");
            }
            log(common, &format!("{} was read again", path.display()));
            let new = Arc::new(new);
            check_roots(common, path, new.clone());
            new
        }
        Err(failure) => {
            log(common, &format!("{}; what was read before still counts", failure.message));
            old
        }
    }
}

/// In a thread of its own: a root that does not answer, as one of a server that is gone, keeps nobody from being let in elsewhere.
fn check_roots(common: &Common, path: &Path, loaded: Arc<LoadedConfig>) {
    let (ours, path) = (common.clone(), path.to_owned());
    let look = move || loaded.check_roots(&ours, &path);
    if let Err(error) = Builder::new().name("roots".to_owned()).spawn(look) {
        log(common, &format!("roots are not looked at, without a thread: {error}"));
    }
}

/// Somebody who has connected, and what there is for them.
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
        // A socket of IPv6 tells an address of IPv4 as one of IPv6.
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
            // Closing it costs least.
            Err(why) => return self.log(&why),
        };
        let connection = self.clone();
        let admit = move || {
            if let Err(error) = connection.admit(pending_slot, socket) {
                connection.log(&error);
            }
        };
        if let Err(error) = Builder::new().name("session".to_owned()).spawn(admit) {
            self.log(&format!("no thread: {error}"));
        }
    }

    /// Finds out what it is: a data connection goes to its session, anything else gets one of its own.
    fn admit(&self, pending_slot: PendingSlot, socket: TcpStream) -> io::Result<()> {
        let LoadedConfig { config, .. } = &*self.loaded;
        let limit = config.limits.opening;
        let began = Instant::now();
        socket.set_nonblocking(false)?;
        let ticket = match Ticket::of(&socket, limit) {
            // It went away again.
            Err(NetError::Refused) => return Ok(()),
            Err(NetError::TimedOut) => return Err(late(limit)),
            ticket => ticket.map_err(io::Error::other)?,
        };
        if let Some(ticket) = ticket {
            return match pending_slot.wait(ticket, socket, left(limit, began)) {
                true => Ok(()),
                false => Err(io::Error::other("a data connection of no session")),
            };
        }
        // Data connections of those who are in need it more than one who waits.
        drop(pending_slot);
        let wait_began = Instant::now();
        let slot = SessionSlot::take(&self.sessions, self.caller.ip(), config).map_err(io::Error::other)?;
        // It was not late while it waited for others.
        self.serve(&slot, socket, began + wait_began.elapsed())
    }

    /// Starts the session, and stays until it has ended. `began` is when the time began in which its caller is to say who it is.
    fn serve(&self, slot: &SessionSlot, socket: TcpStream, began: Instant) -> io::Result<()> {
        let (ipc, mut child) = start(&self.common, socket)?;
        // Without pidfds (before Linux 5.3) it goes on when the daemon ends.
        if let Ok(running) = ProcessHandle::child(&child) {
            slot.set_process(running);
        }
        let admitted = admit_session(slot, &ipc, &self.loaded, (self.caller, began));
        match admitted {
            // If it is gone its exit tells more.
            Ok(()) => drop(self.hand_over_data(&ipc)),
            Err(_) => child.kill()?,
        }
        let status = child.wait()?;
        match status.signal() {
            Some(signal) if admitted.is_ok() => {
                self.log(&format!("the session was ended by signal {signal}"))
            }
            _ => {}
        }
        admitted
    }

    /// Brings a session the data connections that it asks for, until it wants no more.
    fn hand_over_data(&self, ipc: &UnixStream) -> io::Result<()> {
        let Some(DataConnectionsRequest { ticket }) = receive(ipc, MAX_REQUEST_BYTES, None)? else {
            return Ok(());
        };
        let Some(claim) = self.pending.claim(Ticket(ticket)) else { return Ok(()) };
        // It says nothing more, so what can be read is its end.
        while ready(&[ipc], Duration::ZERO)?.is_empty() {
            if let Ok(socket) = claim.connections.recv_timeout(SESSION_END_POLL_INTERVAL) {
                hand_over(ipc, &socket)?;
            }
        }
        Ok(())
    }
}

fn late(limit: Duration) -> io::Error {
    io::Error::other(format!("it did not say who it is within {} s", limit.as_secs()))
}

/// What is left of a limit; a socket takes no zero.
fn left(limit: Duration, began: Instant) -> Duration {
    limit.saturating_sub(began.elapsed()).max(Duration::from_millis(1))
}

/// Until it is known whose session it is.
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
    // Without a request the session has told why.
    request.map_or(Ok(()), |request| send(ipc, &slot.admit_user(&request.user, &loaded.config)))
}

/// A process for a connection, which is its standard output; its standard input leads here.
fn start(common: &Common, socket: TcpStream) -> io::Result<(UnixStream, Child)> {
    let (ipc, theirs) = UnixStream::pair()?;
    let mut command = this_program();
    // A group of its own: Ctrl-C is ours.
    command.args(["serve", "--session"]).env_clear().process_group(0);
    if common.quiet {
        command.arg("--quiet");
    }
    command.stdin(OwnedFd::from(theirs)).stdout(OwnedFd::from(socket));
    Ok((ipc, command.spawn()?))
}
