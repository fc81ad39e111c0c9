//! Files with several names: the name under which each was told first, in a few bytes for each file, however many they are.

use super::index::Index;
use crate::name::Name;
use crate::wire::batch::{put_name, read_name};
use crate::wire::bytes::{put_signed, Reader};

/// Files that are kept together: to find one of them those before it are read.
const TOGETHER: u32 = 64;

/// File system and inode.
type Key = (u64, u64);

/// First names of files that have further ones.
#[derive(Debug, Default)]
pub(super) struct Links {
    index: Index,
    /// Files as what differs from the one before, [`TOGETHER`] of them in each.
    full: Vec<Box<[u8]>>,
    last: Vec<u8>,
    count: u32,
    before: (Key, Vec<u8>),
}

impl Links {
    /// The name under which a file was told before. If there is none, this one is it from now on.
    pub fn first(&mut self, key: Key, name: &Name) -> Option<Name> {
        let hash = hash(key);
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

    fn known(&self, hash: u64, key: Key) -> Option<Name> {
        let mut alike = self.index.alike(hash).filter_map(|number| self.get(number));
        alike.find(|(known, _)| *known == key).map(|(_, name)| name)
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
        if self.count.is_multiple_of(TOGETHER) {
            self.full.push(self.last.as_slice().into());
            self.last.clear();
            self.before = Default::default();
        }
    }

    fn get(&self, number: u32) -> Option<(Key, Name)> {
        let bytes = self.full.get((number / TOGETHER) as usize).map_or(&self.last[..], |full| full);
        let mut reader = Reader::new(bytes);
        let (mut key, mut name): (Key, Vec<u8>) = Default::default();
        for _ in 0..=number % TOGETHER {
            // What stands there was written by us.
            key.0 = key.0.wrapping_add(reader.signed("a file system").ok()? as u64);
            key.1 = key.1.wrapping_add(reader.signed("an inode").ok()? as u64);
            name = read_name(&mut reader, &name).ok()?.as_bytes().to_vec();
        }
        Some((key, Name::new(name).ok()?))
    }
}

fn hash((volume, inode): Key) -> u64 {
    twox_hash::XxHash3_64::oneshot(&[volume.to_be_bytes(), inode.to_be_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: String) -> Name {
        Name::new(text.into_bytes()).expect("a name")
    }

    #[test]
    fn the_first_name_of_every_file_is_found_again() {
        let mut links = Links::default();
        // Inodes in any order, some as large as there can be, on two file systems that have the same numbers.
        let key = |file: u64| (file % 2, (file / 2).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (file % 7));
        let first = |file: u64| name(format!("folder-{}/{file}", file % 300));
        for file in 0..5_000 {
            assert_eq!(links.first(key(file), &first(file)), None, "{file}");
        }
        for file in 0..5_000 {
            assert_eq!(links.first(key(file), &name(format!("other-{file}"))), Some(first(file)));
        }
        assert_eq!(links.first((9, 9), &name("new".into())), None);
        assert_eq!(links.count, 5_001);
    }
}
