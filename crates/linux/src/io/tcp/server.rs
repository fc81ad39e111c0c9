//! The far end: listens, and serves one session after the other.

use super::admission::{Admission, AuthenticatedClient};
use super::session::ServerSession;
use super::token;
use crate::Kernel;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// How often one who waits for a guest looks whether to end.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    token: String,
}

/// What a server tells of its work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerEvent {
    /// Someone was not let in, or a stream was not expected.
    Rejected {
        /// Who.
        from: SocketAddr,
        /// Why.
        why: String,
    },
    /// A session began.
    SessionStarted {
        /// With whom.
        from: SocketAddr,
    },
    /// It is over.
    SessionEnded {
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
        Ok(Self { listener: TcpListener::bind(address)?, token: token::generate()? })
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
    pub fn serve_session(
        &mut self,
        kernel: &Kernel,
        stop: &(dyn Fn() -> bool + Sync),
        report: &mut dyn FnMut(ServerEvent),
    ) -> io::Result<bool> {
        let (client_sender, client_receiver) = channel();
        let (events, event_receiver) = channel();
        let admission = &Admission::new(&self.token, client_sender, events);
        let listener = &self.listener;
        let served = thread::scope(|scope| {
            let closing = CloseOnDrop(admission);
            thread::Builder::new()
                .name("admission".to_owned())
                .spawn_scoped(scope, || admission.accept_connections(listener))?;
            let Some((socket, from)) = wait(&client_receiver, &event_receiver, stop, report) else {
                return Ok(false);
            };
            report(ServerEvent::SessionStarted { from });
            let ended =
                ServerSession::new(socket, kernel, admission, stop).and_then(|mut session| session.serve());
            drop(closing);
            event_receiver.try_iter().for_each(&mut *report);
            report(ServerEvent::SessionEnded { why: ended.err().map(|lost| lost.0) });
            Ok(true)
        });
        self.token = token::generate()?;
        served
    }
}

/// Closes the desk when dropped, so that its thread ends.
struct CloseOnDrop<'a>(&'a Admission);

impl Drop for CloseOnDrop<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

fn wait(
    client_receiver: &Receiver<AuthenticatedClient>,
    event_receiver: &Receiver<ServerEvent>,
    stop: &dyn Fn() -> bool,
    report: &mut dyn FnMut(ServerEvent),
) -> Option<AuthenticatedClient> {
    while !stop() {
        let client_sender = client_receiver.recv_timeout(POLL_INTERVAL);
        event_receiver.try_iter().for_each(&mut *report);
        match client_sender {
            Ok(client_sender) => return Some(client_sender),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
    None
}
