//! The state of the destination and of local sources: existence, identity, and conflicts between
//! them.

use super::transfer_request::{random_bytes, TransferRequest};
use crate::options::CopyOptions;
use crate::paths::path_of;
use crate::TransferError;
use numaio_linux::Root;
use numaio_machine::control::boot_id;
use numaio_mover::filter::SourcePath;
use numaio_mover::hash::HashKind;
use numaio_mover::name::Name;
use numaio_mover::port::{DirectoryIdentity, Stamp};
use numaio_mover::sink::{journal_name, shard_journal_name, AbandonedShard, ProtectedPaths, SERIES};
use numaio_mover_linux::files::{identity_of, Base, OtherShards, Roots};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Offset of the bytes of a transfer's identity that differ between attempts.
const ATTEMPT_BYTES: usize = SERIES.end;

/// The destination of a transfer.
#[derive(Default)]
pub(super) struct Destination {
    /// Root directory of the sink; `None` if it does not exist and is not created: in a dry run, in
    /// a pass that only deletes, or if only existing entries are updated.
    pub root: Option<PathBuf>,
    /// Name of a single file in it.
    pub alias: Option<Name>,
    /// Whether the directory was created.
    pub made: bool,
}

impl TransferRequest {
    /// Returns the request for the next attempt, with another identity and mark of a retry.
    ///
    /// The previous attempt may still run on the other host, so their files need different names.
    /// The middle of the identity is the same for all attempts.
    pub fn for_attempt(&self, is_retry: bool) -> Result<Self, TransferError> {
        let mut attempt = Self { is_retry: is_retry || self.is_retry, ..self.clone() };
        attempt.transfer[ATTEMPT_BYTES..].copy_from_slice(&random_bytes::<{ 16 - ATTEMPT_BYTES }>()?);
        Ok(attempt)
    }

    /// Returns the part of the identity that all attempts share, in hexadecimal digits, and whether
    /// an earlier attempt was lost.
    pub fn attempt(&self) -> (String, bool) {
        let series = self.transfer[..ATTEMPT_BYTES].iter().map(|byte| format!("{byte:02x}"));
        (series.collect(), self.is_retry)
    }

    /// Returns the name of the journal, by the sources and names that the user typed, and the
    /// shard.
    pub(super) fn journal_name(&self) -> Vec<u8> {
        match self.options.entries.shard {
            Some(shard) => shard_journal_name(self.typed_objects(), shard.number()),
            None => journal_name(self.typed_objects()),
        }
    }

    /// Returns the sources and names that the user typed.
    fn typed_objects(&self) -> impl Iterator<Item = &[u8]> {
        let listed = self.options.file_list.iter().flat_map(|list| list.names());
        self.from.iter().map(Vec::as_slice).chain(listed)
    }

    /// Returns the shards of the same sources that ended without completing their files, if this
    /// run finishes their work.
    ///
    /// # Errors
    /// [`TransferError::ShardRunning`] if one has not ended.
    pub(super) fn abandoned_shards(&self, roots: &Roots) -> Result<Vec<AbandonedShard>, TransferError> {
        if !self.options.entries.finish {
            return Ok(Vec::new());
        }
        let found = roots.other_shards(&shard_journal_name(self.typed_objects(), 1));
        let path = || path_of(&self.to);
        let OtherShards { running, abandoned } =
            found.map_err(|error| TransferError::File { path: path(), error })?;
        match running.into_iter().min() {
            Some(number) => Err(TransferError::ShardRunning { number, path: path() }),
            // The pass that copies needs them.
            None if self.options.deletion.only => Ok(Vec::new()),
            None => Ok(abandoned),
        }
    }

    /// Finds or creates the directory of the destination.
    pub(super) fn destination(&self, one_file: bool) -> Result<Destination, TransferError> {
        let path = path_of(&self.to);
        match self.base.find_directory(&path) {
            Ok(true) => return Ok(Destination { root: Some(path), ..Destination::default() }),
            Ok(false) => {}
            Err(error) => return Err(TransferError::File { path, error }),
        }
        if one_file && !self.to.ends_with(b"/") {
            let origin = SourcePath::parse(&self.to).filter(|origin| origin.only.is_some());
            let origin = origin.ok_or_else(|| TransferError::NoName { path: path.clone() })?;
            let has_parent = self.ensure_parent(&path)?;
            let root = Some(path_of(&origin.root));
            let root = root.filter(|_| has_parent);
            return Ok(Destination { root, alias: origin.only, made: false });
        }
        // With a trailing slash, the kernel would not find a file.
        let end = self.to.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
        let bare = path_of(&self.to[..end]);
        if self.base.exists(&bare) {
            return Err(TransferError::NotADirectory { path: bare });
        }
        if !self.ensure_parent(&path)? || self.creates_nothing() {
            return Ok(Destination::default());
        }
        let made = match self.base.make_directory(&path) {
            // Another shard was faster.
            Err(_) if self.options.entries.shard.is_some() && self.base.is_directory(&path) => false,
            Err(error) => return Err(TransferError::File { path, error }),
            Ok(()) => true,
        };
        Ok(Destination { root: Some(path), alias: None, made })
    }

