//! Frames that arrive before their entry is decided, in eager mode; they are deferred.

use super::batches::MAX_OPEN_ENTRIES;
use crate::entry::FileNumber;
use crate::wire::{FileSent, Frame, TruncatedFile, WireError};
use std::collections::{HashSet, VecDeque};

/// Maximum deferred holes (64 MiB): more than a source announces for the files it may have in
/// flight.
const MAX_HOLES: usize = 4 << 20;

/// Deferred frames with their data.
///
/// Invariant: frames of one file stay in the order of their arrival, and an end frame is last.
#[derive(Debug)]
pub(super) struct EarlyFrames<B> {
    frames: VecDeque<(Frame, Option<B>)>,
    /// Number of holes in these frames.
    holes: usize,
}

/// One pass over the deferred frames.
pub(super) struct DeferredPass {
    /// Number of frames still to visit.
    left: usize,
    /// Files with a deferred last part: their final frame must wait, too.
    deferred: HashSet<FileNumber>,
}

impl<B> Default for EarlyFrames<B> {
    fn default() -> Self {
        Self { frames: VecDeque::new(), holes: 0 }
    }
}

impl<B> EarlyFrames<B> {
    /// Returns whether no frame is deferred.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Returns whether the last deferred frame is the end frame.
    pub fn has_end(&self) -> bool {
        self.frames.back().is_some_and(|(frame, _)| matches!(frame, Frame::End(_)))
    }

    /// Returns whether a new frame need not wait for the deferred ones.
    pub fn may_overtake(&self, frame: &Frame) -> bool {
        matches!(frame, Frame::Batch(_) | Frame::MountPoint(_)) || self.is_empty()
    }

    /// Defers a new frame.
    ///
    /// # Errors
    /// [`WireError::InvalidValue`] if a source may not have that much in flight. The number of
    /// buffers bounds the data.
    pub fn defer(&mut self, frame: Frame, data: Option<B>) -> Result<(), WireError> {
        if self.frames.len() > MAX_OPEN_ENTRIES || self.holes + holes_in(&frame) > MAX_HOLES {
            return Err(WireError::InvalidValue("too many unrequested frames"));
        }
        self.push(frame, data);
        Ok(())
    }

    /// Starts a pass over the frames.
    pub fn pass(&self) -> DeferredPass {
        DeferredPass { left: self.frames.len(), deferred: HashSet::new() }
    }

    /// Takes the next frame of a pass: apply it if it is applicable by now and need not wait, or
    /// defer it again.
    pub fn next(&mut self, pass: &mut DeferredPass) -> Option<(Frame, Option<B>)> {
        pass.left = pass.left.checked_sub(1)?;
        let next = self.frames.pop_front();
        self.holes -= next.as_ref().map_or(0, |(frame, _)| holes_in(frame));
        next
    }

    /// Defers a frame of a pass again.
    pub fn defer_again(&mut self, pass: &mut DeferredPass, frame: Frame, data: Option<B>) {
        if let Frame::Chunk(chunk) = &frame {
            // Files sent as a single part have no final frame.
            let ends = chunk.parts().iter().filter(|part| part.extent.start() > 0);
            pass.deferred.extend(ends.map(|part| part.file));
        }
        self.push(frame, data);
    }

    /// Drops all deferred frames.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    fn push(&mut self, frame: Frame, data: Option<B>) {
        self.holes += holes_in(&frame);
        self.frames.push_back((frame, data));
    }
}

impl DeferredPass {
    /// Returns whether a frame must wait for one of the same file that was deferred again.
    pub fn must_wait(&self, frame: &Frame) -> bool {
        match frame {
            Frame::FileSent(FileSent { file, .. }) | Frame::Truncated(TruncatedFile { file, .. }) => {
                self.deferred.contains(file)
            }
            _ => false,
        }
    }
}

fn holes_in(frame: &Frame) -> usize {
    if let Frame::Holes(holes) = frame {
        holes.extents().len()
    } else {
        0
    }
}
