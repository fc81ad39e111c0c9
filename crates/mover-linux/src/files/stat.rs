//! Attributes of files and other objects.

use super::attributes::{is_preserved, xattrs_of};
use super::extents::address;
use super::fault::fault;
use super::path::resolver::{ResolvedName, Resolver};
use super::path::short_names::reject_short_name;
use super::{path_of_fd, Roots};
use numaio_mover::port::{Details, Fault, FileInfo, FileKind, FilePath, FileStat, Stamp, BLOCK};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, SeekFrom, Stat};
use rustix::io::Errno;
use std::cmp::Reverse;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Limit on data runs reported for the files of one operation.
#[derive(Debug)]
pub struct RunBudget {
    /// Runs left for all files together.
    left: usize,
    /// Runs allowed for each file regardless, as many as an entry can hold.
    least: usize,
}

impl Default for RunBudget {
    fn default() -> Self {
        Self { left: 65_536, least: 4_096 }
    }
}

impl Roots {
    pub(super) fn stat(
        &self,
        resolver: &mut Resolver<'_>,
        at: &FilePath,
        details: Details,
        link: Option<&[u8]>,
        budget: &mut RunBudget,
    ) -> Result<Option<FileInfo>, Fault> {
        let place = match resolver.resolve_or_errno(at) {
            // A link or file in place of a directory has no entries.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
            place => place.map_err(fault("open directory"))?,
        };
        match self.found(place, details, budget) {
            Err(Errno::NOENT) => Ok(None),
            found => {
                let found = found.map_err(fault("stat"))?;
                let is_link_destination =
                    link.is_some_and(|target| is_link_target(place, target, &found.metadata));
                reject_short_name(place).map(|()| Some(FileInfo { is_link_destination, ..found }))
            }
        }
    }

    /// Collects the requested details of an object.
    pub(super) fn found(
        &self,
        place: ResolvedName<'_>,
        details: Details,
        budget: &mut RunBudget,
    ) -> Result<FileInfo, Errno> {
        let stat = rustix::fs::statat(place.directory, place.name, AtFlags::SYMLINK_NOFOLLOW)?;
        let metadata = file_stat(&stat);
        let target = match metadata.kind {
            FileKind::Symlink => {
                let target = rustix::fs::readlinkat(place.directory, place.name, Vec::new())?;
                Some(target.into_bytes().into())
            }
            _ => None,
        };
        let is_link = metadata.kind == FileKind::Symlink;
        let (xattrs, has_hidden_xattrs) = match details.xattrs && !is_link {
            true => xattrs_of(place, |name| is_preserved(name, self.super_user))?,
            false => Default::default(),
        };
        // Allocated blocks may lie beyond the end of a file or hold no data, so large files are
        // always checked.
        let few = (stat.st_blocks as u64).saturating_mul(512) < metadata.size;
        let may_have_holes = few || metadata.size > BLOCK as u64;
        let wants_data = details.holes && may_have_holes;
        let file = match metadata.kind == FileKind::File && (wants_data || details.address) {
            // An unreadable file is reported when it is read.
            true => place.open(OFlags::RDONLY, Mode::empty()).ok(),
            false => None,
        };
        let most = budget.left.max(budget.least);
        let data = file.as_ref().filter(|_| wants_data).and_then(|file| data_runs(file, &metadata, most));
        budget.left = budget.left.saturating_sub(data.as_ref().map_or(0, Vec::len));
        let address = file.as_ref().filter(|_| details.address).and_then(address);
        Ok(FileInfo {
            metadata,
            has_hidden_xattrs,
            target,
            xattrs,
            data,
            address,
            is_link_destination: false,
        })
    }
}

/// Returns whether a symbolic link to `target`, in place of an object, would resolve to that object
/// or into it. A target that is another hard link of the same file does not count.
fn is_link_target(place: ResolvedName<'_>, target: &[u8], there: &FileStat) -> bool {
    let is_it = |metadata: FileStat| (metadata.volume, metadata.inode) == (there.volume, there.inode);
    let look = |path: &Path| {
        rustix::fs::statat(place.directory, path, AtFlags::empty()).map(|stat| file_stat(&stat))
    };
    let Ok(is_link_destination) = look(Path::new(OsStr::from_bytes(target))) else { return false };
    match there.kind {
        FileKind::Symlink => false,
        // The directory may be mounted in several places, or lie below unsearchable ones.
        FileKind::Directory => {
            let to = real_path(place.directory, target);
            let at = real_path(place.directory, place.name);
            let is_above = |above: &Path| at.as_deref() == Some(above) || look(above).is_ok_and(is_it);
            is_it(is_link_destination) || at.is_none() || to.is_none_or(|to| to.ancestors().any(is_above))
        }
        _ => {
            is_it(is_link_destination)
                && (there.links < 2
                    || real_path(place.directory, target) == real_path(place.directory, place.name))
        }
    }
}

