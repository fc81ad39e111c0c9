//! Data of files that comes before it is decided whether they are needed, where that was agreed on: it waits until they are.

use super::{Sink, MOST};
use crate::entry::FileNumber;
use crate::wire::{About, Frame, Problem, WireError};
use std::collections::{HashSet, VecDeque};

/// Holes that may wait, 64 MiB of them: more than a source tells of the files that it may have under way.
const MOST_HOLES: usize = 4 << 20;

/// Frames that wait, with their data.
#[derive(Debug)]
pub(super) struct Early<B> {
    frames: VecDeque<(Frame, Option<B>)>,
    /// How many holes they tell of.
    holes: usize,
}

impl<B> Default for Early<B> {
    fn default() -> Self {
        Self { frames: VecDeque::new(), holes: 0 }
    }
}

impl<B> Early<B> {
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
    fn is_flooded_by(&self, frame: &Frame) -> bool {
        self.frames.len() > MOST || self.holes + holes_in(frame) > MOST_HOLES
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
    pub(super) fn take_or_wait(&mut self, frame: Frame, data: Option<B>) -> Result<(), WireError> {
        let overtakes = matches!(frame, Frame::Batch(_)) || self.early.frames.is_empty();
        if overtakes && self.is_due(&frame) {
            return self.take(frame, data);
        }
        if self.early.is_flooded_by(&frame) {
            return Err(WireError::Value("a flood of what nobody asked for"));
        }
        self.early.push(frame, data);
        Ok(())
    }

    /// Takes what waited and need not any more.
    pub(super) fn take_early(&mut self) -> Result<(), WireError> {
        // Files whose last part waits for others that came with it: their end waits, too.
        let mut held = HashSet::new();
        for _ in 0..self.early.frames.len() {
            let Some((frame, data)) = self.early.pop() else { break };
            let is_held = matches!(&frame, Frame::Done(done) if held.contains(&done.file));
            if !is_held && self.is_due(&frame) {
                self.take(frame, data)?;
                continue;
            }
            if let Frame::Chunk(chunk) = &frame {
                // Whole files have no end of their own.
                let ends = chunk.parts().iter().filter(|part| part.extent.start() > 0);
                held.extend(ends.map(|part| part.file));
            }
            self.early.push(frame, data);
        }
        Ok(())
    }

    /// Whether nothing comes after what waits.
    pub(super) fn has_early_end(&self) -> bool {
        self.early.frames.back().is_some_and(|(frame, _)| matches!(frame, Frame::End(_)))
    }

    fn is_due(&self, frame: &Frame) -> bool {
        match frame {
            Frame::Chunk(chunk) => chunk.parts().iter().all(|part| self.is_answered(part.file)),
            Frame::Holes(holes) => self.is_answered(holes.file()),
            Frame::Done(done) => self.is_answered(done.file),
            Frame::Problem(Problem { about: About::File(file, _), .. }) => self.is_answered(*file),
            Frame::End(_) => self.early.frames.is_empty() && self.has_answered_all(),
            _ => true,
        }
    }

    /// Whether the source was told what is needed of a file. One that nobody knows needs not be waited for.
    fn is_answered(&self, file: FileNumber) -> bool {
        let file = file.get();
        let known = file < self.next;
        !known || self.is_decided(file) && self.incoming.get(&file).is_none_or(|file| file.answered)
    }
}
