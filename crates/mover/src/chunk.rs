//! Splitting files into read tasks: large files into blocks, small files bundled, in disk order.
//!
//! Li's dissertation (Stony Brook, 2015) distinguishes striping (all threads on one file) from
//! pipelining (one thread per file, many files in flight). Here each piece is an operation of its
//! own, and as many are in flight as storage and connections allow: a large file is striped over
//! all of them, and small files are in flight side by side.

use crate::entry::FileNumber;
use crate::extent::{Extent, ExtentSet};
use crate::port::BlockSize;
use crate::wire::MAX_CHUNK;
use std::collections::VecDeque;
use std::sync::Arc;

/// Minimum block size in bytes: direct I/O needs multiples of the device's logical block size,
/// which is at most 4 KiB on the machines that we know.
pub const MIN_BLOCK: u64 = 4_096;
/// Maximum extents that wait in a [`Chunker`] regardless of the window: 1 MiB of memory.
const MAX_WAITING: usize = 65_536;

/// Parameters for splitting files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkPolicy {
    /// Maximum bytes of a piece, and of the data of a bundle. Pieces are aligned to it, except at
    /// the ends of data. Files with less data are bundled. A power of two from [`MIN_BLOCK`] to
    /// [`MAX_CHUNK`].
    pub block: u64,
    /// Maximum files of a bundle, at least 1.
    pub bundle_files: usize,
    /// Number of files that are sorted together, at least 1.
    pub window: usize,
}

/// A parameter of a [`ChunkPolicy`] that is out of range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChunkPolicyError {
    /// The block size is invalid, see [`ChunkPolicy::block`].
    #[error("invalid block size {0}: expected a power of two from {MIN_BLOCK} to {MAX_CHUNK} bytes")]
    Block(u64),
    /// The size of a bundle or window is 0.
    #[error("bundles and windows must hold at least one file")]
    EmptyWindow,
}

impl ChunkPolicy {
    /// Returns the policy for a port, whose operations and packets hold one block.
    pub fn for_port(block: BlockSize) -> Self {
        Self { block: block.length(), bundle_files: 256, window: 4_096 }
    }

    /// Validates the parameters.
    ///
    /// # Errors
    /// The first parameter that is out of range.
    pub fn check(&self) -> Result<(), ChunkPolicyError> {
        if !self.block.is_power_of_two() || !(MIN_BLOCK..=MAX_CHUNK).contains(&self.block) {
            return Err(ChunkPolicyError::Block(self.block));
        }
        if self.bundle_files == 0 || self.window == 0 {
            return Err(ChunkPolicyError::EmptyWindow);
        }
        Ok(())
    }
}

/// A file with data to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadJob {
    file: FileNumber,
    key: u64,
    /// Ascending and disjoint.
    data: Arc<[Extent]>,
    bytes: u64,
}

impl ReadJob {
    /// Creates a job for the data in `left`.
    ///
    /// `key` is the position on disk: the physical address on a rotational disk, else the inode
    /// number. Files are read in ascending order of keys.
    pub fn remaining(file: FileNumber, key: u64, left: &ExtentSet) -> Self {
        let data: Arc<[Extent]> = left.iter().collect();
        let bytes = data.iter().map(|extent| extent.length()).sum();
        Self { file, key, data, bytes }
    }

    /// Returns the file.
    pub fn file(&self) -> FileNumber {
        self.file
    }

    /// Replaces the sort key.
    pub fn with_key(self, key: u64) -> Self {
        Self { key, ..self }
    }

    /// Returns the bytes of data to read.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Data that is read together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadTask {
    /// One large file, or the files of a bundle. Files without data are included: they are created.
    jobs: Vec<ReadJob>,
    block: u64,
}

impl ReadTask {
    /// Iterates over the files in read order.
    pub fn files(&self) -> impl Iterator<Item = FileNumber> + '_ {
        self.jobs.iter().map(ReadJob::file)
    }

    /// Iterates over the pieces to read in order. No piece is longer than a block, so each fits
    /// behind one chunk header.
    pub fn into_pieces(self) -> Box<dyn Iterator<Item = (FileNumber, Extent)> + Send> {
        let block = self.block;
        let of_job = move |job: ReadJob| {
            let ReadJob { file, data, .. } = job;
            (0..data.len()).flat_map(move |index| cut(data[index], block)).map(move |piece| (file, piece))
        };
        Box::new(self.jobs.into_iter().flat_map(of_job))
    }
}

/// Splits an extent at multiples of the block size.
fn cut(extent: Extent, block: u64) -> impl Iterator<Item = Extent> {
    let mut at = extent.start();
    std::iter::from_fn(move || {
        let next = (at / block + 1).saturating_mul(block).min(extent.end());
        let piece = Extent::between(at, next);
        at = next;
        piece
    })
}

