//! Finalization after all data is received: hard links, removals, directory attributes and sync.

use super::batches::LookupResult;
use super::ending::Phase;
use super::link_copies::{is_equal_copy, special_copy, EndedCopy, LinkTarget};
use super::links::LinkDecision;
use super::options::SyncMode;
use super::pending_ops::PendingOp;
use super::removal::NextRemoval;
use super::resume_log::CloseAction;
use super::Sink;
use crate::entry::{Entry, Object};
use crate::name::Name;
use crate::port::{Fault, FilePath, Listing, Operation, Ticket};
use crate::report::{reason, Totals, TransferOutcome};
use crate::unpreserved::is_complete;
use crate::wire::{ChangeKind, EndTotals, Frame, ProblemSubject, Reason};

impl<B: AsRef<[u8]>> Sink<B> {
    /// Performs the next steps of finalization, if all entries and data are processed.
    pub(super) fn continue_finalization(&mut self) {
        let moving = !self.batches.is_empty() || self.plans.is_waiting() || !self.incoming.is_empty();
        if !self.ending.has_source_ended() || moving {
            return;
        }
        while self.is_idle() && self.peer.outcome.is_none() {
            match self.ending.phase() {
                Phase::Linking if !self.link_copies.is_idle() => return self.continue_link_copies(),
                Phase::Linking if self.links.look_up_next(&self.options, &mut self.peer) => {}
                Phase::Linking => self.ending.advance(),
                Phase::Removing => self.continue_removal(),
                Phase::Closing if !self.resume_log.is_finished() => return,
                Phase::Closing => self.close_journal(),
                Phase::SettingAttributes => self.set_directory_attributes(),
                Phase::Syncing => {
                    self.stored.begin_sync(self.peer.totals.failed);
                    if self.options.sync != SyncMode::None && !self.options.dry_run {
                        self.pending_ops.sync(&mut self.peer);
                    }
                    self.ending.advance();
                }
                Phase::RemovingSources => match self.stored.finish(&mut self.peer) {
                    Ok(true) => self.ending.advance(),
                    Ok(false) => return,
                    Err(error) => return self.abort(Reason::Other, &error.to_string()),
                },
                Phase::Ending => self.send_end(),
            }
        }
    }

    fn close_journal(&mut self) {
        let abandoned = std::mem::take(&mut self.options.abandoned_shards);
        if !abandoned.is_empty() && !self.options.dry_run {
            let journals = abandoned.into_iter().map(|shard| FilePath::new(0, shard.journal));
            journals.for_each(|journal| self.resume_log.remove_possible(journal));
            return self.submit_journal();
        }
        match self.resume_log.close(self.removal.has_removed_all_partials()) {
            CloseAction::Write => return self.submit_journal(),
            CloseAction::Keep => {}
            CloseAction::Remove(journal) => self.pending_ops.remove_unreported(journal, &mut self.peer),
        }
        self.ending.advance();
    }

    fn send_end(&mut self) {
        self.unpreserved.report(&mut self.peer);
        let Totals { moved, failed, bytes, size, resumed, unchanged, removed, .. } = self.peer.totals;
        self.changes.flush(&mut self.peer);
        self.peer.send(&Frame::End(EndTotals {
            entries: moved,
            failed,
            bytes,
            size,
            resumed,
            unchanged,
            removed,
        }));
        self.peer.outcome = Some(TransferOutcome::Done);
    }

