//! Random bytes from the kernel.

use rustix::rand::{getrandom, GetRandomFlags};
use std::io;

/// Returns cryptographically secure random bytes (getrandom(2)).
///
/// # Errors
/// The kernel's error, if no random bytes are available.
pub fn bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let mut have = 0;
    while have < N {
        have += getrandom(&mut bytes[have..], GetRandomFlags::empty())?;
    }
    Ok(bytes)
}
