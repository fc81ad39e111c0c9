//! Cutting files into tasks: large ones striped over streams, small ones bundled, in the order of the disk.
//!
//! Li's dissertation (Stony Brook, 2015) has two ways: striping (all threads on one file) and pipelining (one
//! thread a file, many files in flight). Which is better depends on size and device, so the [`Policy`] may
//! change on the way.

use crate::entry::{Content, FileNumber};
use crate::extent::{Extent, ExtentSet};
use crate::wire::MAX_CHUNK;
use numaio_machine::port::BLOCK;
use std::collections::VecDeque;
use std::sync::Arc;

/// Smallest block, in bytes: direct I/O needs multiples of what a device calls a block, 4 KiB at most on
/// the machines that we know.
pub const MIN_BLOCK: u64 = 4_096;
/// Most streams of a file.
pub const MAX_STREAMS: u32 = 256;
/// Extents that wait in a [`Cutter`] before it cuts, whatever the window: 1 MiB of memory.
const MAX_WAITING: usize = 65_536;

/// What files lie on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Storage {
    /// A disk with a head: two streams in one file make it jump.
    Rotating,
    /// Flash, or anything that takes many requests at once.
    Solid,
    /// Memory, such as tmpfs.
    Memory,
}

/// How one file is moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// All streams take blocks of it in turn.
    Stripe,
    /// One stream moves it, and others move other files meanwhile.
    Pipeline,
    /// One stream moves it together with other small files.
    Bundle,
}

/// How files are cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Streams that share a striped file, 1 to [`MAX_STREAMS`].
    pub streams: u32,
    /// Most bytes of a piece; pieces begin and end at multiples of it, or where data does. A power of two
    /// from [`MIN_BLOCK`] to [`MAX_CHUNK`].
    pub block: u64,
    /// Fewest bytes of data of a file that is striped.
    pub stripe_from: u64,
    /// Fewest bytes of data of a file that is not bundled.
    pub bundle_below: u64,
    /// Bytes of data that a bundle has room for; a file that is alone in it may have more.
    pub bundle_bytes: u64,
    /// Most files of a bundle, at least 1.
    pub bundle_files: usize,
    /// Files that are sorted together, at least 1.
    pub window: usize,
}

/// What of a [`Policy`] cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// See [`Policy::streams`].
    #[error("a file has 1 to {MAX_STREAMS} streams, not {0}")]
    Streams(u32),
    /// See [`Policy::block`].
    #[error("a block is a power of two from {MIN_BLOCK} to {MAX_CHUNK} bytes, not {0}")]
    Block(u64),
    /// A bundle or a window has no room.
    #[error("bundles and windows have room for a file at least")]
    NoRoom,
}

impl Policy {
    /// A policy to begin with. Its sizes are rules of thumb that were not measured: pieces of 1 MiB; files of
    /// at least 64 MiB and four pieces for each stream are striped, unless a disk with a head is involved.
    pub fn new(source: Storage, sink: Storage, streams: u32) -> Self {
        let block = 1 << 20;
        let rotating = [source, sink].contains(&Storage::Rotating);
        let stripe_from = if rotating { u64::MAX } else { (4 * block * u64::from(streams)).max(64 << 20) };
        let (bundle_below, bundle_bytes, bundle_files) = (256 << 10, 4 << 20, 256);
        Self { streams, block, stripe_from, bundle_below, bundle_bytes, bundle_files, window: 4_096 }
    }

    /// For a port, whose operations and packets hold a block: smaller files are bundled into one, larger ones cut.
    pub fn of_blocks() -> Self {
        let block = BLOCK as u64;
        let whole = Self::new(Storage::Solid, Storage::Solid, 1);
        Self { block, bundle_below: block, bundle_bytes: block, ..whole }
    }

    /// How a file with so many bytes of data is moved.
    pub fn way(&self, data: u64) -> Way {
        if data < self.bundle_below {
            Way::Bundle
        } else if data >= self.stripe_from && self.streams > 1 {
            Way::Stripe
        } else {
            Way::Pipeline
        }
    }

    /// # Errors
    /// The first value that is out of bounds.
    pub fn check(&self) -> Result<(), PolicyError> {
        if !(1..=MAX_STREAMS).contains(&self.streams) {
            return Err(PolicyError::Streams(self.streams));
        }
        if !self.block.is_power_of_two() || !(MIN_BLOCK..=MAX_CHUNK).contains(&self.block) {
            return Err(PolicyError::Block(self.block));
        }
        if self.bundle_files == 0 || self.window == 0 {
            return Err(PolicyError::NoRoom);
        }
        Ok(())
    }
}

/// A file of which data is to be moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    file: FileNumber,
    key: u64,
    /// Ascending, disjoint.
    data: Arc<[Extent]>,
    bytes: u64,
}

