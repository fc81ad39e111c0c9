//! Part of a disk for one worker.

use super::block_order::BlockSequence;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Part of a disk that one worker reads or writes, with its buffer.
pub struct DiskPart {
    pub file: Arc<OwnedFd>,
    pub blocks: Arc<BlockSequence>,
    pub write: bool,
    pub block_bytes: u32,
    /// Buffer slots of one block each: the queue depth.
    pub slots: u32,
    /// First byte of the buffer.
    pub start: *mut u8,
    /// Disk offset of the request in each slot.
    pub at: Vec<u64>,
}

impl DiskPart {
    /// Returns the first byte of a buffer slot.
    pub fn slot(&self, slot: u32) -> *mut u8 {
        // SAFETY: slot numbers are below `slots`, and the buffer holds that many blocks.
        unsafe { self.start.add(slot as usize * self.block_bytes as usize) }
    }

    /// Returns the length of the buffer.
    pub fn buffer_bytes(&self) -> usize {
        self.slots as usize * self.block_bytes as usize
    }

    /// Converts a request's result (a byte count or negative errno) to bytes or an error message.
    pub fn completed_bytes(&self, slot: u32, result: i64) -> Result<u64, String> {
        let what = if self.write { "write" } else { "read" };
        let at = self.at[slot as usize];
        match u64::try_from(result) {
            Ok(0) => Err(format!("{what} at byte {at}: unexpected end of the device or file")),
            Ok(bytes) => Ok(bytes),
            Err(_) if matches!(-result as i32, libc::EINTR | libc::EAGAIN) => Ok(0),
            Err(_) => Err(format!("{what} at byte {at}: {}", io::Error::from_raw_os_error(-result as i32))),
        }
    }
}
