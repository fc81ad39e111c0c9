//! Data of files that comes before it is decided whether they are needed, where that was agreed on: it waits until they are.

use super::{Sink, MAX_OPEN_ENTRIES};
use crate::entry::FileNumber;
use crate::wire::{ProblemSubject, Frame, Problem, WireError};
use std::collections::{HashSet, VecDeque};

/// Holes that may wait, 64 MiB of them: more than a source tells of the files that it may have under way.
const MAX_HOLES: usize = 4 << 20;

/// Frames that wait, with their data.
#[derive(Debug)]
pub(super) struct EarlyFrames<B> {
    frames: VecDeque<(Frame, Option<B>)>,
    /// How many holes they tell of.
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

    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whether one more is more than what a source sends of the files that it may have under way. Data is bounded by its buffers.
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
    /// Takes what is about files that the source was not asked for, or lets it wait; all that is about one file comes in its order.
    pub(super) fn apply_or_defer(&mut self, frame: Frame, data: Option<B>) -> Result<(), WireError> {
        let overtakes = matches!(frame, Frame::Batch(_)) || self.early_frames.frames.is_empty();
        if overtakes && self.is_applicable(&frame) {
            return self.apply(frame, data);
        }
        if self.early_frames.would_overflow(&frame) {
            return Err(WireError::InvalidValue("a flood of what nobody asked for"));
        }
        self.early_frames.push(frame, data);
        Ok(())
    }

    /// Takes what waited and need not any more.
    pub(super) fn apply_deferred(&mut self) -> Result<(), WireError> {
        // Files whose last part waits for others that came with it: their end waits, too.
        let mut deferred = HashSet::new();
        for _ in 0..self.early_frames.frames.len() {
            let Some((frame, data)) = self.early_frames.pop() else { break };
            let is_deferred = matches!(&frame, Frame::FileSent(done) if deferred.contains(&done.file));
            if !is_deferred && self.is_applicable(&frame) {
                self.apply(frame, data)?;
                continue;
            }
            if let Frame::Chunk(chunk) = &frame {
                // Whole files have no end of their own.
                let ends = chunk.parts().iter().filter(|part| part.extent.start() > 0);
                deferred.extend(ends.map(|part| part.file));
            }
            self.early_frames.push(frame, data);
        }
        Ok(())
    }

    /// Whether nothing comes after what waits.
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

    /// Whether the source was told what is needed of a file. One that nobody knows needs not be waited for.
    fn is_requested(&self, file: FileNumber) -> bool {
        let file = file.get();
        let known = file < self.next;
        !known || self.is_decided(file) && self.incoming.get(&file).is_none_or(|file| file.answered)
    }
}
