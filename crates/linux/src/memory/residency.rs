//! Where memory came to lie.

use super::Buffer;
use numaio_machine::ids::NodeId;
use numaio_machine::probe::Residency;
use numaio_machine::sysfs::{Sysfs, SysfsExt};
use numaio_machine::workload::Pages;
use std::io;
use std::ops::Range;

/// Pages of a buffer that are looked at, at most; of a longer buffer they are evenly spaced. At 4 KiB a page
/// every page of 64 MiB is looked at, and looking takes a few milliseconds.
pub const MAX_PAGES: usize = 16_384;

/// What one look at one buffer saw.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PageLocations {
    /// Pages of which the kernel told; none if it refused to tell of any.
    checked: Option<u64>,
    misplaced: u64,
    found_on: Option<NodeId>,
}

/// Looks where a buffer's pages are, by move_pages(2) without target nodes.
///
/// A page that is not there any more (swapped out), or stands for the kernel's page of zeroes, is misplaced:
/// it was written, and it is not on the node asked for. Of reserved huge pages, which cannot go away, some
/// kernels (5.19) only tell such an error: they count as not looked at, as does every other error of a page.
pub fn locate_pages(buffer: &Buffer) -> PageLocations {
    let (range, page) = buffer.pages();
    let addresses = sampled_pages(range, page);
    let Ok(states) = page_states(&addresses) else { return PageLocations::default() };
    classify_pages(&states, buffer.node(), buffer.is_huge())
}

fn classify_pages(states: &[i32], node: NodeId, huge: bool) -> PageLocations {
    let mut seen = PageLocations { checked: Some(0), ..PageLocations::default() };
    for state in states {
        let found = u32::try_from(*state).ok().map(NodeId);
        let gone = matches!(-*state, libc::ENOENT | libc::EFAULT) && !huge;
        if found.is_none() && !gone {
            continue;
        }
        seen.checked = seen.checked.map(|count| count + 1);
        if found != Some(node) {
            seen.misplaced += 1;
            seen.found_on = seen.found_on.or(found);
        }
    }
    seen.checked = seen.checked.filter(|count| *count > 0);
    seen
}

/// All looks together. If one was refused, nothing is claimed to have been checked.
pub fn merge(checks: impl IntoIterator<Item = PageLocations>, huge_bytes: u64) -> Residency {
    let mut all = Residency { pages_checked: Some(0), huge_bytes, ..Residency::default() };
    for seen in checks {
        all.pages_checked = all.pages_checked.zip(seen.checked).map(|(sum, count)| sum + count);
        all.pages_misplaced += seen.misplaced;
        all.found_on = all.found_on.or(seen.found_on);
    }
    all
}

/// The beginnings of a range's pages, [`MAX_PAGES`] at most.
fn sampled_pages(range: Range<usize>, page: usize) -> Vec<usize> {
    let pages = range.len() / page;
    let count = pages.min(MAX_PAGES);
    (0..count)
        .map(|index| range.start + (index as u128 * pages as u128 / count as u128) as usize * page)
        .collect()
}

/// The node of each page, or a negative errno.
fn page_states(addresses: &[usize]) -> io::Result<Vec<i32>> {
    let mut states = vec![0i32; addresses.len()];
    let nodes = std::ptr::null::<i32>();
    // SAFETY: both arrays have as many elements as said and live through the call. Without nodes the kernel
    // moves nothing and only writes the states; it checks the addresses itself.
    let result = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            0,
            addresses.len(),
            addresses.as_ptr(),
            nodes,
            states.as_mut_ptr(),
            0,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(states)
}

/// Bytes of buffers that lie on huge pages: all of what was mapped from a reserved pool, and what the kernel
/// tells of transparent ones (`AnonHugePages` in `Documentation/filesystems/proc.rst`, smaps).
pub fn huge_bytes(root: &dyn Sysfs, pages: Pages, buffers: &[&Buffer]) -> u64 {
    let all = buffers.iter().map(|buffer| buffer.bytes() as u64).sum();
    match pages {
        Pages::Base => 0,
        Pages::Huge => all,
        Pages::Transparent => {
            let ranges: Vec<Range<usize>> = buffers.iter().map(|buffer| buffer.pages().0).collect();
            let smaps = root.text("/proc/self/smaps").unwrap_or_default();
            anonymous_huge_bytes(&smaps, &ranges).min(all)
        }
    }
}