impl Job {
    /// All data of a file.
    ///
    /// `key` says where it lies: its physical address on a disk with a head, else its inode's number. Files
    /// are moved in the order of their keys.
    pub fn whole(file: FileNumber, key: u64, content: &Content) -> Self {
        Self::of(file, key, content.extents().collect())
    }

    /// What is left of a file.
    pub fn rest(file: FileNumber, key: u64, left: &ExtentSet) -> Self {
        Self::of(file, key, left.iter().collect())
    }

    fn of(file: FileNumber, key: u64, data: Arc<[Extent]>) -> Self {
        let bytes = data.iter().map(|extent| extent.length()).sum();
        Self { file, key, data, bytes }
    }

    /// The file.
    pub fn file(&self) -> FileNumber {
        self.file
    }

    /// The same where its key turned out to be another one.
    pub fn with_key(self, key: u64) -> Self {
        Self { key, ..self }
    }

    /// Bytes of data.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// What one stream does without asking again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// One file, or for a bundle as many as it holds. Files without data are among them: they are made.
    jobs: Vec<Job>,
    block: u64,
    stream: u32,
    streams: u32,
}

impl Task {
    /// The files, in the order in which they are moved.
    pub fn files(&self) -> impl Iterator<Item = FileNumber> + '_ {
        self.jobs.iter().map(Job::file)
    }

    /// Which of how many streams this is that share the file; (0, 1) if it is not striped.
    pub fn share(&self) -> (u32, u32) {
        (self.stream, self.streams)
    }

    /// As [`Task::pieces`], for a task that is kept as long as its pieces are.
    pub fn into_pieces(self) -> Box<dyn Iterator<Item = (FileNumber, Extent)> + Send> {
        let (block, stream, streams) = (self.block, self.stream as usize, self.streams.max(1) as usize);
        let of_job = move |job: Job| {
            let Job { file, data, .. } = job;
            (0..data.len()).flat_map(move |index| cut(data[index], block)).map(move |piece| (file, piece))
        };
        Box::new(self.jobs.into_iter().flat_map(of_job).skip(stream).step_by(streams))
    }

    /// Bytes of data of all its files.
    pub fn bytes(&self) -> u64 {
        self.jobs.iter().fold(0, |sum, job| sum.saturating_add(job.bytes))
    }

    /// What to read and write, in this order. None is longer than the block, so each fits behind one chunk
    /// header.
    pub fn pieces(&self) -> impl Iterator<Item = (FileNumber, Extent)> + '_ {
        let of_job = |job: &'_ Job| {
            let file = job.file;
            let block = self.block;
            let data = job.data.clone();
            (0..data.len()).flat_map(move |index| cut(data[index], block)).map(move |piece| (file, piece))
        };
        self.jobs.iter().flat_map(of_job).skip(self.stream as usize).step_by(self.streams.max(1) as usize)
    }
}

/// An extent in pieces that end at multiples of the block.
fn cut(extent: Extent, block: u64) -> impl Iterator<Item = Extent> {
    let mut at = extent.start();
    std::iter::from_fn(move || {
        let next = (at / block + 1).saturating_mul(block).min(extent.end());
        let piece = Extent::between(at, next);
        at = next;
        piece
    })
}

/// Takes files as a scan meets them and gives tasks, sorted within a window of files.
///
/// Files and tasks depend on what was pushed, never on when: the same files in the same windows give the same
/// tasks, also if they came in another order within the window.
#[derive(Debug)]
pub struct Cutter {
    policy: Policy,
    waiting: Vec<Job>,
    extents: usize,
    ready: VecDeque<Task>,
    finished: bool,
}

impl Cutter {
    /// # Errors
    /// As of [`Policy::check`].
    pub fn new(policy: Policy) -> Result<Self, PolicyError> {
        policy.check()?;
        Ok(Self { policy, waiting: Vec::new(), extents: 0, ready: VecDeque::new(), finished: false })
    }

    /// Cuts files by another policy, from the next window on.
    ///
    /// # Errors
    /// As of [`Policy::check`]; then nothing changes.
    pub fn change(&mut self, policy: Policy) -> Result<(), PolicyError> {
        policy.check()?;
        self.policy = policy;
        Ok(())
    }

    /// Takes a file, or gives it back if the window is full: poll first.
    ///
    /// # Errors
    /// The job itself.
    pub fn push(&mut self, job: Job) -> Result<(), Job> {
        if self.is_full() || self.finished {
            return Err(job);
        }
        self.extents += job.data.len();
        self.waiting.push(job);
        Ok(())
    }

    /// No file follows.
    pub fn finish(&mut self) {
        self.finished = true;
    }

