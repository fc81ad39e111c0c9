//! The two passes of `--delete-before`, which the user observes as one transfer.

use crate::event::{EndEvent, Event};
use crate::reporter::{Observation, Observer, ObserverWishes, ProblemCounts};

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
        self.event(&Event::End(self.deleted));
        self.observer.observe(Observation::Flush);
    }

    /// Returns the problems of the pass that deletes.
    pub fn problems(&self) -> ProblemCounts {
        self.problems
    }

    fn event(&mut self, event: &Event) {
        self.observer.observe(Observation::Event(event));
    }

    fn deletion_event(&mut self, event: &Event) {
        match event {
            Event::End(end) => self.deleted = *end,
            Event::Progress(_) | Event::Placement(_) => {}
            // The source reports its problems again in the second pass.
            Event::Problem(problem) if problem.name.is_some() && problem.side == "source" => {}
            Event::Problem(problem) => {
                self.problems.failed += u64::from(problem.name.is_some());
                self.event(event);
            }
            _ => self.event(event),
        }
    }

    fn copy_event(&mut self, event: &Event) {
        match event {
            &Event::End(mut end) => {
                end.totals.removed += self.deleted.totals.removed;
                end.totals.failed += self.problems.failed;
                end.seconds += self.deleted.seconds;
                self.event(&Event::End(end));
            }
            &Event::Progress(mut progress) => {
                progress.totals.removed += self.deleted.totals.removed;
                self.event(&Event::Progress(progress));
            }
            event => self.event(event),
        }
    }
}

impl Observer for DeletionPass<'_> {
    fn observe(&mut self, observation: Observation<'_>) {
        match observation {
            Observation::Event(event) if self.is_deleting => self.deletion_event(event),
            Observation::Event(event) => self.copy_event(event),
            Observation::ManifestEntry(_) if self.is_deleting => {}
            Observation::Restart => {
                // The first attempt to copy keeps the problems of the deletion.
                if !std::mem::take(&mut self.is_beginning) {
                    self.problems = ProblemCounts::default();
                    self.observer.observe(observation);
                }
            }
            _ => self.observer.observe(observation),
        }
    }

    fn wishes(&self) -> ObserverWishes {
        let wishes = self.observer.wishes();
        ObserverWishes { entries: wishes.entries && !self.is_deleting, ..wishes }
    }
}
