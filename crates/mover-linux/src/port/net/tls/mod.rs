//! TLS connections: keys, handshakes, and records.

mod handshake;
mod key;
mod key_pair;
mod plaintext;
mod records;

pub use handshake::{accept, client, connect, server, KeyVerifier};
pub(super) use key::{from_hex, Hex};
pub use key::{InvalidPrivateKey, InvalidPublicKey, PrivateKey, PublicKey};
pub use key_pair::KeyPair;
pub use records::{Records, Tls};
