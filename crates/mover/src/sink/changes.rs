//! Changes at the sink: counted, reported, and sent to the source.

use super::options::SinkOptions;
use crate::drive::PeerState;
use crate::report::Report;
use crate::wire::ChangeKind;
use crate::wire::{Frame, SinkChange};

/// Maximum bytes of change frames that are buffered to be sent together.
const MAX_BUFFERED: usize = 64 << 10;

/// Changes whose frames are not sent yet, and what did not change.
///
/// Invariant: every change is counted and reported once, and its frame is sent before any frame
/// that is queued after [`Changes::flush`].
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Encoded frames.
    unsent: Vec<u8>,
    /// Bytes of files that were already up to date.
    unchanged_bytes: u64,
}

impl Changes {
    /// Records a change, or in a dry run a change that would have been made.
    pub fn record<B: AsRef<[u8]>>(
        &mut self,
        change: SinkChange,
        options: &SinkOptions,
        peer: &mut PeerState<B>,
    ) {
        match change.action {
            ChangeKind::Removed => peer.totals.removed += 1,
            _ => peer.totals.moved += 1,
        }
        if options.report_changes {
            Frame::Change(change.clone()).encode(&mut self.unsent);
            if self.unsent.len() > MAX_BUFFERED {
                self.flush(peer);
            }
        }
        peer.reports.push(Report::Change(change));
    }

    /// Records an unchanged entry with this size.
    pub fn record_unchanged<B>(&mut self, size: u64, peer: &mut PeerState<B>) {
        // Sparse files may claim more bytes in total than fit into the counter.
        self.unchanged_bytes = self.unchanged_bytes.saturating_add(size);
        peer.totals.unchanged += 1;
    }

    /// Returns the bytes of files that were already up to date.
    pub fn unchanged_bytes(&self) -> u64 {
        self.unchanged_bytes
    }

    /// Sends the buffered frames.
    pub fn flush<B: AsRef<[u8]>>(&mut self, peer: &mut PeerState<B>) {
        if !self.unsent.is_empty() {
            peer.send_bytes(std::mem::take(&mut self.unsent));
        }
    }
}
