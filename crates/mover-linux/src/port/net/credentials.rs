//! Authentication of data connections.

use super::data_stream::DataStream;
use super::deadline::DeadlineSocket;
use super::keepalive::settle;
use super::net_error::{opening_error, NetError};
use super::shared_secret::Secret;
use super::tls::{self, KeyPair};
use std::fmt;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Credentials for data connections; each side has its own.
pub enum Credentials {
    /// TLS 1.3; each side knows the public key of the other one through the control channel.
    Tls {
        /// Key pair of this side.
        own: KeyPair,
        /// Public key of the peer.
        peer: Vec<u8>,
    },
    /// No encryption: both sides know a secret and prove it when connecting.
    Plain(Secret),
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tls { .. } => "Tls",
            Self::Plain(_) => "Plain",
        })
    }
}

impl Credentials {
    /// Authenticates an outgoing connection with a number. When this returns, our proof has been
    /// sent: data may follow immediately, and a listener that rejects it closes the connection.
    pub(super) fn authenticate_outgoing(
        &self,
        socket: TcpStream,
        index: u16,
        limit: Duration,
    ) -> Result<Box<dyn DataStream>, NetError> {
        let timed = DeadlineSocket::new(&socket, limit);
        match self {
            Self::Tls { own, peer } => {
                let mut stream = tls::connect(own, peer, timed)?;
                stream.write_all(&index.to_be_bytes()).map_err(opening_error)?;
                ready(stream)
            }
            Self::Plain(secret) => {
                secret.authenticate_outgoing(index, timed)?;
                ready(Box::new(socket.try_clone()?))
            }
        }
    }

    /// Authenticates an incoming connection and returns its number.
    pub(super) fn authenticate_incoming(
        &self,
        socket: &TcpStream,
        limit: Duration,
    ) -> Result<(u16, Box<dyn DataStream>), NetError> {
        let timed = DeadlineSocket::new(socket, limit);
        match self {
            Self::Tls { own, peer } => {
                let mut stream = tls::accept(own, peer, timed)?;
                let mut index = [0; 2];
                stream.read_exact(&mut index).map_err(opening_error)?;
                Ok((u16::from_be_bytes(index), ready(stream)?))
            }
            Self::Plain(secret) => {
                let index = secret.authenticate_incoming(timed)?;
                Ok((index, ready(Box::new(socket.try_clone()?))?))
            }
        }
    }
}

/// Prepares an authenticated connection for data.
fn ready(stream: Box<dyn DataStream>) -> Result<Box<dyn DataStream>, NetError> {
    settle(stream.socket())?;
    Ok(stream)
}
