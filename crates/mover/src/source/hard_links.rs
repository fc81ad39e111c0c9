//! Detection of hard links: the first name of each file with several links, in a few bytes per
//! file.
//!
//! The inode number of a removed file may be reused during the scan (ext4 assigns the lowest free
//! one). So a file is identified by size and mtime, too, which are the same for all of its names; a
//! file that changes between two of them becomes two files. Size and mtime are only part of the
//! hash, of which the index keeps thirty bits: a reused inode is mistaken for the old file once in
//! 10^9 cases. An attacker gains nothing by that, since it could as well set the old mtime. The
//! hash is keyed, so attackers cannot create many collisions, which are searched linearly.

use super::hash_index::HashIndex;
use crate::name::Name;
use crate::port::FileStat;
use crate::wire::batch::{put_name, read_name};
use crate::wire::bytes::{put_signed, Reader};
use std::hash::{BuildHasher, RandomState};

/// Number of files that are delta-encoded together: a lookup decodes a group from its start.
const GROUP: u32 = 64;

/// Device and inode number.
type Key = (u64, u64);

/// The first names of files with several links.
///
/// Invariants: the files are numbered from zero in the order in which they were found, `index` has
/// the number of each, and no file has two numbers.
#[derive(Debug, Default)]
pub(super) struct HardLinks {
    index: HashIndex,
    /// Files encoded as differences from the previous one, in groups of [`GROUP`].
    full: Vec<Box<[u8]>>,
    last: Vec<u8>,
    count: u32,
    before: (Key, Vec<u8>),
    keys: RandomState,
}

impl HardLinks {
    /// Returns the first name of a file, or `None` and records `name` as such.
    pub fn first(&mut self, metadata: &FileStat, name: &Name) -> Option<Name> {
        let (hash, key) = (self.hash(metadata), (metadata.volume, metadata.inode));
        let known = self.known(hash, key);
        if known.is_some() {
            return known;
        }
        if self.count < u32::MAX {
            self.index.add(hash, self.count);
            self.keep(key, name);
        }
        None
    }

    /// Hashes everything that identifies a file.
    fn hash(&self, metadata: &FileStat) -> u64 {
        let FileStat { volume, inode, size, mtime, .. } = metadata;
        self.keys.hash_one((volume, inode, size, mtime.seconds, mtime.nanoseconds))
    }

    fn known(&self, hash: u64, key: Key) -> Option<Name> {
        let mut candidates = self.index.candidates(hash).filter_map(|number| self.get(number));
        candidates.find(|(known, _)| *known == key).map(|(_, name)| name)
    }

    fn keep(&mut self, key: Key, name: &Name) {
        let (before, last) = &self.before;
        put_signed(&mut self.last, key.0.wrapping_sub(before.0) as i64);
        put_signed(&mut self.last, key.1.wrapping_sub(before.1) as i64);
        put_name(&mut self.last, name.as_bytes(), last);
        self.before.0 = key;
        self.before.1.clear();
        self.before.1.extend_from_slice(name.as_bytes());
        self.count += 1;
        if self.count.is_multiple_of(GROUP) {
            self.full.push(self.last.as_slice().into());
            self.last.clear();
            self.before = Default::default();
        }
    }

    fn get(&self, number: u32) -> Option<(Key, Name)> {
        let bytes = self.full.get((number / GROUP) as usize).map_or(&self.last[..], |full| full);
        let mut reader = Reader::new(bytes);
        let (mut key, mut name): (Key, Vec<u8>) = Default::default();
        for _ in 0..=number % GROUP {
            // The bytes were written by `keep`.
            key.0 = key.0.wrapping_add(reader.signed("a file system").ok()? as u64);
            key.1 = key.1.wrapping_add(reader.signed("an inode").ok()? as u64);
            name = read_name(&mut reader, &name).ok()?.as_bytes().to_vec();
        }
        Some((key, Name::new(name).ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::{FileKind, Stamp};

    fn metadata((volume, inode): Key, size: u64, mtime: Stamp) -> FileStat {
        FileStat {
            kind: FileKind::File,
            mode: 0o644,
            user: 0,
            group: 0,
            size,
            mtime,
            ctime: mtime,
            inode,
            volume,
            links: 2,
        }
    }

    fn name(text: String) -> Name {
        Name::new(text.into_bytes()).expect("a name")
    }

    #[test]
    fn finds_the_first_name_of_every_file() {
        let mut links = HardLinks::default();
        // Inode numbers in any order, including very large ones, on two devices with equal numbers.
        let key = |file: u64| (file % 2, (file / 2).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (file % 7));
        let metadata = |key: Key| metadata(key, 5, Stamp { seconds: 6, nanoseconds: 7 });
        let first = |file: u64| name(format!("folder-{}/{file}", file % 300));
        for file in 0..5_000 {
            assert_eq!(links.first(&metadata(key(file)), &first(file)), None, "{file}");
        }
        for file in 0..5_000 {
            let other = name(format!("other-{file}"));
            assert_eq!(links.first(&metadata(key(file)), &other), Some(first(file)));
        }
        assert_eq!(links.first(&metadata((9, 9)), &name("new".into())), None);
        assert_eq!(links.count, 5_001);
    }

    #[test]
    fn inode_with_another_size_or_mtime_is_another_file() {
        let mut links = HardLinks::default();
        let stamp = |seconds, nanoseconds| Stamp { seconds, nanoseconds };
        let all: Vec<FileStat> = (0..300)
            .flat_map(|number: u32| {
                let second = i64::from(number) + 1;
                [(u64::from(number) + 1, stamp(0, 0)), (0, stamp(second, 0)), (0, stamp(0, number))]
            })
            .map(|(size, mtime)| metadata((1, 12), size, mtime))
            .collect();
        let first = |file: usize| name(format!("{file}"));
        for (file, metadata) in all.iter().enumerate() {
            assert_eq!(links.first(metadata, &first(file)), None, "{metadata:?}");
        }
        for (file, metadata) in all.iter().enumerate() {
            assert_eq!(links.first(metadata, &name("other".into())), Some(first(file)), "{metadata:?}");
        }
    }
}