/// Widens extents to complete blocks, the last one to the end of the file: the unit of hash and
/// resume.
pub(crate) fn in_blocks(
    extents: impl Iterator<Item = Extent>,
    size: u64,
    block: u64,
) -> impl Iterator<Item = Extent> {
    extents.filter_map(move |extent| {
        let start = extent.start() / block * block;
        let end = extent.end().div_ceil(block).saturating_mul(block).min(size);
        Extent::between(start, end)
    })
}

/// Collects files in scan order and returns read tasks, sorted within a window of files.
///
/// The result depends only on the files and windows, not on timing: the same files in the same
/// windows give the same tasks, in whatever order they arrive within a window.
#[derive(Debug)]
pub struct Chunker {
    policy: ChunkPolicy,
    waiting: Vec<ReadJob>,
    extents: usize,
    ready: VecDeque<ReadTask>,
}

impl Chunker {
    /// Creates a chunker.
    ///
    /// # Errors
    /// A [`ChunkPolicyError`] if the policy is out of range.
    pub fn new(policy: ChunkPolicy) -> Result<Self, ChunkPolicyError> {
        policy.check()?;
        Ok(Self { policy, waiting: Vec::new(), extents: 0, ready: VecDeque::new() })
    }

    /// Adds a file, or returns it if the window is full; then call [`Chunker::poll`].
    ///
    /// # Errors
    /// The job itself.
    pub fn push(&mut self, job: ReadJob) -> Result<(), ReadJob> {
        if self.is_full() {
            return Err(job);
        }
        self.extents += job.data.len();
        self.waiting.push(job);
        Ok(())
    }

    /// Returns the next task, or `None` if more files are needed.
    pub fn poll(&mut self) -> Option<ReadTask> {
        if self.ready.is_empty() && self.is_full() {
            self.cut();
        }
        self.ready.pop_front()
    }

    /// Splits the waiting files although the window is not full.
    pub fn flush(&mut self) {
        if self.ready.is_empty() {
            self.cut();
        }
    }

    fn is_full(&self) -> bool {
        self.waiting.len() >= self.policy.window || self.extents >= MAX_WAITING
    }

    fn cut(&mut self) {
        let mut jobs = std::mem::take(&mut self.waiting);
        self.extents = 0;
        jobs.sort_unstable_by_key(|job| (job.key, job.file));
        let (mut bundle, mut bytes) = (Vec::new(), 0);
        for job in jobs {
            if job.bytes >= self.policy.block {
                self.task(vec![job]);
                continue;
            }
            let is_full = bundle.len() == self.policy.bundle_files || job.bytes + bytes > self.policy.block;
            if is_full && !bundle.is_empty() {
                self.task(std::mem::take(&mut bundle));
                bytes = 0;
            }
            bytes += job.bytes;
            bundle.push(job);
        }
        if !bundle.is_empty() {
            self.task(bundle);
        }
    }

