//! Applying the frames of the source.

use super::incoming::{PendingWrite, WriteEffect};
use super::Sink;
use crate::entry::FileNumber;
use crate::port::Fault;
use crate::report::reason;
use crate::wire::ChangeKind;
use crate::wire::{Frame, Problem, ProblemSubject, Reason, SinkChange, WireError};

impl<B: AsRef<[u8]>> Sink<B> {
    /// Receives the frames of a packet. Its data belongs to the last one.
    pub(super) fn received(&mut self, frames: &[u8], data: Option<(B, usize)>) -> Result<(), WireError> {
        let (mut rest, mut last) = (frames, None);
        while let Some(frame) = self.peer.next_frame(&mut rest)? {
            last.replace(frame).map_or(Ok(()), |before| self.receive_frame(before, None))?;
        }
        self.peer.end_packet(data.as_ref().map(|(_, length)| *length))?;
        last.map_or(Ok(()), |frame| self.receive_frame(frame, data.map(|(buffer, _)| buffer)))
    }

    fn receive_frame(&mut self, frame: Frame, data: Option<B>) -> Result<(), WireError> {
        if self.ending.has_source_ended() || self.early_frames.has_end() {
            let may_follow = matches!(frame, Frame::Problem(_) | Frame::End(_));
            return match self.stored.is_removing() && may_follow {
                true => self.apply(frame, data),
                false => Err(WireError::AfterEnd),
            };
        }
        let is_early =
            self.options.eager && !(self.early_frames.may_overtake(&frame) && self.is_applicable(&frame));
        match is_early {
            true => self.early_frames.defer(frame, data),
            false => self.apply(frame, data),
        }
    }

    /// Applies deferred frames whose entries are decided by now.
    pub(super) fn apply_deferred(&mut self) -> Result<(), WireError> {
        let mut pass = self.early_frames.pass();
        while let Some((frame, data)) = self.early_frames.next(&mut pass) {
            match !pass.must_wait(&frame) && self.is_applicable(&frame) {
                true => self.apply(frame, data)?,
                false => self.early_frames.defer_again(&mut pass, frame, data),
            }
        }
        Ok(())
    }

    fn is_applicable(&self, frame: &Frame) -> bool {
        match frame {
            Frame::Chunk(chunk) => chunk.parts().iter().all(|part| self.is_requested(part.file)),
            Frame::Holes(holes) => self.is_requested(holes.file()),
            Frame::FileSent(done) => self.is_requested(done.file),
            Frame::Truncated(file) => self.is_requested(file.file),
            Frame::Problem(Problem { about: ProblemSubject::File(file, _), .. }) => self.is_requested(*file),
            Frame::End(_) | Frame::AllSent => self.early_frames.is_empty() && self.has_answered_all(),
            _ => true,
        }
    }

    /// Returns whether the data of a file was requested; true for unknown files, which are errors.
    fn is_requested(&self, file: FileNumber) -> bool {
        let is_answered = self.batches.is_decided(file) && self.incoming.is_answered(file);
        !self.batches.is_known(file) || is_answered
    }

    /// Returns whether all entries are decided and answered.
    fn has_answered_all(&self) -> bool {
        self.batches.is_empty() && !self.plans.is_waiting() && self.plans.is_idle()
    }

    /// Returns whether the source may end: nothing is missing.
    fn is_all_received(&self) -> bool {
        self.has_answered_all() && self.incoming.has_all_data()
    }

    fn apply(&mut self, frame: Frame, data: Option<B>) -> Result<(), WireError> {
        match frame {
            Frame::Batch(batch) => {
                let incoming = self.incoming.len();
                self.batches.receive(batch, incoming, &self.options, &mut self.peer)
            }
            Frame::Chunk(chunk) => {
                let data = data.ok_or(WireError::InvalidValue("a chunk without data"))?;
                self.incoming.receive_chunk(&chunk, data, &self.batches, &self.options, &mut self.peer)
            }
            Frame::Holes(holes) => {
                self.incoming.receive_holes(&holes, &self.batches, &mut self.resume_log, &mut self.peer)
            }
            Frame::FileSent(done) => {
                self.incoming.receive_file_sent(done, &self.batches)?;
                self.settle_if_complete(done.file);
                Ok(())
            }
            Frame::Truncated(file) => {
                self.incoming.receive_truncation(file, &self.batches, &mut self.peer)?;
                self.settle_if_complete(file.file);
                Ok(())
            }
            Frame::FileHash(sum) => self.hashes.receive(sum),
            Frame::MountPoint(name) => self.source_names.add_mount_point(&name),
            Frame::Problem(problem) => {
                self.receive_problem(problem);
                Ok(())
            }
            Frame::AllSent if self.stored.is_enabled() && self.is_all_received() => {
                self.ending.source_ended();
                Ok(())
            }
            Frame::End(_) if self.stored.is_enabled() => self.stored.sources_removed(),
            Frame::End(_) if self.is_all_received() => {
                self.ending.source_ended();
                Ok(())
            }
            Frame::End(_) | Frame::AllSent => Err(WireError::InvalidValue("an end before all data")),
            Frame::DataRequests(_) | Frame::ManifestEntry(_) | Frame::Change(_) | Frame::StoredEntries(_) => {
                Err(WireError::InvalidValue("a frame that a source does not send"))
            }
        }
    }

    fn receive_problem(&mut self, problem: Problem) {
        match &problem.about {
            ProblemSubject::Transfer => self.stopping = true,
            ProblemSubject::File(number, _) => {
                self.hashes.fail(*number);
                self.drop_file(*number);
            }
            // The source no longer has it, or not all of its attributes.
            ProblemSubject::Name(_)
                if problem.reason == Reason::Changed || problem.reason.is_about_attributes() => {}
            ProblemSubject::Name(name) => {
                self.source_names.add_unlisted(name);
                // The source has the object, and cannot transfer it.
                if problem.reason != Reason::Unsupported {
                    self.ending.source_is_incomplete();
                }
            }
        }
        self.peer.record_problem(problem);
    }

    /// Completes a file of many parts if all of its data is written.
    pub(super) fn settle_if_complete(&mut self, number: FileNumber) {
        self.incoming.settle_if_complete(number, &self.options, &mut self.peer);
    }

    /// Handles the result for one part of a write operation.
    pub(super) fn write_completed(&mut self, item: &PendingWrite, result: Result<(), Fault>) {
        match self.incoming.write_completed(item, result, &mut self.resume_log, &mut self.peer) {
            WriteEffect::Ignored => {}
            WriteEffect::Written => self.settle_if_complete(item.number()),
            WriteEffect::Completed(unset) => {
                let Some(file) = self.incoming.remove(item.number()) else { return };
                let bytes = file.data_bytes();
                let target = file.into_target();
                if let Some(Fault { why, text }) = unset {
                    self.unpreserved.add(&target.name, why, &text);
                }
                self.stored.add(item.number());
                self.resume_log.file_completed(&target.name, &target.at);
                self.hashes.add_to_manifest(&target.name, &self.options);
                let (name, action, itemized) = (target.name, ChangeKind::Copied, target.itemized);
                self.record_change(SinkChange { name, action, bytes, itemized });
            }
            WriteEffect::Cancelled(fault) => self.abort(reason(fault.why), &fault.text),
            WriteEffect::Failed(name, fault) => self.fail(item.number(), &name, &fault),
        }
    }
}
