//! Applying the frames of the sink.

use super::Source;
use crate::report::{Report, Totals, TransferOutcome};
use crate::wire::ChangeKind;
use crate::wire::{DataRequest, EndTotals, Frame, NeededData, Problem, ProblemSubject, WireError};

impl<B: AsRef<[u8]>> Source<B> {
    /// Receives the frames of a packet with this length of data.
    pub(super) fn received(&mut self, frames: &[u8], data: Option<usize>) -> Result<(), WireError> {
        let mut rest = frames;
        while let Some(frame) = self.peer.next_frame(&mut rest)? {
            self.apply(frame)?;
        }
        self.peer.end_packet(data)
    }

    fn apply(&mut self, frame: Frame) -> Result<(), WireError> {
        match frame {
            Frame::DataRequests(requests) => {
                return requests.into_inner().into_iter().try_for_each(|request| self.request(&request));
            }
            Frame::StoredEntries(stored) => return self.stored.stored(&stored, &mut self.peer),
            Frame::Problem(problem) => self.receive_problem(problem),
            Frame::ManifestEntry(entry) => self.peer.reports.push(Report::ManifestEntry(entry)),
            Frame::Change(change) => {
                // Preliminary totals: the end frame replaces them, but may never arrive.
                match change.action {
                    ChangeKind::Removed => self.peer.totals.removed += 1,
                    _ => self.peer.totals.moved += 1,
                }
                self.peer.reports.push(Report::Change(change));
            }
            Frame::End(end) if self.sent_end => {
                let EndTotals { entries: moved, bytes, size, resumed, unchanged, removed, .. } = end;
                let totals = self.peer.totals;
                self.peer.totals = Totals { moved, bytes, size, resumed, unchanged, removed, ..totals };
                self.peer.outcome = Some(TransferOutcome::Done);
            }
            _ => return Err(WireError::InvalidValue("a frame that a sink does not send")),
        }
        Ok(())
    }

    fn request(&mut self, request: &DataRequest) -> Result<(), WireError> {
        for number in self.requests.add(request, self.announcements.sent())? {
            self.requests.add_unneeded(self.files.unneeded_bytes(number, &request.what));
            match &request.what {
                NeededData::Nothing => {
                    let unsent = self.files.remove_unneeded(number);
                    self.peer.totals.size = self.peer.totals.size.saturating_sub(unsent);
                }
                // It was started when it was announced.
                NeededData::All if self.options.eager => {}
                NeededData::All => {
                    let started = self.files.begin(number, None)?;
                    self.send_file(started);
                }
                NeededData::Some(extents) => {
                    let started = self.files.begin(number, Some(extents))?;
                    self.send_file(started);
                }
                NeededData::Hash => {
                    if let Some((path, identity)) = self.files.request_hash(number)? {
                        let queue = self.hash_queues.get_mut(self.options.storage.device_of(path.root));
                        if let Some(queue) = queue {
                            queue.push(number, path, Some(identity));
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn receive_problem(&mut self, problem: Problem) {
        match &problem.about {
            ProblemSubject::Transfer => self.peer.outcome = Some(TransferOutcome::Failed),
            ProblemSubject::File(number, _) => drop(self.files.remove(*number)),
            ProblemSubject::Name(_) => {}
        }
        self.peer.record_problem(problem);
    }
}
