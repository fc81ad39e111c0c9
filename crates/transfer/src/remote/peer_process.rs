//! A numaio on another host: how to start or connect to it, and its messages before a transfer.

use super::greeting::{self, Welcome};
use crate::daemon::hello::{self, CapacityExchange, DaemonGreeting};
use crate::line::{json_line, sanitize};
use crate::peer::data_connections::{self, DataEndpoint, LocalOffer, Offer};
use crate::peer::messages::{PeerReader, PeerReply, PeerWriter, MAX_LINE_BYTES};
use crate::remote::first_reply::{self, receive, FirstReply};
use crate::remote::peer_wait::{PeerWait, WaitFailure};
use crate::remote::ssh_hostname::HostnameLookup;
use crate::reporter::Notice;
use crate::ssh::ManagedProcess;
use crate::TransferError;
use numaio_mover_linux::port::net::control::ChannelRelay;
use numaio_mover_linux::port::net::{DataStream, OutgoingConnections, Ticket};
use serde::de::DeserializeOwned;
use serde::Serialize;
use std::io::{self, BufReader, Read, Write};
use std::mem;
use std::net::SocketAddr;
use std::time::Duration;

/// How long the remote process may take to exit after the transfer.
pub const EXIT_TIMEOUT: Duration = Duration::from_secs(10);

/// A connected peer that waits for a request.
pub struct PeerProcess {
    pub to: PeerWriter,
    pub from: PeerReader,
    pub connection: PeerConnection,
    /// Beginning of an unexpected reply.
    unexpected: Option<String>,
    /// Why the peer was not waited for any longer.
    wait_failure: Option<WaitFailure>,
}

/// The connection to a peer, which closes when this is dropped.
pub enum PeerConnection {
    Ssh {
        started: ManagedProcess,
        /// Lookup of the address that ssh uses; `None` without data connections.
        lookup: Option<HostnameLookup>,
    },
    Daemon {
        /// Name for messages.
        host_port: String,
        /// `None` without data connections, or once they are in use.
        data: Option<PendingDataConnections>,
        carrier: ChannelRelay,
    },
}

/// Data connections to a daemon that are being opened.
pub struct PendingDataConnections {
    pub calls: OutgoingConnections,
    /// Number of connections to the sink.
    pub streams: u16,
    /// Ticket at their start.
    pub ticket: Ticket,
    /// Key of the daemon.
    pub key: Vec<u8>,
}

impl PeerProcess {
    /// A connected peer.
    pub fn new(to: PeerWriter, from: Box<dyn Read + Send>, connection: PeerConnection) -> Self {
        Self { to, from: BufReader::new(from), connection, unexpected: None, wait_failure: None }
    }

    /// Sends a line to the peer. A peer that cannot receive it reports the reason by its exit
    /// status.
    pub fn send(&mut self, wait: &mut PeerWait<'_, '_>, what: &impl Serialize) -> Result<(), TransferError> {
        let line = json_line(what).map_err(TransferError::Io)?;
        if line.len() as u64 > MAX_LINE_BYTES {
            return Err(TransferError::RequestTooLong);
        }
        let mut to = mem::replace(&mut self.to, Box::new(io::sink()));
        let sent = wait.run(move |progress| {
            let _ = progress.write_all(&mut to, line.as_bytes());
            let _ = to.flush();
            to
        });
        self.to = sent.unwrap_or_else(|failure| {
            self.wait_failure = Some(failure);
            Box::new(io::sink())
        });
        Ok(())
    }

    /// Receives a daemon's greeting. The inner error
    /// allows a retry.
    ///
    /// # Errors
    /// The daemon refuses permanently; or the process was interrupted.
    pub fn receive_greeting(
        &mut self,
        wait: &mut PeerWait<'_, '_>,
    ) -> Result<Result<Welcome, TransferError>, TransferError> {
        let PeerConnection::Daemon { host_port, .. } = &self.connection else {
            return Ok(Ok(Welcome { streams: u16::MAX, capacity: CapacityExchange::None }));
        };
        let host_port = host_port.clone();
        let limit = Some(wait.limit.unwrap_or(greeting::GREETING_TIMEOUT).min(greeting::GREETING_TIMEOUT));
        let mut wait = PeerWait { reporter: &mut *wait.reporter, host: wait.host, limit };
        let received = loop {
            match self.receive(hello::MAX_LINE_BYTES, &mut wait) {
                Some(FirstReply::Reply(DaemonGreeting::Queued { position, reason: why, starts_in })) => {
                    let (host, why) = (host_port.clone(), sanitize(&why));
                    wait.reporter.notice_once(Notice::Queued { host, position, why, starts_in });
                }
                other => break other,
            }
        };
        if received.is_none() {
            self.connection.terminate_on_drop();
        }
        match self.wait_failure {
            Some(failure @ WaitFailure::Interrupted) => Err(failure.error(&host_port)),
            _ => greeting::check_greeting(&host_port, received),
        }
    }

