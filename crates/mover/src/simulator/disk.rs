//! The simulated disk: durability, power loss and the end of a process.

use super::state::{Change, Inode, Object, State, ROOT};
use crate::port::{BlockSize, FilePath, Stamp};
use std::collections::BTreeMap;

/// A random number generator: the same seed yields the same numbers (SplitMix64).
#[derive(Debug, Clone)]
pub struct Chance(u64);

impl Chance {
    /// A generator with a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a number below `end`, which must not be 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }

    /// Returns true with a probability of one in `times`.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

/// Operations that a file system refuses or ignores.
#[derive(Debug, Clone, Copy, Default)]
pub struct Refusals {
    /// Hard links are refused.
    pub links: bool,
    /// Journals cannot be locked (flock(2)).
    pub locks: bool,
    /// Setting extended attributes fails, after everything else is set.
    pub xattrs: bool,
}

/// A partly listed directory, with the remaining names.
pub(super) type OpenListing = (u64, Vec<Box<[u8]>>);

/// A simulated file system.
#[derive(Debug, Clone)]
pub struct Disk {
    pub(super) now: State,
    durable: State,
    /// Changes that are not durable yet, in order.
    pending: Vec<Change>,
    next: u64,
    clock: i64,
    /// Unfinished listings.
    pub(super) listings: BTreeMap<u64, OpenListing>,
    /// Partial files that are written in place.
    pub(super) in_place: BTreeMap<FilePath, u64>,
    /// Inode of the journal that a process has opened.
    pub(super) journal: Option<u64>,
    /// Operations that the file system refuses or ignores.
    pub refuses: Refusals,
    /// The size of buffers.
    pub block: BlockSize,
    /// Bytes written so far.
    pub written: u64,
    /// Bytes read so far.
    pub read: u64,
    /// Maximum of written bytes; further writes fail.
    pub capacity: u64,
}

impl Default for Disk {
    fn default() -> Self {
        let root = Inode {
            object: Object::Directory(BTreeMap::new()),
            mode: 0o755,
            user: 0,
            group: 0,
            mtime: Stamp::default(),
            xattrs: Vec::new(),
        };
        let state = State(BTreeMap::from([(ROOT, root)]));
        Self {
            now: state.clone(),
            durable: state,
            pending: Vec::new(),
            next: ROOT + 1,
            clock: 1_000_000,
            listings: BTreeMap::new(),
            in_place: BTreeMap::new(),
            journal: None,
            refuses: Refusals::default(),
            block: BlockSize::default(),
            written: 0,
            read: 0,
            capacity: u64::MAX,
        }
    }
}

impl Disk {
    /// Applies a change that is visible immediately, but not durable.
    pub(super) fn change(&mut self, change: Change) {
        self.now.apply(&change);
        self.pending.push(change);
    }

    /// Adds an inode without a name.
    pub(super) fn add(&mut self, object: Object, mode: u32) -> u64 {
        let inode = self.next;
        self.next += 1;
        let mtime = self.tick();
        let made = Inode { object, mode, user: 0, group: 0, mtime, xattrs: Vec::new() };
        self.durable.0.insert(inode, made.clone());
        self.now.0.insert(inode, made);
        inode
    }

    /// Advances the clock, and returns the time.
    pub(super) fn tick(&mut self) -> Stamp {
        self.clock += 1;
        Stamp { seconds: self.clock, nanoseconds: 7 }
    }

    /// Makes the changes of an inode durable, as `fsync` does.
    pub(super) fn sync_one(&mut self, inode: u64) {
        for change in self.pending.iter().filter(|change| change.inode() == Some(inode)) {
            self.durable.apply(change);
        }
        self.pending.retain(|change| change.inode() != Some(inode));
    }

    /// Makes all changes durable, as `syncfs` does.
    pub fn sync_all(&mut self) {
        self.pending.iter().for_each(|change| self.durable.apply(change));
        self.pending.clear();
    }

    /// Ends the process that uses the disk.
    pub fn end_process(&mut self) {
        self.listings.clear();
        self.in_place.clear();
        self.journal = None;
    }

    /// Loses power and restarts: each pending change is kept, lost or truncated at random.
    pub fn lose_power(&mut self, chance: &mut Chance) {
        let keep = 1 + chance.below(4);
        for change in std::mem::take(&mut self.pending) {
            let kept = chance.below(5) < keep;
            match change {
                Change::Data(inode, offset, mut bytes) if kept && chance.once_in(3) => {
                    bytes.truncate(chance.below(bytes.len() as u64 + 1) as usize);
                    self.durable.apply(&Change::Data(inode, offset, bytes));
                }
                change if kept => self.durable.apply(&change),
                _ => {}
            }
        }
        self.now = self.durable.clone();
        self.end_process();
    }

    /// Adds a durable object with a name.
    pub fn put(&mut self, name: &[u8], inode: Inode) {
        let (directory, last) = self.parent_of(name);
        let mtime = inode.mtime;
        let number = self.add(inode.object.clone(), inode.mode);
        self.change(Change::Attributes(number, Box::new(Inode { mtime, ..inode })));
        self.change(Change::Names(vec![(directory, last.into(), Some(number))]));
        self.sync_all();
    }

    /// Adds a durable hard link.
    pub fn link(&mut self, name: &[u8], other: &[u8]) {
        let Ok(number) = self.find(name) else { return };
        let (directory, last) = self.parent_of(other);
        self.change(Change::Names(vec![(directory, last.into(), Some(number))]));
        self.sync_all();
    }

    /// Removes an object and reuses its inode number immediately, as ext4 does.
    pub fn replace(&mut self, removed: &[u8], name: &[u8], inode: Inode) {
        let Ok(number) = self.find(removed) else { return };
        for other in self.now.0.values_mut() {
            if let Object::Directory(names) = &mut other.object {
                names.retain(|_, named| *named != number);
            }
        }
        self.now.0.insert(number, inode);
        let (directory, last) = self.parent_of(name);
        self.change(Change::Names(vec![(directory, last.into(), Some(number))]));
        self.durable = self.now.clone();
        self.pending.clear();
    }

    fn parent_of<'a>(&self, name: &'a [u8]) -> (u64, &'a [u8]) {
        let slash = name.iter().rposition(|&byte| byte == b'/');
        let parent = slash.map_or(&b""[..], |slash| &name[..slash]);
        (self.find(parent).unwrap_or(ROOT), slash.map_or(name, |slash| &name[slash + 1..]))
    }

    /// Returns all names with their inode number and object.
    pub fn tree(&self) -> BTreeMap<Vec<u8>, (u64, Inode)> {
        let mut tree = BTreeMap::new();
        let mut rest = vec![(Vec::new(), ROOT)];
        while let Some((name, number)) = rest.pop() {
            let Some(inode) = self.now.0.get(&number) else { continue };
            if let Object::Directory(names) = &inode.object {
                for (component, number) in names {
                    let below = match name.is_empty() {
                        true => component.to_vec(),
                        false => [&name, &b"/"[..], component].concat(),
                    };
                    rest.push((below, *number));
                }
            }
            tree.insert(name, (number, inode.clone()));
        }
        tree
    }
}
