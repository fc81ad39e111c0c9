//! What objects are.

use super::attributes::{is_kept, xattrs_of};
use super::beneath::{Beneath, Place};
use super::fault::fault;
use super::place::address;
use super::Roots;
use numaio_machine::port::{Details, Fault, FileKind, FilePath, Found, Seen, Stamp};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, SeekFrom, Stat};
use rustix::io::Errno;

impl Roots {
    pub(super) fn look(
        &self,
        beneath: &mut Beneath<'_>,
        at: &FilePath,
        details: Details,
    ) -> Result<Option<Found>, Fault> {
        let place = match beneath.place_or_errno(at) {
            // A link or a file where a directory should be: nothing is below it.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
            place => place.map_err(fault("open the directory"))?,
        };
        match self.found(place, details) {
            Err(Errno::NOENT) => Ok(None),
            found => found.map(Some).map_err(fault("look at it")),
        }
    }

    /// All that is asked for of one object.
    pub(super) fn found(&self, place: Place<'_>, details: Details) -> Result<Found, Errno> {
        let stat = rustix::fs::statat(place.directory, place.name, AtFlags::SYMLINK_NOFOLLOW)?;
        let seen = seen(&stat);
        let target = match seen.kind {
            FileKind::Symlink => {
                let target = rustix::fs::readlinkat(place.directory, place.name, Vec::new())?;
                Some(target.into_bytes().into())
            }
            _ => None,
        };
        let is_link = seen.kind == FileKind::Symlink;
        let xattrs = match details.xattrs && !is_link {
            true => xattrs_of(place, |name| is_kept(name, self.super_user))?,
            false => Vec::new(),
        };
        let may_have_holes = (stat.st_blocks as u64).saturating_mul(512) < seen.size;
        let wants_data = details.holes && may_have_holes;
        let file = match seen.kind == FileKind::File && (wants_data || details.address) {
            // Who may not read it learns so when it is read.
            true => place.open(OFlags::RDONLY, Mode::empty()).ok(),
            false => None,
        };
        let data = file.as_ref().filter(|_| wants_data).and_then(|file| data_of(file, &seen));
        let address = file.as_ref().filter(|_| details.address).and_then(address);
        Ok(Found { seen, target, xattrs, data, address })
    }
}

/// The attributes of an object.
pub fn seen(stat: &Stat) -> Seen {
    let (major, minor) = (rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev));
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Symlink,
        FileType::Fifo => FileKind::Fifo,
        FileType::Socket => FileKind::Socket,
        FileType::CharacterDevice => FileKind::CharacterDevice(major, minor),
        FileType::BlockDevice => FileKind::BlockDevice(major, minor),
        _ => FileKind::File,
    };
    Seen {
        kind,
        mode: stat.st_mode & 0o7777,
        user: stat.st_uid,
        group: stat.st_gid,
        size: if kind == FileKind::File { stat.st_size as u64 } else { 0 },
        mtime: Stamp { seconds: stat.st_mtime, nanoseconds: stat.st_mtime_nsec as u32 },
        inode: stat.st_ino,
        volume: stat.st_dev,
        // 32 bits on aarch64.
        #[allow(clippy::unnecessary_cast)]
        links: stat.st_nlink as u64,
    }
}

/// Where a file that was seen has data (lseek(2), `SEEK_DATA`); none if the file system cannot tell, or the file is another one by then:
/// one that was cut would be all holes, and whoever reads none of it would not notice.
fn data_of(file: &OwnedFd, found: &Seen) -> Option<Vec<(u64, u64)>> {
    let size = found.size;
    let mut data = Vec::new();
    let mut at = 0;
    while at < size {
        let start = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(start) => start,
            // No data behind this.
            Err(Errno::NXIO) => break,
            Err(_) => return None,
        };
        let end = rustix::fs::seek(file, SeekFrom::Hole(start)).ok()?;
        if end <= at {
            return None;
        }
        data.push((start, end.min(size)));
        at = end;
    }
    let now = seen(&rustix::fs::fstat(file).ok()?);
    ((now.size, now.mtime) == (size, found.mtime)).then_some(data)
}
