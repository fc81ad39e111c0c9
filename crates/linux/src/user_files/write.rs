//! Writing of files: complete replacements, appended logs, and locks.

use super::read::require_regular;
use super::resolve::{controlled_by_others, directory, entry, is_trusted_owner, kind, place, Place};
use rustix::fs::{
    fchmod, fchown, fstat, linkat, mkdirat, openat, renameat, renameat_with, symlinkat, unlinkat, AtFlags,
    FileType, Gid, Mode, OFlags, RenameFlags, Stat, Uid,
};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// Mode of files that the user named, less the bits of the umask.
const OUTPUT_MODE: u32 = 0o666;
/// Mode of files that numaio stores and later trusts: others cannot write them, whatever the umask.
const STORED_MODE: u32 = 0o644;

/// Whether a write waits until the file and its name are on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Durable(pub bool);

/// Writes a file that the user named, atomically: under a temporary name, synced to disk, then
/// renamed. A replaced file keeps its mode.
///
/// A symbolic link of root or this user is kept and its target is written. Pipes and devices such
/// as /dev/null are written in place.
///
/// # Errors
/// I/O errors; a symbolic link or pipe of another user; a regular file keeps its content.
pub fn write_file(path: &Path, content: &[u8]) -> io::Result<()> {
    match Output::open(path, None)? {
        Output::Stream(mut stream) => stream.write_all(content),
        Output::Replacement(replacement) => {
            replacement.file().write_all(content)?;
            replacement.publish(Durable(true))
        }
    }
}

/// Checks, before long work, that [`write_file`] can write a file.
///
/// # Errors
/// I/O errors of creating its temporary file; a symbolic link or pipe of another user.
pub fn check_file(path: &Path) -> io::Result<()> {
    let place = place(path)?;
    match found_stream(&place)? {
        true => Ok(()),
        false => Replacement::of_output(place, None).map(drop),
    }
}

/// An open file that the user named.
#[derive(Debug)]
pub enum Output {
    /// A device, a pipe, or an open descriptor, which is written in place.
    Stream(File),
    /// A regular file, which is replaced when it is complete.
    Replacement(Replacement),
}

impl Output {
    /// Opens a file to write; `temporary_name` replaces the default name of a temporary file.
    ///
    /// # Errors
    /// I/O errors; a directory; a symbolic link or pipe of another user.
    pub fn open(path: &Path, temporary_name: Option<OsString>) -> io::Result<Self> {
        let place = place(path)?;
        if !found_stream(&place)? {
            return Replacement::of_output(place, temporary_name).map(Self::Replacement);
        }
        // The output of a shell may follow other output in the same file.
        let append = if place.is_descriptor { OFlags::APPEND } else { OFlags::empty() };
        let file = place.open(OFlags::WRONLY | append, 0)?;
        match place.is_descriptor || kind(&fstat(&file)?) != FileType::RegularFile {
            true => Ok(Self::Stream(file)),
            false => Err(io::Error::other("the file was exchanged meanwhile")),
        }
    }
}

/// Returns whether a name is written in place, and not replaced by a new file.
fn found_stream(place: &Place) -> io::Result<bool> {
    let Some(found) = place.stat()? else { return Ok(false) };
    match kind(&found) {
        FileType::Directory => Err(io::ErrorKind::IsADirectory.into()),
        _ if place.is_descriptor => Ok(true),
        FileType::RegularFile => Ok(false),
        // Only root can create a device, but everyone a pipe or a socket.
        FileType::Fifo | FileType::Socket if !is_trusted_owner(found.st_uid) => {
            Err(controlled_by_others(format!("it is a pipe or socket of user {}", found.st_uid)))
        }
        _ => Ok(true),
    }
}

/// A new file under a temporary name, which is removed unless the file gets its name.
#[derive(Debug)]
pub struct Replacement {
    place: Place,
    /// None once the file has its name.
    temporary: Option<OsString>,
    file: File,
}

impl Replacement {
    /// Starts a file that numaio stores, and never writes in place.
    ///
    /// # Errors
    /// I/O errors; a directory, pipe or device; a symbolic link of another user.
    pub fn of_stored(path: &Path) -> io::Result<Self> {
        let place = place(path)?;
        match found_stream(&place)? {
            true => Err(io::Error::other("not a regular file")),
            false => Self::begin(place, None, STORED_MODE),
        }
    }

