//! Reading pieces of files.

use super::beneath::Beneath;
use super::direct;
use super::fault::fault;
use super::look::seen;
use numaio_machine::port::{Digest, Fault, FileKind, FilePath, Hash, Identity, ReadPiece, Why};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::io::{retry_on_intr, Errno};

/// Reads pieces one behind the other into a buffer; what cannot be read takes no room.
pub fn read(
    beneath: &mut Beneath<'_>,
    pieces: &[ReadPiece],
    hash: Hash,
    buffer: &mut [u8],
) -> Vec<Result<Digest, Fault>> {
    let mut used = 0usize;
    let one = |piece: &ReadPiece| {
        let room = buffer.get_mut(used..used.saturating_add(piece.length));
        let room = room.ok_or_else(|| Fault::new(Why::Other, "a piece is larger than the buffer"))?;
        piece_into(beneath, piece, room)?;
        used += piece.length;
        Ok(hash(room))
    };
    pieces.iter().map(one).collect()
}

fn piece_into(beneath: &mut Beneath<'_>, piece: &ReadPiece, room: &mut [u8]) -> Result<(), Fault> {
    let file = open(beneath, &piece.at)?;
    // Whether it is what was found is asked once, at the end: that holds for the time before, too.
    let read = fill(&file, piece, room);
    same(&file, &piece.identity)?;
    read
}

/// Opens what was found to be a file.
pub fn open(beneath: &mut Beneath<'_>, at: &FilePath) -> Result<OwnedFd, Fault> {
    match beneath.place(at)?.open(OFlags::RDONLY, Mode::empty()) {
        // A link or a device is in its place now.
        Err(Errno::LOOP | Errno::NXIO) => Err(changed()),
        file => file.map_err(fault("open it to read")),
    }
}

fn fill(file: &OwnedFd, piece: &ReadPiece, room: &mut [u8]) -> Result<(), Fault> {
    if direct::read(file, room, piece.offset, piece.identity.size) {
        return Ok(());
    }
    let mut offset = piece.offset;
    let mut rest = room;
    while !rest.is_empty() {
        match retry_on_intr(|| rustix::io::pread(file, &mut *rest, offset)).map_err(fault("read it"))? {
            0 => return Err(changed()),
            count => {
                offset += count as u64;
                rest = &mut rest[count..];
            }
        }
    }
    Ok(())
}

/// Whether a file is still what was found.
pub fn same(file: &OwnedFd, identity: &Identity) -> Result<(), Fault> {
    let seen = seen(&rustix::fs::fstat(file).map_err(fault("look at it"))?);
    match seen.kind == FileKind::File && seen.identity() == *identity {
        true => Ok(()),
        false => Err(changed()),
    }
}

pub fn changed() -> Fault {
    Fault::new(Why::Changed, "it changed while it was moved")
}
