//! Random tokens and keys, and their comparison.

use crate::random;
use std::fmt::Write;
use std::io;

/// Random bytes of a token: infeasible to guess.
const BYTES: usize = 16;

/// Generates a token in hexadecimal.
///
/// # Errors
/// The kernel's error, if no random bytes are available.
pub fn generate() -> io::Result<String> {
    let bytes: [u8; BYTES] = random::bytes()?;
    let mut secret = String::new();
    bytes.iter().for_each(|byte| write!(secret, "{byte:02x}").unwrap_or_default());
    Ok(secret)
}

/// Compares two tokens in constant time.
pub fn matches(one: &str, other: &str) -> bool {
    let differ = one.bytes().zip(other.bytes()).fold(0, |differ, (one, other)| differ | (one ^ other));
    one.len() == other.len() && differ == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_matches_only_itself() {
        let (one, other) = (generate().expect("random"), generate().expect("random"));
        assert_eq!(one.len(), 2 * BYTES);
        assert!(
            matches(&one, &one) && !matches(&one, &other) && !matches(&one, &one[1..]) && !matches("", &one)
        );
    }
}
