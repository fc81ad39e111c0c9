//! Page frames: entries of `/proc/PID/pagemap`, `/proc/kpageflags` and the idle bitmap
//! (Documentation/admin-guide/mm/pagemap.rst, idle_page_tracking.rst).

use std::collections::BTreeMap;

/// The page is in RAM.
const PRESENT: u64 = 1 << 63;
/// Bits of the page frame number of a present page; zeros without CAP_SYS_ADMIN.
const FRAME: u64 = (1 << 55) - 1;
/// First page of a huge page (`COMPOUND_HEAD`), which alone has an idle bit.
const HEAD: u64 = 1 << 15;
/// Another page of a huge page (`COMPOUND_TAIL`).
const TAIL: u64 = 1 << 16;

/// Returns the page frame of an entry of `pagemap`; `None` if absent or not permitted.
pub fn frame_of(entry: u64) -> Option<u64> {
    (entry & PRESENT != 0 && entry & FRAME != 0).then_some(entry & FRAME)
}

/// Returns for each page of ascending addresses the frame whose idle bit counts for it: its own, or
/// that of the huge page. `None` if it is unknown.
///
/// `pages` has the frames of the pages with their flags. A huge page that begins before the first
/// page is unknown.
pub fn frame_heads(pages: &[Option<(u64, u64)>]) -> Vec<Option<u64>> {
    // Frame of the last head, and the frame that would continue its huge page.
    let mut huge: Option<(u64, u64)> = None;
    let mut head_of = |page: &Option<(u64, u64)>| {
        let (frame, flags) = (*page)?;
        if flags & HEAD != 0 {
            huge = Some((frame, frame + 1));
            return Some(frame);
        }
        if flags & TAIL == 0 {
            huge = None;
            return Some(frame);
        }
        let (head, next) = huge.filter(|(_, next)| *next == frame)?;
        huge = Some((head, next + 1));
        Some(head)
    };
    pages.iter().map(&mut head_of).collect()
}

/// Words of the idle bitmap with the bits of some frames.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IdleWords(BTreeMap<u64, u64>);

impl IdleWords {
    /// Adds the bit of a frame.
    pub fn insert(&mut self, frame: u64) {
        *self.0.entry(frame / 64).or_default() |= 1 << (frame % 64);
    }

    /// Iterates over runs of adjacent words, each with its offset in the bitmap in bytes.
    pub fn runs(&self) -> Vec<(u64, Vec<u64>)> {
        let mut runs: Vec<(u64, Vec<u64>)> = Vec::new();
        for (index, word) in &self.0 {
            match runs.last_mut() {
                Some((offset, words)) if *offset / 8 + words.len() as u64 == *index => words.push(*word),
                _ => runs.push((index * 8, vec![*word])),
            }
        }
        runs
    }

    /// Sets the words of a run that were read.
    pub fn set(&mut self, offset: u64, words: &[u64]) {
        self.0.extend(words.iter().enumerate().map(|(index, word)| (offset / 8 + index as u64, *word)));
    }

    /// Returns whether the bit of a frame is set; `None` if its word is unknown.
    pub fn get(&self, frame: u64) -> Option<bool> {
        self.0.get(&(frame / 64)).map(|word| word >> (frame % 64) & 1 == 1)
    }
}

/// Returns whether `/proc/PID/fdinfo/FD` shows flags with one of `direct` (`O_DIRECT`): a device
/// then accesses buffers without a trace in page tables.
pub fn is_direct_io(fdinfo: &str, direct: u32) -> bool {
    let flags = fdinfo.lines().find_map(|line| line.strip_prefix("flags:"));
    flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok()).is_some_and(|flags| flags & direct != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn pages_of_a_huge_page_share_the_bit_of_its_head() {
        let pages = [
            Some((9, TAIL)),
            Some((16, 0)),
            None,
            Some((512, HEAD)),
            Some((513, TAIL)),
            Some((514, TAIL)),
            Some((700, TAIL)),
            Some((7, 0)),
        ];
        let expected = [None, Some(16), None, Some(512), Some(512), Some(512), None, Some(7)];
        assert_eq!(frame_heads(&pages), expected);
    }

    #[test]
    fn entries_without_permission_or_memory_have_no_frame() {
        assert_eq!(frame_of(PRESENT | 0x1234), Some(0x1234));
        assert_eq!((frame_of(PRESENT), frame_of(0x1234), frame_of(0)), (None, None, None));
    }

    #[test]
    fn words_contain_the_bits_of_their_frames_only() {
        let mut words = IdleWords::default();
        for frame in [0, 65, 64, 640] {
            words.insert(frame);
        }
        assert_eq!(words.runs(), [(0, vec![1, 3]), (80, vec![1])]);
        words.set(0, &[0, 2]);
        assert_eq!(
            [0, 64, 65, 640, 6400].map(|frame| words.get(frame)),
            [Some(false), Some(false), Some(true), Some(true), None]
        );
    }

    #[test]
    fn recognizes_direct_io_by_flags() {
        assert!(is_direct_io("pos:\t0\nflags:\t0140000\nmnt_id:\t29\n", 0o40000));
        assert!(!is_direct_io("pos:\t0\nflags:\t0100002\n", 0o40000) && !is_direct_io("flags:\tx", !0));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn hostile_entries_never_panic(entries in proptest::collection::vec(any::<u64>(), 0..50), text in ".*") {
            let pages: Vec<Option<(u64, u64)>> =
                entries.iter().map(|entry| frame_of(*entry).map(|frame| (frame, *entry))).collect();
            let heads = frame_heads(&pages);
            prop_assert_eq!(heads.len(), entries.len());
            let mut words = IdleWords::default();
            heads.iter().flatten().for_each(|frame| words.insert(*frame));
            prop_assert!(heads.iter().flatten().all(|frame| words.get(*frame) == Some(true)));
            let _ = is_direct_io(&text, 1);
        }
    }
}
