//! Idle page tracking: a bit for each page, which an access clears.

use crate::memory::page_bytes;
use crate::Root;
use numaio_machine::hot_pages::{frame_heads, frame_of, AccessedRange, IdleWords, MonitoredProcess};
use rustix::fd::OwnedFd;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

const BITMAP: &str = "/sys/kernel/mm/page_idle/bitmap";
const FLAGS: &str = "/proc/kpageflags";

/// Bytes of an entry of `pagemap`, of `kpageflags` and of a word of the bitmap.
const ENTRY: u64 = 8;

/// Entries per read.
const CHUNK: usize = 8192;

/// Pages of processes whose idle bits were set.
#[derive(Debug)]
pub struct IdlePages {
    processes: Vec<MonitoredProcess>,
    /// The page of each process and address, with the frame whose bit counts for it.
    frames: Vec<BTreeMap<u64, u64>>,
}

/// Returns why idle page tracking cannot be used, as text.
pub fn check(root: &Root) -> Result<(), String> {
    for path in [BITMAP, FLAGS] {
        root.open_file(path, OFlags::RDONLY).map_err(|errno| match errno {
            Errno::NOENT => "the kernel lacks it".to_owned(),
            errno => io::Error::from(errno).to_string(),
        })?;
    }
    Ok(())
}

impl IdlePages {
    /// Sets the idle bits of the present pages. Pages stay as they are: an access clears a bit, and
    /// nothing else reads it but other users of idle page tracking.
    ///
    /// # Errors
    /// Permission is missing (CAP_SYS_ADMIN), or a process ended.
    pub fn start(root: &Root, processes: Vec<MonitoredProcess>) -> io::Result<Self> {
        let frames: Vec<BTreeMap<u64, u64>> =
            processes.iter().map(|process| frames_of(root, process)).collect::<io::Result<_>>()?;
        if frames.iter().all(BTreeMap::is_empty) {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "no page frames are readable"));
        }
        let mut idle_bits = IdleWords::default();
        frames.iter().flat_map(BTreeMap::values).for_each(|frame| idle_bits.insert(*frame));
        let bitmap = root.open_file(BITMAP, OFlags::WRONLY)?;
        for (offset, run) in idle_bits.runs() {
            let bytes: Vec<u8> = run.iter().flat_map(|word| word.to_ne_bytes()).collect();
            write_at(&bitmap, &bytes, offset)?;
        }
        Ok(Self { processes, frames })
    }

    /// Returns the ranges of each process: accessed pages have one access, idle ones none. A page
    /// that moved to another frame meanwhile was accessed.
    ///
    /// # Errors
    /// The bitmap cannot be read.
    pub fn finish(self, root: &Root) -> io::Result<Vec<Vec<AccessedRange>>> {
        let bitmap = root.open_file(BITMAP, OFlags::RDONLY)?;
        let used: BTreeSet<u64> = self.frames.iter().flat_map(BTreeMap::values).copied().collect();
        let mut idle_bits = IdleWords::default();
        used.iter().for_each(|frame| idle_bits.insert(*frame));
        for (offset, run) in idle_bits.runs() {
            let read = read_entries(&bitmap, offset, run.len())?;
            idle_bits.set(offset, &read);
        }
        let page = page_bytes() as u64;
        let of_process = |(process, frames): (&MonitoredProcess, &BTreeMap<u64, u64>)| {
            // An ended process has no pages to move.
            let now = frames_of(root, process).unwrap_or_default();
            let accessed = |(address, frame): (&u64, &u64)| {
                let is_idle = frames.get(address) == Some(frame) && idle_bits.get(*frame) == Some(true);
                AccessedRange { range: *address..address + page, accesses: u32::from(!is_idle) }
            };
            now.iter().map(accessed).collect()
        };
        Ok(self.processes.iter().zip(&self.frames).map(of_process).collect())
    }
}

/// Returns the frames whose bits count for the present pages of a process, by address.
fn frames_of(root: &Root, process: &MonitoredProcess) -> io::Result<BTreeMap<u64, u64>> {
    let page = page_bytes() as u64;
    let pagemap = root.open_file(&format!("/proc/{}/pagemap", process.pid), OFlags::RDONLY)?;
    let flags = root.open_file(FLAGS, OFlags::RDONLY)?;
    let mut frames = BTreeMap::new();
    for range in &process.ranges {
        let count = usize::try_from(range.end.saturating_sub(range.start) / page).unwrap_or(0);
        let entries = read_entries(&pagemap, range.start / page * ENTRY, count)?;
        let pages = with_flags(&flags, entries.iter().map(|entry| frame_of(*entry)).collect())?;
        for (index, head) in frame_heads(&pages).into_iter().enumerate() {
            frames.extend(head.map(|head| (range.start + index as u64 * page, head)));
        }
    }
    Ok(frames)
}

