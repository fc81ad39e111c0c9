//! Ed25519 key pairs (RFC 8032) for TLS.

use numaio_linux::random;
use rustls::crypto::ring::sign::any_eddsa_type;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use std::fmt;
use std::io;
use std::sync::Arc;

/// Bytes of a public or private key.
pub const KEY_BYTES: usize = 32;

/// DER prefix of a private key: PrivateKeyInfo (RFC 8410, section 7).
const PRIVATE_HEAD: &[u8] = &[0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
/// Key pair of one side: for one transfer, or persistent.
#[derive(Clone)]
pub struct KeyPair(Arc<CertifiedKey>);

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys")
    }
}

impl KeyPair {
    /// Generates an Ed25519 key pair (RFC 8032).
    ///
    /// # Errors
    /// I/O error if the kernel provides no random numbers.
    pub fn generate() -> io::Result<Self> {
        Self::from_private(&random::bytes()?)
    }

    /// Creates a key pair from a private key (RFC 8032, section 5.1.5): 32 unpredictable bytes.
    ///
    /// # Errors
    /// None is expected.
    pub(super) fn from_private(private: &[u8; KEY_BYTES]) -> io::Result<Self> {
        let pkcs8 = [PRIVATE_HEAD, private].concat();
        let key = any_eddsa_type(&PrivatePkcs8KeyDer::from(&pkcs8[..])).map_err(io::Error::other)?;
        let public = key.public_key().ok_or_else(|| io::Error::other("key without public part"))?;
        let public = CertificateDer::from(public.as_ref().to_vec());
        Ok(Self(Arc::new(CertifiedKey::new(vec![public], key))))
    }

    /// Returns the key and its certificate, which consists of the public key.
    pub(super) fn certified(&self) -> Arc<CertifiedKey> {
        self.0.clone()
    }

    /// Returns the public key as a SubjectPublicKeyInfo in DER (RFC 8410).
    pub fn public(&self) -> &[u8] {
        self.0.cert.first().map_or(&[], |public| public.as_ref())
    }
}
