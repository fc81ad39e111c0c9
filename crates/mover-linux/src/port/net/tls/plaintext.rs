//! Data of TLS records.

/// Maximum bytes of data in one record (RFC 8446, section 5.1).
pub const RECORD: usize = 16 << 10;

/// Decrypted data that was not yet read, and how much of it was.
#[derive(Default)]
pub struct PlaintextBuffer {
    pub bytes: Vec<u8>,
    pub taken: usize,
}

impl PlaintextBuffer {
    /// Copies as much as fits; none if the buffer is empty.
    pub fn take(&mut self, into: &mut [u8]) -> Option<usize> {
        if self.taken == self.bytes.len() {
            self.take_all(|_| {});
            return None;
        }
        let count = into.len().min(self.bytes.len() - self.taken);
        into[..count].copy_from_slice(&self.bytes[self.taken..self.taken + count]);
        self.taken += count;
        Some(count)
    }

    /// Passes on all remaining data.
    pub fn take_all(&mut self, take: impl FnOnce(&[u8])) {
        take(&self.bytes[self.taken..]);
        self.bytes.clear();
        self.taken = 0;
    }
}