    /// Whether a missing destination stays missing.
    fn creates_nothing(&self) -> bool {
        let CopyOptions { dry_run, deletion, entries, .. } = &self.options;
        *dry_run || deletion.only || entries.existing
    }

    /// Returns whether the parent directory of a path exists; with `--mkpath` it is created, unless
    /// nothing is.
    fn ensure_parent(&self, path: &Path) -> Result<bool, TransferError> {
        let Some(above) = path.parent().filter(|above| !above.as_os_str().is_empty()) else {
            return Ok(true);
        };
        let Err((above, error)) = self.base.roots(&[above]) else { return Ok(true) };
        if error.kind() != ErrorKind::NotFound {
            return Err(TransferError::File { path: above, error });
        }
        if !self.options.entries.make_parents {
            return Err(TransferError::NoParentDirectory { path: path.to_owned(), parent: above });
        }
        if self.creates_nothing() {
            return Ok(false);
        }
        let mut missing: Vec<&Path> = above.ancestors().filter(|path| !path.as_os_str().is_empty()).collect();
        while let Some(path) = missing.pop() {
            match self.base.make_directory(path) {
                // It exists, or another process was faster.
                Err(_) if self.base.is_directory(path) => {}
                made => made.map_err(|error| TransferError::File { path: path.to_owned(), error })?,
            }
        }
        Ok(true)
    }

    /// Whether the only source is a single file, or is missing and might be one.
    pub fn is_one_file(&self) -> bool {
        let is_directory = |path: &Path| match self.options.entries.follows_links() {
            true => self.base.is_directory(path),
            false => !self.base.is_not_directory(path),
        };
        self.may_be_one_file() && !self.from.iter().any(|path| is_directory(&path_of(path)))
    }

    /// Whether the request allows a single file as source.
    pub fn may_be_one_file(&self) -> bool {
        self.options.file_list.is_none() && matches!(&self.from[..], [path] if !path.ends_with(b"/"))
    }

    /// Returns the identity of a local destination directory.
    pub fn destination_identity(&self) -> Option<DirectoryIdentity> {
        identity_of(&path_of(&self.to), true)
    }

    /// Returns device and inode numbers of local source directories and of their parents.
    pub fn protected_paths(&self) -> ProtectedPaths {
        let mut spared = ProtectedPaths::default();
        for path in &self.from {
            let Some(real) = real(path) else { continue };
            let mut numbers = real.ancestors().map(|above| identity_of(above, false).map(numbers_of));
            spared.sources.extend(numbers.next().flatten());
            spared.ancestors.extend(numbers.flatten());
        }
        spared.inside_destination = self
            .destination_identity()
            .map(numbers_of)
            .is_some_and(|to| spared.ancestors.contains(&to) || spared.sources.contains(&to));
        spared
    }

    /// Returns a local source that the transfer would destroy, and the reason.
    ///
    /// With `--inplace` it would be truncated before it is read; a link could replace its own
    /// target.
    pub fn source_loss(&self) -> Option<(PathBuf, &'static str)> {
        let to = path_of(&self.to);
        let is_alone = self.is_one_file() && !to.is_dir();
        let why = |from: &PathBuf| {
            // The names of a list are below the source, which has no name itself.
            let only =
                SourcePath::parse(from.as_os_str().as_bytes()).filter(|_| self.options.file_list.is_none());
            let only = only.and_then(|origin| origin.only);
            let at = match &only {
                Some(name) if !is_alone => to.join(path_of(name.as_bytes())),
                _ => to.clone(),
            };
            let there = identity_of(&at, only.is_none())?;
            let is_it = |follow| identity_of(from, follow).is_some_and(|found| found.is_same(&there));
            if is_it(only.is_none()) {
                let is_link = !is_it(true);
                if is_link && self.options.entries.follow_named {
                    return Some(
                        "the file that it points to would replace it; copy that file by its own name",
                    );
                }
                return self.options.in_place.then_some("--inplace would empty it before it is read");
            }
            is_it(true)
                .then_some("it is a link to the file that it would replace; copy that file by its own name")
        };
        let mut from = self.from.iter().map(|path| path_of(path));
        from.find_map(|from| why(&from).map(|why| (from, why)))
    }

