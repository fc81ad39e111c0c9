//! Nodes on which the pages of buffers are.

use super::buffer::Buffer;
use numaio_machine::ids::NodeId;
use numaio_machine::probe::Residency;
use numaio_machine::sysfs::{Sysfs, SysfsExt};
use numaio_machine::workload::Pages;
use std::io;
use std::ops::Range;

/// Maximum number of pages checked per buffer; those of a longer buffer are evenly spaced. With 4
/// KiB pages this covers all of 64 MiB in a few milliseconds.
pub const MAX_PAGES: usize = 16_384;

/// Result of one page check of one buffer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PageLocations {
    /// Pages whose node is known, or `None` if the check failed.
    checked: Option<u64>,
    misplaced: u64,
    found_on: Option<NodeId>,
}

/// Queries the nodes of a buffer's pages by move_pages(2) without target nodes.
///
/// A page that was swapped out or maps the zero page is misplaced: it was written, and is not on
/// the requested node. For reserved huge pages, which cannot be swapped out, some kernels (5.19)
/// return this error too: they count as unchecked, like pages with any other error.
pub fn locate_pages(buffer: &Buffer) -> PageLocations {
    let (range, page) = buffer.pages();
    let addresses: Vec<u64> = sampled_pages(range, page).into_iter().map(|start| start as u64).collect();
    let Ok(states) = page_states(OWN_PROCESS, &addresses) else { return PageLocations::default() };
    classify_pages(&states, buffer.node(), buffer.is_huge())
}

fn classify_pages(states: &[i32], node: NodeId, huge: bool) -> PageLocations {
    let mut seen = PageLocations { checked: Some(0), ..PageLocations::default() };
    for state in states {
        let found = u32::try_from(*state).ok().map(NodeId);
        let absent = matches!(-*state, libc::ENOENT | libc::EFAULT) && !huge;
        if found.is_none() && !absent {
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

/// Merges page checks. If one check failed, the number of checked pages is unknown.
pub fn merge(checks: impl IntoIterator<Item = PageLocations>, huge_bytes: u64) -> Residency {
    let mut all = Residency { pages_checked: Some(0), huge_bytes, ..Residency::default() };
    for seen in checks {
        all.pages_checked = all.pages_checked.zip(seen.checked).map(|(sum, count)| sum + count);
        all.pages_misplaced += seen.misplaced;
        all.misplaced_on = all.misplaced_on.or(seen.found_on);
    }
    all
}

/// Returns the start addresses of at most [`MAX_PAGES`] evenly spaced pages.
fn sampled_pages(range: Range<usize>, page: usize) -> Vec<usize> {
    let pages = range.len() / page;
    let count = pages.min(MAX_PAGES);
    (0..count)
        .map(|index| range.start + (index as u128 * pages as u128 / count as u128) as usize * page)
        .collect()
}

/// Stands for the calling process.
const OWN_PROCESS: u32 = 0;

/// Returns the node of each page of a process, or a negative errno.
///
/// # Errors
/// The kernel's error: the process ended, permission is missing, or a sandbox forbids the query.
pub fn page_states(pid: u32, addresses: &[u64]) -> io::Result<Vec<i32>> {
    let mut states = vec![-libc::ENOENT; addresses.len()];
    let nodes = std::ptr::null::<i32>();
    // SAFETY: both arrays have `addresses.len()` elements and live through the call. Without target
    // nodes the kernel only writes the states; it checks the addresses itself.
    let result = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            pid,
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

/// Returns the bytes of buffers on huge pages: all of a reserved pool's mappings, and
/// `AnonHugePages` (`Documentation/filesystems/proc.rst`, smaps) of transparent ones.
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

/// Sums `AnonHugePages` over the areas that contain any of the ranges. An area exceeds its range by
/// less than two huge pages, which are not touched.
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

/// Parses the address range of an area's first line: `7f0000000000-7f0000200000 rw-p ...`.
fn area_range(line: &str) -> Option<Range<usize>> {
    let (start, end) = line.split_ascii_whitespace().next()?.split_once('-')?;
    Some(usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::page_bytes;

    #[test]
    fn pages_on_other_nodes_and_absent_pages_are_misplaced() {
        let page_states = [1, 1, 0, 3, -libc::ENOENT, -libc::EBUSY];
        let seen = classify_pages(&page_states, NodeId(1), false);
        assert_eq!(seen, PageLocations { checked: Some(5), misplaced: 3, found_on: Some(NodeId(0)) });
        let huge = classify_pages(&[1, -libc::ENOENT], NodeId(1), true);
        assert_eq!(huge, PageLocations { checked: Some(1), misplaced: 0, found_on: None });
        assert_eq!(classify_pages(&[-libc::ENOENT], NodeId(1), true).checked, None);
    }

    #[test]
    fn one_failed_check_makes_the_page_count_unknown() {
        let good = PageLocations { checked: Some(4), misplaced: 0, found_on: None };
        let bad = PageLocations { checked: Some(4), misplaced: 2, found_on: Some(NodeId(7)) };
        assert_eq!(merge([good, good], 0).pages_checked, Some(8));
        let all = merge([good, PageLocations::default(), bad], 5);
        let expected = Residency {
            pages_checked: None,
            pages_misplaced: 2,
            misplaced_on: Some(NodeId(7)),
            huge_bytes: 5,
        };
        assert_eq!(all, expected);
    }

    #[test]
    fn pages_of_long_buffers_are_sampled_evenly() {
        let page = page_bytes();
        assert_eq!(sampled_pages(page..4 * page, page), [page, 2 * page, 3 * page]);
        let many = sampled_pages(0..(MAX_PAGES * 5 / 2) * page, page);
        assert_eq!(many.len(), MAX_PAGES);
        let gaps: Vec<usize> = many.windows(2).map(|pair| (pair[1] - pair[0]) / page).collect();
        assert!(gaps.iter().all(|gap| (2..=3).contains(gap)));
        assert!(many[MAX_PAGES - 1] >= (MAX_PAGES * 5 / 2 - 3) * page);
    }

    #[test]
    fn only_areas_of_buffers_count() {
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
