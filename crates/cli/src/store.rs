//! Where documents are kept: `$XDG_STATE_HOME/numaio` (XDG Base Directory Specification); and where files of a user's own are.

use crate::failure::{self, Failure};
use numaio_linux::files;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The folder of our state; none if there is neither XDG_STATE_HOME nor HOME.
pub fn state_dir() -> Option<PathBuf> {
    base_dir("XDG_STATE_HOME", ".local/state")
}

/// The folder of what a user decides; none if there is neither XDG_CONFIG_HOME nor HOME.
pub fn config_dir() -> Option<PathBuf> {
    base_dir("XDG_CONFIG_HOME", ".config")
}

fn base_dir(variable: &str, in_home: &str) -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute(variable).or_else(|| Some(absolute("HOME")?.join(in_home))).map(|dir| dir.join("numaio"))
}

/// Writes a file whole or not at all: under a temporary name, on disk, then renamed.
///
/// A symbolic link stays one, and the file that it leads to is written. What is no file, as a pipe or
/// /dev/null, is written to and never replaced.
pub fn write_file(path: &Path, content: &[u8]) -> Result<(), Failure> {
    let written = match write_target(path) {
        Ok(WriteTarget::Stream) => {
            OpenOptions::new().write(true).open(path).and_then(|mut to| to.write_all(content))
        }
        Ok(WriteTarget::File(file)) => replace(&file, content),
        Err(error) => Err(error),
    };
    written.map_err(|error| failure::cannot_write(path, &error))
}

/// Finds out, before long work, whether [`write_file`] will be able to.
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

/// What is behind the name of a file to write.
pub enum WriteTarget {
    /// A file, or nothing yet; its name without links.
    File(PathBuf),
    /// A device, a pipe or a socket.
    Stream,
}

/// Where what is written under a name goes.
///
/// # Errors
/// It is a directory; the kernel's.
pub fn write_target(path: &Path) -> io::Result<WriteTarget> {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(found) if found.is_file() => fs::canonicalize(path).map(WriteTarget::File),
        Ok(_) => Ok(WriteTarget::Stream),
        Err(error) if error.kind() == io::ErrorKind::NotFound => final_target(path).map(WriteTarget::File),
        // The kernel, too, may not want a link to be followed (proc_sys_fs(5), `protected_symlinks`).
        Err(error) => Err(error),
    }
}

/// What is to be made where a link leads to nothing; the name itself if it is none.
fn final_target(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    // As many as the kernel follows (path_resolution(7)).
    for _ in 0..40 {
        let Ok(to) = fs::read_link(&path) else { return Ok(path) };
        path = path.parent().unwrap_or(Path::new("")).join(to);
    }
    Err(io::Error::other("there are too many links"))
}

fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    with_temporary(path, content, Durable(true), |temporary_path| fs::rename(temporary_path, path))
}

/// Writes what is of use only as long as the machine runs: whole or not at all, but on disk when the kernel likes.
pub fn write_volatile(path: &Path, content: &[u8]) -> io::Result<()> {
    with_temporary(path, content, Durable(false), |temporary_path| fs::rename(temporary_path, path))
}

/// Writes a file whole, if there is none of that name; false if there is one, which another process that runs
/// at the same time may have made.
pub fn create(path: &Path, content: &[u8], durable: Durable) -> io::Result<bool> {
    with_temporary(path, content, durable, |temporary_path| publish(temporary_path, path, &PUBLISH_METHODS))
}

/// Gives a file a name that nothing has.
type PublishMethod = fn(&Path, &Path) -> io::Result<()>;

/// The best one first; there are file systems without hard links, and those that cannot rename so.
const PUBLISH_METHODS: [PublishMethod; 3] =
    [publish_by_link, files::rename_no_replace, publish_by_reservation];

/// Gives a file its name in the first of some ways that works; false if something has it.
fn publish(temporary_path: &Path, path: &Path, methods: &[PublishMethod]) -> io::Result<bool> {
    let mut done = Ok(false);
    for method in methods {
        done = method(temporary_path, path).map(|()| true);
        match &done {
            Ok(_) => break,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return fs::remove_file(temporary_path).map(|()| false);
            }
            Err(_) => {}
        }
    }
    done
}

fn publish_by_link(temporary_path: &Path, path: &Path) -> io::Result<()> {
    fs::hard_link(temporary_path, path)?;
    // It has its name, whatever becomes of the other one.
    let _ = fs::remove_file(temporary_path);
    Ok(())
}