    /// Starts the file that the user named at a place.
    fn of_output(place: Place, temporary: Option<OsString>) -> io::Result<Self> {
        let existing = place.stat()?;
        let replacement = Self::begin(place, temporary, OUTPUT_MODE)?;
        if let Some(existing) = existing {
            replacement.keep_attributes(&existing)?;
        }
        Ok(replacement)
    }

    fn begin(place: Place, temporary: Option<OsString>, mode: u32) -> io::Result<Self> {
        let temporary = temporary.unwrap_or_else(|| temporary_name(&place.name));
        let file = create_replacing(&place, &temporary, mode)?;
        Ok(Self { place, temporary: Some(temporary), file })
    }

    /// Keeps the mode of an existing file, and its owner if possible. A file that another user put
    /// into a shared directory has no influence.
    fn keep_attributes(&self, existing: &Stat) -> io::Result<()> {
        let owners = [crate::process::user(), fstat(&self.place.directory)?.st_uid];
        if owners.contains(&existing.st_uid) || !self.place.is_shared()? {
            let (owner, group) = (Uid::from_raw(existing.st_uid), Gid::from_raw(existing.st_gid));
            let _ = fchown(&self.file, Some(owner), Some(group));
            let _ = fchmod(&self.file, Mode::from_raw_mode(existing.st_mode & 0o777));
        }
        Ok(())
    }

    /// Returns the new file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Gives the file its name in place of an existing one.
    ///
    /// # Errors
    /// I/O errors; an existing file is kept.
    pub fn publish(mut self, durable: Durable) -> io::Result<()> {
        self.publish_by(durable, |Place { directory, name, .. }, temporary| {
            Ok(renameat(directory, temporary, directory, name)?)
        })
    }

    /// Gives the file its name; false if the name is taken, possibly by a concurrent process.
    ///
    /// # Errors
    /// I/O errors; the name does not exist.
    fn publish_new(mut self, durable: Durable, methods: &[PublishMethod]) -> io::Result<bool> {
        let mut result = Ok(false);
        for method in methods {
            result = self.publish_by(durable, method).map(|()| true);
            match &result {
                Ok(_) => break,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
                Err(_) => {}
            }
        }
        result
    }

    fn publish_by(
        &mut self,
        durable: Durable,
        method: impl Fn(&Place, &OsStr) -> io::Result<()>,
    ) -> io::Result<()> {
        let Some(temporary) = &self.temporary else { return Ok(()) };
        if durable.0 {
            self.file.sync_all()?;
        }
        method(&self.place, temporary)?;
        self.temporary = None;
        if durable.0 {
            // File systems may lack this (fsync(2), EINVAL), and the file itself is complete.
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let directory = openat(&self.place.directory, ".", flags, Mode::empty());
            let _ = directory.and_then(rustix::fs::fsync);
        }
        Ok(())
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            let _ = unlinkat(&self.place.directory, temporary, AtFlags::empty());
        }
    }
}

/// Replaces a file that numaio stores atomically.
///
/// # Errors
/// I/O errors; another type of file; a symbolic link of another user; the file keeps its content.
pub fn replace_file(path: &Path, content: &[u8], durable: Durable) -> io::Result<()> {
    let replacement = Replacement::of_stored(path)?;
    replacement.file().write_all(content)?;
    replacement.publish(durable)
}

/// Creates a file that numaio stores atomically; false if it exists, possibly created by a
/// concurrent process.
///
/// # Errors
/// I/O errors; the file does not exist.
pub fn create(path: &Path, content: &[u8], durable: Durable) -> io::Result<bool> {
    create_with_mode(path, content, durable, STORED_MODE)
}

/// Creates a file that only its owner can read, by [`create`].
///
/// # Errors
/// I/O errors; the file does not exist.
pub fn create_private(path: &Path, content: &[u8]) -> io::Result<bool> {
    create_with_mode(path, content, Durable(true), 0o600)
}

fn create_with_mode(path: &Path, content: &[u8], durable: Durable, mode: u32) -> io::Result<bool> {
    let replacement = Replacement::begin(entry(path)?, None, mode)?;
    replacement.file().write_all(content)?;
    replacement.publish_new(durable, &PUBLISH_METHODS)
}