/// Adds the flags of frames, read in runs of adjacent ones.
fn with_flags(flags: &OwnedFd, frames: Vec<Option<u64>>) -> io::Result<Vec<Option<(u64, u64)>>> {
    let mut pages = Vec::with_capacity(frames.len());
    let mut rest = frames.as_slice();
    while let Some((first, _)) = rest.split_first() {
        let Some(first) = *first else {
            pages.push(None);
            rest = &rest[1..];
            continue;
        };
        let adjacent = (first..).zip(rest).take_while(|(frame, page)| **page == Some(*frame)).count();
        let read = read_entries(flags, first * ENTRY, adjacent)?;
        pages.extend((first..).zip(read).map(Some));
        rest = &rest[adjacent..];
    }
    Ok(pages)
}

/// Reads words at an offset; the rest is 0 after the end of the file.
fn read_entries(file: &OwnedFd, offset: u64, count: usize) -> io::Result<Vec<u64>> {
    let mut entries = Vec::with_capacity(count);
    let mut buffer = vec![0u8; count.min(CHUNK) * ENTRY as usize];
    while entries.len() < count {
        let wanted = (count - entries.len()).min(CHUNK) * ENTRY as usize;
        let at = offset + entries.len() as u64 * ENTRY;
        let read = rustix::io::retry_on_intr(|| rustix::io::pread(file, &mut buffer[..wanted], at))?;
        let (words, _) = buffer[..read].as_chunks::<{ ENTRY as usize }>();
        entries.extend(words.iter().map(|word| u64::from_ne_bytes(*word)));
        if words.is_empty() {
            entries.resize(count, 0);
        }
    }
    Ok(entries)
}

fn write_at(file: &OwnedFd, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = rustix::io::retry_on_intr(|| rustix::io::pwrite(file, bytes, offset))?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        bytes = &bytes[written..];
        offset += written as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::TestTree;
    use numaio_machine::hot_pages::{hot_ranges, MonitoredRange};

    const PRESENT: u64 = 1 << 63;
    const HEAD: u64 = 1 << 15;
    const TAIL: u64 = 1 << 16;

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn process(pages: u64) -> Vec<MonitoredProcess> {
        let page = page_bytes() as u64;
        vec![MonitoredProcess {
            pid: 70,
            ranges: vec![MonitoredRange { start: 2 * page, end: (2 + pages) * page }],
        }]
    }

    /// A process with single pages in frames 100, 101 and 7, an absent one, and a huge page of two
    /// pages in frames 64 and 65.
    fn tree(name: &str) -> TestTree {
        let tree = TestTree::new(name);
        let pagemap = [0, 0, PRESENT | 100, PRESENT | 101, 0, PRESENT | 7, PRESENT | 64, PRESENT | 65];
        tree.file("/proc/70/pagemap", words(&pagemap));
        let mut flags = vec![0; 128];
        (flags[64], flags[65]) = (HEAD, TAIL);
        tree.file(FLAGS, words(&flags));
        tree.file(BITMAP, words(&[0, 0]));
        tree
    }

    fn bits(tree: &TestTree) -> [u64; 2] {
        let bytes = tree.bytes(BITMAP);
        let (words, _) = bytes.as_chunks::<8>();
        [u64::from_ne_bytes(words[0]), u64::from_ne_bytes(words[1])]
    }

    #[test]
    fn pages_without_an_idle_bit_are_hot() {
        let tree = tree("idle-hot");
        let root = tree.root();
        assert!(check(&root).is_ok());
        let idle = IdlePages::start(&root, process(6)).expect("started");
        // Only the pages of the process, of the huge page the first.
        assert_eq!(bits(&tree), [1 << 7, 1 | 1 << 36 | 1 << 37]);
        // The program accesses the page of frame 101 and the huge page.
        tree.file(BITMAP, words(&[1 << 7, 1 << 36]));
        let found = idle.finish(&root).expect("read");
        let page = page_bytes() as u64;
        assert_eq!(hot_ranges(&found[0], 1, 0), [3 * page..4 * page, 6 * page..8 * page]);
        assert_eq!(found[0].len(), 5, "the absent page is left out");
    }

    #[test]
    fn pages_that_moved_meanwhile_are_hot() {
        let tree = tree("idle-moved");
        let root = tree.root();
        let idle = IdlePages::start(&root, process(2)).expect("started");
        tree.file("/proc/70/pagemap", words(&[0, 0, PRESENT | 100, PRESENT | 33]));
        let found = idle.finish(&root).expect("read");
        let page = page_bytes() as u64;
        assert_eq!(hot_ranges(&found[0], 1, 0).first(), Some(&(3 * page..4 * page)));
        assert_eq!(found[0].iter().filter(|range| range.accesses > 0).count(), 1);
    }

    #[test]
    fn missing_kernel_support_or_permission_is_an_error() {
        let none = TestTree::new("idle-none");
        assert_eq!(check(&none.root()), Err("the kernel lacks it".to_owned()));
        let tree = tree("idle-denied");
        // Without CAP_SYS_ADMIN frame numbers are zeros.
        tree.file("/proc/70/pagemap", words(&[PRESENT; 8]));
        let error = IdlePages::start(&tree.root(), process(6)).expect_err("denied");
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(bits(&tree), [0, 0]);
    }
}
