//! Whether data is packed for its way to the sink, decided block by block, and how: zstd (RFC 8878).
//!
//! A block is packed if it is expected to be there sooner so ([`BlockEstimate::pays`]). What that needs is measured: how fast data
//! goes out ([`LinkRate`]), how long packing takes, and how small data of a file became. Data that does not become
//! smaller is left alone for ever longer times, and tried again after each.

mod block;
#[cfg(test)]
mod tests;
mod link_rate;

pub use block::{compress, decompress};
pub use link_rate::LinkRate;

use numaio_machine::port::Packed;
use std::time::Duration;

/// When data is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CompressMode {
    /// Never.
    #[default]
    None,
    /// Where it makes a block arrive sooner.
    Auto,
    /// Wherever it makes data smaller.
    Zstd,
}

/// Fewest bytes that are packed: less does not fill a packet of the network.
const MIN_BYTES: u64 = 1_024;
/// How many blocks are left alone after the first one that did not become smaller; twice as many after each further one...
const FIRST_PAUSE: u32 = 4;
/// ...to so many of one file...
const MAX_PAUSE: u32 = 256;
/// ...and of small files, which have little to do with each other.
const MAX_PAUSE_SMALL: u32 = 8;
/// After so many blocks that were not packed, though they would have become smaller, one is: to see what it takes by now.
const PROBE_INTERVAL: u32 = 256;
/// Part of a thread's time in which it must have had a CPU, so that packing takes none from others.
const IDLE_SHARE: f64 = 0.8;
/// Weight of what was seen last.
const EMA_WEIGHT: f64 = 0.25;

/// What packing did to one kind of data: a large file, or all small ones.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CompressionHistory {
    /// Bytes after packing over bytes before, of late; none before the first try.
    ratio: Option<f64>,
    /// Blocks that are still left alone.
    skip: u32,
    /// How many were left alone the last time; 0 if data became smaller since.
    pause: u32,
}

/// What a block is decided by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BlockEstimate {
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

impl BlockEstimate {
    /// Whether the block is out sooner if it is packed: the time until its turn, and that for sending it.
    ///
    /// While others go out before it an idle CPU packs it for nothing; else packing comes on top. While nothing is known of
    /// the way it is taken to be slow, as waiting for it would cost more than packing for a fast one.
    pub fn is_worthwhile(&self) -> bool {
        let Some(rate) = self.bytes_per_s else { return true };
        let (wait, send) = (self.waiting as f64 / rate, self.bytes as f64 / rate);
        let pack = self.bytes as f64 * self.seconds_per_byte;
        let ready = if self.idle { wait.max(pack) } else { wait + pack };
        ready + send * self.ratio < wait + send
    }
}

/// Decides what is packed.
#[derive(Debug)]
pub struct CompressionPolicy {
    mode: CompressMode,
    /// Bytes a second that the user allows.
    limit: Option<u64>,
    /// How fast data goes out.
    pub link: LinkRate,
    /// What is known of small files, which go together.
    small: CompressionHistory,
    /// Seconds a byte, and the part of them in which there was a CPU; none before the first try.
    speed: Option<(f64, f64)>,
    /// Blocks that were not packed since the last one that was.
    uncompressed: u32,
}

impl CompressionPolicy {
    /// One that has seen nothing yet; `limit` is in bytes a second.
    pub fn new(mode: CompressMode, limit: Option<u64>) -> Self {
        Self { mode, limit, link: LinkRate::default(), small: CompressionHistory::default(), speed: None, uncompressed: 0 }
    }

    /// Whether to pack so many bytes of a large file, of which this is known; or of small files.
    pub fn should_compress(&mut self, large: Option<&mut CompressionHistory>, bytes: u64) -> bool {
        if self.mode == CompressMode::None || bytes < MIN_BYTES {
            return false;
        }
        let history = large.as_deref().copied().unwrap_or(self.small);
        let should_compress = history.skip == 0
            && (self.mode == CompressMode::Zstd || self.is_worthwhile(history, bytes) || self.uncompressed >= PROBE_INTERVAL);
        if history.skip == 0 {
            self.uncompressed = if should_compress { 0 } else { self.uncompressed + 1 };
        }
        large.unwrap_or(&mut self.small).skip = history.skip.saturating_sub(1);
        should_compress
    }

    fn is_worthwhile(&self, history: CompressionHistory, bytes: u64) -> bool {
        // What was never tried is.
        let (Some(ratio), Some((seconds_per_byte, busy))) = (history.ratio, self.speed) else { return true };
        let limit = self.limit.map(|limit| limit.max(1) as f64);
        let bytes_per_s = match (self.link.bytes_per_s(), limit) {
            (Some(rate), Some(limit)) => Some(rate.min(limit)),
            (rate, limit) => rate.or(limit),
        };
        let (idle, waiting) = (busy >= IDLE_SHARE, self.link.waiting());
        BlockEstimate { bytes, ratio, seconds_per_byte, idle, waiting, bytes_per_s }.is_worthwhile()
    }

    /// Takes in what packing so many bytes came to: of a large file, or of small ones.
    pub fn record(&mut self, large: Option<&mut CompressionHistory>, packed: &Packed, bytes: u64) {
        let took = packed.took.max(Duration::from_nanos(1)).as_secs_f64();
        let (each, busy) = (took / bytes.max(1) as f64, (packed.worked.as_secs_f64() / took).min(1.0));
        self.speed =
            Some(self.speed.map_or((each, busy), |(of_old, old)| (mean(of_old, each), mean(old, busy))));
        let longest = if large.is_some() { MAX_PAUSE } else { MAX_PAUSE_SMALL };
        large.unwrap_or(&mut self.small).record(packed.bytes, bytes, longest);
    }
}

impl CompressionHistory {
    fn record(&mut self, packed: Option<usize>, bytes: u64, longest: u32) {
        let Some(packed) = packed else {
            self.pause = (2 * self.pause).clamp(FIRST_PAUSE, longest);
            self.skip = self.pause;
            return;
        };
        let ratio = packed as f64 / bytes.max(1) as f64;
        self.ratio = Some(self.ratio.map_or(ratio, |old| mean(old, ratio)));
        (self.skip, self.pause) = (0, 0);
    }
}

fn mean(old: f64, new: f64) -> f64 {
    old + EMA_WEIGHT * (new - old)
}
