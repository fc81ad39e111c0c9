//! What is where things come from and go to: whether that is a single file, and whether anything of it is at the destination already.

use super::TransferRequest;
use crate::commands::copy::path_of;
use crate::failure::Failure;
use numaio_linux::files::{Base, Roots};
use numaio_linux::{random, Root};
use numaio_machine::control::boot_id;
use numaio_machine::port::Stamp;
use numaio_mover::filter::SourcePath;
use numaio_mover::hash::HashKind;
use numaio_mover::name::Name;
use numaio_mover::sink::{ProtectedPaths, JOURNAL, SERIES};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Where an identity of a transfer tells one try from the next.
const ATTEMPT_BYTES: usize = SERIES.end;

/// Where things go to.
#[derive(Default)]
pub(super) struct Destination {
    /// The directory that is the root of the sink; none if it is not there, and nothing is to be changed.
    pub root: Option<PathBuf>,
    /// The name that a single file gets in it.
    pub alias: Option<Name>,
    /// Whether it was made.
    pub made: bool,
}

/// For identities.
pub(super) fn random_bytes<const N: usize>() -> Result<[u8; N], Failure> {
    random::bytes().map_err(|error| Failure::new(format!("the kernel has no random numbers: {error}")))
}

impl TransferRequest {
    /// The same for another try. The one before may still be at work on the other host for a while, and what both write to is not
    /// to have one name; `is_retry` tells whether there was one. The middle of the identity is that of all tries.
    pub fn for_attempt(&self, is_retry: bool) -> Result<Self, Failure> {
        let mut attempt = Self { is_retry: is_retry || self.is_retry, ..self.clone() };
        attempt.transfer[ATTEMPT_BYTES..].copy_from_slice(&random_bytes::<{ 16 - ATTEMPT_BYTES }>()?);
        Ok(attempt)
    }

    /// Finds the directory where things go to, or makes it.
    pub(super) fn destination(&self, one_file: bool) -> Result<Destination, Failure> {
        let path = path_of(&self.to);
        if self.base.is_directory(&path) {
            return Ok(Destination { root: Some(path), ..Destination::default() });
        }
        if one_file && !self.to.ends_with(b"/") {
            let origin = SourcePath::parse(&self.to).filter(|origin| origin.only.is_some());
            let origin = origin.ok_or_else(|| Failure::usage(format!("{}: no name", path.display())))?;
            let root = Some(path_of(&origin.root));
            self.check_parent_exists(&path)?;
            return Ok(Destination { root, alias: origin.only, made: false });
        }
        // With a slash behind it, the kernel does not find what is no directory.
        let end = self.to.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
        let bare = path_of(&self.to[..end]);
        if self.base.exists(&bare) {
            return Err(Failure::new(format!("{} is no directory", bare.display()))
                .hint("name a directory, or one that is not there yet"));
        }
        self.check_parent_exists(&path)?;
        if self.dry_run {
            return Ok(Destination::default());
        }
        self.base.make_directory(&path).map_err(|error| Failure::file(&path, error))?;
        Ok(Destination { root: Some(path), alias: None, made: true })
    }

    /// A failure if there is no directory above a path.
    fn check_parent_exists(&self, path: &Path) -> Result<(), Failure> {
        let Some(above) = path.parent().filter(|above| !above.as_os_str().is_empty()) else { return Ok(()) };
        let Err((above, error)) = self.base.roots(&[above]) else { return Ok(()) };
        if error.kind() != ErrorKind::NotFound {
            return Err(Failure::file(&above, error));
        }
        // Another host is told no hint.
        let why = format!("there is no directory {}, and only the last one is made", above.display());
        Err(Failure::file(path, why + "; mkdir -p makes the others"))
    }

    /// Whether the only source is a single file, which may get another name, or might be one if it were there.
    pub fn is_one_file(&self) -> bool {
        self.may_be_one_file() && self.from.iter().all(|path| self.base.is_not_directory(&path_of(path)))
    }

    /// Whether what is asked for may be a single file, whoever says that it is.
    pub fn may_be_one_file(&self) -> bool {
        self.file_list.is_none() && matches!(&self.from[..], [path] if !path.ends_with(b"/"))
    }

    /// The directory on this host that is the destination, by the numbers of its file system and in it.
    pub fn destination_identity(&self) -> Option<(u64, u64)> {
        identity(&path_of(&self.to), true)
    }

    /// Directories on this host where reading begins, and those in which they lie, by the same numbers.
    pub fn protected_paths(&self) -> ProtectedPaths {
        let mut spared = ProtectedPaths::default();
        for path in &self.from {
            let Some(real) = real(path) else { continue };
            let mut numbers = real.ancestors().map(|above| identity(above, false));
            spared.sources.extend(numbers.next().flatten());
            spared.ancestors.extend(numbers.flatten());
        }
        spared.inside_destination = self
            .destination_identity()
            .is_some_and(|to| spared.ancestors.contains(&to) || spared.sources.contains(&to));
        spared
    }

