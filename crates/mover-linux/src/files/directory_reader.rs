//! Reading the names of a directory in parts.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::RawDir;
use rustix::io::Errno;

/// Bytes of the buffer for directory entries.
const BUFFER: usize = 32 << 10;

/// An inode number, and a name of the inode.
pub type NamedInode = (u64, Box<[u8]>);

/// An open directory that is read in parts.
///
/// `rustix::fs::Dir` takes `ENOENT` for the end of a directory. But a removed directory gives it
/// (getdents(2)), and any server may: the names are not complete then.
#[derive(Debug)]
pub struct DirectoryReader {
    directory: OwnedFd,
    /// Names that are read, and not returned yet.
    pending: Vec<NamedInode>,
    has_ended: bool,
}

impl DirectoryReader {
    /// Reads a directory, which is open for reading, from its start.
    pub fn new(directory: OwnedFd) -> Self {
        Self { directory, pending: Vec::new(), has_ended: false }
    }

    /// Returns whether all names were returned.
    pub fn is_finished(&self) -> bool {
        self.has_ended && self.pending.is_empty()
    }

    /// Returns the next names, `most` at most, and none only at the end.
    pub fn read(&mut self, most: usize) -> Result<Vec<NamedInode>, Errno> {
        let mut buffer = Vec::with_capacity(BUFFER);
        let mut entries = RawDir::new(&self.directory, buffer.spare_capacity_mut());
        while !self.has_ended && (self.pending.len() < most || !entries.is_buffer_empty()) {
            match entries.next() {
                None => self.has_ended = true,
                Some(Err(Errno::INTR)) => {}
                Some(Err(errno)) => return Err(errno),
                Some(Ok(entry)) => {
                    let name = entry.file_name().to_bytes();
                    if name != b"." && name != b".." {
                        self.pending.push((entry.ino(), name.into()));
                    }
                }
            }
        }
        let others = self.pending.split_off(most.min(self.pending.len()));
        Ok(std::mem::replace(&mut self.pending, others))
    }
}

impl AsFd for DirectoryReader {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }
}
