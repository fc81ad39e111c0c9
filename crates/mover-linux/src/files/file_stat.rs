//! Attributes of an object as the port reports them.

use numaio_mover::port::{FileKind, FileStat, Stamp};
use rustix::fs::{FileType, Stat};

/// Converts the attributes of an object.
pub fn file_stat(stat: &Stat) -> FileStat {
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
    FileStat {
        kind,
        mode: stat.st_mode & 0o7777,
        user: stat.st_uid,
        group: stat.st_gid,
        size: if kind == FileKind::File { stat.st_size as u64 } else { 0 },
        mtime: Stamp { seconds: stat.st_mtime, nanoseconds: stat.st_mtime_nsec as u32 },
        ctime: Stamp { seconds: stat.st_ctime, nanoseconds: stat.st_ctime_nsec as u32 },
        inode: stat.st_ino,
        volume: stat.st_dev,
        // 32 bits on aarch64.
        #[allow(clippy::unnecessary_cast)]
        links: stat.st_nlink as u64,
    }
}