    /// A source on this host that would be lost, and why: it is its own destination and would be emptied before it is read, or a link that
    /// would replace what it leads to.
    pub fn source_loss(&self) -> Option<(PathBuf, &'static str)> {
        let to = path_of(&self.to);
        let is_alone = self.is_one_file() && !to.is_dir();
        let why = |from: &PathBuf| {
            // Names of a list are below the source, which has none itself.
            let only = SourcePath::parse(from.as_os_str().as_bytes()).filter(|_| self.file_list.is_none());
            let only = only.and_then(|origin| origin.only);
            let at = match &only {
                Some(name) if !is_alone => to.join(path_of(name.as_bytes())),
                _ => to.clone(),
            };
            let there = identity(&at, only.is_none())?;
            let is_it = |follow| identity(from, follow) == Some(there);
            if is_it(only.is_none()) {
                return self.in_place.then_some("--inplace would empty it before it is read");
            }
            is_it(true).then_some("it is a link to what it would replace; copy that, by its own name")
        };
        let mut from = self.from.iter().map(|path| path_of(path));
        from.find_map(|from| why(&from).map(|why| (from, why)))
    }

    /// Whether files can have further names at the destination, on this host.
    pub fn has_links(&self) -> bool {
        self.base.has_links(&path_of(&self.to))
    }

    /// Looks at the destination, on this host: whether next to nothing of what is moved is there, as then the source sends all at once, and
    /// waits for no answer before; and whether files can have further names.
    pub fn inspect_destination(&mut self) {
        let needs_all = !self.checksum && !self.dry_run && self.size_range == (0, u64::MAX);
        let from = self.from.iter().filter(|_| self.file_list.is_none());
        let names = from.map(|from| SourcePath::parse(from)?.only).collect::<Option<Vec<Name>>>();
        self.capabilities.eager_data =
            needs_all && is_new(&self.base, &path_of(&self.to), &names.unwrap_or_default());
        self.capabilities.hard_links = self.has_links();
    }
}

/// The path of a source without links on its way. One that is a link itself is moved as such, unless a slash follows it.
fn real(path: &[u8]) -> Option<PathBuf> {
    let named = path_of(path);
    match (named.parent(), named.file_name()) {
        (Some(above), Some(name)) if !path.ends_with(b"/") && !path.ends_with(b"/.") => {
            let above = if above == Path::new("") { Path::new(".") } else { above };
            Some(above.canonicalize().ok()?.join(name))
        }
        _ => named.canonicalize().ok(),
    }
}

/// What is at a path: a number of a file system and one in it; a link leads on if it is followed.
fn identity(path: &Path, follow: bool) -> Option<(u64, u64)> {
    let found = if follow { path.metadata() } else { path.symlink_metadata() }.ok()?;
    Some((found.dev(), found.ino()))
}

/// Whether nothing of what is moved is at the destination: it is not there, or has nothing in it, or nothing with one of the names, if
/// those are all that is moved. What an interrupted transfer left there is gone on with.
fn is_new(base: &Base, to: &Path, names: &[Name]) -> bool {
    let is_there = |name: &[u8]| base.exists(&to.join(path_of(name)));
    match base.is_directory(to) {
        // A file gets this name, and what is left of it lies beside.
        false => !base.exists(to) && !base.exists(&to.with_file_name(path_of(JOURNAL))),
        true if base.is_empty(to) => true,
        true => {
            let mut all = names.iter().map(Name::as_bytes).chain([JOURNAL]);
            !names.is_empty() && !all.any(is_there)
        }
    }
}

/// A failure if attributes are out of reach: what has some would be taken for absent.
pub(super) fn require_proc(attributes: bool) -> Result<(), Failure> {
    match !attributes || numaio_linux::files::has_proc() {
        true => Ok(()),
        false => Err(Failure::new("modes and extended attributes are out of reach: /proc is not mounted")
            .hint("mount it, or bind it into the container: mount -t proc proc /proc")),
    }
}

/// When it was so much earlier.
pub(super) fn seconds_ago(earlier: Duration) -> Stamp {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let then = since_epoch.saturating_sub(earlier);
    Stamp { seconds: then.as_secs() as i64, nanoseconds: then.subsec_nanos() }
}

/// What was written and not synced is there as long as this is the same: neither the machine nor the disk was away.
pub(super) fn boot_epoch(roots: &Roots) -> [u8; 8] {
    let kernel = Root::live().ok();
    let boot = kernel.as_ref().and_then(|kernel| boot_id(kernel));
    let disks = kernel.as_ref().map(|kernel| roots.attachments(kernel));
    let mut epoch = [0; 8];
    epoch.copy_from_slice(&HashKind::Xxh3.function()(format!("{boot:?} {disks:?}").as_bytes()).0[..8]);
    epoch[0] |= 1; // One of zeros is that of durable notes.
    epoch
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_is_moved_is_new_where_nothing_of_it_is() {
        let dir = std::env::temp_dir().join(format!("numaio-order-{}", std::process::id()));
        fs::create_dir_all(dir.join("full/old")).expect("directories");
        fs::create_dir_all(dir.join("empty")).expect("a directory");
        fs::create_dir_all(dir.join("cut")).expect("a directory");
        fs::write(dir.join("cut").join(path_of(JOURNAL)), "").expect("a file");
        let new = |to: &str, names: &[&str]| {
            let names = names.iter().map(|name| Name::new(name.as_bytes().to_vec()).expect("a name"));
            is_new(&Base::Host, &dir.join(to), &names.collect::<Vec<_>>())
        };
        // Without names it is all that a directory holds.
        assert!(new("none", &[]) && new("empty", &[]) && !new("full", &[]) && !new("cut", &[]));
        assert!(new("full", &["a", "b"]) && !new("full", &["a", "old"]));
        assert!(!new("cut", &["a"]), "an interrupted transfer goes on");
        assert!(!new("cut/a", &["a"]), "so does that of a file which gets another name");
        assert!(!new("full/old/../../cut/.numaio-journal", &["a"]), "a file gets new content");
        fs::remove_dir_all(&dir).expect("removed");
    }
}
