//! Sets of ids, in the kernel's two text formats.

use crate::ids::{CpuId, Id, NodeId, MAX_ID};
use serde::{de, Deserialize, Deserializer, Serialize, Serializer};
use std::cmp::Ordering;
use std::fmt::{self, Write};
use std::iter;
use std::marker::PhantomData;

/// Maximum total length of the ranges of one list, to bound the work for a hostile list that
/// repeats the same ids. The kernel lists each id once.
const MAX_STACKS: u64 = 4 * MAX_ID as u64;

/// A set of ids in ascending order.
///
/// Stored as ranges: the sets of a machine are mostly one or two ranges, and a large machine has
/// tens of thousands of sets.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct IdSet<T: Id> {
    /// First and last number of each range, ascending, with a gap between two ranges.
    ranges: Vec<(u32, u32)>,
    of: PhantomData<T>,
}

/// A set of NUMA nodes.
pub type NodeSet = IdSet<NodeId>;
/// A set of logical CPUs.
pub type CpuSet = IdSet<CpuId>;

/// Text that is not a set of ids.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a set of ids: {0:?}")]
pub struct ParseSetError(pub String);

/// Formats a set of nodes: `node 3`, `nodes 2-6`.
pub fn format_nodes(nodes: &NodeSet) -> String {
    match nodes.len() {
        1 => format!("node {nodes}"),
        _ => format!("nodes {nodes}"),
    }
}

/// Collects ranges in any order.
#[derive(Default)]
struct Collector {
    ranges: Vec<(u32, u32)>,
    /// Whether a range began before the end of the one before it.
    unsorted: bool,
}

impl Collector {
    /// Adds a range; extends the last range if it adjoins it, as most do.
    fn add(&mut self, first: u32, last: u32) {
        match self.ranges.last_mut() {
            Some((_, end)) if end.checked_add(1) == Some(first) => *end = last,
            Some((_, end)) => {
                self.unsorted |= first <= *end;
                self.ranges.push((first, last));
            }
            None => self.ranges.push((first, last)),
        }
    }

    fn into_set<T: Id>(mut self) -> IdSet<T> {
        if self.unsorted {
            self.ranges.sort_unstable();
            self.ranges.dedup_by(|next, range| {
                let joins = next.0 <= range.1.saturating_add(1);
                range.1 = if joins { range.1.max(next.1) } else { range.1 };
                joins
            });
        }
        IdSet { ranges: self.ranges, of: PhantomData }
    }
}

impl<T: Id> Default for IdSet<T> {
    fn default() -> Self {
        Self { ranges: Vec::new(), of: PhantomData }
    }
}

impl<T: Id> IdSet<T> {
    /// Creates an empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a set with one id.
    pub fn one(id: T) -> Self {
        Self { ranges: vec![(id.number(), id.number())], of: PhantomData }
    }

