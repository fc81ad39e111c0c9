//! Byte ranges of a file, and sets of them.

use std::collections::BTreeMap;

/// Maximum size of a file in bytes: kernel offsets are signed (`loff_t`).
pub const MAX_SIZE: u64 = i64::MAX as u64;

/// A non-empty range of bytes of a file that ends at [`MAX_SIZE`] or before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Extent {
    start: u64,
    end: u64,
}

impl Extent {
    /// Returns the bytes from `start` up to, not including, `end`; `None` if empty or too large.
    pub fn between(start: u64, end: u64) -> Option<Self> {
        (start < end && end <= MAX_SIZE).then_some(Self { start, end })
    }

    /// Returns `length` bytes from `start`; `None` if empty or too large.
    pub fn at(start: u64, length: u64) -> Option<Self> {
        Self::between(start, start.checked_add(length)?)
    }

    /// Returns the offset of the first byte.
    pub fn start(self) -> u64 {
        self.start
    }

    /// Returns the offset after the last byte.
    pub fn end(self) -> u64 {
        self.end
    }

    /// Returns the number of bytes, at least 1.
    pub fn length(self) -> u64 {
        self.end - self.start
    }
}

/// A set of integers below 2^63 (byte offsets or file numbers), stored as disjoint intervals that
/// do not touch.
///
/// Memory use grows with the number of intervals, not with their lengths.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExtentSet {
    /// Interval ends by interval start.
    intervals: BTreeMap<u64, u64>,
}

impl ExtentSet {
    /// Adds all of an extent.
    pub fn insert(&mut self, extent: Extent) {
        let (mut start, mut end) = (extent.start, extent.end);
        // Intervals are disjoint, so among those starting at or before `end` the last has the
        // largest end.
        while let Some((&first, &last)) = self.intervals.range(..=end).next_back() {
            if last < start {
                break;
            }
            self.intervals.remove(&first);
            (start, end) = (start.min(first), end.max(last));
        }
        self.intervals.insert(start, end);
    }

    /// Removes all of an extent.
    pub fn remove(&mut self, extent: Extent) {
        while let Some((&start, &end)) = self.intervals.range(..extent.end).next_back() {
            if end <= extent.start {
                break;
            }
            self.intervals.remove(&start);
            if extent.end < end {
                self.intervals.insert(extent.end, end);
            }
            if start < extent.start {
                self.intervals.insert(start, extent.start);
            }
        }
    }

    /// Returns whether a number is in the set.
    pub fn contains(&self, number: u64) -> bool {
        self.intervals.range(..=number).next_back().is_some_and(|(_, &end)| number < end)
    }

    /// Returns whether all of an extent is in the set.
    pub fn covers(&self, extent: Extent) -> bool {
        self.intervals.range(..=extent.start).next_back().is_some_and(|(_, &end)| extent.end <= end)
    }

    /// Returns whether any of an extent is in the set.
    pub fn intersects(&self, extent: Extent) -> bool {
        self.intervals.range(..extent.end).next_back().is_some_and(|(_, &end)| extent.start < end)
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.intervals.is_empty()
    }

    /// Returns the number of intervals.
    pub fn intervals(&self) -> usize {
        self.intervals.len()
    }

    /// Iterates over the maximal intervals in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Extent> + '_ {
        self.intervals.iter().map(|(&start, &end)| Extent { start, end })
    }

    /// Iterates over the parts of an extent that are not in the set, in ascending order.
    pub fn missing_in(&self, extent: Extent) -> impl Iterator<Item = Extent> + '_ {
        let before = self.intervals.range(..=extent.start).next_back().map(|(_, &end)| end);
        let mut at = before.unwrap_or(0).clamp(extent.start, extent.end);
        let mut later = self.intervals.range(at..extent.end);
        std::iter::from_fn(move || {
            while at < extent.end {
                let (start, next) =
                    later.next().map_or((extent.end, extent.end), |(&start, &end)| (start, end));
                let gap = Extent::between(at, start);
                at = next;
                if gap.is_some() {
                    return gap;
                }
            }
            None
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use proptest::prelude::*;

    /// Generates extents below 64, so that a `u64` bit mask can model the set.
    fn case() -> impl Strategy<Value = Vec<Extent>> {
        let extent = (0u64..64, 1u64..12).prop_map(|(start, length)| (start, (start + length).min(64)));
        let extent = extent.prop_filter_map("no byte", |(start, end)| Extent::between(start, end));
        proptest::collection::vec(extent, 0..16)
    }

    fn bits(extents: impl IntoIterator<Item = Extent>) -> u64 {
        extents
            .into_iter()
            .flat_map(|extent| extent.start()..extent.end())
            .fold(0, |bits, bit| bits | 1 << bit)
    }

    fn set(extents: &[Extent]) -> ExtentSet {
        extents.iter().fold(ExtentSet::default(), |mut set, &extent| {
            set.insert(extent);
            set
        })
    }

    #[test]
    fn extent_is_not_empty_and_within_the_kernel_limit() {
        assert_eq!(Extent::between(3, 3), None);
        assert_eq!(Extent::between(4, 3), None);
        assert_eq!(Extent::at(u64::MAX, 2), None);
        assert_eq!(Extent::at(MAX_SIZE, 1), None);
        assert_eq!(Extent::at(MAX_SIZE - 1, 1).map(Extent::length), Some(1));
    }

    proptest! {
        #![proptest_config(testing::config())]

        #[test]
        fn set_contains_inserted_extents(extents in case()) {
            let set = set(&extents);
            prop_assert_eq!(bits(set.iter()), bits(extents));
            let apart = set.iter().zip(set.iter().skip(1)).all(|(a, b)| a.end() < b.start());
            prop_assert!(apart, "{:?}", set);
            for bit in 0..64 {
                prop_assert_eq!(set.contains(bit), bits(set.iter()) >> bit & 1 == 1);
            }
        }

        #[test]
        fn remove_deletes_exactly_the_extents(extents in case(), without in case()) {
            let mut set = set(&extents);
            for &extent in &without {
                set.remove(extent);
            }
            prop_assert_eq!(bits(set.iter()), bits(extents) & !bits(without));
        }

        #[test]
        fn missing_in_returns_the_complement(extents in case(), start in 0u64..64, length in 1u64..64) {
            let set = set(&extents);
            let whole = Extent::between(start, (start + length).min(64)).expect("an extent");
            let missing: Vec<Extent> = set.missing_in(whole).collect();
            prop_assert_eq!(bits(missing.clone()), bits([whole]) & !bits(extents));
            let apart = missing.windows(2).all(|pair| pair[0].end() < pair[1].start());
            prop_assert!(apart, "{:?}", missing);
        }
    }
}