    fn task(&mut self, jobs: Vec<ReadJob>) {
        self.ready.push_back(ReadTask { jobs, block: self.policy.block });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn file(number: u64) -> FileNumber {
        FileNumber::new(number).expect("a number")
    }

    fn dense(number: u64, key: u64, size: u64) -> ReadJob {
        let mut data = ExtentSet::default();
        Extent::at(0, size).into_iter().for_each(|all| data.insert(all));
        ReadJob::remaining(file(number), key, &data)
    }

    fn tasks(policy: &ChunkPolicy, jobs: &[ReadJob]) -> Vec<ReadTask> {
        let mut chunker = Chunker::new(policy.clone()).expect("a policy");
        let mut tasks = Vec::new();
        for job in jobs {
            let mut job = job.clone();
            while let Err(back) = chunker.push(job) {
                tasks.push(chunker.poll().expect("a full window has tasks"));
                job = back;
            }
        }
        tasks.extend(std::iter::from_fn(|| {
            chunker.poll().or_else(|| {
                chunker.flush();
                chunker.poll()
            })
        }));
        tasks
    }

    #[test]
    fn policy_is_validated() {
        let refused = |change: fn(&mut ChunkPolicy)| {
            let mut policy = ChunkPolicy::for_port(BlockSize::default());
            change(&mut policy);
            Chunker::new(policy).err()
        };
        assert_eq!(refused(|policy| policy.block = 2_048), Some(ChunkPolicyError::Block(2_048)));
        assert_eq!(refused(|policy| policy.block = 12_288), Some(ChunkPolicyError::Block(12_288)));
        assert_eq!(refused(|policy| policy.block = 32 << 20), Some(ChunkPolicyError::Block(32 << 20)));
        assert_eq!(refused(|policy| policy.window = 0), Some(ChunkPolicyError::EmptyWindow));
        assert_eq!(refused(|policy| policy.bundle_files = 0), Some(ChunkPolicyError::EmptyWindow));
        assert_eq!(refused(|_| ()), None);
    }

    #[test]
    fn huge_sparse_file_is_split_lazily() {
        let mut data = ExtentSet::default();
        let extents = (0..4_000).filter_map(|n| Extent::at(n << 22, 1 << 20));
        extents.chain(Extent::at((1 << 62) + 5, 1 << 60)).for_each(|extent| data.insert(extent));
        let tasks =
            tasks(&ChunkPolicy::for_port(BlockSize::default()), &[ReadJob::remaining(file(0), 0, &data)]);
        assert_eq!(tasks.len(), 1);
        let first: Vec<_> = tasks[0].clone().into_pieces().take(4_001).collect();
        assert!(first[..4_000].iter().all(|(_, piece)| piece.end() <= 4_000 << 22));
        assert!(first[4_000].1.start() > 1 << 62);
    }

    #[test]
    fn window_is_sorted_and_small_files_are_bundled() {
        let small = |number, key| dense(number, key, 1_000);
        let policy =
            ChunkPolicy { bundle_files: 2, window: 4, ..ChunkPolicy::for_port(BlockSize::default()) };
        let jobs = [small(0, 9), small(1, 3), dense(2, 5, 1 << 20), small(3, 1), small(4, 0)];
        let found: Vec<Vec<u64>> =
            tasks(&policy, &jobs).iter().map(|task| task.files().map(FileNumber::get).collect()).collect();
        assert_eq!(found, [vec![2], vec![3, 1], vec![0], vec![4]]);
    }

    #[test]
    fn window_closes_at_the_extent_limit() {
        let mut data = ExtentSet::default();
        (0..4_000).filter_map(|n| Extent::at(n * 100, 50)).for_each(|extent| data.insert(extent));
        let mut chunker = Chunker::new(ChunkPolicy::for_port(BlockSize::default())).expect("a policy");
        let taken =
            (0..).take_while(|&n| chunker.push(ReadJob::remaining(file(n), n, &data)).is_ok()).count();
        assert_eq!(taken, 17);
    }

    fn jobs() -> impl Strategy<Value = Vec<ReadJob>> {
        let extents = proptest::collection::vec((0u64..1 << 17, 1u64..1 << 15), 0..5);
        proptest::collection::vec((extents, 0u64..5), 0..20).prop_map(|all| {
            let job = |(number, (extents, key)): (usize, (Vec<(u64, u64)>, u64))| {
                let mut set = ExtentSet::default();
                extents
                    .iter()
                    .filter_map(|&(at, length)| Extent::at(at, length))
                    .for_each(|extent| set.insert(extent));
                ReadJob::remaining(file(number as u64), key, &set)
            };
            all.into_iter().enumerate().map(job).collect()
        })
    }

    fn policies() -> impl Strategy<Value = ChunkPolicy> {
        (12u32..16, 1usize..5, 1usize..25).prop_map(|(block, bundle_files, window)| ChunkPolicy {
            block: 1 << block,
            bundle_files,
            window,
        })
    }

    proptest! {
        #![proptest_config(testing::config())]

        /// Combines the pieces of all tasks and compares them with the extents of every file.
        #[test]
        fn every_byte_of_data_is_read_exactly_once(policy in policies(), jobs in jobs()) {
            let mut moved: BTreeMap<u64, (ExtentSet, u64)> = BTreeMap::new();
            for task in tasks(&policy, &jobs) {
                for file in task.files() {
                    moved.entry(file.get()).or_default();
                }
                for (file, piece) in task.into_pieces() {
                    let (set, bytes) = moved.entry(file.get()).or_default();
                    set.insert(piece);
                    *bytes += piece.length();
                    prop_assert_eq!(piece.start() / policy.block, (piece.end() - 1) / policy.block);
                }
            }
            prop_assert_eq!(moved.len(), jobs.len());
            for job in &jobs {
                let (set, bytes) = &moved[&job.file.get()];
                prop_assert_eq!(set.iter().collect::<Vec<_>>(), job.data.to_vec());
                prop_assert_eq!(*bytes, job.bytes, "no byte is read twice");
            }
        }

        #[test]
        fn bundles_respect_their_limits(policy in policies(), jobs in jobs()) {
            let bytes: BTreeMap<u64, u64> = jobs.iter().map(|job| (job.file.get(), job.bytes)).collect();
            for task in tasks(&policy, &jobs) {
                let files: Vec<u64> = task.files().map(|file| bytes[&file.get()]).collect();
                prop_assert!(files.len() <= policy.bundle_files);
                prop_assert!(files.len() == 1 || files.iter().sum::<u64>() <= policy.block);
            }
        }

        #[test]
        fn order_within_a_window_does_not_matter(policy in policies(), jobs in jobs()) {
            let policy = ChunkPolicy { window: 100, ..policy };
            let mut turned = jobs.clone();
            turned.reverse();
            prop_assert_eq!(tasks(&policy, &jobs), tasks(&policy, &turned));
        }
    }
}