/// Creates a file that the user named and that is written step by step.
///
/// # Errors
/// I/O errors; `AlreadyExists`.
pub fn create_new(path: &Path) -> io::Result<File> {
    entry(path)?.open(OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL, OUTPUT_MODE)
}

/// Creates a file that only its owner can read, and removes its name again: it exists as long as it
/// is open.
///
/// # Errors
/// I/O errors; `AlreadyExists`; a symbolic link of another user.
pub fn create_unnamed(path: &Path) -> io::Result<File> {
    let place = entry(path)?;
    let file = place.open(OFlags::RDWR | OFlags::CREATE | OFlags::EXCL, 0o600)?;
    unlinkat(&place.directory, &place.name, AtFlags::empty())?;
    Ok(file)
}

/// Renames a temporary name without replacing an existing file.
type PublishMethod = fn(&Place, &OsStr) -> io::Result<()>;

/// Publish methods in order of preference, since file systems may lack hard links or
/// `RENAME_NOREPLACE`.
const PUBLISH_METHODS: [PublishMethod; 3] = [publish_by_link, rename_no_replace, publish_by_reservation];

fn publish_by_link(Place { directory, name, .. }: &Place, temporary: &OsStr) -> io::Result<()> {
    linkat(directory, temporary, directory, name, AtFlags::empty())?;
    // The file has its final name; a leftover temporary name does no harm.
    let _ = unlinkat(directory, temporary, AtFlags::empty());
    Ok(())
}

fn rename_no_replace(Place { directory, name, .. }: &Place, temporary: &OsStr) -> io::Result<()> {
    Ok(renameat_with(directory, temporary, directory, name, RenameFlags::NOREPLACE)?)
}

/// Reserves the name with an empty file, which is visible for a moment.
fn publish_by_reservation(place: &Place, temporary: &OsStr) -> io::Result<()> {
    place.open(OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL, STORED_MODE)?;
    let Place { directory, name, .. } = place;
    Ok(renameat(directory, temporary, directory, name).inspect_err(|_| {
        let _ = unlinkat(directory, name, AtFlags::empty());
    })?)
}

/// Creates a file, replacing an existing name without writing to its target.
///
/// The name may be left by a killed process with the same ID, or be a planted symbolic link.
fn create_replacing(place: &Place, name: &OsStr, mode: u32) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let create = || openat(&place.directory, name, flags, Mode::from_raw_mode(mode));
    match create() {
        Err(Errno::EXIST) => {
            unlinkat(&place.directory, name, AtFlags::empty())?;
            Ok(create()?.into())
        }
        created => Ok(created?.into()),
    }
}

/// Returns a name beside the file that only this process uses.
fn temporary_name(name: &OsStr) -> OsString {
    let mut name = name.to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    name
}

/// Creates a directory that does not exist, in an existing one.
///
/// # Errors
/// I/O errors; `AlreadyExists`; a symbolic link of another user.
pub fn create_new_directory(path: &Path) -> io::Result<()> {
    let Place { directory, name, .. } = entry(path)?;
    Ok(mkdirat(directory, name, Mode::from_raw_mode(0o777))?)
}

/// Creates a symbolic link.
///
/// # Errors
/// I/O errors; `AlreadyExists`; a symbolic link of another user.
pub fn create_link(target: &Path, path: &Path) -> io::Result<()> {
    let Place { directory, name, .. } = entry(path)?;
    Ok(symlinkat(target, directory, name)?)
}

/// Removes a name, which may be a symbolic link.
///
/// # Errors
/// I/O errors; a symbolic link of another user in its directory's path.
pub fn remove_file(path: &Path) -> io::Result<()> {
    let Place { directory, name, .. } = entry(path)?;
    Ok(unlinkat(directory, name, AtFlags::empty())?)
}

/// Opens a log that the user named to append to it, and creates it if necessary.
///
/// # Errors
/// I/O errors; a symbolic link or pipe of another user; a file of another directory.
pub fn append(path: &Path) -> io::Result<File> {
    let place = place(path)?;
    found_stream(&place)?;
    let create = if place.is_descriptor { OFlags::empty() } else { OFlags::CREATE };
    let file = place.open(OFlags::WRONLY | OFlags::APPEND | create, OUTPUT_MODE)?;
    require_one_name(&place, &file)?;
    Ok(file)
}

