//! Reading pieces of files.

use super::block::{Block, BlockOperation, OpenPart, Started};
use super::cached_io::read_all;
use super::direct;
use crate::files::fault::fault;
use crate::files::identity::{changed, same};
use crate::files::path::Resolver;
use crate::files::roots::Roots;
use numaio_mover::port::{Fault, FaultKind, FilePath, Hash, Outcome, Part, ReadPiece};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

impl Roots {
    /// Reads pieces consecutively into a buffer; a failed piece takes no space.
    pub(in crate::files) fn read<B: AsRef<[u8]> + AsMut<[u8]>>(
        &self,
        mut resolver: Resolver<'_>,
        mut pieces: Vec<ReadPiece>,
        hash: Hash,
        mut data: B,
    ) -> Started<B> {
        if pieces.len() == 1 {
            return self.read_one(&mut resolver, pieces.remove(0), hash, data);
        }
        let (buffer, mut used) = (data.as_mut(), 0usize);
        let one = |piece: &ReadPiece| {
            let target = buffer.get_mut(used..used.saturating_add(piece.length)).ok_or_else(too_large)?;
            let file = open(&mut resolver, &piece.at)?;
            read_cached(&file, piece, target)?;
            used += piece.length;
            Ok(hash(target))
        };
        let results = pieces.iter().map(one).collect();
        Started::Done(Outcome::Read { results, data, packed: None })
    }

    fn read_one<B: AsRef<[u8]> + AsMut<[u8]>>(
        &self,
        resolver: &mut Resolver<'_>,
        piece: ReadPiece,
        hash: Hash,
        mut data: B,
    ) -> Started<B> {
        let ended = |data, result| Started::Done(Outcome::Read { results: vec![result], data, packed: None });
        let file = match open(resolver, &piece.at) {
            Ok(file) => file,
            Err(fault) => return ended(data, Err(fault)),
        };
        let Some(target) = data.as_mut().get_mut(..piece.length) else {
            return ended(data, Err(too_large()));
        };
        if direct::reads_direct(self.cache.direct, &file, target, piece.offset, piece.identity.size) {
            let whole = Part { bytes: 0..piece.length, offset: piece.offset };
            let part = OpenPart { file, data, part: whole };
            return match direct::enable(&part.file) {
                Ok(()) => Started::Pending(Block::new(part, BlockOperation::Read(piece, hash))),
                Err(errno) => Started::Done(finish_read(part, &piece, hash, Err(errno))),
            };
        }
        let result = read_cached(&file, &piece, target).map(|()| hash(target));
        ended(data, result)
    }
}

/// Finishes a direct read, given the number of bytes moved.
pub fn finish_read<B: AsMut<[u8]>>(
    OpenPart { file, mut data, part }: OpenPart<B>,
    piece: &ReadPiece,
    hash: Hash,
    moved: Result<usize, Errno>,
) -> Outcome<B> {
    let is_moved = moved == Ok(part.bytes.len());
    let target = &mut data.as_mut()[part.bytes];
    let read = match is_moved {
        true => check_identity(&file, piece),
        false => direct::disable(&file).and_then(|()| read_cached(&file, piece, target)),
    };
    let results = vec![read.map(|()| hash(target))];
    Outcome::Read { results, data, packed: None }
}

fn too_large() -> Fault {
    Fault::new(FaultKind::Other, "piece exceeds the buffer")
}

/// Reads a piece through the page cache.
fn read_cached(file: &OwnedFd, piece: &ReadPiece, target: &mut [u8]) -> Result<(), Fault> {
    // Verified once, after reading, which covers the time before as well.
    let read = read_all(file, target, piece.offset);
    check_identity(file, piece)?;
    read
}

fn check_identity(file: &OwnedFd, piece: &ReadPiece) -> Result<(), Fault> {
    if piece.as_it_is {
        return Ok(());
    }
    same(file, &piece.identity)
}

/// Opens a regular file for reading.
pub fn open(resolver: &mut Resolver<'_>, at: &FilePath) -> Result<OwnedFd, Fault> {
    let followed = resolver.followed();
    let place = resolver.resolve(at)?;
    let opened = match (place.open(OFlags::RDONLY, Mode::empty()), followed) {
        (Err(Errno::LOOP), Some(scope)) => scope.open_file(place),
        (opened, _) => opened,
    };
    match opened {
        // A link or device has replaced the file.
        Err(Errno::LOOP | Errno::NXIO) => Err(changed()),
        file => file.map_err(fault("open for reading")),
    }
}
