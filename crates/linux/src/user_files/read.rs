//! Reading of files: named by the user, stored by numaio, or trusted.

use super::resolve::{controlled_by_others, is_trusted_owner, kind, place, ControlledByOthers};
use rustix::fs::{FileType, OFlags};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Opens a file, pipe or device that the user named, by any symbolic links: its content is input.
///
/// # Errors
/// I/O errors.
pub fn open_named(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Reads a file, pipe or device that the user named to its end; see [`open_named`].
///
/// # Errors
/// I/O errors; more than `max_bytes`.
pub fn read_named(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    read_limited(open_named(path)?, max_bytes)
}

/// Opens a regular file that numaio stored, whose content is input. A descriptor of a process, as
/// `/dev/fd/3`, may also be a pipe.
///
/// # Errors
/// I/O errors; another type; a symbolic link of another user.
pub fn open_stored(path: &Path) -> io::Result<File> {
    let place = place(path)?;
    if place.is_descriptor {
        return place.open(OFlags::RDONLY, 0);
    }
    // A pipe must not block before its type is checked.
    let file = place.open(OFlags::RDONLY | OFlags::NONBLOCK, 0)?;
    require_regular(&file)?;
    Ok(file)
}

/// Reads a regular file that numaio stored; see [`open_stored`].
///
/// # Errors
/// See [`open_stored`]; more than `max_bytes`.
pub fn read_stored(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    read_limited(open_stored(path)?, max_bytes)
}

/// Reads a text by [`read_stored`].
///
/// # Errors
/// See [`read_stored`]; `InvalidData` if it is not UTF-8.
pub fn read_stored_text(path: &Path, max_bytes: u64) -> io::Result<String> {
    text(read_stored(path, max_bytes)?)
}

/// Reads a file whose content decides what this process does or runs: only root or this user may
/// own it, and no other user may write it.
///
/// # Errors
/// See [`read_stored`]; [`is_untrusted`] holds for the error of a file that others control.
pub fn read_trusted(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    let file = open_stored(path)?;
    let found = file.metadata()?;
    require_owner(found.uid())?;
    match found.mode() & 0o022 != 0 && found.is_file() {
        true => {
            Err(controlled_by_others(format!("other users can write it (mode {:o})", found.mode() & 0o777)))
        }
        false => read_limited(file, max_bytes),
    }
}

/// Reads a text by [`read_trusted`].
///
/// # Errors
/// See [`read_trusted`]; `InvalidData` if it is not UTF-8.
pub fn read_trusted_text(path: &Path, max_bytes: u64) -> io::Result<String> {
    text(read_trusted(path, max_bytes)?)
}

/// Converts content to text.
///
/// # Errors
/// `InvalidData` if it is not UTF-8.
pub fn text(content: Vec<u8>) -> io::Result<String> {
    String::from_utf8(content).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "not a text file"))
}

fn require_owner(user: u32) -> io::Result<()> {
    match is_trusted_owner(user) {
        true => Ok(()),
        false => Err(controlled_by_others(format!("it belongs to user {user}"))),
    }
}

/// Returns whether an error is that of a file, or of a symbolic link, that other users control.
pub fn is_untrusted(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<ControlledByOthers>())
}

/// Checks that an open file is a regular one.
pub(super) fn require_regular(file: &File) -> io::Result<()> {
    match kind(&rustix::fs::fstat(file)?) {
        FileType::RegularFile => Ok(()),
        FileType::Directory => Err(io::ErrorKind::IsADirectory.into()),
        _ => Err(io::Error::other("not a regular file")),
    }
}

/// Reads to the end, but fails beyond a limit.
///
/// # Errors
/// I/O errors; `FileTooLarge` beyond `max_bytes`.
pub fn read_limited(from: impl Read, max_bytes: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    from.take(max_bytes.saturating_add(1)).read_to_end(&mut content)?;
    if content.len() as u64 > max_bytes {
        let size = numaio_machine::units::format_size(max_bytes);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("larger than {size}")));
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{chown, symlink, PermissionsExt};

    const OTHER: u32 = 65_534;

    #[test]
    fn files_and_links_that_others_control_are_not_trusted() {
        let dir = std::env::temp_dir().join(format!("numaio-trusted-{}", std::process::id()));
        fs::create_dir(&dir).expect("a directory");
        let path = dir.join("file");
        fs::write(&path, "text").expect("a file");
        let read = |path: &Path| read_trusted_text(path, 4);
        for (mode, is_trusted) in
            [(0o644, true), (0o600, true), (0o664, false), (0o646, false), (0o620, false)]
        {
            fs::set_permissions(&path, Permissions::from_mode(mode)).expect("a mode");
            let found = read(&path);
            assert_eq!(found.as_ref().is_ok_and(|text| text == "text"), is_trusted, "{mode:o}");
            assert_eq!(found.is_err_and(|error| is_untrusted(&error)), !is_trusted, "{mode:o}");
        }
        fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("a mode");
        symlink("file", dir.join("link")).expect("a link");
        symlink(&dir, dir.join("above")).expect("a link");
        let through = dir.join("above/link");
        assert_eq!(read(&through).expect("own links"), "text");
        if crate::process::user() == 0 {
            for name in ["link", "above"] {
                std::os::unix::fs::lchown(dir.join(name), Some(OTHER), None).expect("another owner");
                let error = read(&through).expect_err("a link of another user");
                assert!(is_untrusted(&error) && error.to_string().contains(name), "{error}");
                assert!(open_stored(&through).is_err() && open_named(&through).is_ok());
                std::os::unix::fs::lchown(dir.join(name), Some(0), None).expect("its owner");
            }
            chown(&path, Some(OTHER), None).expect("another owner");
            assert!(is_untrusted(&read(&path).expect_err("a file of another user")));
            assert!(open_stored(&path).is_ok());
        }
        fs::remove_dir_all(dir).expect("removed");
    }

    #[test]
    fn only_regular_files_within_the_limit_are_read() {
        let dir = std::env::temp_dir().join(format!("numaio-limited-{}", std::process::id()));
        fs::create_dir(&dir).expect("a directory");
        fs::write(dir.join("file"), "12345").expect("a file");
        assert_eq!(read_stored(&dir.join("file"), 5).expect("a file"), b"12345");
        let error = read_stored(&dir.join("file"), 4).expect_err("a long file");
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        let mode = rustix::fs::Mode::RUSR;
        rustix::fs::mknodat(rustix::fs::CWD, dir.join("pipe"), FileType::Fifo, mode, 0).expect("a pipe");
        for path in [dir.join("pipe"), dir.clone(), "/dev/null".into()] {
            assert!(open_stored(&path).is_err(), "{}", path.display());
        }
        fs::remove_dir_all(dir).expect("removed");
    }
}