/// Returns a path without symbolic links; none if unknown.
fn real_path(directory: BorrowedFd<'_>, path: &[u8]) -> Option<PathBuf> {
    let file = rustix::fs::openat(directory, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
    path_of_fd(&file).ok()
}

/// Converts the attributes of an object.
pub fn file_stat(stat: &Stat) -> FileStat {
    let (major, minor) = (rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev));
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Symlink,
        FileType::Fifo => FileKind::Fifo,
        FileType::Socket => FileKind::Socket,
        FileType::CharacterDevice => FileKind::CharacterDevice(major, minor),
        FileType::BlockDevice => FileKind::BlockDevice(major, minor),
        _ => FileKind::File,
    };
    FileStat {
        kind,
        mode: stat.st_mode & 0o7777,
        user: stat.st_uid,
        group: stat.st_gid,
        size: if kind == FileKind::File { stat.st_size as u64 } else { 0 },
        mtime: Stamp { seconds: stat.st_mtime, nanoseconds: stat.st_mtime_nsec as u32 },
        ctime: Stamp { seconds: stat.st_ctime, nanoseconds: stat.st_ctime_nsec as u32 },
        inode: stat.st_ino,
        volume: stat.st_dev,
        // 32 bits on aarch64.
        #[allow(clippy::unnecessary_cast)]
        links: stat.st_nlink as u64,
    }
}

/// Returns the data runs of a file (lseek(2), `SEEK_DATA`), at most `most`. None if the file system
/// does not report them, or the file changed since: a truncated file would be all holes, which a
/// reader would not notice.
fn data_runs(file: &OwnedFd, found: &FileStat, most: usize) -> Option<Vec<(u64, u64)>> {
    let size = found.size;
    let mut data = Vec::new();
    let mut at = 0;
    while at < size {
        let start = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(start) => start,
            // No further data.
            Err(Errno::NXIO) => break,
            Err(_) => return None,
        };
        let end = rustix::fs::seek(file, SeekFrom::Hole(start)).ok()?;
        // FUSE passes on arbitrary values of its server.
        if start < at || end < start || end <= at {
            return None;
        }
        // A file may have millions. Joining at twice the limit keeps the number of sorts small.
        if data.len() >= 2 * most {
            join(&mut data, most);
        }
        data.push((start, end.min(size)));
        at = end;
    }
    join(&mut data, most);
    let now = file_stat(&rustix::fs::fstat(file).ok()?);
    ((now.size, now.mtime) == (size, found.mtime)).then_some(data)
}

/// Joins runs across the smallest holes until they are few enough. Of equal holes the first ones
/// are kept, so that joining repeatedly has the same result as joining once.
fn join(runs: &mut Vec<(u64, u64)>, most: usize) {
    if runs.len() <= most {
        return;
    }
    let mut holes: Vec<usize> = (1..runs.len()).collect();
    holes.sort_by_key(|&index| Reverse(runs[index].0 - runs[index - 1].1));
    holes.truncate(most.saturating_sub(1));
    holes.sort_unstable();
    let starts = std::iter::once(0).chain(holes.iter().copied());
    let ends = holes.iter().copied().chain([runs.len()]);
    *runs = starts.zip(ends).map(|(first, next)| (runs[first].0, runs[next - 1].1)).collect();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::os::unix::fs::FileExt;

    /// Creates a file of 300 runs separated by holes of 1 to 7 steps, and returns its directory;
    /// none if the file system does not support holes.
    fn with_holes(name: &str) -> Option<(std::path::PathBuf, OwnedFd, FileStat)> {
        const STEP: u64 = 65_536;
        let folder = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let file = File::create_new(folder.join("file")).expect("a file");
        let mut at = 0;
        for index in 0..300 {
            file.write_all_at(b"data", at * STEP).expect("a run");
            at += 2 + index * 5 % 7;
        }
        let file: OwnedFd = file.into();
        let metadata = file_stat(&rustix::fs::fstat(&file).expect("a file"));
        match data_runs(&file, &metadata, 1_000).is_some_and(|data| data.len() == 300) {
            true => Some((folder, file, metadata)),
            false => {
                crate::test_support::print_skipped(
                    "skipped: holes: the file system does not report all of them",
                );
                fs::remove_dir_all(&folder).expect("removed");
                None
            }
        }
    }

    #[test]
    fn reported_runs_are_separated_by_the_largest_holes() {
        let Some((folder, file, metadata)) = with_holes("numaio-runs") else { return };
        let all = data_runs(&file, &metadata, 1_000).expect("data");
        for most in [1, 2, 7, 50, 149, 150, 299, 300] {
            let reported = data_runs(&file, &metadata, most).expect("data");
            assert_eq!(reported.len(), most);
            let mut at_once = all.clone();
            join(&mut at_once, most);
            assert_eq!(reported, at_once, "{most}");
            let covered =
                |run: &(u64, u64)| reported.iter().any(|reported| reported.0 <= run.0 && run.1 <= reported.1);
            assert!(all.iter().all(covered), "{most}");
            let hole = |pair: &[(u64, u64)]| pair[1].0 - pair[0].1;
            let mut holes: Vec<u64> = all.windows(2).map(hole).collect();
            holes.sort_unstable_by_key(|&hole| Reverse(hole));
            let least = reported.windows(2).map(hole).min();
            assert_eq!(least, (most > 1).then(|| holes[most - 2]), "{most}");
        }
        fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn files_of_one_operation_share_the_run_budget() {
        let Some((folder, ..)) = with_holes("numaio-room") else { return };
        let roots = Roots::open(&[&folder]).expect("a root");
        let (at, mut resolver) = (FilePath::new(0, *b"file"), Resolver::new(&roots.roots, true));
        let mut budget = RunBudget { left: 500, least: 20 };
        let details = Details { holes: true, ..Details::default() };
        let reported = [(); 4].map(|()| {
            let found =
                roots.stat(&mut resolver, &at, details, None, &mut budget).expect("a look").expect("a file");
            found.data.expect("data").len()
        });
        assert_eq!(reported, [300, 200, 20, 20]);
        fs::remove_dir_all(&folder).expect("removed");
    }
}
