//! Buffers of calls that read extended attributes.

use rustix::io::Errno;

/// Repeats a call until the buffer is large enough (xattr(7): 64 KiB at most).
pub fn fill(buffer: &mut Vec<u8>, call: impl Fn(&mut [u8]) -> Result<usize, Errno>) -> Result<(), Errno> {
    for size in [256, 4_096, 65_536] {
        buffer.resize(size, 0);
        match call(buffer) {
            Err(Errno::RANGE) => {}
            Ok(length) => {
                buffer.truncate(length);
                return Ok(());
            }
            Err(errno) => return Err(errno),
        }
    }
    Err(Errno::RANGE)
}
