//! Files of the user: numaio's directories (XDG Base Directory Specification), and atomic writes.

use rustix::fs::{renameat_with, RenameFlags, CWD};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Returns numaio's state directory; none if neither XDG_STATE_HOME nor HOME is set.
pub fn state_dir() -> Option<PathBuf> {
    base_dir("XDG_STATE_HOME", ".local/state")
}

/// Returns numaio's configuration directory; none if neither XDG_CONFIG_HOME nor HOME is set.
pub fn config_dir() -> Option<PathBuf> {
    base_dir("XDG_CONFIG_HOME", ".config")
}

fn base_dir(variable: &str, in_home: &str) -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute(variable).or_else(|| Some(absolute("HOME")?.join(in_home))).map(|dir| dir.join("numaio"))
}

/// Creates a directory of numaio with missing parents, but not the home directory: an account whose
/// home does not exist (`/nonexistent`) has none on purpose.
///
/// # Errors
/// I/O errors; `NotFound` without the home directory.
pub fn create_directory(path: &Path, mode: u32) -> io::Result<()> {
    create_directory_in(std::env::var_os("HOME").map(PathBuf::from).as_deref(), path, mode)
}

fn create_directory_in(home: Option<&Path>, path: &Path, mode: u32) -> io::Result<()> {
    let home = home.filter(|home| home.is_absolute() && path.starts_with(home));
    if let Some(home) = home.filter(|home| !home.is_dir()) {
        let message = format!("the home directory '{}' does not exist", home.display());
        return Err(io::Error::new(io::ErrorKind::NotFound, message));
    }
    DirBuilder::new().recursive(true).mode(mode).create(path)
}

/// Writes a file atomically: under a temporary name, synced to disk, then renamed.
///
/// A symbolic link is kept and its target is written. Pipes and devices such as /dev/null are
/// written in place.
///
/// # Errors
/// I/O errors; a regular file keeps its content.
pub fn write_file(path: &Path, content: &[u8]) -> io::Result<()> {
    match write_target(path)? {
        WriteTarget::Stream => OpenOptions::new().write(true).open(path)?.write_all(content),
        WriteTarget::File(file) => replace(&file, content),
    }
}

/// Checks, before long work, that [`write_file`] can write a file.
///
/// # Errors
/// I/O errors of creating its temporary file.
pub fn check_file(path: &Path) -> io::Result<()> {
    match write_target(path)? {
        WriteTarget::Stream => Ok(()),
        WriteTarget::File(file) => {
            let temporary_path = temporary_path(&file);
            create_replacing(&temporary_path).and_then(|_| fs::remove_file(&temporary_path))
        }
    }
}

/// The object that a write to a path changes.
pub enum WriteTarget {
    /// A regular file, which may not exist yet, by its path without symbolic links.
    File(PathBuf),
    /// A device, a pipe or a socket.
    Stream,
}

/// Resolves the path of a file to write.
///
/// # Errors
/// The path is a directory, or the kernel reports an error.
pub fn write_target(path: &Path) -> io::Result<WriteTarget> {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(found) if found.is_file() => fs::canonicalize(path).map(WriteTarget::File),
        Ok(_) => Ok(WriteTarget::Stream),
        Err(error) if error.kind() == io::ErrorKind::NotFound => final_target(path).map(WriteTarget::File),
        // The kernel may refuse to follow a link (proc_sys_fs(5), `protected_symlinks`).
        Err(error) => Err(error),
    }
}

/// Follows dangling symbolic links to the path that a write creates.
fn final_target(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    // The kernel's limit (path_resolution(7)).
    for _ in 0..40 {
        let Ok(target) = fs::read_link(&path) else { return Ok(path) };
        path = path.parent().unwrap_or(Path::new("")).join(target);
    }
    Err(io::Error::other("too many symbolic links"))
}

fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    replace_file(path, content, Durable(true))
}

