//! The far end: listens, and serves one session after the other.

use super::desk::{Desk, Guest};
use super::secret;
use super::session::Session;
use crate::Kernel;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// How often one who waits for a guest looks whether to end.
const LOOK_EACH: Duration = Duration::from_millis(50);

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    token: String,
}

/// What a server tells of its work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// Someone was not let in, or a stream was not expected.
    Refused {
        /// Who.
        from: SocketAddr,
        /// Why.
        why: String,
    },
    /// A session began.
    Began {
        /// With whom.
        from: SocketAddr,
    },
    /// It is over.
    Ended {
        /// Why, if not because the client was done.
        why: Option<String>,
    },
}

impl Server {
    /// Listens at an address; port 0 is one that is free.
    ///
    /// # Errors
    /// The kernel's, as that the port is taken.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        Ok(Self { listener: TcpListener::bind(address)?, token: secret::fresh()? })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The kernel's.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// What a client needs for the next session.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Waits for a client with the token, and serves it until it goes; then the token is another one. False if
    /// `stop` came first.
    ///
    /// # Errors
    /// The kernel's, if there are no threads or random numbers.
    pub fn one_session(
        &mut self,
        kernel: &Kernel,
        stop: &(dyn Fn() -> bool + Sync),
        tell: &mut dyn FnMut(Told),
    ) -> io::Result<bool> {
        let (guest, guests) = channel();
        let (told, happened) = channel();
        let desk = &Desk::new(&self.token, guest, told);
        let listener = &self.listener;
        let served = thread::scope(|scope| {
            let closing = Closing(desk);
            thread::Builder::new().name("desk".to_owned()).spawn_scoped(scope, || desk.receive(listener))?;
            let Some((socket, from)) = wait(&guests, &happened, stop, tell) else { return Ok(false) };
            tell(Told::Began { from });
            let ended = Session::new(socket, kernel, desk, stop).and_then(|mut session| session.serve());
            drop(closing);
            happened.try_iter().for_each(&mut *tell);
            tell(Told::Ended { why: ended.err().map(|lost| lost.0) });
            Ok(true)
        });
        self.token = secret::fresh()?;
        served
    }
}

/// Closes the desk when dropped, so that its thread ends.
struct Closing<'a>(&'a Desk);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

fn wait(
    guests: &Receiver<Guest>,
    happened: &Receiver<Told>,
    stop: &dyn Fn() -> bool,
    tell: &mut dyn FnMut(Told),
) -> Option<Guest> {
    while !stop() {
        let guest = guests.recv_timeout(LOOK_EACH);
        happened.try_iter().for_each(&mut *tell);
        match guest {
            Ok(guest) => return Some(guest),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
    None
}
