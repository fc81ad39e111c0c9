//! What is our own and closed to us: who is not root needs rights also there.

use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::fs::Mode;
use rustix::io::Errno;

/// Does something in a directory. If it is refused there, and the directory is one of ours that is closed to its owner, as Go closes
/// those of its modules, that is opened, and it is done again, once.
pub fn retry_with_permission<T>(
    directory: BorrowedFd<'_>,
    act: impl Fn() -> Result<T, Errno>,
) -> Result<T, Errno> {
    match act() {
        Err(Errno::ACCESS) if grant_owner_access(directory).is_ok_and(|was_closed| was_closed) => act(),
        done => done,
    }
}

/// Lets the owner of a directory do all in it if we are its owner; tells whether he could not before. It is reached by its descriptor
/// alone, by way of which (proc_pid_fd(5)) where that is but a path.
pub fn grant_owner_access(directory: BorrowedFd<'_>) -> Result<bool, Errno> {
    let stat = rustix::fs::fstat(directory)?;
    let mode = Mode::from_raw_mode(stat.st_mode);
    if mode.contains(Mode::RWXU) || stat.st_uid != rustix::process::geteuid().as_raw() {
        return Ok(false);
    }
    let open = mode | Mode::RWXU;
    match rustix::fs::fchmod(directory, open) {
        Err(Errno::BADF) => rustix::fs::chmod(format!("/proc/self/fd/{}", directory.as_raw_fd()), open),
        done => done,
    }?;
    Ok(true)
}

/// Leaves rights on a file to its owner that a umask or a default ACL took from him when it was made: it is opened again by its name.
/// Where there are no modes it stays as it is, and who opens it again is told what is wrong.
pub fn ensure_mode_bits(file: BorrowedFd<'_>, rights: Mode) {
    let made = rustix::fs::fstat(file).map(|stat| Mode::from_raw_mode(stat.st_mode));
    if let Some(made) = made.ok().filter(|made| !made.contains(rights)) {
        let _ = rustix::fs::fchmod(file, made | rights);
    }
}
