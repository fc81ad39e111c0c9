//! Reading pieces of files.

use super::direct::{self, Block, BlockOperation};
use crate::files::fault::fault;
use crate::files::filesystem::{is_filesystem, CIFS, EXFAT, FAT, FUSE, P9, SMB, SMB2};
use crate::files::path::resolver::Resolver;
use crate::files::stat::file_stat;
use crate::files::{Roots, Started};
use numaio_mover::port::{Fault, FaultKind, FileKind, FilePath, Hash, Identity, Outcome, Part, ReadPiece};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::io::{retry_on_intr, Errno};

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
        if direct::reads_direct(&file, target, piece.offset, piece.identity.size) {
            let part = Part { bytes: 0..piece.length, offset: piece.offset };
            return self.start_direct(Block::new(file, data, part, BlockOperation::Read(piece, hash)));
        }
        let result = read_cached(&file, &piece, target).map(|()| hash(target));
        ended(data, result)
    }
}

fn too_large() -> Fault {
    Fault::new(FaultKind::Other, "piece exceeds the buffer")
}

/// Reads a piece through the page cache.
pub fn read_cached(file: &OwnedFd, piece: &ReadPiece, target: &mut [u8]) -> Result<(), Fault> {
    // Verified once, after reading, which covers the time before as well.
    let read = fill(file, target, piece.offset);
    same(file, &piece.identity)?;
    read
}

/// Opens a regular file for reading.
pub fn open(resolver: &mut Resolver<'_>, at: &FilePath) -> Result<OwnedFd, Fault> {
    match resolver.resolve(at)?.open(OFlags::RDONLY, Mode::empty()) {
        // A link or device has replaced the file.
        Err(Errno::LOOP | Errno::NXIO) => Err(changed()),
        file => file.map_err(fault("open for reading")),
    }
}

fn fill(file: &OwnedFd, target: &mut [u8], mut offset: u64) -> Result<(), Fault> {
    let mut rest = target;
    while !rest.is_empty() {
        match retry_on_intr(|| rustix::io::pread(file, &mut *rest, offset)).map_err(fault("read"))? {
            0 => return Err(changed()),
            count => {
                offset += count as u64;
                rest = &mut rest[count..];
            }
        }
    }
    Ok(())
}

/// File systems without persistent inode numbers.
const RENUMBERED: [u32; 7] = [FUSE, FAT, EXFAT, CIFS, SMB2, SMB, P9];

/// Verifies that a file is unchanged.
pub fn same(file: &OwnedFd, identity: &Identity) -> Result<(), Fault> {
    let metadata = file_stat(&rustix::fs::fstat(file).map_err(fault("stat"))?);
    let renumbered = Identity { inode: metadata.inode, ..*identity };
    let is_same =
        metadata.identity() == renumbered && (metadata.inode == identity.inode || is_renumbered(file));
    match metadata.kind == FileKind::File && is_same {
        true => Ok(()),
        false => Err(changed()),
    }
}

/// Returns whether the file system assigns new inode numbers after dropping its cache.
pub fn is_renumbered(file: &OwnedFd) -> bool {
    is_filesystem(file, &RENUMBERED)
}

/// Returns the fault of a file that changed since it was found.
pub fn changed() -> Fault {
    Fault::new(FaultKind::Changed, "file changed during the transfer")
}
