//! Unencrypted connections whose ends prove that they know a secret: each sends a challenge,
//! answered by an HMAC-SHA-256 (RFC 2104) of both challenges, the number of the connection and the
//! role of the sender.

use super::deadline::DeadlineSocket;
use super::net_error::{opening_error, NetError};
use super::tls::{from_hex, Hex};
use numaio_linux::random;
use ring::hmac::{self, Key, HMAC_SHA256};
use std::fmt;
use std::io::{self, Read, Write};
use std::str::FromStr;

/// Bytes of a secret, a challenge and a proof.
const BYTES: usize = 32;

/// Roles within proofs, so that no proof can be reflected.
const CLIENT_ROLE: &[u8] = b"numaio caller";
const LISTENER_ROLE: &[u8] = b"numaio door";

/// A secret known to both ends only. Its text is 64 hexadecimal digits.
#[derive(Clone)]
pub struct Secret([u8; BYTES]);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// A text is not a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected 64 hexadecimal digits")]
pub struct InvalidSecret;

impl FromStr for Secret {
    type Err = InvalidSecret;

    fn from_str(text: &str) -> Result<Self, InvalidSecret> {
        from_hex(text).map(Self).ok_or(InvalidSecret)
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

    /// Returns the text to pass to the peer, which no other user may read.
    pub fn text(&self) -> String {
        Hex(&self.0).to_string()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_secret_is_64_hexadecimal_digits() {
        let secret = Secret::generate().expect("a secret");
        let text = secret.text();
        assert_eq!(text.len(), 2 * BYTES);
        assert_eq!(text.parse::<Secret>().map(|parsed| parsed.bytes()), Ok(secret.bytes()));
        for bad in ["", &text[1..], &format!("{text}0"), &format!("{}g", &text[1..])] {
            assert!(bad.parse::<Secret>().is_err(), "{bad}");
        }
        assert_eq!(format!("{secret:?}"), "Secret", "a log must not show it");
    }
}
