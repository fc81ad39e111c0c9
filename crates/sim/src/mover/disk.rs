//! A disk and what happens to it.

use super::state::{Change, Inode, Object, State, ROOT};
use numaio_machine::port::{FilePath, Stamp};
use std::collections::BTreeMap;

/// A source of chance: the same seed gives the same numbers (SplitMix64).
#[derive(Debug, Clone)]
pub struct Chance(u64);

impl Chance {
    /// A source with a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }

    /// Whether a thing happens that does so once in `times`.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

/// A directory of which a part was listed, and the names that are left.
pub(super) type OpenListing = (u64, Vec<Box<[u8]>>);

/// A simulated file system.
#[derive(Debug, Clone)]
pub struct Disk {
    pub(super) now: State,
    durable: State,
    /// Changes that are not durable yet, in their order.
    pending: Vec<Change>,
    next: u64,
    clock: i64,
    /// Listings that are not over: names that are left.
    pub(super) listings: BTreeMap<u64, OpenListing>,
    /// Files that were begun in place.
    pub(super) in_place: BTreeMap<FilePath, u64>,
    /// Whether a process has the journal.
    pub(super) journal: Option<u64>,
    /// Bytes that were written since it was made.
    pub written: u64,
    /// Bytes that were read since it was made.
    pub read: u64,
    /// Bytes that it has room for; beyond them writes fail.
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
            written: 0,
            read: 0,
            capacity: u64::MAX,
        }
    }
}

impl Disk {
    /// Makes a change that programs see at once.
    pub(super) fn change(&mut self, change: Change) {
        self.now.apply(&change);
        self.pending.push(change);
    }

    /// A new inode, which has no name yet.
    pub(super) fn add(&mut self, object: Object, mode: u32) -> u64 {
        let inode = self.next;
        self.next += 1;
        let mtime = self.tick();
        let made = Inode { object, mode, user: 0, group: 0, mtime, xattrs: Vec::new() };
        self.durable.0.insert(inode, made.clone());
        self.now.0.insert(inode, made);
        inode
    }

    /// The time, which is never the same twice.
    pub(super) fn tick(&mut self) -> Stamp {
        self.clock += 1;
        Stamp { seconds: self.clock, nanoseconds: 7 }
    }

    /// `fsync` of an inode.
    pub(super) fn sync_one(&mut self, inode: u64) {
        for change in self.pending.iter().filter(|change| change.inode() == Some(inode)) {
            self.durable.apply(change);
        }
        self.pending.retain(|change| change.inode() != Some(inode));
    }

    /// `syncfs`.
    pub fn sync_all(&mut self) {
        self.pending.iter().for_each(|change| self.durable.apply(change));
        self.pending.clear();
    }

    /// The process that used it is gone.
    pub fn end_process(&mut self) {
        self.listings.clear();
        self.in_place.clear();
        self.journal = None;
    }

    /// The machine stops, and is started anew.
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

    /// Puts something under a name, as if it had been there for ever.
    pub fn put(&mut self, name: &[u8], inode: Inode) {
        let (directory, last) = self.parent_of(name);
        let mtime = inode.mtime;
        let number = self.add(inode.object.clone(), inode.mode);
        self.change(Change::Attributes(number, Box::new(Inode { mtime, ..inode })));
        self.change(Change::Names(vec![(directory, last.into(), Some(number))]));
        self.sync_all();
    }

    /// Gives what has a name a second one.
    pub fn link(&mut self, name: &[u8], other: &[u8]) {
        let Ok(number) = self.find(name) else { return };
        let (directory, last) = self.parent_of(other);
        self.change(Change::Names(vec![(directory, last.into(), Some(number))]));
        self.sync_all();
    }

    /// All names of an object go, and its number becomes another one's at once, as on ext4.
    pub fn replace(&mut self, gone: &[u8], name: &[u8], inode: Inode) {
        let Ok(number) = self.find(gone) else { return };
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

    /// Every name with what it stands for, and the number that tells which names are one object.
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
