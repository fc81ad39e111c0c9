//! File handles, which distinguish directories with equal device and inode numbers: FUSE and NFS
//! show one device and the numbers of several volumes below it, such as subvolumes of Btrfs.

use super::file_stat::file_stat;
use numaio_mover::port::{DirectoryIdentity, FileKind};
use rustix::fd::{AsFd, AsRawFd};
use rustix::fs::{Mode, OFlags, CWD};
use std::ffi::CString;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

/// Maximum length of a handle (`MAX_HANDLE_SZ`).
const MAX_BYTES: usize = 128;

/// `struct file_handle` with its bytes (name_to_handle_at(2)).
#[repr(C)]
struct RawHandle {
    length: libc::c_uint,
    kind: libc::c_int,
    bytes: [u8; MAX_BYTES],
}

/// Returns a hash of the handle of an object, without following a link; `None` if the file system
/// has no handles or a sandbox hides them. Without a name it is the open file.
pub fn handle_hash(directory: impl AsFd, name: &[u8]) -> Option<u64> {
    let name = CString::new(name).ok()?;
    let (mut handle, mut mount) =
        (RawHandle { length: MAX_BYTES as libc::c_uint, kind: 0, bytes: [0; MAX_BYTES] }, 0 as libc::c_int);
    let flags = if name.is_empty() { libc::AT_EMPTY_PATH } else { 0 };
    // SAFETY: The name ends with a zero byte, and the kernel writes at most `length` bytes after
    // the header and a number to `mount`.
    let done = unsafe {
        libc::syscall(
            libc::SYS_name_to_handle_at,
            directory.as_fd().as_raw_fd(),
            name.as_ptr(),
            &raw mut handle,
            &raw mut mount,
            flags,
        )
    };
    let bytes = handle.bytes.get(..handle.length as usize).filter(|_| done == 0)?;
    let mut hasher = DefaultHasher::new();
    (handle.kind, bytes).hash(&mut hasher);
    Some(hasher.finish())
}

/// Returns the identity of an object of this machine; `None` if it does not exist. Only those of
/// directories have a handle: a file has one for each hard link on some file systems.
pub fn identity_of(path: &Path, follow: bool) -> Option<DirectoryIdentity> {
    let no_follow = if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
    let flags = OFlags::PATH | OFlags::CLOEXEC | no_follow;
    let file = rustix::fs::openat(CWD, path, flags, Mode::empty()).ok()?;
    let found = file_stat(&rustix::fs::fstat(&file).ok()?);
    let handle = (found.kind == FileKind::Directory).then(|| handle_hash(&file, b"")).flatten();
    Some(DirectoryIdentity { volume: found.volume, inode: found.inode, handle })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};

    #[test]
    fn handles_differ_between_directories_and_not_between_their_names() {
        let dir = std::env::temp_dir().join(format!("numaio-handle-{}", std::process::id()));
        fs::create_dir_all(dir.join("a")).expect("directories");
        fs::create_dir_all(dir.join("b")).expect("directories");
        let open = |name: &str| File::open(dir.join(name)).expect("a directory");
        let root = open("");
        let [a, b] = ["a", "b"].map(|name| handle_hash(&root, name.as_bytes()));
        if a.is_some() {
            assert_ne!(a, b);
        }
        assert_eq!(a, handle_hash(open("a"), b""));
        assert_eq!(b, handle_hash(open("a"), b"../b"));
        assert_eq!(handle_hash(&root, b"none"), None);
        fs::remove_dir_all(&dir).expect("removed");
    }
}