/// For a moment there is an empty file.
fn publish_by_reservation(temporary_path: &Path, path: &Path) -> io::Result<()> {
    File::create_new(path)?;
    fs::rename(temporary_path, path).inspect_err(|_| {
        let _ = fs::remove_file(path);
    })
}

/// Whether a file is waited for until it is on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Durable(pub bool);

/// Writes a file beside another and does something with it; nothing is left of it if that fails.
fn with_temporary<T>(
    path: &Path,
    content: &[u8],
    durable: Durable,
    then: impl FnOnce(&Path) -> io::Result<T>,
) -> io::Result<T> {
    let temporary_path = temporary_path(path);
    let written = create_replacing(&temporary_path).and_then(|mut file| {
        file.write_all(content)?;
        if durable.0 {
            file.sync_all()?;
        }
        Ok(())
    });
    written.and_then(|()| then(&temporary_path)).inspect_err(|_| {
        let _ = fs::remove_file(&temporary_path);
    })
}

/// Makes a file instead of whatever has its name: what a killed process of the same number left, or a link that somebody put there.
/// Neither is written to.
fn create_replacing(path: &Path) -> io::Result<File> {
    match File::create_new(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(path)?;
            File::create_new(path)
        }
        made => made,
    }
}

/// A name beside the file that no other process uses.
fn temporary_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    name.into()
}

/// A kind of stored document, each in a folder of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Topology,
    Model,
    Stream,
    Latency,
    Io,
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

    /// Documents of this kind, for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Topology => "topologies",
            Self::Model => "models",
            Self::Stream => "figures of STREAM",
            Self::Latency => "latencies",
            Self::Io => "figures of I/O",
            Self::Comparison => "comparisons",
        }
    }
}

/// Saves a document as the newest of its kind and machine, and tells where.
///
/// `models/FINGERPRINT/SECONDS.json`: one machine's documents sort by the time of their measurement. Another
/// document of the same second is kept, and this one is the next second's.
pub fn save(kind: Kind, fingerprint: &str, measured_at: u64, json: &str) -> Result<PathBuf, Failure> {
    let dir = folder(kind, fingerprint)?;
    let mut at = measured_at;
    loop {
        let path = dir.join(format!("{at:012}.json"));
        let same = fs::read(&path).is_ok_and(|there| there == json.as_bytes());
        if same
            || create(&path, json.as_bytes(), Durable(true))
                .map_err(|error| failure::cannot_write(&path, &error))?
        {
            return Ok(path);
        }
        at = at.saturating_add(1);
    }
}

/// Finds out, before long measurements, whether [`save`] will be able to.
pub fn check(kind: Kind, fingerprint: &str) -> Result<(), Failure> {
    let dir = folder(kind, fingerprint)?;
    check_file(&dir.join("check")).map_err(|failure| failure.hint(ELSEWHERE))
}

const ELSEWHERE: &str = "set XDG_STATE_HOME to a folder that can be written, or use --no-save";

/// The folder of one kind and machine, made if it is not there.
fn folder(kind: Kind, fingerprint: &str) -> Result<PathBuf, Failure> {
    let state = state_dir().ok_or_else(|| {
        Failure::new("there is no place to save what was measured")
            .hint("set XDG_STATE_HOME or HOME, or use --no-save")
    })?;
    let dir = state.join(kind.folder()).join(fingerprint);
    fs::create_dir_all(&dir).map_err(|error| Failure::file(&dir, error).hint(ELSEWHERE))?;
    Ok(dir)
}

/// Documents of one kind and machine, newest first; empty if there are none.
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

/// Where receipts are kept; it is made if it is not there.
pub fn receipts_folder() -> Result<PathBuf, Failure> {
    let state = state_dir()
        .ok_or_else(|| Failure::new("there is no place for a receipt").hint("set XDG_STATE_HOME or HOME"))?;
    let dir = state.join("receipts");
    fs::create_dir_all(&dir).map_err(|error| {
        Failure::file(&dir, error).hint("set XDG_STATE_HOME to a folder that can be written")
    })?;
    Ok(dir)
}

/// Where the receipt of what is changed on a machine is kept; `what` names the change.
pub fn receipt(fingerprint: &str, what: &str) -> Result<PathBuf, Failure> {
    receipts_folder().map(|dir| dir.join(format!("{fingerprint}-{what}.json")))
}

