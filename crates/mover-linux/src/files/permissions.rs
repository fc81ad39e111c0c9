//! Mode bits, and access to own files and directories whose mode denies it to the owner; root needs
//! no such access.

use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::fs::Mode;
use rustix::io::Errno;

/// Mode bits that make a program run as its owner or group (inode(7)).
pub const SET_ID: u32 = 0o6000;
/// Set-group-ID bit of a mode.
pub const SET_GROUP_ID: u32 = 0o2000;
/// Write permission of the owner.
pub const OWNER_WRITES: u32 = 0o200;

/// Runs an action in a directory. If it fails for lack of permission and the directory belongs to
/// this user, grants the owner access and retries once. Read-only directories occur, for example,
/// in Go's module cache.
pub fn retry_with_permission<T>(
    directory: BorrowedFd<'_>,
    act: impl Fn() -> Result<T, Errno>,
) -> Result<T, Errno> {
    match act() {
        Err(Errno::ACCESS) if grant_owner_access(directory).is_ok_and(|was_closed| was_closed) => act(),
        done => done,
    }
}

/// Grants the owner all permissions on a directory if it belongs to this user; returns whether they
/// were missing. For an O_PATH descriptor, uses its path (proc_pid_fd(5)).
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

/// Restores permissions that the umask or a default ACL removed from a new file, which will be
/// opened again by name. Without modes this fails silently, and the next open reports the error.
pub fn ensure_mode_bits(file: BorrowedFd<'_>, rights: Mode) {
    let made = rustix::fs::fstat(file).map(|stat| Mode::from_raw_mode(stat.st_mode));
    if let Some(made) = made.ok().filter(|made| !made.contains(rights)) {
        let _ = rustix::fs::fchmod(file, made | rights);
    }
}