/// Sum of `AnonHugePages` over the areas that hold any of the ranges. An area is larger than a range by less
/// than two huge pages, and those are not touched.
fn anonymous_huge_bytes(smaps: &str, ranges: &[Range<usize>]) -> u64 {
    let mut ours = false;
    let mut sum = 0;
    for line in smaps.lines() {
        if let Some(kib) = line.strip_prefix("AnonHugePages:") {
            let kib: u64 = kib.trim().trim_end_matches("kB").trim().parse().unwrap_or(0);
            sum += if ours { kib * 1024 } else { 0 };
        } else if let Some(area_range) = area_range(line) {
            ours = ranges.iter().any(|range| range.start < area_range.end && area_range.start < range.end);
        }
    }
    sum
}

/// The addresses of a line that begins an area: `7f0000000000-7f0000200000 rw-p ...`.
fn area_range(line: &str) -> Option<Range<usize>> {
    let (start, end) = line.split_ascii_whitespace().next()?.split_once('-')?;
    Some(usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page_bytes;

    #[test]
    fn pages_elsewhere_and_pages_gone_are_misplaced() {
        let page_states = [1, 1, 0, 3, -libc::ENOENT, -libc::EBUSY];
        let seen = classify_pages(&page_states, NodeId(1), false);
        assert_eq!(seen, PageLocations { checked: Some(5), misplaced: 3, found_on: Some(NodeId(0)) });
        let huge = classify_pages(&[1, -libc::ENOENT], NodeId(1), true);
        assert_eq!(huge, PageLocations { checked: Some(1), misplaced: 0, found_on: None });
        assert_eq!(classify_pages(&[-libc::ENOENT], NodeId(1), true).checked, None);
    }

    #[test]
    fn one_refused_look_spoils_the_claim_but_not_what_was_seen() {
        let good = PageLocations { checked: Some(4), misplaced: 0, found_on: None };
        let bad = PageLocations { checked: Some(4), misplaced: 2, found_on: Some(NodeId(7)) };
        assert_eq!(merge([good, good], 0).pages_checked, Some(8));
        let all = merge([good, PageLocations::default(), bad], 5);
        let expected =
            Residency { pages_checked: None, pages_misplaced: 2, found_on: Some(NodeId(7)), huge_bytes: 5 };
        assert_eq!(all, expected);
    }

    #[test]
    fn long_buffers_are_looked_at_evenly_from_end_to_end() {
        let page = page_bytes();
        assert_eq!(sampled_pages(page..4 * page, page), [page, 2 * page, 3 * page]);
        let many = sampled_pages(0..(MAX_PAGES * 5 / 2) * page, page);
        assert_eq!(many.len(), MAX_PAGES);
        let gaps: Vec<usize> = many.windows(2).map(|pair| (pair[1] - pair[0]) / page).collect();
        assert!(gaps.iter().all(|gap| (2..=3).contains(gap)));
        assert!(many[MAX_PAGES - 1] >= (MAX_PAGES * 5 / 2 - 3) * page);
    }

    #[test]
    fn only_areas_with_buffers_count() {
        let smaps = "7f0000000000-7f0000400000 rw-p 00000000 00:00 0\nSize: 4096 kB\n\
            AnonHugePages:      2048 kB\n7f0000400000-7f0000600000 rw-p 00000000 00:00 0\n\
            AnonHugePages:      2048 kB\n";
        let range = 0x7f00_0020_0000..0x7f00_0030_0000;
        assert_eq!(anonymous_huge_bytes(smaps, &[range]), 2 << 20);
        let elsewhere = 0..4096;
        assert_eq!(anonymous_huge_bytes(smaps, std::slice::from_ref(&elsewhere)), 0);
        assert_eq!(anonymous_huge_bytes("7f-\nAnonHugePages: x kB\n", &[elsewhere]), 0);
    }
}