/// Opens a regular file to read it and to append records, and creates it with a mode.
///
/// # Errors
/// I/O errors; another type of file; a symbolic link of another user; a file of another directory.
pub fn append_records(path: &Path, mode: u32) -> io::Result<File> {
    let place = place(path)?;
    let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE | OFlags::NONBLOCK;
    let file = place.open(flags, mode)?;
    require_regular(&file)?;
    require_one_name(&place, &file)?;
    Ok(file)
}

/// Opens a file whose content does not matter to lock it, and creates it if necessary.
///
/// # Errors
/// I/O errors; another type of file; a symbolic link of another user.
pub fn lock_file(path: &Path) -> io::Result<File> {
    let file = place(path)?.open(OFlags::WRONLY | OFlags::CREATE | OFlags::NONBLOCK, STORED_MODE)?;
    require_regular(&file)?;
    Ok(file)
}

/// Locks a directory, and waits for other processes.
///
/// # Errors
/// I/O errors; a file system without locks (flock(2)); a symbolic link of another user.
pub fn lock_directory(path: &Path) -> io::Result<File> {
    let file = open_directory(path)?;
    file.lock()?;
    Ok(file)
}

/// Opens a directory to lock or sync it.
///
/// # Errors
/// I/O errors; a symbolic link of another user.
pub fn open_directory(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(openat(directory(path, None)?, ".", flags, Mode::empty())?.into())
}

