//! A connection without encryption, whose two ends prove that they know a secret: a challenge each way, answered by
//! HMAC-SHA-256 (RFC 2104) over both challenges, the number of the connection and who answers.

use super::timed::{why, Timed};
use super::NetError;
use crate::random;
use ring::hmac::{self, Key, HMAC_SHA256};
use std::fmt;
use std::io::{self, Read, Write};

/// Bytes of a secret, of a challenge and of an answer.
const BYTES: usize = 32;

/// Who answers a challenge; so no answer can be sent back as one's own.
const CALLER: &[u8] = b"numaio caller";
const DOOR: &[u8] = b"numaio door";

/// What both ends know, and nobody else.
#[derive(Clone)]
pub struct Secret([u8; BYTES]);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    /// One that nobody knows yet.
    ///
    /// # Errors
    /// The kernel's, if it has no random numbers.
    pub fn fresh() -> io::Result<Self> {
        random::bytes().map(Self)
    }

    /// One that came from the other side.
    pub fn from_bytes(bytes: [u8; BYTES]) -> Self {
        Self(bytes)
    }

    /// To be told to the other side.
    pub fn bytes(&self) -> [u8; BYTES] {
        self.0
    }

    fn proof(&self, who: &[u8], index: [u8; 2], asked: &[[u8; BYTES]; 2]) -> hmac::Tag {
        let said = [who, &index, &asked[0], &asked[1]].concat();
        hmac::sign(&Key::new(HMAC_SHA256, &self.0), &said)
    }

    fn is_proof(&self, tag: &[u8], who: &[u8], index: [u8; 2], asked: &[[u8; BYTES]; 2]) -> bool {
        let said = [who, &index, &asked[0], &asked[1]].concat();
        hmac::verify(&Key::new(HMAC_SHA256, &self.0), &said, tag).is_ok()
    }

    /// The side that connects: number and challenge; the other one's challenge and proof; our proof.
    pub(super) fn call(&self, index: u16, mut to: Timed<'_>) -> Result<(), NetError> {
        let index = index.to_be_bytes();
        let own: [u8; BYTES] = random::bytes()?;
        to.write_all(&[&index[..], &own].concat()).map_err(why)?;
        let (mut theirs, mut proof) = ([0; BYTES], [0; BYTES]);
        to.read_exact(&mut theirs).map_err(why)?;
        to.read_exact(&mut proof).map_err(why)?;
        let asked = [own, theirs];
        if !self.is_proof(&proof, DOOR, index, &asked) {
            return Err(NetError::Stranger);
        }
        to.write_all(self.proof(CALLER, index, &asked).as_ref()).map_err(why)
    }

    /// The side that is connected to; gives the number.
    pub(super) fn answer(&self, mut to: Timed<'_>) -> Result<u16, NetError> {
        let (mut index, mut theirs, mut proof) = ([0; 2], [0; BYTES], [0; BYTES]);
        to.read_exact(&mut index).map_err(why)?;
        to.read_exact(&mut theirs).map_err(why)?;
        let own: [u8; BYTES] = random::bytes()?;
        let asked = [theirs, own];
        to.write_all(&[&own, self.proof(DOOR, index, &asked).as_ref()].concat()).map_err(why)?;
        to.read_exact(&mut proof).map_err(why)?;
        match self.is_proof(&proof, CALLER, index, &asked) {
            true => Ok(u16::from_be_bytes(index)),
            false => Err(NetError::Stranger),
        }
    }
}
