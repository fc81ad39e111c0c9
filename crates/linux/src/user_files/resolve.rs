//! Resolution of paths below directory descriptors, without symbolic links of other users.

use rustix::fs::{
    fstat, fstatfs, mkdirat, openat, readlinkat, statat, AtFlags, FileType, Mode, OFlags, Stat, CWD,
    PROC_SUPER_MAGIC,
};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// Maximum number of symbolic links in a path (path_resolution(7)).
const MAX_LINKS: u32 = 40;
/// Opens a directory for operations below it.
const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// Opens any object, also a symbolic link, to query it.
const LINK: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// An object that another user controls.
#[derive(Debug)]
pub(super) struct ControlledByOthers(String);

impl fmt::Display for ControlledByOthers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ControlledByOthers {}

/// Returns the error of an object that another user controls.
pub(super) fn controlled_by_others(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, ControlledByOthers(why))
}

/// Returns whether root or this user owns an object.
pub(super) fn is_trusted_owner(user: u32) -> bool {
    user == 0 || user == crate::process::user()
}

/// Returns whether a symbolic link may be followed.
///
/// In a user namespace without other users (a container of an HPC system), all links of the host
/// have an owner that no process of the namespace can be.
fn is_followed(owner: u32) -> bool {
    is_trusted_owner(owner) || !is_mapped(owner)
}

/// Returns whether a user ID exists in this user namespace (user_namespaces(7)).
fn is_mapped(user: u32) -> bool {
    let Ok(map) = std::fs::read_to_string("/proc/self/uid_map") else { return true };
    map.lines().any(|line| {
        let numbers: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        matches!(numbers[..], [first, _, count] if (first..first.saturating_add(count)).contains(&user.into()))
    })
}

/// A name in an open directory. The name may not exist.
#[derive(Debug)]
pub(super) struct Place {
    /// The directory.
    pub directory: OwnedFd,
    /// The name, which is not a symbolic link, except if that was exchanged meanwhile.
    pub name: OsString,
    /// Whether the name is an open descriptor of a process (`/dev/stdout`, `/proc/self/fd/3`),
    /// which only the kernel can follow.
    pub is_descriptor: bool,
}

impl Place {
    /// Opens the name.
    pub fn open(&self, flags: OFlags, mode: u32) -> io::Result<File> {
        let no_follow = if self.is_descriptor { OFlags::empty() } else { OFlags::NOFOLLOW };
        let flags = flags | no_follow | OFlags::CLOEXEC | OFlags::NOCTTY;
        Ok(openat(&self.directory, &self.name, flags, Mode::from_raw_mode(mode))?.into())
    }

