//! Ed25519 keys (RFC 8032) as TLS and people see them.

use super::tls::KeyPair;
use crate::random;
use std::fmt;
use std::io;
use std::str::FromStr;

/// Bytes of a public key and of a private one.
pub const KEY_BYTES: usize = 32;

/// In front of a private key, in DER: PrivateKeyInfo (RFC 8410, section 7).
pub(super) const PRIVATE_HEAD: &[u8] =
    &[0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
/// In front of a public key, in DER: SubjectPublicKeyInfo (RFC 8410, section 4).
const PUBLIC_HEAD: &[u8] = &[0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0];

/// How the text of a public key begins.
const KIND: &str = "ed25519:";
/// How that of a private key begins: nobody takes one for the other.
const PRIVATE_KIND: &str = "private-ed25519:";

/// A public key. As text it is `ed25519:` and 64 hexadecimal digits; it is short enough to be its own fingerprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PublicKey([u8; KEY_BYTES]);

/// Why a text is no public key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a public key is ed25519: and 64 hexadecimal digits")]
pub struct InvalidPublicKey;

impl PublicKey {
    /// The key of a SubjectPublicKeyInfo; none if that is of another kind.
    pub fn from_der(der: &[u8]) -> Option<Self> {
        der.strip_prefix(PUBLIC_HEAD)?.try_into().ok().map(Self)
    }

    /// Its SubjectPublicKeyInfo.
    pub fn der(&self) -> Vec<u8> {
        [PUBLIC_HEAD, &self.0].concat()
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{KIND}{}", Hex(&self.0))
    }
}

impl FromStr for PublicKey {
    type Err = InvalidPublicKey;

    fn from_str(text: &str) -> Result<Self, InvalidPublicKey> {
        text.strip_prefix(KIND).and_then(from_hex).map(Self).ok_or(InvalidPublicKey)
    }
}

/// A private key that is kept. As text it is `private-ed25519:` and 64 hexadecimal digits.
pub struct PrivateKey([u8; KEY_BYTES]);

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey")
    }
}

/// Why a text is no private key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a private key is private-ed25519: and 64 hexadecimal digits")]
pub struct InvalidPrivateKey;

impl PrivateKey {
    /// One that nobody knows yet.
    ///
    /// # Errors
    /// The kernel's, if it has no random numbers.
    pub fn generate() -> io::Result<Self> {
        random::bytes().map(Self)
    }

    /// To be kept where nobody else reads it.
    pub fn text(&self) -> String {
        format!("{PRIVATE_KIND}{}", Hex(&self.0))
    }

    /// For connections.
    ///
    /// # Errors
    /// None is foreseen.
    pub fn keys(&self) -> io::Result<KeyPair> {
        KeyPair::from_private(&self.0)
    }
}

impl FromStr for PrivateKey {
    type Err = InvalidPrivateKey;

    fn from_str(text: &str) -> Result<Self, InvalidPrivateKey> {
        text.strip_prefix(PRIVATE_KIND).and_then(from_hex).map(Self).ok_or(InvalidPrivateKey)
    }
}

/// Bytes as hexadecimal digits.
struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Bytes of 64 hexadecimal digits.
fn from_hex(text: &str) -> Option<[u8; KEY_BYTES]> {
    let digits: Vec<u8> =
        text.chars().map(|c| c.to_digit(16).map(|digit| digit as u8)).collect::<Option<_>>()?;
    let bytes: Vec<u8> = digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect();
    if digits.len() == 2 * KEY_BYTES {
        bytes.try_into().ok()
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_rfc_8032() {
        // Section 7.1, TEST 1.
        let private = "private-ed25519:9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
        let key: PrivateKey = private.parse().expect("a key");
        assert_eq!(key.text(), private);
        let keys = key.keys().expect("a key");
        let public = PublicKey::from_der(keys.public()).expect("a key");
        let text = "ed25519:d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
        assert_eq!(public.to_string(), text);
        assert_eq!(text.parse(), Ok(public));
        assert_eq!(text.to_uppercase().replace("ED25519", "ed25519").parse(), Ok(public));
        let (short, odd) = (&text[..70], text.replace('d', "ä"));
        for bad in ["", "ed25519:", short, &odd, &format!("{text}0"), &text[8..], &text.replace("11a", "11 ")]
        {
            assert_eq!(bad.parse::<PublicKey>(), Err(InvalidPublicKey), "{bad}");
        }
        assert_eq!(PublicKey::from_der(&keys.public()[1..]), None);
        // One is never taken for the other.
        assert!(private.parse::<PublicKey>().is_err() && text.parse::<PrivateKey>().is_err());
        assert_ne!(
            KeyPair::generate().expect("a key").public(),
            KeyPair::generate().expect("a key").public()
        );
    }
}
