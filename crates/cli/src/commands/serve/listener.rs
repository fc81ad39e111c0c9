//! The process that listens: it counts connections, starts a session for each, and hands data connections over to theirs. Of what they
//! send it reads tickets alone.

use super::config::Config;
use super::desk::{hear, say, Request, Start, Wanted, LONGEST_REQUEST};
use super::house::{network, House, Seat};
use super::lobby::{Lobby, Place};
use super::notify::notify;
use super::{log, Told};
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
const LOOK_EACH: Duration = Duration::from_millis(500);
/// How often it looks whether a session still wants data connections, if none came.
const LOOK_FOR_END_EACH: Duration = Duration::from_millis(20);
/// After an error of accept(2), as when there are too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves until it is asked to end.
pub fn run(common: &Common, path: &Path, told: Told) -> Result<ExitCode, Failure> {
    if is_super_user() && !told.config.as_root {
        return Err(Failure::new("a daemon does not run as root").hint(
            "run it as a user of its own, as the unit in docs/copy/daemon.md does; or write as_root = true into its file, and \
             whoever may write to a root may make what only root can there",
        ));
    }
    interrupt::install_for_service().map_err(Failure::new)?;
    let listeners = listen(&told.config)?;
    let (house, lobby) = (Arc::new(House::default()), Arc::new(Lobby::default()));
    let mut told = Arc::new(told);
    for listener in &listeners {
        log(common, &format!("listening at {}", listener.local_addr().map_err(Failure::new)?));
    }
    notify("READY=1");
    while !interrupt::interrupted() {
        if interrupt::hung_up() {
            told = again(common, path, told);
        }
        for listener in ready(&listeners, LOOK_EACH).map_err(Failure::new)? {
            match listener.accept() {
                Ok((socket, address)) => {
                    Guest::new(common, &house, &lobby, &told, address).receive(socket);
                }
                // It went away again.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => {
                    log(common, &format!("nobody can be let in: {error}"));
                    thread::sleep(PAUSE);
                }
            }
        }
    }
    drop(listeners);
    notify("STOPPING=1");
    house.empty(common, told.config.stop);
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
fn again(common: &Common, path: &Path, old: Arc<Told>) -> Arc<Told> {
    match Told::read_again(path) {
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
            look_at_roots(common, path, new.clone());
            new
        }
        Err(failure) => {
            log(common, &format!("{}; what was read before still counts", failure.message));
            old
        }
    }
}

/// In a thread of its own: a root that does not answer, as one of a server that is gone, keeps nobody from being let in elsewhere.
fn look_at_roots(common: &Common, path: &Path, told: Arc<Told>) {
    let (ours, path) = (common.clone(), path.to_owned());
    let look = move || told.look_at_roots(&ours, &path);
    if let Err(error) = Builder::new().name("roots".to_owned()).spawn(look) {
        log(common, &format!("roots are not looked at, without a thread: {error}"));
    }
}

/// Somebody who has connected, and what there is for them.
struct Guest {
    common: Common,
    house: Arc<House>,
    lobby: Arc<Lobby>,
    told: Arc<Told>,
    caller: SocketAddr,
}

impl Guest {
    fn new(
        common: &Common,
        house: &Arc<House>,
        lobby: &Arc<Lobby>,
        told: &Arc<Told>,
        caller: SocketAddr,
    ) -> Arc<Self> {
        // A socket of IPv6 tells an address of IPv4 as one of IPv6.
        let caller = SocketAddr::new(caller.ip().to_canonical(), caller.port());
        let (common, house, lobby, told) = (common.clone(), house.clone(), lobby.clone(), told.clone());
        Arc::new(Self { common, house, lobby, told, caller })
    }

    fn log(&self, why: &dyn std::fmt::Display) {
        log(&self.common, &format!("{}: {why}", self.caller));
    }

