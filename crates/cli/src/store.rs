//! The state directory `$XDG_STATE_HOME/numaio` (XDG Base Directory Specification), and atomic
//! writes of user-named files.

use crate::failure::{self, Failure};
use crate::output;
use numaio_mover_linux::files;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
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

/// Writes a file atomically: under a temporary name, synced to disk, then renamed.
///
/// A symbolic link is kept and its target is written. Pipes and devices such as /dev/null are
/// written in place.
pub fn write_file(path: &Path, content: &[u8]) -> Result<(), Failure> {
    let result = match write_target(path) {
        Ok(WriteTarget::Stream) => {
            OpenOptions::new().write(true).open(path).and_then(|mut file| file.write_all(content))
        }
        Ok(WriteTarget::File(file)) => replace(&file, content),
        Err(error) => Err(error),
    };
    result.map_err(|error| failure::cannot_write(path, &error))?;
    output::detail(format_args!("wrote {}", path.display()));
    Ok(())
}

/// Checks, before long work, that [`write_file`] can write a file.
pub fn check_file(path: &Path) -> Result<(), Failure> {
    let checked = match write_target(path) {
        Ok(WriteTarget::Stream) => Ok(()),
        Ok(WriteTarget::File(file)) => {
            let temporary_path = temporary_path(&file);
            create_replacing(&temporary_path).and_then(|_| fs::remove_file(&temporary_path))
        }
        Err(error) => Err(error),
    };
    checked.map_err(|error| failure::cannot_write(path, &error))
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
    with_temporary(path, content, Durable(true), |temporary_path| fs::rename(temporary_path, path))
}

/// Writes a file atomically without syncing it, for data that is obsolete after a reboot.
pub fn write_volatile(path: &Path, content: &[u8]) -> io::Result<()> {
    with_temporary(path, content, Durable(false), |temporary_path| fs::rename(temporary_path, path))
}

/// Creates a file atomically; false if it exists, possibly created by a concurrent process.
pub fn create(path: &Path, content: &[u8], durable: Durable) -> io::Result<bool> {
    with_temporary(path, content, durable, |temporary_path| publish(temporary_path, path, &PUBLISH_METHODS))
}

/// Renames a file without replacing an existing one.
type PublishMethod = fn(&Path, &Path) -> io::Result<()>;

/// Publish methods in order of preference, since file systems may lack hard links or
/// `RENAME_NOREPLACE`.
const PUBLISH_METHODS: [PublishMethod; 3] =
    [publish_by_link, files::rename_no_replace, publish_by_reservation];

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

/// Reserves the name with an empty file, which is visible for a moment.
fn publish_by_reservation(temporary_path: &Path, path: &Path) -> io::Result<()> {
    File::create_new(path)?;
    fs::rename(temporary_path, path).inspect_err(|_| {
        let _ = fs::remove_file(path);
    })
}

/// Whether a write waits until the file is on disk.
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
    written.and_then(|()| publish(&temporary_path)).inspect_err(|_| {
        let _ = fs::remove_file(&temporary_path);
    })
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

/// A kind of stored document, each in its own directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Topologies.
    Topology,
    /// Copy models.
    Model,
    /// STREAM bandwidths.
    Stream,
    /// Latencies.
    Latency,
    /// I/O bandwidths.
    Io,
    /// Comparisons of views.
    Comparison,
}

impl Kind {
    fn folder(self) -> &'static str {
        match self {
            Self::Topology => "topologies",
            Self::Model => "models",
            Self::Stream => "streams",
            Self::Latency => "latencies",
            Self::Io => "io",
            Self::Comparison => "comparisons",
        }
    }

    /// Returns the plural name of this kind for messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Topology => "topologies",
            Self::Model => "models",
            Self::Stream => "STREAM measurements",
            Self::Latency => "latencies",
            Self::Io => "I/O measurements",
            Self::Comparison => "comparisons",
        }
    }
}

