//! Frames that arrive before their entry is decided, in eager mode; they are deferred.

use super::{Sink, MAX_OPEN_ENTRIES};
use crate::entry::FileNumber;
use crate::wire::{Frame, Problem, ProblemSubject, WireError};
use std::collections::{HashSet, VecDeque};

/// Maximum deferred holes (64 MiB): more than a source announces for the files it may have in
/// flight.
const MAX_HOLES: usize = 4 << 20;

/// Deferred frames with their data.
#[derive(Debug)]
pub(super) struct EarlyFrames<B> {
    frames: VecDeque<(Frame, Option<B>)>,
    /// Number of holes in these frames.
    holes: usize,
}

impl<B> Default for EarlyFrames<B> {
    fn default() -> Self {
        Self { frames: VecDeque::new(), holes: 0 }
    }
}

impl<B> EarlyFrames<B> {
    fn push(&mut self, frame: Frame, data: Option<B>) {
        self.holes += holes_in(&frame);
        self.frames.push_back((frame, data));
    }

    fn pop(&mut self) -> Option<(Frame, Option<B>)> {
        let next = self.frames.pop_front();
        self.holes -= next.as_ref().map_or(0, |(frame, _)| holes_in(frame));
        next
    }

    /// Drops all deferred frames.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns whether another frame would exceed what a source may have in flight. The number of
    /// buffers bounds the data.
    fn would_overflow(&self, frame: &Frame) -> bool {
        self.frames.len() > MAX_OPEN_ENTRIES || self.holes + holes_in(frame) > MAX_HOLES
    }
}

fn holes_in(frame: &Frame) -> usize {
    if let Frame::Holes(holes) = frame {
        holes.extents().len()
    } else {
        0
    }
}

impl<B: AsRef<[u8]>> Sink<B> {
    /// Applies a frame of the source, or defers it; frames of one file stay in order.
    pub(super) fn apply_or_defer(&mut self, frame: Frame, data: Option<B>) -> Result<(), WireError> {
        let overtakes = matches!(frame, Frame::Batch(_)) || self.early_frames.frames.is_empty();
        if overtakes && self.is_applicable(&frame) {
            return self.apply(frame, data);
        }
        if self.early_frames.would_overflow(&frame) {
            return Err(WireError::InvalidValue("too many unrequested frames"));
        }
        self.early_frames.push(frame, data);
        Ok(())
    }

    /// Applies deferred frames whose entries are decided by now.
    pub(super) fn apply_deferred(&mut self) -> Result<(), WireError> {
        // Files with a deferred last part: their final frame must wait, too.
        let mut deferred = HashSet::new();
        for _ in 0..self.early_frames.frames.len() {
            let Some((frame, data)) = self.early_frames.pop() else { break };
            let is_deferred = matches!(&frame, Frame::FileSent(done) if deferred.contains(&done.file));
            if !is_deferred && self.is_applicable(&frame) {
                self.apply(frame, data)?;
                continue;
            }
            if let Frame::Chunk(chunk) = &frame {
                // Files sent as a single part have no final frame.
                let ends = chunk.parts().iter().filter(|part| part.extent.start() > 0);
                deferred.extend(ends.map(|part| part.file));
            }
            self.early_frames.push(frame, data);
        }
        Ok(())
    }

    /// Returns whether the last deferred frame is the end frame.
    pub(super) fn is_end_deferred(&self) -> bool {
        self.early_frames.frames.back().is_some_and(|(frame, _)| matches!(frame, Frame::End(_)))
    }

    fn is_applicable(&self, frame: &Frame) -> bool {
        match frame {
            Frame::Chunk(chunk) => chunk.parts().iter().all(|part| self.is_requested(part.file)),
            Frame::Holes(holes) => self.is_requested(holes.file()),
            Frame::FileSent(done) => self.is_requested(done.file),
            Frame::Problem(Problem { about: ProblemSubject::File(file, _), .. }) => self.is_requested(*file),
            Frame::End(_) => self.early_frames.frames.is_empty() && self.has_answered_all(),
            _ => true,
        }
    }

    /// Returns whether the data of a file was requested; true for unknown files, which are errors.
    fn is_requested(&self, file: FileNumber) -> bool {
        let file = file.get();
        let known = file < self.next;
        !known || self.is_decided(file) && self.incoming.get(&file).is_none_or(|file| file.answered)
    }
}
