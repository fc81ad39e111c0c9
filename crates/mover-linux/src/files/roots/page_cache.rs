//! Decision whether large files are written through the page cache or directly.
//!
//! Direct I/O is better while the storage keeps up: no CPU copy and no memory use. When more
//! arrives than the storage takes, the cache absorbs it at memory speed, until so much is dirty
//! that the kernel would throttle writers.

use numaio_machine::writeback::{parse_vmstat, Writeback, PATH};
use std::fs;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Offset from which on a file may be written directly. File systems absorb the data before it at
/// memory speed.
const DIRECT_FROM: u64 = 256 << 20;
/// Validity of a decision; about 50 MB are written meanwhile at memory speed.
const DECISION_LIFETIME: Duration = Duration::from_millis(10);

/// Which blocks are read and written past the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DirectIo {
    /// Those of large files, unless they are cached or the storage does not keep up.
    #[default]
    Auto,
    /// All blocks that the file system can move directly.
    On,
    /// None.
    Off,
}

/// Whether the cache is used, and when that was decided.
#[derive(Debug, Default)]
pub struct CachePolicy {
    /// Which blocks avoid the cache.
    pub direct: DirectIo,
    decision: Mutex<(bool, Option<Instant>)>,
}

impl CachePolicy {
    /// Decides whether a write at an offset uses the cache; `is_behind` states whether more writes
    /// are queued than the storage handles.
    pub fn decide_for(&self, offset: u64, is_behind: impl FnOnce() -> bool) -> bool {
        match self.direct {
            DirectIo::Auto => offset < DIRECT_FROM || self.decide(is_behind),
            fixed => fixed == DirectIo::Off,
        }
    }

    /// Returns whether a write at an offset uses the cache, by the last decision.
    pub fn is_used_at(&self, offset: u64) -> bool {
        match self.direct {
            DirectIo::Auto => offset < DIRECT_FROM || self.is_used(),
            fixed => fixed == DirectIo::Off,
        }
    }

    fn decide(&self, is_behind: impl FnOnce() -> bool) -> bool {
        let mut state = self.decision.lock().unwrap_or_else(PoisonError::into_inner);
        let (is_used, decided) = *state;
        if decided.is_some_and(|then| then.elapsed() < DECISION_LIFETIME) || !(is_used || is_behind()) {
            return is_used;
        }
        let writeback = fs::read_to_string(PATH).ok().and_then(|text| parse_vmstat(&text));
        *state = (writeback.is_some_and(|writeback| has_room(is_used, &writeback)), Some(Instant::now()));
        state.0
    }

    fn is_used(&self) -> bool {
        self.decision.lock().unwrap_or_else(PoisonError::into_inner).0
    }
}

/// Returns whether the cache may take more. Once full, it is not used until the kernel has written
/// a good part.
fn has_room(is_used: bool, writeback: &Writeback) -> bool {
    writeback.waiting < if is_used { writeback.throttle_threshold() } else { writeback.begins }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_is_used_while_storage_is_behind() {
        let cache = CachePolicy::default();
        assert!(!cache.decide(|| false), "the storage keeps up");
        assert!(!cache.is_used());
        assert_eq!(cache.decide(|| true), cache.is_used());
        assert!(cache.decision.lock().expect("a lock").1.is_some(), "the kernel was asked");
        let before = cache.is_used();
        assert_eq!(cache.decide(|| !before), before, "it holds for a while");
    }

    #[test]
    fn fixed_choice_ignores_offset_and_load() {
        for (direct, is_used) in [(DirectIo::On, false), (DirectIo::Off, true)] {
            let cache = CachePolicy { direct, ..CachePolicy::default() };
            for offset in [0, DIRECT_FROM] {
                assert_eq!((cache.decide_for(offset, || true), cache.is_used_at(offset)), (is_used, is_used));
            }
        }
    }

    #[test]
    fn full_cache_is_avoided_until_written_back() {
        let of = |waiting| Writeback { waiting, begins: 100, most: 200 };
        let rooms = |is_used| [99, 100, 149, 150].map(|waiting| has_room(is_used, &of(waiting)));
        assert_eq!(rooms(false), [true, false, false, false]);
        assert_eq!(rooms(true), [true, true, true, false]);
    }
}