    /// Receives the reply to a request; `None` if the peer is not numaio or has exited, after an
    /// interrupt, or after the time limit.
    pub fn receive_reply(&mut self, wait: &mut PeerWait<'_, '_>) -> Option<PeerReply> {
        match self.receive(first_reply::MAX_REPLY_BYTES, wait)? {
            FirstReply::Reply(answer) => return Some(answer),
            FirstReply::Unexpected(beginning) => self.unexpected = Some(beginning),
            FirstReply::Closed => {}
        }
        None
    }

    /// Receives a line of at most `longest` bytes; `None` after an interrupt or the time limit.
    fn receive<T: DeserializeOwned + Send + 'static>(
        &mut self,
        longest: usize,
        wait: &mut PeerWait<'_, '_>,
    ) -> Option<FirstReply<T>> {
        if self.wait_failure.is_some() {
            return None;
        }
        let mut from = mem::replace(&mut self.from, empty_reader());
        let received = wait.run(move |_| {
            let first = receive(&mut from, longest);
            (from, first)
        });
        match received {
            Ok((from, first)) => {
                self.from = from;
                Some(first)
            }
            Err(failure) => {
                self.wait_failure = Some(failure);
                None
            }
        }
    }

    /// The failure for a missing reply.
    pub fn missing_reply(self, host: &str) -> TransferError {
        let Self { to, from, mut connection, unexpected, wait_failure } = self;
        // Closing the streams also stops a peer that is still writing.
        drop((to, from));
        if wait_failure.is_some() || unexpected.is_some() {
            connection.terminate_on_drop();
        }
        if let Some(failure) = wait_failure {
            return failure.error(host);
        }
        if let Some(beginning) = unexpected {
            return TransferError::NotNumaio { host: host.to_owned(), beginning };
        }
        match connection {
            PeerConnection::Ssh { mut started, .. } => {
                TransferError::NoAnswer { host: host.to_owned(), status: started.status() }
            }
            PeerConnection::Daemon { .. } => TransferError::SessionClosed { host: host.to_owned() },
        }
    }

    /// Returns the number of data connections to the sink, if it is already known.
    pub fn streams(&self) -> Option<u16> {
        match &self.connection {
            PeerConnection::Daemon { data: Some(data), .. } => Some(data.streams),
            _ => None,
        }
    }

    /// Returns the offer for the request. The handshakes with a daemon start now.
    pub fn offer(&self, ours: &LocalOffer, ports: Option<(u16, u16)>) -> Offer {
        match &self.connection {
            PeerConnection::Daemon { data: Some(data), .. } => {
                ours.start_handshakes(&data.calls, data.ticket, data.key.clone());
                ours.offer(None, Some(data.ticket))
            }
            _ => ours.offer(ports, None),
        }
    }

    /// Opens the data connections that the peer allows. A daemon is not trusted, so its reply
    /// cannot redirect them.
    pub fn connect_data(
        &mut self,
        ours: LocalOffer,
        most_streams: u16,
        opened: DataEndpoint,
        others: &[SocketAddr],
    ) -> Result<Vec<Box<dyn DataStream>>, String> {
        match &mut self.connection {
            PeerConnection::Ssh { lookup, .. } => {
                ours.connect(opened, lookup.take().and_then(HostnameLookup::name), others)
            }
            PeerConnection::Daemon { data, .. } => {
                let data = data.take().ok_or("no data connections were started")?;
                let (calls, count) = (data.calls, ours.connection_count(most_streams));
                calls
                    .into_streams(count, data_connections::CONNECT_TIMEOUT)
                    .map_err(|error| error.to_string())
            }
        }
    }
}

/// A reader at its end.
fn empty_reader() -> PeerReader {
    BufReader::new(Box::new(io::empty()))
}

impl PeerConnection {
    /// Makes dropping this close the connection immediately.
    pub fn terminate_on_drop(&mut self) {
        match self {
            Self::Ssh { started, .. } => started.terminate_on_drop(),
            Self::Daemon { carrier, .. } => carrier.abort(),
        }
    }

    /// Closes the connection to a peer that does not respond.
    pub fn abort(&mut self) {
        match self {
            Self::Ssh { started, .. } => started.kill(),
            Self::Daemon { carrier, .. } => carrier.abort(),
        }
    }

    /// Closes the connection after the last message.
    pub fn end(self) {
        match self {
            Self::Ssh { started, .. } => drop(started),
            Self::Daemon { carrier, .. } => drop(carrier),
        }
    }
}
