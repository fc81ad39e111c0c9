//! Shards: disjoint parts of one tree that several processes copy together.
//!
//! The assignment must be the same for all processes, hosts and versions. So it depends on a name
//! or inode number only, by a fixed hash function.

use crate::name::Name;
use crate::port::{FileKind, FileStat};
use std::fmt;
use std::str::FromStr;

/// Maximum number of shards.
pub const MAX_SHARDS: u32 = 65_536;

/// Shard K of N: the part of a tree that one of N processes copies.
///
/// Invariant: 1 ≤ number ≤ count ≤ [`MAX_SHARDS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    number: u32,
    count: u32,
}

/// Why a text or a pair of numbers is not a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected K/N, with N from 1 to {MAX_SHARDS} and K from 1 to N")]
pub struct InvalidShard;

impl Shard {
    /// Returns a shard by its number, from 1, and the number of all shards.
    ///
    /// # Errors
    /// [`InvalidShard`].
    pub fn new(number: u32, count: u32) -> Result<Self, InvalidShard> {
        let is_valid = (1..=count).contains(&number) && count <= MAX_SHARDS;
        is_valid.then_some(Self { number, count }).ok_or(InvalidShard)
    }

    /// Returns the number of this shard, from 1.
    pub fn number(self) -> u32 {
        self.number
    }

    /// Returns whether the shard contains an object that is not a directory.
    ///
    /// All names of a file with hard links are in one shard: they share the inode number, also on
    /// different hosts, where the numbers of devices differ.
    pub(crate) fn contains(self, name: &Name, metadata: &FileStat) -> bool {
        match metadata.links > 1 && metadata.kind != FileKind::Directory {
            true => self.contains_key(&metadata.inode.to_le_bytes()),
            false => self.contains_name(name),
        }
    }

    /// Returns whether the shard contains a file with this name and no other.
    pub(crate) fn contains_name(self, name: &Name) -> bool {
        self.contains_key(name.as_bytes())
    }

    fn contains_key(self, key: &[u8]) -> bool {
        let hash = blake3::hash(key);
        let first = hash.as_bytes().first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        first % u64::from(self.count) == u64::from(self.number - 1)
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.count)
    }
}

impl FromStr for Shard {
    type Err = InvalidShard;

    fn from_str(text: &str) -> Result<Self, InvalidShard> {
        let (number, count) = text.split_once('/').ok_or(InvalidShard)?;
        // Unlike `u32::from_str`, this rejects a plus sign.
        let integer = |digits: &str| match digits.bytes().all(|byte| byte.is_ascii_digit()) {
            true => digits.parse::<u32>().map_err(|_| InvalidShard),
            false => Err(InvalidShard),
        };
        Self::new(integer(number)?, integer(count)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::Stamp;

    fn name(text: &str) -> Name {
        Name::new(text.as_bytes()).expect("a name")
    }

    fn file(inode: u64, links: u64) -> FileStat {
        let mtime = Stamp { seconds: 5, nanoseconds: 6 };
        FileStat {
            kind: FileKind::File,
            mode: 0o644,
            user: 0,
            group: 0,
            size: 1,
            mtime,
            ctime: mtime,
            inode,
            volume: 1,
            links,
        }
    }

    /// Returns the number of the only shard of several with a key.
    fn shard_of(is_in: impl Fn(Shard) -> bool, count: u32) -> u32 {
        let all = (1..=count).map(|number| Shard::new(number, count).expect("a shard"));
        let numbers: Vec<u32> = all.filter(|shard| is_in(*shard)).map(Shard::number).collect();
        assert_eq!(numbers.len(), 1);
        numbers[0]
    }

    /// Another version, or another host, must assign the same shards. The values were computed by
    /// another program: the first 16 digits of b3sum as a number, modulo 8, plus 1.
    #[test]
    fn assignment_is_stable() {
        let by_name = |text| shard_of(|shard| shard.contains(&name(text), &file(7, 1)), 8);
        assert_eq!(["a", "b", "run1/data.bin", "äöü"].map(by_name), STABLE_NAMES);
        let by_inode = |inode| shard_of(|shard| shard.contains(&name("a"), &file(inode, 2)), 8);
        assert_eq!([1, 2, 12_345, u64::MAX].map(by_inode), STABLE_INODES);
    }

    const STABLE_NAMES: [u32; 4] = [4, 8, 6, 7];
    const STABLE_INODES: [u32; 4] = [7, 8, 3, 8];

    #[test]
    fn shards_have_similar_numbers_of_files() {
        for count in [1, 2, 3, 7, 8, 100] {
            let mut files = vec![0_u32; count as usize];
            for number in 0..10_000 {
                let name = name(&format!("directory-{}/file-{number}", number % 50));
                files[shard_of(|shard| shard.contains_name(&name), count) as usize - 1] += 1;
            }
            let mean = 10_000.0 / f64::from(count);
            let limit = 5.0 * mean.sqrt();
            assert!(files.iter().all(|found| (f64::from(*found) - mean).abs() < limit), "{count}: {files:?}");
        }
    }

    #[test]
    fn parses_only_valid_shards() {
        for text in ["1/1", "1/4", "4/4", "65536/65536"] {
            assert_eq!(text.parse::<Shard>().map(|shard| shard.to_string()).as_deref(), Ok(text));
        }
        let invalid =
            ["0/4", "5/4", "1/0", "1/65537", "x", "", "/", "1/", "/4", "+1/4", "1/4/4", " 1/4", "-1/4"];
        for text in invalid {
            assert_eq!(text.parse::<Shard>(), Err(InvalidShard), "{text}");
        }
    }
}
