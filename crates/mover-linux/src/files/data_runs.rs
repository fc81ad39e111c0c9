//! Data runs of sparse files.

use super::file_stat::file_stat;
use numaio_mover::port::FileStat;
use rustix::fd::OwnedFd;
use rustix::fs::SeekFrom;
use rustix::io::Errno;
use std::cmp::Reverse;

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

impl RunBudget {
    /// Returns the limit of the next file.
    pub fn most(&self) -> usize {
        self.left.max(self.least)
    }

    /// Subtracts the runs of a file.
    pub fn spend(&mut self, runs: usize) {
        self.left = self.left.saturating_sub(runs);
    }
}

/// Returns the data runs of a file (lseek(2), `SEEK_DATA`), at most `most`. None if the file system
/// does not report them, or the file changed since: a truncated file would be all holes, which a
/// reader would not notice.
pub fn data_runs(file: &OwnedFd, found: &FileStat, most: usize) -> Option<Vec<(u64, u64)>> {
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
    use super::super::path::Resolver;
    use super::super::roots::Roots;
    use super::*;
    use numaio_mover::port::{Details, FilePath};
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
