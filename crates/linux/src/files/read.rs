//! Reading pieces of files.

use super::beneath::Beneath;
use super::direct::{self, Block, Then};
use super::fault::fault;
use super::kind::{is_of, CIFS, EXFAT, FAT, FUSE, P9, SMB, SMB2};
use super::look::seen;
use super::{Begun, Roots};
use numaio_machine::port::{Fault, FileKind, FilePath, Hash, Identity, Outcome, Part, ReadPiece, Why};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::io::{retry_on_intr, Errno};

impl Roots {
    /// Reads pieces one behind the other into a buffer; what cannot be read takes no room.
    pub(super) fn read<B: AsRef<[u8]> + AsMut<[u8]>>(
        &self,
        mut beneath: Beneath<'_>,
        mut pieces: Vec<ReadPiece>,
        hash: Hash,
        mut data: B,
    ) -> Begun<B> {
        if pieces.len() == 1 {
            return self.read_one(&mut beneath, pieces.remove(0), hash, data);
        }
        let (buffer, mut used) = (data.as_mut(), 0usize);
        let one = |piece: &ReadPiece| {
            let room = buffer.get_mut(used..used.saturating_add(piece.length)).ok_or_else(too_large)?;
            let file = open(&mut beneath, &piece.at)?;
            through(&file, piece, room)?;
            used += piece.length;
            Ok(hash(room))
        };
        let results = pieces.iter().map(one).collect();
        Begun::Ended(Outcome::Read { results, data, packed: None })
    }

    fn read_one<B: AsRef<[u8]> + AsMut<[u8]>>(
        &self,
        beneath: &mut Beneath<'_>,
        piece: ReadPiece,
        hash: Hash,
        mut data: B,
    ) -> Begun<B> {
        let ended = |data, result| Begun::Ended(Outcome::Read { results: vec![result], data, packed: None });
        let file = match open(beneath, &piece.at) {
            Ok(file) => file,
            Err(fault) => return ended(data, Err(fault)),
        };
        let Some(room) = data.as_mut().get_mut(..piece.length) else { return ended(data, Err(too_large())) };
        if direct::is_read_past(&file, room, piece.offset, piece.identity.size) {
            let part = Part { bytes: 0..piece.length, offset: piece.offset };
            return self.past(Block::new(file, data, part, Then::Read(piece, hash)));
        }
        let result = through(&file, &piece, room).map(|()| hash(room));
        ended(data, result)
    }
}

fn too_large() -> Fault {
    Fault::new(Why::Other, "a piece is larger than the buffer")
}

/// Reads a piece of a file through the page cache.
pub fn through(file: &OwnedFd, piece: &ReadPiece, room: &mut [u8]) -> Result<(), Fault> {
    // Whether it is what was found is asked once, at the end: that holds for the time before, too.
    let read = fill(file, room, piece.offset);
    same(file, &piece.identity)?;
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

fn fill(file: &OwnedFd, room: &mut [u8], mut offset: u64) -> Result<(), Fault> {
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

/// File systems that have no inode numbers of their own.
const RENUMBERED: [u32; 7] = [FUSE, FAT, EXFAT, CIFS, SMB2, SMB, P9];

/// Whether a file is still what was found.
pub fn same(file: &OwnedFd, identity: &Identity) -> Result<(), Fault> {
    let seen = seen(&rustix::fs::fstat(file).map_err(fault("look at it"))?);
    let renumbered = Identity { inode: seen.inode, ..*identity };
    let is_same = seen.identity() == renumbered && (seen.inode == identity.inode || is_renumbered(file));
    match seen.kind == FileKind::File && is_same {
        true => Ok(()),
        false => Err(changed()),
    }
}

/// Whether files of this file system get new inode numbers when the kernel forgets them.
pub fn is_renumbered(file: &OwnedFd) -> bool {
    is_of(file, &RENUMBERED)
}

pub fn changed() -> Fault {
    Fault::new(Why::Changed, "it changed while it was moved")
}