    /// Returns the attributes of the name; none if it does not exist.
    pub fn stat(&self) -> io::Result<Option<Stat>> {
        let flags = if self.is_descriptor { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
        match statat(&self.directory, &self.name, flags) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns whether other users can add names to the directory.
    pub fn is_shared(&self) -> io::Result<bool> {
        let found = fstat(&self.directory)?;
        Ok(!is_trusted_owner(found.st_uid) || found.st_mode & 0o022 != 0)
    }
}

/// Returns the type of an object.
pub(super) fn kind(found: &Stat) -> FileType {
    FileType::from_raw_mode(found.st_mode)
}

/// Resolves a path to its last name, and follows that too.
///
/// # Errors
/// I/O errors; a symbolic link of another user; `IsADirectory` for a path that can only be one.
pub(super) fn place(path: &Path) -> io::Result<Place> {
    end(path, walk(path, None, true)?)
}

/// Resolves a path to its last name without following that.
///
/// # Errors
/// See [`place`].
pub(super) fn entry(path: &Path) -> io::Result<Place> {
    end(path, walk(path, None, false)?)
}

fn end(path: &Path, Walk { directory, name, is_descriptor }: Walk) -> io::Result<Place> {
    let ends_as_directory = path.as_os_str().as_bytes().ends_with(b"/");
    let name = name.filter(|_| !ends_as_directory).ok_or(io::ErrorKind::IsADirectory)?;
    Ok(Place { directory, name, is_descriptor })
}

/// Opens a directory, and creates missing ones with a mode.
///
/// # Errors
/// I/O errors; a symbolic link of another user.
pub(super) fn directory(path: &Path, create_mode: Option<u32>) -> io::Result<OwnedFd> {
    // A last component `.` is not a name, so all components before it are directories.
    Ok(walk(&path.join("."), create_mode, true)?.directory)
}

/// Returns the absolute path of a file without symbolic links, for programs that need a name.
///
/// # Errors
/// I/O errors; a symbolic link of another user.
pub fn resolved_path(path: &Path) -> io::Result<PathBuf> {
    let place = place(path)?;
    let directory = std::fs::read_link(format!("/proc/self/fd/{}", place.directory.as_raw_fd()))?;
    Ok(directory.join(place.name))
}

/// The end of a walk.
struct Walk {
    directory: OwnedFd,
    /// None if the path ends at a directory, as `/` and `..` do.
    name: Option<OsString>,
    is_descriptor: bool,
}

/// Components of a path, the last first, without `.`; an empty one is the root.
fn reversed(path: &Path, is_directory: bool) -> Vec<OsString> {
    let component = |component: Component<'_>| match component {
        Component::CurDir => None,
        Component::RootDir | Component::Prefix(_) => Some(OsString::new()),
        Component::ParentDir | Component::Normal(_) => Some(component.as_os_str().to_owned()),
    };
    let mut components: Vec<OsString> = path.components().filter_map(component).collect();
    if is_directory {
        // `Path` drops it; it marks that no file is named.
        components.push(".".into());
    }
    components.reverse();
    components
}

fn walk(path: &Path, create_mode: Option<u32>, follow_last: bool) -> io::Result<Walk> {
    if path.as_os_str().is_empty() {
        return Err(Errno::NOENT.into());
    }
    // The working directory may be closed to this user, which an absolute path does not need.
    let start = if path.is_absolute() { "/" } else { "." };
    let mut directory = openat(CWD, start, DIRECTORY, Mode::empty())?;
    let mut pending = reversed(path, path.as_os_str().as_bytes().ends_with(b"/."));
    let mut links = 0;
    while let Some(name) = pending.pop() {
        if name.is_empty() {
            directory = openat(CWD, "/", DIRECTORY, Mode::empty())?;
            continue;
        }
        if name == "." || name == ".." {
            directory = openat(&directory, &name, DIRECTORY, Mode::empty())?;
            continue;
        }
        let is_last = pending.is_empty();
        if is_last && !follow_last {
            return Ok(Walk { directory, name: Some(name), is_descriptor: false });
        }
        if !is_last {
            // This mounts a file system on demand (autofs), which O_PATH alone does not.
            match openat(&directory, &name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty()) {
                Ok(below) => {
                    directory = below;
                    continue;
                }
                Err(Errno::NOENT) => {
                    directory = create_directory(&directory, &name, create_mode)?;
                    continue;
                }
                // It may be a symbolic link.
                Err(Errno::NOTDIR | Errno::LOOP) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let object = match openat(&directory, &name, LINK, Mode::empty()) {
            Err(Errno::NOENT) if is_last => {
                return Ok(Walk { directory, name: Some(name), is_descriptor: false });
            }
            object => object?,
        };
        let found = fstat(&object)?;
        match kind(&found) {
            FileType::Symlink => {}
            _ if is_last => return Ok(Walk { directory, name: Some(name), is_descriptor: false }),
            _ => return Err(Errno::NOTDIR.into()),
        }
        links += 1;
        check_link(&found, &name, links)?;
        if fstatfs(&object)?.f_type == PROC_SUPER_MAGIC {
            if is_last {
                return Ok(Walk { directory, name: Some(name), is_descriptor: true });
            }
            directory = openat(&directory, &name, DIRECTORY, Mode::empty())?;
            continue;
        }
        let target = readlinkat(&object, "", Vec::new())?;
        let target = Path::new(OsStr::from_bytes(target.as_bytes()));
        pending.extend(reversed(target, is_last && target.as_os_str().as_bytes().ends_with(b"/")));
    }
    Ok(Walk { directory, name: None, is_descriptor: false })
}

/// Checks a symbolic link before it is followed.
fn check_link(found: &Stat, name: &OsStr, links: u32) -> io::Result<()> {
    if links > MAX_LINKS {
        return Err(io::Error::other("too many symbolic links"));
    }
    match is_followed(found.st_uid) {
        true => Ok(()),
        false => Err(controlled_by_others(format!(
            "the symbolic link '{}' belongs to user {}",
            name.display(),
            found.st_uid
        ))),
    }
}

/// Creates and opens a directory, which another process may have created meanwhile.
fn create_directory(parent: impl AsFd, name: &OsStr, mode: Option<u32>) -> io::Result<OwnedFd> {
    let mode = mode.ok_or(Errno::NOENT)?;
    match mkdirat(&parent, name, Mode::from_raw_mode(mode)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(openat(&parent, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?)
}