    /// Parses the list format, as in `0-3,8,10-14:2` (`Documentation/core-api/bitmap`,
    /// `bitmap_parselist`): ranges with inclusive ends, a stride of used:group as in `0-31:1/4`, or
    /// a plain stride `10-14:2`. Empty text is the empty set.
    pub fn parse_list(text: &str) -> Result<Self, ParseSetError> {
        let bad = || ParseSetError(text.chars().take(80).collect());
        let mut set = Collector::default();
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
            match used {
                0 => {}
                used if used == group => set.add(first, last),
                used => (first..=last)
                    .step_by(group as usize)
                    .for_each(|start| set.add(start, last.min(start + used - 1))),
            }
        }
        Ok(set.into_set())
    }

    /// Parses the mask format, 32-bit words in hexadecimal, most significant first:
    /// `00000000,0000000f` (`Documentation/core-api/bitmap`, `%*pb`). A word may be shorter than
    /// eight digits.
    pub fn parse_mask(text: &str) -> Result<Self, ParseSetError> {
        let bad = || ParseSetError(text.chars().take(80).collect());
        let mut set = Collector::default();
        let mut words = 0;
        for group in text.trim().rsplit(',').map(str::trim) {
            let digits = group.strip_prefix("0x").unwrap_or(group);
            if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return Err(bad());
            }
            let bits = u32::from_str_radix(digits, 16).map_err(|_| bad())?;
            add_bits(&mut set, words * 32, bits);
            words += 1;
            if words > MAX_ID / 32 {
                return Err(bad());
            }
        }
        Ok(set.into_set())
    }

    /// Adds an id; returns false if it was present.
    pub fn insert(&mut self, id: T) -> bool {
        let number = id.number();
        let at = self.position(number);
        let next = self.ranges.get(at).map(|(first, _)| *first);
        if next.is_some_and(|first| first <= number) {
            return false;
        }
        let joins_next = next.is_some_and(|first| first - number == 1);
        let joins_last = at > 0 && number - self.ranges[at - 1].1 == 1;
        match (joins_last, joins_next) {
            (true, true) => self.ranges[at - 1].1 = self.ranges.remove(at).1,
            (true, false) => self.ranges[at - 1].1 = number,
            (false, true) => self.ranges[at].0 = number,
            (false, false) => self.ranges.insert(at, (number, number)),
        }
        true
    }

    /// Removes an id; returns false if it was absent.
    pub fn remove(&mut self, id: T) -> bool {
        let number = id.number();
        let at = self.position(number);
        let Some((first, last)) = self.ranges.get(at).copied().filter(|(first, _)| *first <= number) else {
            return false;
        };
        let below = (first < number).then(|| (first, number - 1));
        let above = (number < last).then(|| (number + 1, last));
        self.ranges.splice(at..=at, below.into_iter().chain(above));
        true
    }

    /// Returns whether the set contains the id.
    pub fn contains(&self, id: T) -> bool {
        let range = self.ranges.get(self.position(id.number()));
        range.is_some_and(|(first, _)| *first <= id.number())
    }

    /// Returns the index of the first range that does not end before a number.
    fn position(&self, number: u32) -> usize {
        self.ranges.partition_point(|(_, last)| *last < number)
    }

    /// Returns the number of ids.
    pub fn len(&self) -> usize {
        self.ranges.iter().map(|(first, last)| (last - first) as usize + 1).sum()
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Iterates over the ids in ascending order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = T> + '_ {
        self.ranges.iter().flat_map(|(first, last)| *first..=*last).map(T::from_number)
    }

    /// Returns the smallest id.
    pub fn first(&self) -> Option<T> {
        self.ranges.first().map(|(first, _)| T::from_number(*first))
    }

    /// Returns the ids in either set.
    pub fn union(&self, other: &Self) -> Self {
        let mut union = Collector::default();
        let (mut a, mut b) = (self.ranges.iter().peekable(), other.ranges.iter().peekable());
        // Both are ascending, and so is their merger, but for ranges that overlap.
        while let Some((first, last)) = match (a.peek(), b.peek()) {
            (Some(x), Some(y)) if x <= y => a.next(),
            (_, Some(_)) => b.next(),
            (_, None) => a.next(),
        } {
            union.add(*first, *last);
        }
        union.into_set()
    }

    /// Returns the ids in both sets.
    pub fn intersection(&self, other: &Self) -> Self {
        Self { ranges: self.overlaps(other).collect(), of: PhantomData }
    }

    /// Returns whether an id is in both sets.
    pub fn intersects(&self, other: &Self) -> bool {
        self.overlaps(other).next().is_some()
    }

    /// Iterates over the ranges of the intersection.
    fn overlaps<'s>(&'s self, other: &'s Self) -> impl Iterator<Item = (u32, u32)> + 's {
        let (mut a, mut b) = (self.ranges.as_slice(), other.ranges.as_slice());
        iter::from_fn(move || loop {
            let (x, y) = (a.first()?, b.first()?);
            let overlap = (x.0.max(y.0), x.1.min(y.1));
            match x.1 < y.1 {
                true => a = &a[1..],
                false => b = &b[1..],
            }
            if overlap.0 <= overlap.1 {
                return Some(overlap);
            }
        })
    }

    /// Returns the ids in this set that are not in the other.
    pub fn difference(&self, other: &Self) -> Self {
        let mut ranges = Vec::new();
        let mut others = other.ranges.as_slice();
        for (first, last) in self.ranges.iter().copied() {
            let mut start = Some(first);
            while let Some((from, to)) = others.first().copied().filter(|(from, _)| *from <= last) {
                let begin = start.filter(|begin| *begin < from);
                ranges.extend(begin.map(|begin| (begin, from - 1)));
                start = match start {
                    Some(begin) if begin <= to => to.checked_add(1),
                    start => start,
                };
                // It may also cover the start of the next range.
                if to > last {
                    break;
                }
                others = &others[1..];
            }
            ranges.extend(start.filter(|begin| *begin <= last).map(|begin| (begin, last)));
        }
        Self { ranges, of: PhantomData }
    }

    /// Returns whether the other set contains every id of this set.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.ranges.iter().all(|(first, last)| {
            let range = other.ranges.get(other.position(*first));
            range.is_some_and(|(from, to)| from <= first && last <= to)
        })
    }
}

