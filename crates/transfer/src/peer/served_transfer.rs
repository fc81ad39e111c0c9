//! The result of a served transfer.

use numaio_mover::drive::TransferCore;
use numaio_mover::report::{EntryCounts, Report, Totals, TransferOutcome};
use numaio_mover::wire::{ProblemSubject, Reason};
use numaio_mover_linux::port::LinkActivity;

/// How a served transfer ended, and what it transferred.
#[derive(Debug, Clone)]
pub struct ServedTransfer {
    /// The outcome of this side.
    pub outcome: TransferOutcome,
    /// Whether it ended because a side was interrupted or its connection was lost.
    pub is_cut: bool,
    /// Why the transfer was aborted, without control characters; otherwise empty.
    pub reason: String,
    /// Totals of this side.
    pub totals: Totals,
    /// Entries of the source by kind.
    pub entries: EntryCounts,
    /// Bytes of packets received, without TLS and TCP.
    pub received: u64,
    /// Bytes of packets sent.
    pub sent: u64,
    /// Identity that all attempts of the transfer share, in hexadecimal digits.
    pub series: String,
    /// Whether the client reported a lost earlier attempt.
    pub is_retry: bool,
}

impl ServedTransfer {
    /// The result of a side that has ended.
    pub(super) fn new<B: AsRef<[u8]>>(
        core: &impl TransferCore<B>,
        EndReason(problem): EndReason,
        is_closed: bool,
        activity: &LinkActivity,
    ) -> Self {
        let outcome = core.outcome().cloned().unwrap_or(TransferOutcome::Failed);
        let is_cut = match problem.as_ref().map(|(reason, _)| *reason) {
            Some(Reason::Cancelled | Reason::TimedOut) => true,
            // A lost connection has no reason of its own.
            Some(Reason::Other) | None => is_closed,
            Some(_) => false,
        };
        Self {
            is_cut: is_cut && outcome == TransferOutcome::Failed,
            outcome,
            reason: problem.map(|(_, text)| text).unwrap_or_default(),
            totals: core.totals(),
            entries: core.entry_counts(),
            received: activity.received(),
            sent: activity.sent(),
            series: String::new(),
            is_retry: false,
        }
    }
}

/// The first problem of a transfer as a whole.
#[derive(Debug, Default)]
pub(super) struct EndReason(Option<(Reason, String)>);

impl EndReason {
    /// Keeps the first problem that concerns the transfer.
    pub fn record(&mut self, reports: &[Report]) {
        let of_transfer = |report: &Report| match report {
            Report::Problem(problem) if problem.about == ProblemSubject::Transfer => {
                Some((problem.reason, problem.text.as_str().to_owned()))
            }
            _ => None,
        };
        if self.0.is_none() {
            self.0 = reports.iter().find_map(of_transfer);
        }
    }
}
