//! TLS connections: keys, handshakes, and records in this process or in the kernel.

mod handshake;
mod kernel_tls;
mod key;
mod key_pair;
mod plaintext;
mod records;

pub use handshake::{accept, client, connect, server, KeyVerifier};
pub use kernel_tls::has_kernel_tls;
pub(super) use key::{from_hex, Hex};
pub use key::{InvalidPrivateKey, InvalidPublicKey, PrivateKey, PublicKey};
pub use key_pair::KeyPair;
pub use records::{Records, Tls};