/// Adds the set bits of a word whose lowest bit is `base`.
fn add_bits(set: &mut Collector, base: u32, bits: u32) {
    let mut rest = bits;
    while rest != 0 {
        let first = rest.trailing_zeros();
        let count = (rest >> first).trailing_ones();
        set.add(base + first, base + first + count - 1);
        // A shift by 32 is an error: then no bit is left.
        rest &= u32::MAX.checked_shl(first + count).unwrap_or(0);
    }
}

/// Compares the sequences of ids, as of a list.
impl<T: Id> Ord for IdSet<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        let differs = self.ranges.iter().zip(&other.ranges).position(|(a, b)| a != b);
        let Some(index) = differs else { return self.ranges.len().cmp(&other.ranges.len()) };
        let (a, b) = (self.ranges[index], other.ranges[index]);
        // Of two ranges with one start, the set of the shorter continues after a gap, or ends.
        a.0.cmp(&b.0).then_with(|| match a.1 < b.1 {
            true if index + 1 == self.ranges.len() => Ordering::Less,
            true => Ordering::Greater,
            false if index + 1 == other.ranges.len() => Ordering::Greater,
            false => Ordering::Less,
        })
    }
}

impl<T: Id> PartialOrd for IdSet<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: Id> FromIterator<T> for IdSet<T> {
    fn from_iter<I: IntoIterator<Item = T>>(ids: I) -> Self {
        let mut set = Collector::default();
        ids.into_iter().for_each(|id| set.add(id.number(), id.number()));
        set.into_set()
    }
}

impl<T: Id> Extend<T> for IdSet<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, ids: I) {
        let mut set = Collector { ranges: std::mem::take(&mut self.ranges), unsorted: false };
        ids.into_iter().for_each(|id| set.add(id.number(), id.number()));
        *self = set.into_set();
    }
}

/// Writes the list format: `0-3,8`.
impl<T: Id> fmt::Display for IdSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut list = String::with_capacity(self.ranges.len() * 8);
        for (first, last) in &self.ranges {
            let comma = if list.is_empty() { "" } else { "," };
            match first == last {
                true => write!(list, "{comma}{first}")?,
                false => write!(list, "{comma}{first}-{last}")?,
            }
        }
        f.pad(&list)
    }
}