    /// Whether hard links are wanted, and a local destination supports them.
    pub fn has_links(&self) -> bool {
        !self.options.omitted.hard_links && self.base.has_links(&path_of(&self.to))
    }

    /// Inspects a local destination: whether it is new, so that the source can send all data
    /// eagerly, hard links, and the order of data.
    pub fn inspect_destination(&mut self) {
        let CopyOptions { checksum, dry_run, deletion, entries, size_range, .. } = &self.options;
        let needs_all = !checksum
            && !dry_run
            && !deletion.only
            && !entries.existing
            && entries.link_dest.is_empty()
            && *size_range == (0, u64::MAX);
        let from = self.from.iter().filter(|_| self.options.file_list.is_none());
        let names = from.map(|from| SourcePath::parse(from)?.only).collect::<Option<Vec<Name>>>();
        self.capabilities.eager_data = needs_all
            && is_new(&self.base, &path_of(&self.to), &names.unwrap_or_default(), &self.journal_name());
        self.capabilities.hard_links = self.has_links();
        self.capabilities.in_order = self.may_need_order();
    }

    /// Returns whether a local destination may accept the data of a file in order only.
    pub fn may_need_order(&self) -> bool {
        self.base.may_need_order(&path_of(&self.to))
    }
}

/// Resolves the parent directory of a source; the source itself is a link unless a slash follows
/// it.
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

/// Returns device and inode number: what these may have in common is protected.
fn numbers_of(identity: DirectoryIdentity) -> (u64, u64) {
    (identity.volume, identity.inode)
}

/// Whether the destination has none of the transferred entries, and no journal of an interrupted
/// transfer.
///
/// Without `names`, the destination directory must be empty.
fn is_new(base: &Base, to: &Path, names: &[Name], journal: &[u8]) -> bool {
    let is_there = |name: &[u8]| base.exists(&to.join(path_of(name)));
    match base.is_directory(to) {
        // A single file's journal is beside it.
        false => !base.exists(to) && !base.exists(&to.with_file_name(path_of(journal))),
        true if base.is_empty(to) => true,
        true => {
            let mut all = names.iter().map(Name::as_bytes).chain([journal]);
            !names.is_empty() && !all.any(is_there)
        }
    }
}

/// Fails if attributes cannot be accessed, because they would look absent.
pub(super) fn require_proc(attributes: bool) -> Result<(), TransferError> {
    match !attributes || numaio_mover_linux::files::has_proc() {
        true => Ok(()),
        false => Err(TransferError::ProcNotMounted),
    }
}

/// Returns the time that was `earlier` before now.
pub(super) fn seconds_ago(earlier: Duration) -> Stamp {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let then = since_epoch.saturating_sub(earlier);
    Stamp { seconds: then.as_secs() as i64, nanoseconds: then.subsec_nanos() }
}

/// Returns a hash of the boot and the disks: unsynced data is intact while neither has restarted.
pub(super) fn boot_epoch(roots: &Roots) -> [u8; 8] {
    let kernel = Root::live().ok();
    let boot = kernel.as_ref().and_then(|kernel| boot_id(kernel));
    let disks = kernel.as_ref().map(|kernel| roots.attachments(kernel));
    let mut epoch = [0; 8];
    epoch.copy_from_slice(&HashKind::Xxh3.function()(format!("{boot:?} {disks:?}").as_bytes()).0[..8]);
    epoch[0] |= 1; // Zeros mark durable records of a journal.
    epoch
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOURNAL: &[u8] = b".numaio-journal";
    use std::fs;

    #[test]
    fn detects_new_destinations() {
        let dir = std::env::temp_dir().join(format!("numaio-order-{}", std::process::id()));
        fs::create_dir_all(dir.join("full/old")).expect("directories");
        fs::create_dir_all(dir.join("empty")).expect("a directory");
        fs::create_dir_all(dir.join("cut")).expect("a directory");
        fs::write(dir.join("cut").join(path_of(JOURNAL)), "").expect("a file");
        let new = |to: &str, names: &[&str]| {
            let names = names.iter().map(|name| Name::new(name.as_bytes().to_vec()).expect("a name"));
            is_new(&Base::Host, &dir.join(to), &names.collect::<Vec<_>>(), JOURNAL)
        };
        // Without names, the directory must be empty.
        assert!(new("none", &[]) && new("empty", &[]) && !new("full", &[]) && !new("cut", &[]));
        assert!(new("full", &["a", "b"]) && !new("full", &["a", "old"]));
        assert!(!new("cut", &["a"]), "an interrupted transfer resumes");
        assert!(!new("cut/a", &["a"]), "an interrupted transfer of a renamed file resumes");
        assert!(!new("full/old/../../cut/.numaio-journal", &["a"]), "the file exists");
        fs::remove_dir_all(&dir).expect("removed");
    }
}