    fn receive(self: Arc<Self>, socket: TcpStream) {
        let place = match Place::take(&self.lobby, network(self.caller.ip()), &self.told.config.limits) {
            Ok(place) => place,
            // Closing it costs least.
            Err(why) => return self.log(&why),
        };
        let guest = self.clone();
        let admit = move || {
            if let Err(error) = guest.admit(place, socket) {
                guest.log(&error);
            }
        };
        if let Err(error) = Builder::new().name("session".to_owned()).spawn(admit) {
            self.log(&format!("no thread: {error}"));
        }
    }

    /// Finds out what it is: a data connection goes to its session, anything else gets one of its own.
    fn admit(&self, place: Place, socket: TcpStream) -> io::Result<()> {
        let Told { config, .. } = &*self.told;
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
            return match place.wait(ticket, socket, left(limit, began)) {
                true => Ok(()),
                false => Err(io::Error::other("a data connection of no session")),
            };
        }
        // Data connections of those who are in need it more than one who waits.
        drop(place);
        let knocked = Instant::now();
        let seat = Seat::take(&self.house, self.caller.ip(), config).map_err(io::Error::other)?;
        // It was not late while it waited for others.
        self.serve(&seat, socket, began + knocked.elapsed())
    }

    /// Starts the session, and stays until it has ended. `began` is when the time began in which its caller is to say who it is.
    fn serve(&self, seat: &Seat, socket: TcpStream, began: Instant) -> io::Result<()> {
        let (desk, mut child) = start(&self.common, socket)?;
        // Without pidfds (before Linux 5.3) it goes on when the daemon ends.
        if let Ok(running) = ProcessHandle::child(&child) {
            seat.runs(running);
        }
        let introduced = introduce(seat, &desk, &self.told, (self.caller, began));
        match introduced {
            // If it is gone its exit tells more.
            Ok(()) => drop(self.bring(&desk)),
            Err(_) => child.kill()?,
        }
        let status = child.wait()?;
        match status.signal() {
            Some(signal) if introduced.is_ok() => {
                self.log(&format!("the session was ended by signal {signal}"))
            }
            _ => {}
        }
        introduced
    }

    /// Brings a session the data connections that it asks for, until it wants no more.
    fn bring(&self, desk: &UnixStream) -> io::Result<()> {
        let Some(Wanted { ticket }) = hear(desk, LONGEST_REQUEST, None)? else { return Ok(()) };
        let Some(claim) = self.lobby.claim(Ticket(ticket)) else { return Ok(()) };
        // It says nothing more, so what can be read is its end.
        while ready(&[desk], Duration::ZERO)?.is_empty() {
            if let Ok(socket) = claim.came.recv_timeout(LOOK_FOR_END_EACH) {
                hand_over(desk, &socket)?;
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
fn introduce(
    seat: &Seat,
    desk: &UnixStream,
    told: &Told,
    (caller, began): (SocketAddr, Instant),
) -> io::Result<()> {
    let limit = told.config.limits.opening;
    desk.set_write_timeout(Some(limit))?;
    say(desk, &Start { config: told.text.clone(), caller: caller.to_string() })?;
    let request: Option<Request> =
        hear(desk, LONGEST_REQUEST, Some(left(limit, began))).map_err(|error| match error.kind() {
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => late(limit),
            _ => error,
        })?;
    // Without a request the session has told why.
    request.map_or(Ok(()), |request| say(desk, &seat.is_user(&request.user, &told.config)))
}

/// A process for a connection, which is its standard output; its standard input leads here.
fn start(common: &Common, socket: TcpStream) -> io::Result<(UnixStream, Child)> {
    let (desk, theirs) = UnixStream::pair()?;
    let mut command = this_program();
    // A group of its own: Ctrl-C is ours.
    command.args(["serve", "--session"]).env_clear().process_group(0);
    if common.quiet {
        command.arg("--quiet");
    }
    command.stdin(OwnedFd::from(theirs)).stdout(OwnedFd::from(socket));
    Ok((desk, command.spawn()?))
}
