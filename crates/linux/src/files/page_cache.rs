//! Whether large files are written through the page cache or past it.
//!
//! Past it is better where the storage keeps up: the CPU copies nothing, and memory stays with who needs it. Where more
//! comes than the storage takes, the cache takes it at memory's speed and has it written later, until as much waits there
//! that the kernel would slow us down.

use numaio_machine::writeback::{parse_vmstat, Writeback, PATH};
use std::fs;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Offset from which on a file may be written past the cache. What is before it goes through it: file systems take that at
/// memory's speed, and have it written later.
const DIRECT_FROM: u64 = 256 << 20;
/// How long what the kernel told holds: at memory's speed some 50 MB are written meanwhile.
const DECISION_LIFETIME: Duration = Duration::from_millis(10);

/// Whether the cache is used, and when that was decided.
#[derive(Debug, Default)]
pub struct CachePolicy(Mutex<(bool, Option<Instant>)>);

impl CachePolicy {
    /// Whether what is handed out now, to be written at an offset, is to go through the cache; `is_behind` tells whether more
    /// waits for the storage than it takes.
    pub fn decide_for(&self, offset: u64, is_behind: impl FnOnce() -> bool) -> bool {
        offset < DIRECT_FROM || self.decide(is_behind)
    }

    /// Whether what is written at an offset goes through the cache, as was decided last.
    pub fn is_used_at(&self, offset: u64) -> bool {
        offset < DIRECT_FROM || self.is_used()
    }

    fn decide(&self, is_behind: impl FnOnce() -> bool) -> bool {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (is_used, decided) = *state;
        if decided.is_some_and(|then| then.elapsed() < DECISION_LIFETIME) || !(is_used || is_behind()) {
            return is_used;
        }
        let writeback = fs::read_to_string(PATH).ok().and_then(|text| parse_vmstat(&text));
        *state = (writeback.is_some_and(|writeback| has_room(is_used, &writeback)), Some(Instant::now()));
        state.0
    }

    fn is_used(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0
    }
}

/// A cache that is used is so until it is full, and not again before the kernel has written a good part.
fn has_room(is_used: bool, writeback: &Writeback) -> bool {
    writeback.waiting < if is_used { writeback.slows() } else { writeback.begins }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_is_used_from_when_the_storage_is_behind_until_it_is_full() {
        let cache = CachePolicy::default();
        assert!(!cache.decide(|| false), "the storage keeps up");
        assert!(!cache.is_used());
        assert_eq!(cache.decide(|| true), cache.is_used());
        assert!(cache.0.lock().expect("a lock").1.is_some(), "the kernel was asked");
        let before = cache.is_used();
        assert_eq!(cache.decide(|| !before), before, "it holds for a while");
    }

    #[test]
    fn a_full_cache_is_left_until_a_good_part_is_written() {
        let of = |waiting| Writeback { waiting, begins: 100, most: 200 };
        let rooms = |is_used| [99, 100, 149, 150].map(|waiting| has_room(is_used, &of(waiting)));
        assert_eq!(rooms(false), [true, false, false, false]);
        assert_eq!(rooms(true), [true, true, true, false]);
    }
}