    /// The next task; none if more files are needed, or if all is done.
    pub fn poll(&mut self) -> Option<Task> {
        if self.ready.is_empty() && (self.is_full() || self.finished) {
            self.cut();
        }
        self.ready.pop_front()
    }

    /// Cuts what waits, though the window is not full: nothing else is to do meanwhile.
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
            match self.policy.way(job.bytes) {
                Way::Stripe => {
                    (0..self.policy.streams).for_each(|stream| self.share(&job, stream, self.policy.streams))
                }
                Way::Pipeline => self.share(&job, 0, 1),
                Way::Bundle => {
                    let full = bundle.len() == self.policy.bundle_files
                        || (!bundle.is_empty() && job.bytes.saturating_add(bytes) > self.policy.bundle_bytes);
                    if full {
                        self.bundle(std::mem::take(&mut bundle));
                        bytes = 0;
                    }
                    bytes = job.bytes.saturating_add(bytes);
                    bundle.push(job);
                }
            }
        }
        if !bundle.is_empty() {
            self.bundle(bundle);
        }
    }

    fn share(&mut self, job: &Job, stream: u32, streams: u32) {
        let jobs = vec![job.clone()];
        self.ready.push_back(Task { jobs, block: self.policy.block, stream, streams });
    }

    fn bundle(&mut self, jobs: Vec<Job>) {
        self.ready.push_back(Task { jobs, block: self.policy.block, stream: 0, streams: 1 });
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

    fn policy() -> Policy {
        Policy::new(Storage::Solid, Storage::Memory, 4)
    }

    fn tasks(policy: &Policy, jobs: &[Job]) -> Vec<Task> {
        let mut cutter = Cutter::new(policy.clone()).expect("a policy");
        let mut tasks = Vec::new();
        for job in jobs {
            let mut job = job.clone();
            while let Err(back) = cutter.push(job) {
                tasks.push(cutter.poll().expect("a full window has tasks"));
                job = back;
            }
        }
        cutter.finish();
        tasks.extend(std::iter::from_fn(|| cutter.poll()));
        tasks
    }

    #[test]
    fn the_way_depends_on_size_and_device() {
        let policy = policy();
        let ways = [0, (256 << 10) - 1, 256 << 10, (64 << 20) - 1, 64 << 20].map(|size| policy.way(size));
        assert_eq!(ways, [Way::Bundle, Way::Bundle, Way::Pipeline, Way::Pipeline, Way::Stripe]);
        assert_eq!(Policy { streams: 1, ..policy }.way(1 << 40), Way::Pipeline);
        let many = Policy::new(Storage::Solid, Storage::Solid, 64);
        assert_eq!((many.way((256 << 20) - 1), many.way(256 << 20)), (Way::Pipeline, Way::Stripe));
        for (source, sink) in [(Storage::Rotating, Storage::Solid), (Storage::Memory, Storage::Rotating)] {
            assert_eq!(Policy::new(source, sink, 8).way(1 << 40), Way::Pipeline);
        }
    }

    #[test]
    fn a_policy_has_bounds() {
        let refused = |change: fn(&mut Policy)| {
            let mut policy = policy();
            change(&mut policy);
            Cutter::new(policy).err()
        };
        assert_eq!(refused(|policy| policy.streams = 0), Some(PolicyError::Streams(0)));
        assert_eq!(refused(|policy| policy.streams = 257), Some(PolicyError::Streams(257)));
        assert_eq!(refused(|policy| policy.block = 2_048), Some(PolicyError::Block(2_048)));
        assert_eq!(refused(|policy| policy.block = 12_288), Some(PolicyError::Block(12_288)));
        assert_eq!(refused(|policy| policy.block = 32 << 20), Some(PolicyError::Block(32 << 20)));
        assert_eq!(refused(|policy| policy.window = 0), Some(PolicyError::NoRoom));
        assert_eq!(refused(|policy| policy.bundle_files = 0), Some(PolicyError::NoRoom));
        assert_eq!(refused(|_| ()), None);
    }

    #[test]
    fn a_huge_sparse_file_is_cut_lazily_and_evenly() {
        // 8 EiB, with data in every fourth block only: by block numbers one stream would get all of it.
        let extents = (0..4_000).map(|n| Extent::at(n << 22, 1 << 20).expect("an extent"));
        let content = Content::seen(i64::MAX as u64, extents.chain(Extent::at((1 << 62) + 5, 1 << 60)))
            .expect("a file");
        let tasks = tasks(&policy(), &[Job::whole(file(0), 0, &content)]);
        assert_eq!(tasks.iter().map(Task::share).collect::<Vec<_>>(), [(0, 4), (1, 4), (2, 4), (3, 4)]);
        for task in tasks {
            let first: Vec<_> = task.pieces().take(1_001).collect();
            assert_eq!(first[..1_000].iter().filter(|(_, piece)| piece.end() <= 4_000 << 22).count(), 1_000);
            assert!(first[1_000].1.start() > 1 << 62);
        }
    }

    #[test]
    fn a_window_is_sorted_by_key_and_small_files_are_joined() {
        let content = |size| Content::dense(size).expect("a size");
        let small = |number: u64, key| Job::whole(file(number), key, &content(1_000));
        let policy = Policy { bundle_files: 2, window: 4, ..policy() };
        let jobs =
            [small(0, 9), small(1, 3), Job::whole(file(2), 5, &content(1 << 20)), small(3, 1), small(4, 0)];
        let found: Vec<Vec<u64>> =
            tasks(&policy, &jobs).iter().map(|task| task.files().map(FileNumber::get).collect()).collect();
        assert_eq!(found, [vec![2], vec![3, 1], vec![0], vec![4]]);
    }

    #[test]
    fn many_extents_close_a_window() {
        let extents = (0..4_000).filter_map(|n| Extent::at(n * 100, 50));
        let content = Content::seen(1 << 20, extents).expect("a file");
        let mut cutter = Cutter::new(policy()).expect("a policy");
        let taken = (0..).take_while(|&n| cutter.push(Job::whole(file(n), n, &content)).is_ok()).count();
        assert_eq!(taken, 17);
    }

    fn jobs() -> impl Strategy<Value = Vec<Job>> {
        let extents = proptest::collection::vec((0u64..1 << 17, 1u64..1 << 15), 0..5);
        proptest::collection::vec((extents, 0u64..5), 0..20).prop_map(|all| {
            let job = |(number, (extents, key)): (usize, (Vec<(u64, u64)>, u64))| {
                let mut set = ExtentSet::default();
                extents
                    .iter()
                    .filter_map(|&(at, length)| Extent::at(at, length))
                    .for_each(|extent| set.insert(extent));
                Job::rest(file(number as u64), key, &set)
            };
            all.into_iter().enumerate().map(job).collect()
        })
    }

    fn policies() -> impl Strategy<Value = Policy> {
        let sizes = (1u32..6, 12u32..16, 0u64..1 << 16, 0u64..1 << 15, 0u64..1 << 17);
        (sizes, 1usize..5, 1usize..25).prop_map(
            |((streams, block, stripe_from, bundle_below, bundle_bytes), bundle_files, window)| {
                let block = 1 << block;
                Policy { streams, block, stripe_from, bundle_below, bundle_bytes, bundle_files, window }
            },
        )
    }

    proptest! {
        #![proptest_config(testing::config())]

        /// The extents of every file, put together from the pieces of all tasks, none of them twice.
        #[test]
        fn every_byte_of_data_is_moved_once(policy in policies(), jobs in jobs()) {
            let mut moved: BTreeMap<u64, (ExtentSet, u64)> = BTreeMap::new();
            for task in tasks(&policy, &jobs) {
                for file in task.files() {
                    moved.entry(file.get()).or_default();
                }
                for (file, piece) in task.pieces() {
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
                prop_assert_eq!(*bytes, job.bytes, "as many bytes as the data has, so none came twice");
            }
        }

        #[test]
        fn streams_of_a_file_get_as_many_pieces(policy in policies(), jobs in jobs()) {
            let mut counts: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
            for task in tasks(&policy, &jobs).iter().filter(|task| task.share().1 > 1) {
                let file = task.files().next().expect("a file").get();
                counts.entry(file).or_default().push(task.pieces().count());
            }
            for counts in counts.values() {
                prop_assert_eq!(counts.len(), policy.streams as usize);
                let (least, most) = (counts.iter().min(), counts.iter().max());
                prop_assert!(most.zip(least).is_some_and(|(most, least)| most - least <= 1));
            }
        }

        #[test]
        fn bundles_have_room_for_what_is_in_them(policy in policies(), jobs in jobs()) {
            let bytes: BTreeMap<u64, u64> = jobs.iter().map(|job| (job.file.get(), job.bytes)).collect();
            for task in tasks(&policy, &jobs) {
                let files: Vec<u64> = task.files().map(|file| bytes[&file.get()]).collect();
                prop_assert!(files.len() <= policy.bundle_files);
                prop_assert!(files.len() == 1 || files.iter().sum::<u64>() <= policy.bundle_bytes);
            }
        }

        #[test]
        fn the_order_of_arrival_within_a_window_does_not_matter(policy in policies(), jobs in jobs()) {
            let policy = Policy { window: 100, ..policy };
            let mut turned = jobs.clone();
            turned.reverse();
            prop_assert_eq!(tasks(&policy, &jobs), tasks(&policy, &turned));
        }
    }
}