/// Replaces a file atomically.
///
/// # Errors
/// I/O errors; the file keeps its content.
pub fn replace_file(path: &Path, content: &[u8], durable: Durable) -> io::Result<()> {
    with_temporary(path, content, durable, |temporary_path| fs::rename(temporary_path, path))
}

/// Creates a file atomically; false if it exists, possibly created by a concurrent process.
///
/// # Errors
/// I/O errors; the file does not exist.
pub fn create(path: &Path, content: &[u8], durable: Durable) -> io::Result<bool> {
    with_temporary(path, content, durable, |temporary_path| publish(temporary_path, path, &PUBLISH_METHODS))
}

/// Renames a file without replacing an existing one.
type PublishMethod = fn(&Path, &Path) -> io::Result<()>;

/// Publish methods in order of preference, since file systems may lack hard links or
/// `RENAME_NOREPLACE`.
const PUBLISH_METHODS: [PublishMethod; 3] = [publish_by_link, rename_no_replace, publish_by_reservation];

/// Renames a file by the first method that works; false if the name is taken.
fn publish(temporary_path: &Path, path: &Path, methods: &[PublishMethod]) -> io::Result<bool> {
    let mut result = Ok(false);
    for method in methods {
        result = method(temporary_path, path).map(|()| true);
        match &result {
            Ok(_) => break,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return fs::remove_file(temporary_path).map(|()| false);
            }
            Err(_) => {}
        }
    }
    result
}

fn publish_by_link(temporary_path: &Path, path: &Path) -> io::Result<()> {
    fs::hard_link(temporary_path, path)?;
    // The file has its final name; a leftover temporary name does no harm.
    let _ = fs::remove_file(temporary_path);
    Ok(())
}

fn rename_no_replace(from: &Path, to: &Path) -> io::Result<()> {
    Ok(renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)?)
}

/// Reserves the name with an empty file, which is visible for a moment.
fn publish_by_reservation(temporary_path: &Path, path: &Path) -> io::Result<()> {
    File::create_new(path)?;
    fs::rename(temporary_path, path).inspect_err(|_| {
        let _ = fs::remove_file(path);
    })
}

/// Whether a write waits until the file and its name are on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Durable(pub bool);

/// Writes a temporary file beside `path` and calls `publish` with it; removes it on failure.
fn with_temporary<T>(
    path: &Path,
    content: &[u8],
    durable: Durable,
    publish: impl FnOnce(&Path) -> io::Result<T>,
) -> io::Result<T> {
    let temporary_path = temporary_path(path);
    let written = create_replacing(&temporary_path).and_then(|mut file| {
        file.write_all(content)?;
        if durable.0 {
            file.sync_all()?;
        }
        Ok(())
    });
    let published = written.and_then(|()| publish(&temporary_path)).inspect_err(|_| {
        let _ = fs::remove_file(&temporary_path);
    })?;
    if durable.0 {
        sync_parent(path);
    }
    Ok(published)
}

/// Makes the name of a file durable. File systems may lack this (fsync(2), EINVAL), and the file
/// itself is complete.
fn sync_parent(path: &Path) {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let _ = File::open(parent).and_then(|parent| parent.sync_all());
}

/// Creates a file, replacing an existing name without writing to its target.
///
/// The name may be left by a killed process with the same ID, or be a planted symbolic link.
fn create_replacing(path: &Path) -> io::Result<File> {
    match File::create_new(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(path)?;
            File::create_new(path)
        }
        created => created,
    }
}

