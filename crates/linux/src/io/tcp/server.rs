//! Server side: listens and serves one session after another.

use super::admission::{Admission, AuthenticatedClient};
use super::server_event::ServerEvent;
use super::session::ServerSession;
use super::token;
use numaio_machine::sysfs::Sysfs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// Interval between checks for the stop condition.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A listening server.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    token: String,
}

impl Server {
    /// Listens at an address; port 0 selects a free port.
    ///
    /// # Errors
    /// The kernel's error, such as a port in use.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        Ok(Self { listener: TcpListener::bind(address)?, token: token::generate()? })
    }

    /// Returns the listening address.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Returns the token for the next session.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Waits for a client with the token, serves its session and generates a new token. `root` has
    /// the files of this machine. Returns false if `stop` returned true before a client connected.
    ///
    /// # Errors
    /// The kernel's error, if a thread cannot be started or no random bytes are available.
    pub fn serve_session(
        &mut self,
        root: &(dyn Sysfs + Sync),
        stop: &(dyn Fn() -> bool + Sync),
        report: &mut dyn FnMut(ServerEvent),
    ) -> io::Result<bool> {
        let (client_sender, client_receiver) = channel();
        let (events, event_receiver) = channel();
        let admission = &Admission::new(&self.token, client_sender, events);
        let listener = &self.listener;
        let result = thread::scope(|scope| {
            let closing = CloseOnDrop(admission);
            thread::Builder::new()
                .name("admission".to_owned())
                .spawn_scoped(scope, || admission.accept_connections(listener))?;
            let Some((socket, from)) = wait(&client_receiver, &event_receiver, stop, report) else {
                return Ok(false);
            };
            report(ServerEvent::SessionStarted { from });
            let ended =
                ServerSession::new(socket, root, admission, stop).and_then(|mut session| session.serve());
            drop(closing);
            event_receiver.try_iter().for_each(&mut *report);
            report(ServerEvent::SessionEnded { why: ended.err().map(|error| error.0) });
            Ok(true)
        });
        self.token = token::generate()?;
        result
    }
}

/// Closes the admission when dropped, so that its thread exits.
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
