//! The two passes of `--delete-before`, which the user observes as one transfer.

use crate::event::{EndEvent, Event, Progress};
use crate::reporter::{Notice, Observer, ProblemCounts};
use numaio_mover::wire::ManifestEntry;

/// Passes events of a pass that deletes and of one that copies to an observer, as those of one
/// transfer.
pub(crate) struct DeletionPass<'a> {
    observer: &'a mut dyn Observer,
    /// The end of the pass that deletes.
    deleted: EndEvent,
    /// Whether that pass has not ended.
    is_deleting: bool,
    /// Whether the pass that copies waits for its first attempt.
    is_beginning: bool,
    /// The problems of the pass that deletes, other than those that the second one repeats.
    problems: ProblemCounts,
}

impl<'a> DeletionPass<'a> {
    /// Begins the pass that deletes.
    pub fn new(observer: &'a mut dyn Observer) -> Self {
        let (deleted, problems) = Default::default();
        Self { observer, deleted, is_deleting: true, is_beginning: false, problems }
    }

    /// Begins the pass that copies.
    pub fn begin_copy(&mut self) {
        (self.is_deleting, self.is_beginning) = (false, true);
    }

    /// Ends a transfer whose deletions failed, before anything was copied.
    pub fn end_without_copy(&mut self) {
        self.observer.event(&Event::End(self.deleted));
        self.observer.flush();
    }

    /// Returns the problems of the pass that deletes.
    pub fn problems(&self) -> ProblemCounts {
        self.problems
    }

    fn deletion_event(&mut self, event: &Event) {
        match event {
            Event::End(end) => self.deleted = *end,
            Event::Progress(_) | Event::Placement(_) => {}
            // The source reports its problems again in the second pass.
            Event::Problem(problem) if problem.name.is_some() && problem.side == "source" => {}
            Event::Problem(problem) => {
                self.problems.failed += u64::from(problem.name.is_some());
                self.observer.event(event);
            }
            _ => self.observer.event(event),
        }
    }
}

impl Observer for DeletionPass<'_> {
    fn event(&mut self, event: &Event) {
        if self.is_deleting {
            return self.deletion_event(event);
        }
        match event {
            Event::End(EndEvent { done, seconds, mut totals, shard }) => {
                totals.removed += self.deleted.totals.removed;
                totals.failed += self.problems.failed;
                let seconds = seconds + self.deleted.seconds;
                self.observer.event(&Event::End(EndEvent { done: *done, seconds, totals, shard: *shard }));
            }
            Event::Progress(Progress { mut totals, reached }) => {
                totals.removed += self.deleted.totals.removed;
                self.observer.event(&Event::Progress(Progress { totals, reached: *reached }));
            }
            event => self.observer.event(event),
        }
    }

    fn alive(&mut self) {
        self.observer.alive();
    }

    fn notice(&mut self, notice: &Notice) {
        self.observer.notice(notice);
    }

    fn manifest_entry(&mut self, entry: &ManifestEntry) {
        if !self.is_deleting {
            self.observer.manifest_entry(entry);
        }
    }

    /// The first attempt to copy keeps the problems of the deletion.
    fn restart(&mut self) {
        if !std::mem::take(&mut self.is_beginning) {
            self.problems = ProblemCounts::default();
            self.observer.restart();
        }
    }

    fn flush(&mut self) {
        self.observer.flush();
    }

    fn wants_changes(&self) -> bool {
        self.observer.wants_changes()
    }

    fn wants_entries(&self) -> bool {
        !self.is_deleting && self.observer.wants_entries()
    }

    fn escapes_control_characters(&self) -> bool {
        self.observer.escapes_control_characters()
    }
}
