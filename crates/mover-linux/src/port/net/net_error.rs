//! Failure to open data connections.

use rustls::{CertificateError, Error};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;

/// Failure to open data connections.
#[derive(Debug, thiserror::Error)]
pub enum NetError {
    /// The address cannot be reached, or a firewall blocks it.
    #[error("cannot connect to {0}: {1}")]
    Unreachable(SocketAddr, io::Error),
    /// The time limit expired.
    #[error("no answer within the time limit")]
    TimedOut,
    /// The peer has another key.
    #[error("the peer does not have the key received through the control channel")]
    WrongKey,
    /// The peer closed the connection, for example since it rejected our key.
    #[error("the peer closed the connection during authentication")]
    Refused,
    /// The peer violates the protocol.
    #[error("invalid handshake of a data connection: {0}")]
    Protocol(String),
    /// I/O error.
    #[error(transparent)]
    Failed(#[from] io::Error),
    /// Some connections were not established.
    #[error("only {0} of {1} connections were established")]
    MissingConnections(usize, usize),
}

/// Classifies an I/O error during authentication.
pub fn opening_error(error: io::Error) -> NetError {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => NetError::TimedOut,
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => NetError::Refused,
        ErrorKind::InvalidData => NetError::Protocol(error.to_string()),
        _ => NetError::Failed(error),
    }
}

/// Classifies an error of rustls.
pub fn tls_error(error: Error) -> NetError {
    match error {
        Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure) => NetError::WrongKey,
        Error::AlertReceived(_) => NetError::Refused,
        other => NetError::Protocol(other.to_string()),
    }
}