/// Checks that a file that is written in place is not also a file of another directory, to which
/// another user has linked it.
fn require_one_name(place: &Place, file: &File) -> io::Result<()> {
    let found = fstat(file)?;
    let is_linked = kind(&found) == FileType::RegularFile && found.st_nlink > 1;
    match is_linked && !place.is_descriptor && place.is_shared()? {
        true => Err(controlled_by_others(
            "it has several names (hard links), and others can write its directory".to_owned(),
        )),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{chown, lchown, symlink, MetadataExt, PermissionsExt};
    use std::path::PathBuf;

    const OTHER: u32 = 65_534;

    fn temporary_path(path: &Path) -> PathBuf {
        path.with_file_name(temporary_name(path.file_name().expect("a name")))
    }

    fn scratch(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("numaio-{name}-{}", std::process::id()));
        fs::create_dir(&dir).expect("a directory");
        dir
    }

    fn make_pipe(path: &Path) {
        let mode = Mode::RUSR | Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, path, FileType::Fifo, mode, 0).expect("a pipe");
    }

    type Writer = fn(&Path) -> io::Result<()>;

    /// Every way to write a file, except to create one.
    fn writers() -> [(&'static str, Writer); 6] {
        [
            ("write_file", |path| write_file(path, b"new")),
            ("check_file", check_file),
            ("replace_file", |path| replace_file(path, b"new", Durable(false))),
            ("append", |path| append(path)?.write_all(b"new")),
            ("append_records", |path| append_records(path, 0o640)?.write_all(b"new")),
            ("lock_file", |path| lock_file(path).map(drop)),
        ]
    }

    #[test]
    fn no_writer_follows_a_link_of_another_user() {
        if crate::process::user() != 0 {
            return;
        }
        let dir = scratch("planted");
        fs::create_dir(dir.join("root")).expect("a directory");
        let victim = dir.join("root/victim");
        fs::write(&victim, "precious").expect("a file");
        symlink(&victim, dir.join("file")).expect("a link");
        symlink(dir.join("root"), dir.join("above")).expect("a link");
        symlink(dir.join("root/missing"), dir.join("dangling")).expect("a link");
        let planted = ["file", "above", "dangling"];
        for name in planted {
            lchown(dir.join(name), Some(OTHER), None).expect("another owner");
        }
        for (writer, write) in writers() {
            for name in ["file", "above/victim", "dangling", "above/new"] {
                let error = write(&dir.join(name)).expect_err(name);
                assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{writer} {name}");
            }
        }
        let below = dir.join("above/file");
        assert!(create(&below, b"", Durable(false)).is_err() && create_new(&below).is_err());
        assert!(remove_file(&dir.join("above/victim")).is_err());
        assert!(super::super::create_directory(&dir.join("above/made"), 0o777).is_err());
        assert_eq!(fs::read(&victim).expect("a file"), b"precious");
        assert_eq!(fs::read_dir(dir.join("root")).expect("a directory").count(), 1);
        fs::remove_dir_all(dir).expect("removed");
    }

    #[test]
    fn only_named_pipes_of_this_user_are_written() {
        if crate::process::user() != 0 {
            return;
        }
        let dir = scratch("pipes");
        let pipe = dir.join("pipe");
        make_pipe(&pipe);
        check_file(&pipe).expect("an own pipe");
        assert!(replace_file(&pipe, b"new", Durable(false)).is_err());
        assert!(append_records(&pipe, 0o640).is_err() && lock_file(&pipe).is_err());
        chown(&pipe, Some(OTHER), None).expect("another owner");
        for (writer, write) in writers() {
            assert!(write(&pipe).is_err(), "{writer}");
        }
        write_file(Path::new("/dev/null"), b"new").expect("a device");
        fs::remove_dir_all(dir).expect("removed");
    }

    #[test]
    fn appends_to_no_file_of_another_directory() {
        let dir = scratch("linked");
        let (victim, log) = (dir.join("victim"), dir.join("shared/log"));
        fs::write(&victim, "precious").expect("a file");
        fs::create_dir(dir.join("shared")).expect("a directory");
        fs::hard_link(&victim, &log).expect("a link");
        append(&log).expect("a directory of this user");
        fs::set_permissions(dir.join("shared"), Permissions::from_mode(0o1777)).expect("a mode");
        assert!(append(&log).is_err() && append_records(&log, 0o640).is_err());
        write_file(&log, b"new").expect("a replacement");
        append(&log).and_then(|mut file| file.write_all(b"er")).expect("one name");
        assert_eq!(fs::read(&log).expect("a file"), b"newer");
        assert_eq!(fs::read(&victim).expect("a file"), b"precious");
        fs::remove_dir_all(dir).expect("removed");
    }

    #[test]
    fn an_open_descriptor_is_appended_to() {
        let dir = scratch("descriptor");
        let mut file = File::create(dir.join("file")).expect("a file");
        file.write_all(b"first ").expect("written");
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
        check_file(Path::new(&path)).expect("writable");
        write_file(Path::new(&path), b"second").expect("written");
        append(Path::new(&path)).and_then(|mut log| log.write_all(b" third")).expect("written");
        assert_eq!(fs::read(dir.join("file")).expect("a file"), b"first second third");
        fs::remove_dir_all(dir).expect("removed");
    }

    #[test]
    fn a_replacement_keeps_the_mode_of_an_own_file_only() {
        let dir = scratch("modes");
        let file = dir.join("file");
        fs::write(&file, "old").expect("a file");
        let mode = |mode| fs::set_permissions(&file, Permissions::from_mode(mode)).expect("a mode");
        let found = || fs::metadata(&file).map(|found| (found.mode() & 0o777, found.uid())).expect("a file");
        let user = crate::process::user();
        mode(0o600);
        write_file(&file, b"new").expect("written");
        assert_eq!(found(), (0o600, user));
        replace_file(&file, b"new", Durable(false)).expect("written");
        assert_eq!(found().0 & 0o022, 0);
        if user == 0 {
            mode(0o666);
            chown(&file, Some(OTHER), None).expect("another owner");
            write_file(&file, b"new").expect("written");
            assert_eq!(found(), (0o666, OTHER), "others cannot have put it there");
            fs::set_permissions(&dir, Permissions::from_mode(0o1777)).expect("a mode");
            write_file(&file, b"new").expect("written");
            let (mode, owner) = found();
            assert!(mode & 0o022 == 0 && owner == 0, "{mode:o} {owner}");
            for path in [&dir, &file] {
                chown(path, Some(OTHER), None).expect("another owner");
            }
            write_file(&file, b"new").expect("written");
            assert_eq!(found().1, OTHER);
        }
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
                let replacement = Replacement::of_stored(&file).expect("a new file");
                replacement.file().write_all(content.as_bytes()).expect("written");
                // A method without support comes first.
                let methods = [|_: &Place, _: &OsStr| Err(io::ErrorKind::Unsupported.into()), method];
                replacement.publish_new(Durable(false), &methods)
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
