//! The process that listens: it counts connections, starts a session for each, and never reads what they send.

use super::config::Config;
use super::desk::{hear, say, Request, Start, LONGEST_REQUEST};
use super::house::{House, Seat};
use super::notify::notify;
use super::{log, Told};
use crate::args::Common;
use crate::failure::Failure;
use numaio_linux::interrupt;
use numaio_linux::process::{is_super_user, this_program, Running};
use numaio_linux::wait::ready;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ExitCode};
use std::sync::Arc;
use std::thread::{self, Builder};
use std::time::Duration;

/// How often it looks whether it was signalled, if that did not wake it.
const LOOK_EACH: Duration = Duration::from_millis(500);
/// After an error of accept(2), as when there are too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves until it is asked to end.
pub fn run(common: &Common, path: &Path, told: Told) -> Result<ExitCode, Failure> {
    if is_super_user() && !told.config.as_root {
        return Err(Failure::new("a daemon does not run as root").hint(
            "run it as a user of its own, as the unit in docs/serve.md does; or write as_root = true into its file, and \
             whoever may write to a root may make what only root can there",
        ));
    }
    interrupt::install_for_service().map_err(Failure::new)?;
    let listeners = listen(&told.config)?;
    let house = Arc::new(House::default());
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
                Ok((socket, address)) => admit(common, &house, &told, socket, address),
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

/// At all addresses that the file names; without IPv6 the one for all addresses is that of IPv4.
fn listen(config: &Config) -> Result<Vec<TcpListener>, Failure> {
    let bind = |address: SocketAddr| {
        let bound = match TcpListener::bind(address) {
            Err(_) if address.ip().is_unspecified() => {
                TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port()))
            }
            bound => bound,
        };
        let bound = bound.and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
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
    match Told::read(path) {
        Ok(new) => {
            let same = |one: &Config, other: &Config| {
                one.listen.iter().map(|at| at.value).eq(other.listen.iter().map(|at| at.value))
            };
            if !same(&old.config, &new.config) {
                log(common, "listen counts when the daemon is started again");
            }
            log(common, &format!("{} was read again", path.display()));
            Arc::new(new)
        }
        Err(failure) => {
            log(common, &format!("{}; what was read before still counts", failure.message));
            old
        }
    }
}

fn admit(common: &Common, house: &Arc<House>, told: &Arc<Told>, socket: TcpStream, caller: SocketAddr) {
    let seat = match Seat::take(house, caller.ip(), &told.config) {
        Ok(seat) => seat,
        // Closing it costs least.
        Err(why) => return log(common, &format!("{caller}: {why}")),
    };
    let (told, shown) = (told.clone(), common.clone());
    let session = move || {
        if let Err(error) = serve(&seat, &shown, &told, (socket, caller)) {
            log(&shown, &format!("{caller}: {error}"));
        }
    };
    if let Err(error) = Builder::new().name("session".to_owned()).spawn(session) {
        log(common, &format!("{caller}: no thread: {error}"));
    }
}

/// Starts the session, and stays until it has ended.
fn serve(
    seat: &Seat,
    common: &Common,
    told: &Told,
    (socket, caller): (TcpStream, SocketAddr),
) -> io::Result<()> {
    let (desk, mut child) = start(common, socket)?;
    // Without pidfds (before Linux 5.3) it goes on when the daemon ends.
    if let Ok(running) = Running::child(&child) {
        seat.runs(running);
    }
    let introduced = introduce(seat, &desk, told, caller);
    if introduced.is_err() {
        child.kill()?;
    }
    let status = child.wait()?;
    match status.signal() {
        Some(signal) if introduced.is_ok() => {
            log(common, &format!("{caller}: the session was ended by signal {signal}"))
        }
        _ => {}
    }
    introduced
}

/// Until it is known whose session it is.
fn introduce(seat: &Seat, desk: &UnixStream, told: &Told, caller: SocketAddr) -> io::Result<()> {
    let limit = told.config.limits.opening;
    desk.set_write_timeout(Some(limit))?;
    say(desk, &Start { config: told.text.clone(), caller: caller.to_string() })?;
    let request: Option<Request> =
        hear(desk, LONGEST_REQUEST, limit).map_err(|error| match error.kind() {
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
                io::Error::other(format!("it did not say who it is within {} s", limit.as_secs()))
            }
            _ => error,
        })?;
    // Without a request the session has told why.
    request.map_or(Ok(()), |request| say(desk, &seat.is_user(&request.user, &told.config)))
}

/// A process for a connection, which is its standard output; its standard input leads here.
fn start(common: &Common, socket: TcpStream) -> io::Result<(UnixStream, Child)> {
    let (desk, theirs) = UnixStream::pair()?;
    socket.set_nonblocking(false)?;
    let mut command = this_program();
    // A group of its own: Ctrl-C is ours.
    command.args(["serve", "--session"]).env_clear().process_group(0);
    if common.quiet {
        command.arg("--quiet");
    }
    command.stdin(OwnedFd::from(theirs)).stdout(OwnedFd::from(socket));
    Ok((desk, command.spawn()?))
}