/// Writes the list format in braces: `{0-3,8}`.
impl<T: Id> fmt::Debug for IdSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
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
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

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

    #[test]
    fn reads_strides_as_their_ids() {
        for (text, ids) in
            [("3-9:1/1", "3-9"), ("0-9:0/4", ""), ("4-9:3/3,1-2", "1-2,4-9"), ("5,0-7:2", "0,2,4-6")]
        {
            assert_eq!(CpuSet::parse_list(text).expect(text).to_string(), ids, "{text}");
        }
    }

    fn set(ids: &[u32]) -> CpuSet {
        ids.iter().copied().map(CpuId).collect()
    }

    fn ids(set: &CpuSet) -> Vec<u32> {
        set.iter().map(Id::number).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn operations_agree_with_a_set_of_numbers(a in vec(0u32..24, 0..20), b in vec(0u32..24, 0..20)) {
            let (x, y) = (a.iter().copied().collect::<BTreeSet<u32>>(), b.iter().copied().collect::<BTreeSet<u32>>());
            let (a, b) = (set(&a), set(&b));
            prop_assert_eq!(ids(&a), x.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(ids(&a.union(&b)), x.union(&y).copied().collect::<Vec<_>>());
            prop_assert_eq!(ids(&a.intersection(&b)), x.intersection(&y).copied().collect::<Vec<_>>());
            prop_assert_eq!(ids(&a.difference(&b)), x.difference(&y).copied().collect::<Vec<_>>());
            prop_assert_eq!(a.intersects(&b), !x.is_disjoint(&y));
            prop_assert_eq!(a.is_subset(&b), x.is_subset(&y));
            prop_assert_eq!(a.cmp(&b), x.cmp(&y));
            prop_assert_eq!(a == b, x == y);
            prop_assert_eq!((a.len(), a.first().map(Id::number)), (x.len(), x.first().copied()));
            prop_assert!(a.iter().rev().map(Id::number).eq(x.iter().rev().copied()));
            prop_assert_eq!(&CpuSet::parse_list(&a.to_string()).expect("a list"), &a);
            let mut both = a.clone();
            both.extend(b.iter());
            prop_assert_eq!(both, a.union(&b));
        }

        #[test]
        fn changes_agree_with_a_set_of_numbers(changes in vec((any::<bool>(), 0u32..24), 0..60)) {
            let (mut set, mut numbers) = (CpuSet::new(), BTreeSet::new());
            for (adds, id) in changes {
                prop_assert_eq!(set.contains(CpuId(id)), numbers.contains(&id));
                match adds {
                    true => prop_assert_eq!(set.insert(CpuId(id)), numbers.insert(id)),
                    false => prop_assert_eq!(set.remove(CpuId(id)), numbers.remove(&id)),
                }
                prop_assert_eq!(ids(&set), numbers.iter().copied().collect::<Vec<_>>());
                prop_assert_eq!(&set, &numbers.iter().copied().map(CpuId).collect::<CpuSet>());
            }
        }

        #[test]
        fn masks_hold_the_bits_of_their_words(words in vec(any::<u32>(), 1..5)) {
            let text: Vec<String> = words.iter().rev().map(|word| format!("{word:08x}")).collect();
            let set = CpuSet::parse_mask(&text.join(",")).expect("a mask");
            let bit = |number: &u32| words[*number as usize / 32] >> (number % 32) & 1 == 1;
            prop_assert_eq!(ids(&set), (0..words.len() as u32 * 32).filter(bit).collect::<Vec<_>>());
        }
    }

    #[test]
    fn extreme_numbers_do_not_overflow() {
        let mut ends = set(&[u32::MAX, 0, u32::MAX - 1]);
        assert_eq!((ends.len(), ends.contains(CpuId(u32::MAX))), (3, true));
        assert!(ends.insert(CpuId(u32::MAX - 2)) && ends.remove(CpuId(u32::MAX)));
        assert_eq!(ends.difference(&set(&[u32::MAX - 2])).to_string(), format!("0,{}", u32::MAX - 1));
        assert_eq!(set(&[u32::MAX]).difference(&set(&[u32::MAX])), CpuSet::new());
    }
}