/// Saves a document as the newest of its kind and machine, and returns its path.
///
/// The path is `models/FINGERPRINT/SECONDS.json`, so documents of a machine sort by time. If the
/// second is taken by another document, the next free one is used.
pub fn save(kind: Kind, fingerprint: &str, measured_at: u64, json: &str) -> Result<PathBuf, Failure> {
    let dir = folder(kind, fingerprint)?;
    let mut second = measured_at;
    loop {
        let path = dir.join(format!("{second:012}.json"));
        let is_same = fs::read(&path).is_ok_and(|existing| existing == json.as_bytes());
        if is_same
            || create(&path, json.as_bytes(), Durable(true))
                .map_err(|error| failure::cannot_write(&path, &error))?
        {
            output::detail(format_args!("saved {}", path.display()));
            return Ok(path);
        }
        second = second.saturating_add(1);
    }
}

/// Checks, before long measurements, that [`save`] can save a document.
pub fn check(kind: Kind, fingerprint: &str) -> Result<(), Failure> {
    let dir = folder(kind, fingerprint)?;
    check_file(&dir.join("check")).map_err(|failure| failure.hint(WRITABLE_HINT))
}

const WRITABLE_HINT: &str = "set XDG_STATE_HOME to a writable directory, or use --no-save";

/// Returns the directory of one kind and machine, and creates it if necessary.
fn folder(kind: Kind, fingerprint: &str) -> Result<PathBuf, Failure> {
    let state = state_dir().ok_or_else(|| {
        Failure::new("cannot save the measurement: no state directory")
            .hint("set XDG_STATE_HOME or HOME, or use --no-save")
    })?;
    let dir = state.join(kind.folder()).join(fingerprint);
    fs::create_dir_all(&dir).map_err(|error| Failure::file(&dir, error).hint(WRITABLE_HINT))?;
    Ok(dir)
}

/// Returns the paths of the documents of one kind and machine, newest first.
pub fn saved(kind: Kind, fingerprint: &str) -> Vec<PathBuf> {
    let Some(state) = state_dir() else { return Vec::new() };
    let entries = fs::read_dir(state.join(kind.folder()).join(fingerprint)).into_iter().flatten();
    let paths = entries.filter_map(Result::ok).map(|entry| entry.path());
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "json")).collect();
    paths.sort();
    paths.reverse();
    paths
}

/// Returns the directory of receipts, and creates it if necessary.
pub fn receipts_folder() -> Result<PathBuf, Failure> {
    let state = state_dir().ok_or_else(|| {
        Failure::new("cannot save a receipt: no state directory").hint("set XDG_STATE_HOME or HOME")
    })?;
    let dir = state.join("receipts");
    fs::create_dir_all(&dir)
        .map_err(|error| Failure::file(&dir, error).hint("set XDG_STATE_HOME to a writable directory"))?;
    Ok(dir)
}

/// Returns the path of the receipt of a change on a machine; `what` names the change.
pub fn receipt(fingerprint: &str, what: &str) -> Result<PathBuf, Failure> {
    receipts_folder().map(|dir| dir.join(format!("{fingerprint}-{what}.json")))
}

/// The file of a receipt.
pub struct ReceiptFile {
    /// Fingerprint of the machine.
    pub machine: String,
    /// Name of the change.
    pub what: String,
    /// Path of the receipt.
    pub path: PathBuf,
}

/// Lists the receipts of all machines.
pub fn receipts() -> Result<Vec<ReceiptFile>, Failure> {
    let Some(state) = state_dir() else { return Ok(Vec::new()) };
    let dir = state.join("receipts");
    let entries = match fs::read_dir(&dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| Failure::file(&dir, error))?,
    };
    let receipts = entries.filter_map(Result::ok).filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let (machine, what) = name.strip_suffix(".json")?.split_once('-')?;
        Some(ReceiptFile { machine: machine.to_owned(), what: what.to_owned(), path: entry.path() })
    });
    Ok(receipts.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

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
        write_volatile(&file, b"note").expect("written");
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
