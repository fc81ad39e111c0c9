//! Words that strangers do not know.

use crate::random;
use std::fmt::Write;
use std::io;

/// Random bytes of a secret: beyond guessing.
const BYTES: usize = 16;

/// A fresh secret, in hexadecimal.
///
/// # Errors
/// The kernel's, if it has no random numbers.
pub fn generate() -> io::Result<String> {
    let bytes: [u8; BYTES] = random::bytes()?;
    let mut secret = String::new();
    bytes.iter().for_each(|byte| write!(secret, "{byte:02x}").unwrap_or_default());
    Ok(secret)
}

/// Whether two secrets are the same, in a time that does not tell where they differ.
pub fn matches(one: &str, other: &str) -> bool {
    let differ = one.bytes().zip(other.bytes()).fold(0, |differ, (one, other)| differ | (one ^ other));
    one.len() == other.len() && differ == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_like_itself_alone() {
        let (one, other) = (generate().expect("random"), generate().expect("random"));
        assert_eq!(one.len(), 2 * BYTES);
        assert!(
            matches(&one, &one) && !matches(&one, &other) && !matches(&one, &one[1..]) && !matches("", &one)
        );
    }
}
