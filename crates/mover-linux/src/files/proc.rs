//! Open files of this process in /proc (proc_pid_fd(5)).

use rustix::fd::{AsRawFd, OwnedFd};
use std::io;
use std::path::{Path, PathBuf};

/// Returns whether /proc/self/fd is available (proc_pid_fd(5)). Without it, modes and extended
/// attributes of files that cannot be opened are neither read nor set.
pub fn has_proc() -> bool {
    Path::new("/proc/self/fd").is_dir()
}

/// Returns the path of an open file, without symbolic links (proc_pid_fd(5)).
pub(super) fn path_of_fd(file: &OwnedFd) -> io::Result<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Returns whether a path refers to an open file of this process (proc_pid_fd(5)), which another
/// process would not find there.
pub fn is_process_private(path: &Path) -> bool {
    ["/dev/stdin", "/dev/fd", "/proc"].iter().any(|of| path.starts_with(of))
}
