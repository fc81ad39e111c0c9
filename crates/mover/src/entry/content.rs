//! The size of a regular file and the location of its data.

use super::error::{EntryError, MAX_EXTENTS};
use super::time::Time;
use crate::extent::{Extent, ExtentSet, MAX_SIZE};

/// Minimum file size for which the ctime is sent: smaller files are sent as one block and never
/// resumed.
pub const CTIME_MIN_SIZE: u64 = (1 << 20) + 1;

/// The size of a regular file and its data ranges. The rest are holes, which read as zeros.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    size: u64,
    /// Ascending, not touching, within the size; `None` if all bytes are data.
    sparse: Option<Box<[Extent]>>,
    /// Time of the last change of the file or its attributes (inode(7), ctime), if known. It cannot
    /// be set, so it distinguishes versions of equal size and mtime.
    ctime: Option<Time>,
}

impl Content {
    /// Creates the description of a file without holes.
    ///
    /// # Errors
    /// [`EntryError::TooLarge`] above [`MAX_SIZE`].
    pub fn dense(size: u64) -> Result<Self, EntryError> {
        if size > MAX_SIZE {
            return Err(EntryError::TooLarge);
        }
        Ok(Self { size, sparse: None, ctime: None })
    }

    /// Creates the description of a file with data at `extents` and holes elsewhere.
    ///
    /// # Errors
    /// [`EntryError::TooLarge`]; [`EntryError::Extents`] if extents are out of order, touch or
    /// exceed the size; [`EntryError::TooManyExtents`].
    pub fn sparse(size: u64, extents: Vec<Extent>) -> Result<Self, EntryError> {
        let dense = Self::dense(size)?;
        if extents.len() > MAX_EXTENTS {
            return Err(EntryError::TooManyExtents(extents.len()));
        }
        let ordered = extents.windows(2).all(|pair| pair[0].end() < pair[1].start());
        if !ordered || extents.last().is_some_and(|last| last.end() > size) {
            return Err(EntryError::Extents);
        }
        let is_dense = size == 0 || extents.first() == Extent::between(0, size).as_ref();
        Ok(if is_dense { dense } else { Self { sparse: Some(extents.into()), ..dense } })
    }

    /// Creates a description from kernel data (FIEMAP, `SEEK_DATA`): extents may be unordered,
    /// touch and exceed the size. If there are too many, the smallest holes count as data.
    ///
    /// # Errors
    /// [`EntryError::TooLarge`] above [`MAX_SIZE`].
    pub fn from_extents(size: u64, extents: impl IntoIterator<Item = Extent>) -> Result<Self, EntryError> {
        let mut set = ExtentSet::default();
        for extent in extents {
            if let Some(within) = Extent::between(extent.start(), extent.end().min(size)) {
                set.insert(within);
            }
        }
        Self::sparse(size, without_smallest_holes(set.iter().collect()))
    }

    /// Sets the ctime.
    #[must_use]
    pub fn with_ctime(self, ctime: Option<Time>) -> Self {
        Self { ctime, ..self }
    }

    /// Returns the ctime, if known.
    pub fn ctime(&self) -> Option<Time> {
        self.ctime
    }

    /// Returns the size in bytes, including holes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the number of data bytes.
    pub fn data(&self) -> u64 {
        self.extents().map(Extent::length).sum()
    }

    /// Returns whether all bytes are data.
    pub fn is_dense(&self) -> bool {
        self.sparse.is_none()
    }

    /// Returns whether holes may have been omitted because there were too many.
    pub fn may_omit_holes(&self) -> bool {
        self.sparse.as_ref().is_some_and(|extents| extents.len() == MAX_EXTENTS)
    }

    /// Iterates over the data ranges: ascending and not touching.
    pub fn extents(&self) -> impl Iterator<Item = Extent> + '_ {
        let whole = if self.is_dense() { Extent::between(0, self.size) } else { None };
        whole.into_iter().chain(self.sparse.iter().flat_map(|extents| extents.iter().copied()))
    }
}

