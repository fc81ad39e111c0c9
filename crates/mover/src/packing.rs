//! Whether data is packed for its way to the sink, decided block by block, and how: zstd (RFC 8878).
//!
//! A block is packed if it is expected to be there sooner so ([`Seen::pays`]). What that needs is measured: how fast data
//! goes out ([`Way`]), how long packing takes, and how small data of a file became. Data that does not become
//! smaller is left alone for ever longer times, and tried again after each.

mod block;
#[cfg(test)]
mod tests;
mod way;

pub use block::{pack, unpack};
pub use way::Way;

use numaio_machine::port::Packed;
use std::time::Duration;

/// When data is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compress {
    /// Never.
    #[default]
    None,
    /// Where it makes a block arrive sooner.
    Auto,
    /// Wherever it makes data smaller.
    Zstd,
}

/// Fewest bytes that are packed: less does not fill a packet of the network.
const LEAST: u64 = 1_024;
/// How many blocks are left alone after the first one that did not become smaller; twice as many after each further one...
const FIRST_PAUSE: u32 = 4;
/// ...to so many of one file...
const LONGEST_PAUSE: u32 = 256;
/// ...and of small files, which have little to do with each other.
const LONGEST_OF_SMALL: u32 = 8;
/// After so many blocks that were not packed, though they would have become smaller, one is: to see what it takes by now.
const LOOK_AGAIN: u32 = 256;
/// Part of a thread's time in which it must have had a CPU, so that packing takes none from others.
const IDLE: f64 = 0.8;
/// Weight of what was seen last.
const NEW: f64 = 0.25;

/// What packing did to one kind of data: a large file, or all small ones.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Tried {
    /// Bytes after packing over bytes before, of late; none before the first try.
    ratio: Option<f64>,
    /// Blocks that are still left alone.
    left: u32,
    /// How many were left alone the last time; 0 if data became smaller since.
    pause: u32,
}

/// What a block is decided by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Seen {
    /// Its length in bytes.
    pub bytes: u64,
    /// What part of it is expected to be left.
    pub ratio: f64,
    /// Seconds that packing takes for a byte, on one thread.
    pub seconds_per_byte: f64,
    /// Whether there was a CPU for that which nobody else wanted.
    pub idle: bool,
    /// Bytes that are to go out before it.
    pub waiting: u64,
    /// Bytes a second that go out; none as long as nothing is known.
    pub bytes_per_s: Option<f64>,
}

impl Seen {
    /// Whether the block is out sooner if it is packed: the time until its turn, and that for sending it.
    ///
    /// While others go out before it an idle CPU packs it for nothing; else packing comes on top. While nothing is known of
    /// the way it is taken to be slow, as waiting for it would cost more than packing for a fast one.
    pub fn pays(&self) -> bool {
        let Some(rate) = self.bytes_per_s else { return true };
        let (wait, send) = (self.waiting as f64 / rate, self.bytes as f64 / rate);
        let pack = self.bytes as f64 * self.seconds_per_byte;
        let ready = if self.idle { wait.max(pack) } else { wait + pack };
        ready + send * self.ratio < wait + send
    }
}

/// Decides what is packed.
#[derive(Debug)]
pub struct Packer {
    compress: Compress,
    /// Bytes a second that the user allows.
    limit: Option<u64>,
    /// How fast data goes out.
    pub way: Way,
    /// What is known of small files, which go together.
    small: Tried,
    /// Seconds a byte, and the part of them in which there was a CPU; none before the first try.
    speed: Option<(f64, f64)>,
    /// Blocks that were not packed since the last one that was.
    plain: u32,
}

impl Packer {
    /// One that has seen nothing yet; `limit` is in bytes a second.
    pub fn new(compress: Compress, limit: Option<u64>) -> Self {
        Self { compress, limit, way: Way::default(), small: Tried::default(), speed: None, plain: 0 }
    }

    /// Whether to pack so many bytes of a large file, of which this is known; or of small files.
    pub fn packs(&mut self, large: Option<&mut Tried>, bytes: u64) -> bool {
        if self.compress == Compress::None || bytes < LEAST {
            return false;
        }
        let tried = large.as_deref().copied().unwrap_or(self.small);
        let packs = tried.left == 0
            && (self.compress == Compress::Zstd || self.pays(tried, bytes) || self.plain >= LOOK_AGAIN);
        if tried.left == 0 {
            self.plain = if packs { 0 } else { self.plain + 1 };
        }
        large.unwrap_or(&mut self.small).left = tried.left.saturating_sub(1);
        packs
    }

    fn pays(&self, tried: Tried, bytes: u64) -> bool {
        // What was never tried is.
        let (Some(ratio), Some((seconds_per_byte, busy))) = (tried.ratio, self.speed) else { return true };
        let limit = self.limit.map(|limit| limit.max(1) as f64);
        let bytes_per_s = match (self.way.bytes_per_s(), limit) {
            (Some(rate), Some(limit)) => Some(rate.min(limit)),
            (rate, limit) => rate.or(limit),
        };
        let (idle, waiting) = (busy >= IDLE, self.way.waiting());
        Seen { bytes, ratio, seconds_per_byte, idle, waiting, bytes_per_s }.pays()
    }

    /// Takes in what packing so many bytes came to: of a large file, or of small ones.
    pub fn learn(&mut self, large: Option<&mut Tried>, packed: &Packed, bytes: u64) {
        let took = packed.took.max(Duration::from_nanos(1)).as_secs_f64();
        let (each, busy) = (took / bytes.max(1) as f64, (packed.worked.as_secs_f64() / took).min(1.0));
        self.speed =
            Some(self.speed.map_or((each, busy), |(of_old, old)| (mean(of_old, each), mean(old, busy))));
        let longest = if large.is_some() { LONGEST_PAUSE } else { LONGEST_OF_SMALL };
        large.unwrap_or(&mut self.small).learn(packed.bytes, bytes, longest);
    }
}

impl Tried {
    fn learn(&mut self, packed: Option<usize>, bytes: u64, longest: u32) {
        let Some(packed) = packed else {
            self.pause = (2 * self.pause).clamp(FIRST_PAUSE, longest);
            self.left = self.pause;
            return;
        };
        let ratio = packed as f64 / bytes.max(1) as f64;
        self.ratio = Some(self.ratio.map_or(ratio, |old| mean(old, ratio)));
        (self.left, self.pause) = (0, 0);
    }
}

fn mean(old: f64, new: f64) -> f64 {
    old + NEW * (new - old)
}
