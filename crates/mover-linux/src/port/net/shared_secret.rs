//! Unencrypted connections whose ends prove that they know a secret: each sends a challenge,
//! answered by an HMAC-SHA-256 (RFC 2104) of both challenges, the number of the connection and the
//! role of the sender.

use super::deadline::DeadlineSocket;
use super::net_error::{opening_error, NetError};
use numaio_linux::random;
use ring::hmac::{self, Key, HMAC_SHA256};
use std::fmt;
use std::io::{self, Read, Write};

/// Bytes of a secret, a challenge and a proof.
const BYTES: usize = 32;

/// Roles within proofs, so that no proof can be reflected.
const CLIENT_ROLE: &[u8] = b"numaio caller";
const LISTENER_ROLE: &[u8] = b"numaio door";

/// A secret known to both ends only.
#[derive(Clone)]
pub struct Secret([u8; BYTES]);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    /// Generates a random secret.
    ///
    /// # Errors
    /// I/O error if the kernel provides no random numbers.
    pub fn generate() -> io::Result<Self> {
        random::bytes().map(Self)
    }

    /// Creates the secret received from the peer.
    pub fn from_bytes(bytes: [u8; BYTES]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes to send to the peer.
    pub fn bytes(&self) -> [u8; BYTES] {
        self.0
    }

    fn proof(&self, role: &[u8], index: [u8; 2], challenges: &[[u8; BYTES]; 2]) -> hmac::Tag {
        let message = [role, &index, &challenges[0], &challenges[1]].concat();
        hmac::sign(&Key::new(HMAC_SHA256, &self.0), &message)
    }

    fn is_proof(&self, tag: &[u8], role: &[u8], index: [u8; 2], challenges: &[[u8; BYTES]; 2]) -> bool {
        let message = [role, &index, &challenges[0], &challenges[1]].concat();
        hmac::verify(&Key::new(HMAC_SHA256, &self.0), &message, tag).is_ok()
    }

    /// Authenticates as client: sends number and challenge, checks the listener's proof, sends our
    /// proof.
    pub(super) fn authenticate_outgoing(
        &self,
        index: u16,
        mut socket: DeadlineSocket<'_>,
    ) -> Result<(), NetError> {
        let index = index.to_be_bytes();
        let own: [u8; BYTES] = random::bytes()?;
        socket.write_all(&[&index[..], &own].concat()).map_err(opening_error)?;
        let (mut theirs, mut proof) = ([0; BYTES], [0; BYTES]);
        socket.read_exact(&mut theirs).map_err(opening_error)?;
        socket.read_exact(&mut proof).map_err(opening_error)?;
        let challenges = [own, theirs];
        if !self.is_proof(&proof, LISTENER_ROLE, index, &challenges) {
            return Err(NetError::WrongKey);
        }
        socket.write_all(self.proof(CLIENT_ROLE, index, &challenges).as_ref()).map_err(opening_error)
    }

    /// Authenticates as listener, and returns the number of the connection.
    pub(super) fn authenticate_incoming(&self, mut socket: DeadlineSocket<'_>) -> Result<u16, NetError> {
        let (mut index, mut theirs, mut proof) = ([0; 2], [0; BYTES], [0; BYTES]);
        socket.read_exact(&mut index).map_err(opening_error)?;
        socket.read_exact(&mut theirs).map_err(opening_error)?;
        let own: [u8; BYTES] = random::bytes()?;
        let challenges = [theirs, own];
        socket
            .write_all(&[&own, self.proof(LISTENER_ROLE, index, &challenges).as_ref()].concat())
            .map_err(opening_error)?;
        socket.read_exact(&mut proof).map_err(opening_error)?;
        match self.is_proof(&proof, CLIENT_ROLE, index, &challenges) {
            true => Ok(u16::from_be_bytes(index)),
            false => Err(NetError::WrongKey),
        }
    }
}
