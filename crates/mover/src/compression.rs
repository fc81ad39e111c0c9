//! Block-wise compression of data for the link with zstd (RFC 8878).
//!
//! In automatic mode a block is compressed if it is expected to arrive sooner
//! ([`BlockEstimate::is_worthwhile`]). This uses measurements: the sending rate ([`LinkRate`]), the
//! compression speed, and the compression ratio of earlier blocks. Incompressible data is skipped
//! for increasing intervals and then tried again.

mod block;
mod link_rate;
#[cfg(test)]
mod tests;

pub use block::{compress, decompress};
pub use link_rate::LinkRate;

use crate::port::CompressionResult;
use std::time::Duration;

/// When to compress data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CompressMode {
    /// Never.
    #[default]
    None,
    /// If it makes a block arrive sooner.
    Auto,
    /// If it makes a block smaller.
    Zstd,
}

/// Minimum bytes to compress: less does not fill a network packet.
const MIN_BYTES: u64 = 1_024;
/// Blocks skipped after the first incompressible one; the pause doubles with each further one...
const FIRST_PAUSE: u32 = 4;
/// ...up to this maximum for one file...
const MAX_PAUSE: u32 = 256;
/// ...and this one for small files, which are unrelated to each other.
const MAX_PAUSE_SMALL: u32 = 8;
/// Number of uncompressed but compressible blocks after which one is compressed, to update the
/// speed.
const PROBE_INTERVAL: u32 = 256;
/// Share of CPU time that a thread must have received for its CPU to count as idle.
const IDLE_SHARE: f64 = 0.8;
/// Weight of the newest sample in the moving averages.
const EMA_WEIGHT: f64 = 0.25;

/// The compression results of one kind of data: a large file, or all small files.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CompressionHistory {
    /// Moving average of compressed over uncompressed size; `None` before the first result.
    ratio: Option<f64>,
    /// Number of blocks still to skip.
    skip: u32,
    /// Length of the last pause; 0 if data was compressible since.
    pause: u32,
}

/// The inputs of the decision whether to compress a block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BlockEstimate {
    /// Block length in bytes.
    pub bytes: u64,
    /// Expected compressed size over uncompressed size.
    pub ratio: f64,
    /// Compression time per byte on one thread, in seconds.
    pub seconds_per_byte: f64,
    /// Whether a CPU is idle, so that compression delays nothing else.
    pub idle: bool,
    /// Bytes queued before the block.
    pub waiting: u64,
    /// Sending rate in bytes per second; `None` if not known yet.
    pub bytes_per_s: Option<f64>,
}

impl BlockEstimate {
    /// Returns whether the block is completely sent sooner if it is compressed.
    ///
    /// While other data is queued, an idle CPU compresses the block for free; otherwise compression
    /// time is added. An unknown link is assumed to be slow, because waiting for a slow link costs
    /// more than compressing for a fast one.
    pub fn is_worthwhile(&self) -> bool {
        let Some(rate) = self.bytes_per_s else { return true };
        let (wait, send) = (self.waiting as f64 / rate, self.bytes as f64 / rate);
        let pack = self.bytes as f64 * self.seconds_per_byte;
        let ready = if self.idle { wait.max(pack) } else { wait + pack };
        ready + send * self.ratio < wait + send
    }
}

/// Decides which blocks to compress.
#[derive(Debug)]
pub struct CompressionPolicy {
    mode: CompressMode,
    /// Bandwidth limit of the user in bytes per second.
    limit: Option<u64>,
    /// The sending rate.
    pub link: LinkRate,
    /// Results of small files, which are bundled.
    small: CompressionHistory,
    /// Compression time per byte in seconds, and CPU share; `None` before the first result.
    speed: Option<(f64, f64)>,
    /// Uncompressed blocks since the last compressed one.
    uncompressed: u32,
}

impl CompressionPolicy {
    /// Creates a policy without measurements; `limit` is in bytes per second.
    pub fn new(mode: CompressMode, limit: Option<u64>) -> Self {
        Self {
            mode,
            limit,
            link: LinkRate::default(),
            small: CompressionHistory::default(),
            speed: None,
            uncompressed: 0,
        }
    }

    /// Returns whether to compress `bytes` bytes of a large file with this history, or of small
    /// files.
    pub fn should_compress(&mut self, large: Option<&mut CompressionHistory>, bytes: u64) -> bool {
        if self.mode == CompressMode::None || bytes < MIN_BYTES {
            return false;
        }
        let history = large.as_deref().copied().unwrap_or(self.small);
        let should_compress = history.skip == 0
            && (self.mode == CompressMode::Zstd
                || self.is_worthwhile(history, bytes)
                || self.uncompressed >= PROBE_INTERVAL);
        if history.skip == 0 {
            self.uncompressed = if should_compress { 0 } else { self.uncompressed + 1 };
        }
        large.unwrap_or(&mut self.small).skip = history.skip.saturating_sub(1);
        should_compress
    }

    fn is_worthwhile(&self, history: CompressionHistory, bytes: u64) -> bool {
        // Data without a history is compressed once.
        let (Some(ratio), Some((seconds_per_byte, busy))) = (history.ratio, self.speed) else { return true };
        let limit = self.limit.map(|limit| limit.max(1) as f64);
        let bytes_per_s = match (self.link.bytes_per_s(), limit) {
            (Some(rate), Some(limit)) => Some(rate.min(limit)),
            (rate, limit) => rate.or(limit),
        };
        let (idle, waiting) = (busy >= IDLE_SHARE, self.link.waiting());
        BlockEstimate { bytes, ratio, seconds_per_byte, idle, waiting, bytes_per_s }.is_worthwhile()
    }

    /// Records the result of compressing `bytes` bytes of a large file, or of small files.
    pub fn record(&mut self, large: Option<&mut CompressionHistory>, packed: &CompressionResult, bytes: u64) {
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