/// Merges extents over the smallest holes between them until they fit the limit.
fn without_smallest_holes(extents: Vec<Extent>) -> Vec<Extent> {
    if extents.len() <= MAX_EXTENTS {
        return extents;
    }
    let hole = |index: usize| extents[index].start() - extents[index - 1].end();
    let mut by_size: Vec<usize> = (1..extents.len()).collect();
    by_size.sort_by_key(|&index| std::cmp::Reverse(hole(index)));
    let mut kept = by_size;
    kept.truncate(MAX_EXTENTS - 1);
    kept.sort_unstable();
    let starts = std::iter::once(0).chain(kept.iter().copied());
    let ends = kept.iter().copied().chain([extents.len()]);
    starts
        .zip(ends)
        .filter_map(|(first, next)| Extent::between(extents[first].start(), extents[next - 1].end()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use proptest::prelude::*;

    fn extents(pairs: &[(u64, u64)]) -> Vec<Extent> {
        pairs.iter().filter_map(|&(start, end)| Extent::between(start, end)).collect()
    }

    #[test]
    fn extents_are_ordered_and_within_the_size() {
        let bad = [&[(0, 5), (5, 6)][..], &[(0, 5), (4, 6)], &[(4, 6), (0, 2)], &[(4, 11)]];
        for pairs in bad {
            assert_eq!(Content::sparse(10, extents(pairs)), Err(EntryError::Extents), "{pairs:?}");
        }
        let hole = Content::sparse(10, Vec::new()).expect("a file that is one hole");
        assert_eq!((hole.size(), hole.data(), hole.is_dense()), (10, 0, false));
        let dense = Content::dense(MAX_SIZE).expect("the largest file");
        assert_eq!(dense.data(), MAX_SIZE);
        assert_eq!(Content::dense(MAX_SIZE + 1), Err(EntryError::TooLarge));
    }

    #[test]
    fn equal_files_have_equal_descriptions() {
        assert_eq!(Content::sparse(10, extents(&[(0, 10)])), Content::dense(10));
        assert_eq!(Content::sparse(0, Vec::new()), Content::dense(0));
        assert_eq!(Content::from_extents(10, extents(&[(5, 20), (0, 3), (3, 5)])), Content::dense(10));
        assert_eq!(
            Content::from_extents(10, extents(&[(12, 20), (1, 3)])),
            Content::sparse(10, extents(&[(1, 3)]))
        );
    }

    #[test]
    fn omits_the_smallest_holes() {
        // Holes of 3 bytes, except for 100 of 1 byte and 50 of 2.
        let mut at = 0;
        let mut pairs = Vec::new();
        for index in 0..(MAX_EXTENTS as u64 + 120) {
            let hole = if index % 40 == 1 {
                1
            } else if index % 80 == 2 {
                2
            } else {
                3
            };
            pairs.push((at, at + 5));
            at += 5 + hole;
        }
        let ones = (1..pairs.len()).filter(|index| pairs[*index].0 - pairs[index - 1].1 == 1).count();
        assert!((100..120).contains(&ones), "{ones}");
        let size = at;
        let content = Content::from_extents(size, extents(&pairs)).expect("a file");
        let found: Vec<Extent> = content.extents().collect();
        assert!(found.len() == MAX_EXTENTS && content.may_omit_holes());
        let holes: Vec<u64> = found.windows(2).map(|pair| pair[1].start() - pair[0].end()).collect();
        assert!(!holes.contains(&1));
        let given_up = content.data() - 5 * pairs.len() as u64;
        assert_eq!(given_up, ones as u64 + 2 * (120 - ones as u64));
        let many = extents(&pairs);
        assert_eq!(Content::sparse(size, many.clone()), Err(EntryError::TooManyExtents(many.len())));
    }

    proptest! {
        #![proptest_config(testing::config())]

        #[test]
        fn data_ranges_match_the_kernel_extents(size in 0u64..100, pairs in proptest::collection::vec((0u64..120, 1u64..20), 0..8)) {
            let pairs: Vec<_> = pairs.iter().map(|&(start, length)| (start, start + length)).collect();
            let content = Content::from_extents(size, extents(&pairs)).expect("a file");
            for byte in 0..120 {
                let expected = byte < size && pairs.iter().any(|&(start, end)| (start..end).contains(&byte));
                let is_data = content.extents().any(|extent| (extent.start()..extent.end()).contains(&byte));
                prop_assert_eq!(expected, is_data);
            }
        }
    }
}
