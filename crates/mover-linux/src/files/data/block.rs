//! Blocks of open files for the device to move, directly or by a ring.

use numaio_mover::port::{FileWrite, Hash, Outcome, Part, ReadPiece};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::io::{retry_on_intr, Errno};
use std::os::fd::RawFd;

/// State of an operation after its start.
#[derive(Debug)]
pub enum Started<B> {
    /// Finished.
    Done(Outcome<B>),
    /// The device must still move a block, which [`Roots::finish`](crate::files::Roots::finish)
    /// completes.
    Pending(Block<B>),
}

/// A block for the device to move.
#[derive(Debug)]
pub struct Block<B> {
    part: OpenPart<B>,
    then: BlockOperation,
}

/// A part of an open file, and the data to move to or from it.
#[derive(Debug)]
pub struct OpenPart<B> {
    pub file: OwnedFd,
    pub data: B,
    /// Within the data.
    pub part: Part,
}

/// Direction of a block, and the operation that it belongs to.
#[derive(Debug)]
pub enum BlockOperation {
    Read(ReadPiece, Hash),
    Write(FileWrite),
}

/// Parameters of the I/O request.
#[derive(Debug)]
pub struct Request {
    pub file: RawFd,
    pub start: *mut u8,
    pub length: u32,
    pub offset: u64,
    pub is_write: bool,
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Block<B> {
    /// Creates a block.
    pub fn new(part: OpenPart<B>, then: BlockOperation) -> Self {
        Self { part, then }
    }

    /// Returns the part, and the operation that it belongs to.
    pub fn into_parts(self) -> (OpenPart<B>, BlockOperation) {
        (self.part, self.then)
    }

    /// Returns the I/O request for a ring. File and data stay valid while the block lives.
    pub fn request(&mut self) -> Request {
        let is_write = matches!(self.then, BlockOperation::Write(_));
        let OpenPart { file, data, part } = &mut self.part;
        let bytes = &mut data.as_mut()[part.bytes.clone()];
        let (start, length) = (bytes.as_mut_ptr(), bytes.len() as u32);
        Request { file: file.as_raw_fd(), start, length, offset: part.offset, is_write }
    }

    /// Moves the block synchronously, and returns the number of bytes moved.
    pub fn move_now(&mut self) -> Result<usize, Errno> {
        let OpenPart { file, data, part: Part { bytes, offset } } = &mut self.part;
        match self.then {
            BlockOperation::Read(..) => {
                let target = &mut data.as_mut()[bytes.clone()];
                retry_on_intr(|| rustix::io::pread(&*file, &mut *target, *offset))
            }
            BlockOperation::Write(_) => {
                retry_on_intr(|| rustix::io::pwrite(&*file, &data.as_ref()[bytes.clone()], *offset))
            }
        }
    }
}