/// The file of a receipt.
pub struct ReceiptFile {
    /// Fingerprint of the machine.
    pub machine: String,
    /// The name of what it changed.
    pub what: String,
    pub path: PathBuf,
}

/// The receipts of all machines.
pub fn receipts() -> Result<Vec<ReceiptFile>, Failure> {
    let Some(state) = state_dir() else { return Ok(Vec::new()) };
    let dir = state.join("receipts");
    let entries = match fs::read_dir(&dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| Failure::file(&dir, error))?,
    };
    let publish = entries.filter_map(Result::ok).filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let (machine, what) = name.strip_suffix(".json")?.split_once('-')?;
        Some(ReceiptFile { machine: machine.to_owned(), what: what.to_owned(), path: entry.path() })
    });
    Ok(publish.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_link_stays_one_whether_or_not_it_leads_to_something() {
        let dir = std::env::temp_dir().join(format!("numaio-links-{}", std::process::id()));
        fs::create_dir_all(dir.join("far")).expect("folders");
        symlink("far/second", dir.join("first")).expect("a link");
        symlink(dir.join("far/file"), dir.join("far/second")).expect("a link");
        for content in [b"new", b"old"] {
            check_file(&dir.join("first")).expect("it can be written");
            write_file(&dir.join("first"), content).expect("written");
            assert!(dir.join("first").is_symlink() && dir.join("far/second").is_symlink());
            assert_eq!(fs::read(dir.join("far/file")).expect("a file"), content);
        }
        symlink("round", dir.join("round")).expect("a link");
        assert!(write_file(&dir.join("round"), b"x").is_err() && dir.join("round").is_symlink());
        fs::remove_dir_all(&dir).expect("removed");
    }

    #[test]
    fn nothing_is_written_through_a_link_that_somebody_put_there() {
        let dir = std::env::temp_dir().join(format!("numaio-store-{}", std::process::id()));
        fs::create_dir(&dir).expect("a folder");
        let (file, victim) = (dir.join("file"), dir.join("victim"));
        fs::write(&victim, "its own").expect("a file");
        let plant = || symlink(&victim, temporary_path(&file)).expect("a link");
        plant();
        check_file(&file).expect("it can be written");
        plant();
        write_volatile(&file, b"note").expect("written");
        assert_eq!(fs::read(&file).expect("a file"), b"note");
        plant();
        write_file(&file, b"whole").expect("written");
        assert!(!file.is_symlink());
        assert_eq!(fs::read(&file).expect("a file"), b"whole");
        plant();
        assert!(!create(&file, b"second", Durable(false)).expect("there is one"));
        // What a killed process of the same number left.
        fs::write(temporary_path(&file), "a part of something long").expect("a file");
        write_file(&file, b"new").expect("written");
        assert_eq!(fs::read(&file).expect("a file"), b"new");
        assert_eq!(fs::read(&victim).expect("a file"), b"its own");
        assert_eq!(fs::read_dir(&dir).expect("a folder").count(), 2, "nothing is left");
        fs::remove_dir_all(&dir).expect("removed");
    }

    #[test]
    fn a_name_that_something_has_is_taken_in_no_way() {
        let dir = std::env::temp_dir().join(format!("numaio-names-{}", std::process::id()));
        fs::create_dir(&dir).expect("a folder");
        for (number, method) in PUBLISH_METHODS.into_iter().enumerate() {
            let file = dir.join(number.to_string());
            let take = |content: &str| {
                fs::write(temporary_path(&file), content).expect("a file");
                // One that the file system does not know comes before it.
                publish(
                    &temporary_path(&file),
                    &file,
                    &[|_, _| Err(io::ErrorKind::Unsupported.into()), method],
                )
            };
            if !take("first").is_ok_and(|taken| taken) {
                // The file system does not know this one; one of them all do.
                assert!(number + 1 < PUBLISH_METHODS.len(), "{number}");
                let _ = fs::remove_file(temporary_path(&file));
                let _ = fs::write(&file, "first");
                continue;
            }
            assert!(!take("second").expect("it is taken"), "{number}");
            assert_eq!(fs::read(&file).expect("a file"), b"first", "{number}");
        }
        assert_eq!(fs::read_dir(&dir).expect("a folder").count(), PUBLISH_METHODS.len(), "nothing is left");
        fs::remove_dir_all(&dir).expect("removed");
    }
}
