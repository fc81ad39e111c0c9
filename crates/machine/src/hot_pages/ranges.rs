//! Arithmetic on address ranges: hot ones, and what of them may be moved.

use std::ops::Range;

/// Addresses with the accesses that a monitor found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessedRange {
    /// The addresses.
    pub range: Range<u64>,
    /// Samples in which a page of it was accessed.
    pub accesses: u32,
}

/// Returns the ranges with at least `least` accesses, ascending. Ranges that are at most `gap`
/// bytes apart are merged, so that a move has few runs.
pub fn hot_ranges(found: &[AccessedRange], least: u32, gap: u64) -> Vec<Range<u64>> {
    let hot = found.iter().filter(|found| found.accesses >= least && found.range.start < found.range.end);
    merge(hot.map(|found| found.range.clone()).collect(), gap)
}

/// Sorts ranges, and merges those that are at most `gap` bytes apart.
fn merge(mut ranges: Vec<Range<u64>>, gap: u64) -> Vec<Range<u64>> {
    ranges.sort_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end.saturating_add(gap) => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

/// Returns the parts of ranges that are within others; both ascend without overlaps.
pub fn restrict(ranges: &[Range<u64>], to: &[Range<u64>]) -> Vec<Range<u64>> {
    let (mut ranges, mut to) = (ranges.iter().peekable(), to.iter().peekable());
    let mut common = Vec::new();
    while let (Some(one), Some(other)) = (ranges.peek(), to.peek()) {
        let (start, end) = (one.start.max(other.start), one.end.min(other.end));
        if start < end {
            common.push(start..end);
        }
        if one.end <= other.end {
            ranges.next();
        } else {
            to.next();
        }
    }
    common
}

/// Extends ranges within mappings that have huge pages to whole huge pages, which the kernel moves
/// as one.
pub fn widen(ranges: &[Range<u64>], mappings: &[Range<u64>], huge_bytes: u64) -> Vec<Range<u64>> {
    let unit = huge_bytes.max(1);
    let widened = ranges.iter().flat_map(|range| {
        let within = mappings.iter().filter(|mapping| mapping.start < range.end && range.start < mapping.end);
        let whole = within.map(|mapping| {
            let start = range.start.max(mapping.start) / unit * unit;
            let end = range.end.min(mapping.end).checked_next_multiple_of(unit).unwrap_or(mapping.end);
            start.max(mapping.start)..end.min(mapping.end)
        });
        whole.chain([range.clone()]).collect::<Vec<Range<u64>>>()
    });
    merge(widened.collect(), 0)
}

/// Divides ranges into at most about `pieces` of equal length, in multiples of `unit`.
pub fn split_evenly(ranges: &[Range<u64>], pieces: u64, unit: u64) -> Vec<Range<u64>> {
    let unit = unit.max(1);
    let length =
        (total_bytes(ranges) / pieces.max(1)).max(1).checked_next_multiple_of(unit).unwrap_or(u64::MAX);
    let mut split = Vec::new();
    for range in ranges {
        let mut start = range.start;
        while start < range.end {
            let end = start.saturating_add(length).min(range.end);
            split.push(start..end);
            start = end;
        }
    }
    split
}

/// Returns the bytes of all ranges.
pub fn total_bytes(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().fold(0, |sum, range| sum.saturating_add(range.end.saturating_sub(range.start)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one(range: Range<u64>) -> Vec<Range<u64>> {
        std::iter::once(range).collect()
    }

    fn found(list: &[(u64, u64, u32)]) -> Vec<AccessedRange> {
        list.iter()
            .map(|(start, end, accesses)| AccessedRange { range: *start..*end, accesses: *accesses })
            .collect()
    }

    #[test]
    fn hot_ranges_are_accessed_often_enough_and_merged() {
        let found =
            found(&[(300, 400, 5), (0, 100, 1), (100, 200, 0), (200, 300, 20), (900, 950, 3), (450, 460, 1)]);
        assert_eq!(hot_ranges(&found, 1, 0), [0..100, 200..400, 450..460, 900..950]);
        assert_eq!(hot_ranges(&found, 1, 100), [0..460, 900..950]);
        assert_eq!(hot_ranges(&found, 4, 0), one(200..400));
        assert_eq!(hot_ranges(&found, 21, 0), []);
    }

    #[test]
    fn hot_ranges_are_restricted_to_movable_ones_and_widened_to_huge_pages() {
        let movable = [0..100, 200..4096];
        assert_eq!(restrict(&[50..300, 4000..9000], &movable), [50..100, 200..300, 4000..4096]);
        // The mapping begins within a huge page of 512 bytes.
        assert_eq!(widen(&[600..700, 5000..5001], &one(300..4096), 512), [512..1024, 5000..5001]);
        assert_eq!(widen(&[310..320, 900..1100], &one(300..1050), 512), one(300..1100));
    }

    #[test]
    fn pieces_cover_the_ranges() {
        assert_eq!(split_evenly(&[0..8, 100..104], 3, 2), [0..4, 4..8, 100..104]);
        assert_eq!(split_evenly(&[], 3, 2), []);
    }

    fn any_ranges() -> impl Strategy<Value = Vec<Range<u64>>> {
        proptest::collection::vec((0..2000u64, 1..200u64), 0..12).prop_map(|list| {
            merge(list.into_iter().map(|(start, length)| start..start + length).collect(), 0)
        })
    }

    fn covers(ranges: &[Range<u64>], address: u64) -> bool {
        ranges.iter().any(|range| range.contains(&address))
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn ranges_contain_exactly_what_they_should(one in any_ranges(), other in any_ranges(), address in 0..2200u64) {
            let both = covers(&one, address) && covers(&other, address);
            prop_assert_eq!(covers(&restrict(&one, &other), address), both);
            let split = split_evenly(&one, 7, 4);
            prop_assert_eq!(covers(&split, address), covers(&one, address));
            prop_assert_eq!(total_bytes(&split), total_bytes(&one));
            let widened = widen(&one, &other, 64);
            prop_assert!(!covers(&one, address) || covers(&widened, address));
            prop_assert!(!covers(&widened, address) || covers(&one, address) || covers(&other, address));
            prop_assert!(widened.windows(2).all(|pair| pair[0].end < pair[1].start));
        }
    }
}