    /// Creates hard links, given the objects with their names and targets.
    pub(super) fn create_links(&mut self, entries: Vec<Entry>, found: &[LookupResult]) {
        let blocking = self.links.directories_to_replace(&entries, found, &self.results, &self.options);
        if !blocking.is_empty() && !self.options.dry_run {
            entries.into_iter().for_each(|entry| self.links.push(entry));
            return self.remove_reported(blocking);
        }
        self.remove_reported(blocking);
        let (mut makings, mut ops) = (Vec::new(), Vec::new());
        for (Entry { name, object }, both) in entries.into_iter().zip(found.chunks(2)) {
            let (Object::HardLink(to), [at, first]) = (object, both) else { continue };
            match self.links.decide((&name, &to), (at, first), &self.results, &self.options) {
                LinkDecision::Unchanged => {
                    self.stored.add_existing_link((&name, &to), (at, first), &self.results);
                    self.changes.record_unchanged(0, &mut self.peer);
                    let found = at.as_ref().ok().and_then(Option::as_ref);
                    self.hashes.add_found_to_manifest(&name, found, &self.options);
                }
                LinkDecision::Refuse(why) => {
                    let text = format!("not linked: '{to}' {why}");
                    self.peer.report_problem(ProblemSubject::Name(name), Reason::Other, &text);
                }
                LinkDecision::Blocked => {
                    let Fault { why, text } = self.options.blocked_by_directory();
                    self.peer.report_problem(ProblemSubject::Name(name), reason(why), &text);
                }
                LinkDecision::Create(making, op) => {
                    if let Ok(Some(file)) = first {
                        // A backup moves it away.
                        let is_equal =
                            self.options.backup.is_none() && is_equal_copy(at, file, &self.options);
                        let target = LinkTarget { to: to.clone(), file: file.clone(), is_equal };
                        self.link_copies.creating(&name, target);
                    }
                    let replaced = at.as_ref().ok().and_then(Option::as_ref);
                    if let Some((backup, op)) = self.options.backup(&name, replaced) {
                        makings.push(backup);
                        ops.push(op);
                    }
                    makings.push(making);
                    ops.push(*op);
                }
            }
        }
        if self.options.dry_run {
            return self.report_dry_run(ops);
        }
        self.pending_ops.submitted(self.peer.submit(Operation::Create(makings)), ops);
    }

    /// Copies a file in place of a hard link that the file system refuses.
    pub(super) fn copy_instead_of_link(&mut self, op: PendingOp, target: LinkTarget, refused: &Fault) {
        let text = format!("not kept as a hard link, but as a copy: {}", refused.text);
        self.unpreserved.add(&op.name, refused.why, &text);
        if target.is_equal {
            self.hashes.add_found_to_manifest(&op.name, Some(&target.file), &self.options);
            return self.changes.record_unchanged(0, &mut self.peer);
        }
        if let Some(making) = special_copy(&op.name, &target.file, &self.options) {
            let ticket = self.peer.submit(Operation::Create(vec![making]));
            return self.pending_ops.submitted(ticket, vec![op]);
        }
        // A later run finds the partial file by the journal.
        self.resume_log.require_journal();
        let at = self.resume_log.partial(&op.name);
        self.link_copies.push(op.name, at, target, self.options.block);
    }

    fn continue_link_copies(&mut self) {
        self.submit_journal();
        // A scheduled removal may concern a leftover with the name of the copy's partial file.
        if self.resume_log.may_start_files() && !self.resume_log.is_removing() {
            self.link_copies.submit_next(&self.options, &mut self.peer);
        }
    }

    /// Handles the end of a copy in place of a hard link.
    pub(super) fn link_copied(&mut self, (name, at, result): EndedCopy) {
        match result {
            Err(fault) if !is_complete(&fault) => {
                self.resume_log.discard_partial(&name, at);
                self.op_done(PendingOp::unreported(name), Err(fault));
            }
            result => {
                self.resume_log.file_completed(&name, &at);
                let op = PendingOp::reported(name, ChangeKind::Created);
                self.op_done(PendingOp { is_file: true, ..op }, result);
            }
        }
    }

    /// Removes entries that the source does not have, directory by directory.
    fn continue_removal(&mut self) {
        if !self.options.delete {
            return self.ending.advance();
        }
        let is_doubtful = self.ending.is_source_incomplete() && !self.options.removal_limits.ignore_errors;
        if is_doubtful && !self.removal.is_started() {
            let text = "nothing was deleted: the source could not be listed completely";
            self.peer.report_problem(ProblemSubject::Name(Name::root()), Reason::Other, text);
            return self.ending.advance();
        }
        match self.removal.next(&self.source_names, &mut self.peer) {
            NextRemoval::Continue => {}
            NextRemoval::Remove(directory) => self.remove_reported(vec![directory]),
            NextRemoval::Finished => self.ending.advance(),
        }
    }

    /// Handles a listed directory.
    pub(super) fn directory_listed(&mut self, ticket: Ticket, listing: Result<Listing, Fault>) {
        let port = (&mut self.peer, &mut self.pending_ops);
        let extra = self.removal.listed(ticket, listing, &self.source_names, &self.options, port);
        self.remove_files_reported(extra);
    }

    /// Sets the attributes of some directories.
    fn set_directory_attributes(&mut self) {
        let Some((all, ops)) = self.directories.next(&self.results, &self.options) else {
            return self.ending.advance();
        };
        if self.options.dry_run {
            return self.report_dry_run(ops);
        }
        self.pending_ops.submitted(self.peer.submit(Operation::SetAttributes(all)), ops);
    }
}