/// Returns a path beside the file that only this process uses.
fn temporary_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn missing_home_is_not_created() {
        let dir = std::env::temp_dir().join(format!("numaio-home-{}", std::process::id()));
        let below = dir.join("home/.local/state/numaio");
        let error = create_directory_in(Some(&dir.join("home")), &below, 0o700).expect_err("no home");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().ends_with("/home' does not exist") && !dir.exists());
        // A directory elsewhere, as by XDG_STATE_HOME, is created.
        create_directory_in(Some(Path::new("/nonexistent")), &below, 0o700).expect("a directory");
        create_directory_in(Some(&dir.join("home")), &below.join("jobs"), 0o700).expect("a directory");
        assert!(below.join("jobs").is_dir());
        fs::remove_dir_all(dir).expect("removed");
    }

    #[test]
    fn writes_through_links_and_dangling_links() {
        let dir = std::env::temp_dir().join(format!("numaio-links-{}", std::process::id()));
        fs::create_dir_all(dir.join("far")).expect("directories");
        symlink("far/second", dir.join("first")).expect("a link");
        symlink(dir.join("far/file"), dir.join("far/second")).expect("a link");
        for content in [b"new", b"old"] {
            check_file(&dir.join("first")).expect("writable");
            write_file(&dir.join("first"), content).expect("written");
            assert!(dir.join("first").is_symlink() && dir.join("far/second").is_symlink());
            assert_eq!(fs::read(dir.join("far/file")).expect("a file"), content);
        }
        symlink("loop", dir.join("loop")).expect("a link");
        assert!(write_file(&dir.join("loop"), b"x").is_err() && dir.join("loop").is_symlink());
        fs::remove_dir_all(&dir).expect("removed");
    }

    #[test]
    fn replaces_a_planted_link_at_the_temporary_name() {
        let dir = std::env::temp_dir().join(format!("numaio-store-{}", std::process::id()));
        fs::create_dir(&dir).expect("a directory");
        let (file, victim) = (dir.join("file"), dir.join("victim"));
        fs::write(&victim, "its own").expect("a file");
        let plant = || symlink(&victim, temporary_path(&file)).expect("a link");
        plant();
        check_file(&file).expect("writable");
        plant();
        replace_file(&file, b"note", Durable(false)).expect("written");
        assert_eq!(fs::read(&file).expect("a file"), b"note");
        plant();
        write_file(&file, b"complete").expect("written");
        assert!(!file.is_symlink());
        assert_eq!(fs::read(&file).expect("a file"), b"complete");
        plant();
        assert!(!create(&file, b"second", Durable(false)).expect("an existing file"));
        // Left by a killed process with the same ID.
        fs::write(temporary_path(&file), "longer partial content").expect("a file");
        write_file(&file, b"new").expect("written");
        assert_eq!(fs::read(&file).expect("a file"), b"new");
        assert_eq!(fs::read(&victim).expect("a file"), b"its own");
        assert_eq!(fs::read_dir(&dir).expect("a directory").count(), 2, "no temporary file is left");
        fs::remove_dir_all(&dir).expect("removed");
    }

    #[test]
    fn no_publish_method_replaces_an_existing_file() {
        let dir = std::env::temp_dir().join(format!("numaio-names-{}", std::process::id()));
        fs::create_dir(&dir).expect("a directory");
        for (number, method) in PUBLISH_METHODS.into_iter().enumerate() {
            let file = dir.join(number.to_string());
            let try_publish = |content: &str| {
                fs::write(temporary_path(&file), content).expect("a file");
                // A method without support comes first.
                publish(
                    &temporary_path(&file),
                    &file,
                    &[|_, _| Err(io::ErrorKind::Unsupported.into()), method],
                )
            };
            if !try_publish("first").is_ok_and(|published| published) {
                // The file system lacks this method; it always has the last one.
                assert!(number + 1 < PUBLISH_METHODS.len(), "{number}");
                let _ = fs::remove_file(temporary_path(&file));
                let _ = fs::write(&file, "first");
                continue;
            }
            assert!(!try_publish("second").expect("a taken name"), "{number}");
            assert_eq!(fs::read(&file).expect("a file"), b"first", "{number}");
        }
        assert_eq!(
            fs::read_dir(&dir).expect("a directory").count(),
            PUBLISH_METHODS.len(),
            "no temporary file is left"
        );
        fs::remove_dir_all(&dir).expect("removed");
    }
}
