//! Opening files to write them in place.

use crate::files::file_stat::file_stat;
use crate::files::path::ResolvedName;
use crate::files::permissions::OWNER_WRITES;
use numaio_mover::port::FileKind;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// A file opened for writing in place.
pub struct OpenedInPlace {
    pub file: OwnedFd,
    /// Mode bits of a previously read-only file, which stays writable until its final mode is set.
    pub restore_mode: Option<u32>,
}

/// Opens the existing file or creates one, making an own read-only file writable.
pub fn open_in_place(place: ResolvedName<'_>, mode: Mode) -> Result<OpenedInPlace, Errno> {
    match open_existing_or_new(place, mode) {
        Err(Errno::ACCESS) => open_read_only(place)?.ok_or(Errno::ACCESS),
        file => file.map(|file| OpenedInPlace { file, restore_mode: None }),
    }
}

/// Opens the existing file or creates one. With O_CREAT the kernel refuses to open other users'
/// files in directories such as /tmp, even for root (`fs.protected_regular`, proc_sys_fs(5)), so it
/// is only used if the file is missing; a file appearing meanwhile is protected. Links are not
/// followed.
fn open_existing_or_new(place: ResolvedName<'_>, mode: Mode) -> Result<OwnedFd, Errno> {
    match place.open(OFlags::WRONLY, Mode::empty()) {
        Err(Errno::NOENT) => place.open(OFlags::WRONLY | OFlags::CREATE, mode),
        opened => opened,
    }
}

/// Makes an own read-only file writable and opens it; none if it is another kind of file. An O_PATH
/// descriptor ensures that no other file gets the permission.
fn open_read_only(place: ResolvedName<'_>) -> Result<Option<OpenedInPlace>, Errno> {
    let Ok(held) = place.open(OFlags::PATH, Mode::empty()) else { return Ok(None) };
    let Ok(stat) = rustix::fs::fstat(&held) else { return Ok(None) };
    let (metadata, bits) = (file_stat(&stat), Mode::from_raw_mode(stat.st_mode).bits());
    let is_ours = metadata.kind == FileKind::File && stat.st_uid == rustix::process::geteuid().as_raw();
    let path = format!("/proc/self/fd/{}", held.as_raw_fd());
    let allow = |bits| rustix::fs::chmod(&path, Mode::from_raw_mode(bits));
    if !is_ours || metadata.links > 1 || bits & OWNER_WRITES != 0 || allow(bits | OWNER_WRITES).is_err() {
        return Ok(None);
    }
    match rustix::fs::open(&path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()) {
        Ok(file) => Ok(Some(OpenedInPlace { file, restore_mode: Some(bits) })),
        Err(errno) => {
            let _ = allow(bits);
            Err(errno)
        }
    }
}
