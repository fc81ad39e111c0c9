//! Random bytes of the kernel.

use rustix::rand::{getrandom, GetRandomFlags};
use std::io;

/// Bytes that nobody can guess (getrandom(2)).
///
/// # Errors
/// The kernel's, if it has no random numbers.
pub fn bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let mut have = 0;
    while have < N {
        have += getrandom(&mut bytes[have..], GetRandomFlags::empty())?;
    }
    Ok(bytes)
}
