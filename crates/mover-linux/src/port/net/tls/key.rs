//! Ed25519 keys (RFC 8032) in DER and as text.

use super::key_pair::{KeyPair, KEY_BYTES};
use numaio_linux::random;
use std::fmt;
use std::io;
use std::str::FromStr;

/// DER prefix of a public key: SubjectPublicKeyInfo (RFC 8410, section 4).
const PUBLIC_HEAD: &[u8] = &[0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0];

/// Text prefix of a public key.
const KIND: &str = "ed25519:";
/// Text prefix of a private key, which cannot be mistaken for a public one.
const PRIVATE_KIND: &str = "private-ed25519:";

/// A public key. Its text is `ed25519:` and 64 hexadecimal digits, short enough to serve as
/// fingerprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PublicKey([u8; KEY_BYTES]);

/// A text is not a public key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid public key: expected 'ed25519:' and 64 hexadecimal digits")]
pub struct InvalidPublicKey;

impl PublicKey {
    /// Extracts the key of a SubjectPublicKeyInfo; none if it is of another kind.
    pub fn from_der(der: &[u8]) -> Option<Self> {
        der.strip_prefix(PUBLIC_HEAD)?.try_into().ok().map(Self)
    }

    /// Returns its SubjectPublicKeyInfo.
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

/// A persistent private key. Its text is `private-ed25519:` and 64 hexadecimal digits.
pub struct PrivateKey([u8; KEY_BYTES]);

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey")
    }
}

/// A text is not a private key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid private key: expected 'private-ed25519:' and 64 hexadecimal digits")]
pub struct InvalidPrivateKey;

impl PrivateKey {
    /// Generates a random key.
    ///
    /// # Errors
    /// I/O error if the kernel provides no random numbers.
    pub fn generate() -> io::Result<Self> {
        random::bytes().map(Self)
    }

    /// Returns the text of the key, which must be stored where no other user can read it.
    pub fn text(&self) -> String {
        format!("{PRIVATE_KIND}{}", Hex(&self.0))
    }

    /// Returns the key pair for connections.
    ///
    /// # Errors
    /// None is expected.
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

/// Displays bytes as hexadecimal digits.
pub struct Hex<'a>(pub &'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Parses 64 hexadecimal digits.
pub fn from_hex(text: &str) -> Option<[u8; KEY_BYTES]> {
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
    fn key_pairs_and_texts_match_rfc_8032() {
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
        // The kinds are never confused.
        assert!(private.parse::<PublicKey>().is_err() && text.parse::<PrivateKey>().is_err());
        assert_ne!(
            KeyPair::generate().expect("a key").public(),
            KeyPair::generate().expect("a key").public()
        );
    }
}
