//! Sets of ids, in the kernel's two text formats.

use crate::ids::{CpuId, Id, NodeId, MAX_ID};
use serde::{de, Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeSet;
use std::fmt;

/// Maximum total length of the ranges of one list, to bound the work for a hostile list that
/// repeats the same ids. The kernel lists each id once.
const MAX_STACKS: u64 = 4 * MAX_ID as u64;

/// A set of ids in ascending order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdSet<T: Id>(BTreeSet<T>);

/// A set of NUMA nodes.
pub type NodeSet = IdSet<NodeId>;
/// A set of logical CPUs.
pub type CpuSet = IdSet<CpuId>;

/// Text that is not a set of ids.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a set of ids: {0:?}")]
pub struct ParseSetError(pub String);

impl<T: Id> Default for IdSet<T> {
    fn default() -> Self {
        Self(BTreeSet::new())
    }
}

impl<T: Id> IdSet<T> {
    /// Creates an empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a set with one id.
    pub fn one(id: T) -> Self {
        Self::from_iter([id])
    }

    /// Parses the list format, as in `0-3,8,10-14:2` (`Documentation/core-api/bitmap`,
    /// `bitmap_parselist`): ranges with inclusive ends, a stride of used:group as in `0-31:1/4`, or
    /// a plain stride `10-14:2`. Empty text is the empty set.
    pub fn parse_list(text: &str) -> Result<Self, ParseSetError> {
        let bad = || ParseSetError(text.chars().take(80).collect());
        let mut set = BTreeSet::new();
        let mut spanned = 0;
        for part in text.trim().split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (range, stride) = part.split_once(':').unwrap_or((part, "1/1"));
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last) = (number(first).ok_or_else(bad)?, number(last).ok_or_else(bad)?);
            let (used, group) = stride.split_once('/').unwrap_or(("1", stride));
            let (used, group) = (number(used).ok_or_else(bad)?, number(group).ok_or_else(bad)?);
            if first > last || group == 0 || used > group {
                return Err(bad());
            }
            spanned += u64::from(last - first) + 1;
            if spanned > MAX_STACKS {
                return Err(bad());
            }
            set.extend((first..=last).filter(|id| (id - first) % group < used).map(T::from_number));
        }
        Ok(Self(set))
    }

    /// Parses the mask format, 32-bit words in hexadecimal, most significant first:
    /// `00000000,0000000f` (`Documentation/core-api/bitmap`, `%*pb`). A word may be shorter than
    /// eight digits.
    pub fn parse_mask(text: &str) -> Result<Self, ParseSetError> {
        let bad = || ParseSetError(text.chars().take(80).collect());
        let mut set = BTreeSet::new();
        let groups: Vec<&str> = text.trim().split(',').map(str::trim).collect();
        if groups.len() as u32 > MAX_ID / 32 {
            return Err(bad());
        }
        for (index, group) in groups.iter().rev().enumerate() {
            let digits = group.strip_prefix("0x").unwrap_or(group);
            if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return Err(bad());
            }
            let bits = u32::from_str_radix(digits, 16).map_err(|_| bad())?;
            let base = index as u32 * 32;
            set.extend((0..32).filter(|bit| bits & (1 << bit) != 0).map(|bit| T::from_number(base + bit)));
        }
        Ok(Self(set))
    }

    /// Adds an id; returns false if it was present.
    pub fn insert(&mut self, id: T) -> bool {
        self.0.insert(id)
    }

    /// Removes an id; returns false if it was absent.
    pub fn remove(&mut self, id: T) -> bool {
        self.0.remove(&id)
    }

    /// Returns whether the set contains the id.
    pub fn contains(&self, id: T) -> bool {
        self.0.contains(&id)
    }

    /// Returns the number of ids.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates over the ids in ascending order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = T> + '_ {
        self.0.iter().copied()
    }

    /// Returns the smallest id.
    pub fn first(&self) -> Option<T> {
        self.0.first().copied()
    }

    /// Returns the ids in either set.
    pub fn union(&self, other: &Self) -> Self {
        Self(self.0.union(&other.0).copied().collect())
    }

    /// Returns the ids in both sets.
    pub fn intersection(&self, other: &Self) -> Self {
        Self(self.0.intersection(&other.0).copied().collect())
    }

    /// Returns the ids in this set that are not in the other.
    pub fn difference(&self, other: &Self) -> Self {
        Self(self.0.difference(&other.0).copied().collect())
    }

    /// Returns whether the other set contains every id of this set.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.0.is_subset(&other.0)
    }
}

impl<T: Id> FromIterator<T> for IdSet<T> {
    fn from_iter<I: IntoIterator<Item = T>>(ids: I) -> Self {
        Self(ids.into_iter().collect())
    }
}

impl<T: Id> Extend<T> for IdSet<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, ids: I) {
        self.0.extend(ids);
    }
}

/// Writes the list format: `0-3,8`.
impl<T: Id> fmt::Display for IdSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for id in self.iter().map(Id::number) {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == id => *last = id,
                _ => ranges.push((id, id)),
            }
        }
        let texts: Vec<String> = ranges
            .iter()
            .map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") })
            .collect();
        f.pad(&texts.join(","))
    }
}

/// Serializes a set in its human-readable list format.
impl<T: Id> Serialize for IdSet<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de, T: Id> Deserialize<'de> for IdSet<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse_list(&text).map_err(de::Error::custom)
    }
}

fn number(text: &str) -> Option<u32> {
    // Digits only: Rust's parser also accepts a sign.
    let digits = Some(text.trim()).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    digits.parse().ok().filter(|number| *number <= MAX_ID)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Vec<u32> {
        CpuSet::parse_list(text).expect(text).iter().map(Id::number).collect()
    }

    #[test]
    fn parses_ranges_strides_and_gaps() {
        assert_eq!(list("0-3,8\n"), [0, 1, 2, 3, 8]);
        assert_eq!(list(""), [0u32; 0]);
        assert_eq!(list("10-14:2"), [10, 12, 14]);
        assert_eq!(list("0-9:2/4"), [0, 1, 4, 5, 8, 9]);
        assert_eq!(CpuSet::parse_list("0-3,8,10-11").expect("a list").to_string(), "0-3,8,10-11");
    }

    #[test]
    fn parses_masks_from_the_least_significant_word() {
        let set = CpuSet::parse_mask("00000001,0000000f\n").expect("a mask");
        assert_eq!(set.to_string(), "0-3,32");
        assert_eq!(CpuSet::parse_mask("ff").expect("a short mask").len(), 8);
    }

    #[test]
    fn rejects_malformed_sets() {
        for text in ["x", "3-1", "0-4294967295", "-1", "1-2:0", "99999999999999999999"] {
            assert!(CpuSet::parse_list(text).is_err(), "{text}");
        }
        for text in ["", "xyz", "123456789", "1,,2"] {
            assert!(CpuSet::parse_mask(text).is_err(), "{text}");
        }
    }
}
