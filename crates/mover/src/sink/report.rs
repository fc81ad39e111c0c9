//! Reporting results: changes, failed entries and the failure of the transfer.

use super::pending_ops::PendingOp;
use super::requests;
use super::Sink;
use crate::entry::FileNumber;
use crate::name::Name;
use crate::port::{Fault, FaultKind, FilePath, Operation};
use crate::report::reason;
use crate::unpreserved::is_complete;
use crate::wire::ChangeKind;
use crate::wire::{NeededData, ProblemSubject, Reason, SinkChange};
use std::collections::BTreeMap;

impl<B: AsRef<[u8]>> Sink<B> {
    /// Aborts the transfer.
    pub(super) fn abort(&mut self, reason: Reason, text: &str) {
        if !self.stopping {
            self.peer.report_problem(ProblemSubject::Transfer, reason, text);
            self.stopping = true;
        }
    }

    /// Sends requests to the source.
    pub(super) fn send_requests(&mut self, answers: BTreeMap<FileNumber, NeededData>) {
        if let Err(error) = requests::send(answers, &mut self.peer) {
            self.abort(Reason::Other, &error.to_string());
        }
    }

    /// Handles a failed file: reports it to the source, and continues with the others.
    pub(super) fn fail(&mut self, number: FileNumber, name: &Name, fault: &Fault) {
        self.peer.report_problem(ProblemSubject::File(number, name.clone()), reason(fault.why), &fault.text);
        if !self.drop_file(number) {
            self.results.add_failure(name, None);
        }
    }

    /// Discards the received data of a file; returns `false` if none was being received.
    pub(super) fn drop_file(&mut self, number: FileNumber) -> bool {
        let Some(file) = self.incoming.remove(number) else { return false };
        let target = file.into_target();
        self.results.add_failure(&target.name, target.expected);
        // Operations in flight may still write to the partial file; it is removed after them.
        if !target.in_place {
            self.resume_log.discard_partial(&target.name, target.at);
        }
        true
    }

    /// Handles files whose data could not be synced before it was recorded in the journal.
    pub(super) fn sync_failed(&mut self, failed: Vec<(Name, Fault)>) {
        for (name, fault) in failed {
            match self.incoming.number_of(&name) {
                // The file has its final name and mode already, or it failed and was removed.
                _ if matches!(fault.why, FaultKind::NotFound | FaultKind::Permission) => {}
                Some(number) => self.fail(number, &name, &fault),
                None => self.peer.report_problem(ProblemSubject::Name(name), reason(fault.why), &fault.text),
            }
        }
    }

    /// Records a change, or in a dry run a change that would have been made.
    pub(super) fn record_change(&mut self, change: SinkChange) {
        self.changes.record(change, &self.options, &mut self.peer);
    }

    /// Reports operations that a dry run does not perform.
    pub(super) fn report_dry_run(&mut self, ops: impl IntoIterator<Item = PendingOp>) {
        ops.into_iter().for_each(|op| self.op_done(op, Ok(())));
    }

    /// Removes directories with all contents, and reports that.
    pub(super) fn remove_reported(&mut self, names: Vec<Name>) {
        self.remove_kind(names, true);
    }

    /// Removes entries that are not directories, and reports that.
    pub(super) fn remove_files_reported(&mut self, names: Vec<Name>) {
        self.remove_kind(names, false);
    }

    fn remove_kind(&mut self, names: Vec<Name>, are_directories: bool) {
        let itemized = self.options.itemize_removal(are_directories);
        let paths: Vec<FilePath> = names.iter().map(|name| FilePath::new(0, name.as_bytes())).collect();
        let ops = names.into_iter().map(|name| PendingOp {
            itemized: itemized.clone(),
            ..PendingOp::reported(name, ChangeKind::Removed)
        });
        if self.options.dry_run {
            return self.report_dry_run(ops);
        }
        if !paths.is_empty() {
            self.pending_ops.submitted(self.peer.submit(Operation::Remove(paths)), ops.collect());
        }
    }

    /// Reports the result of an operation.
    pub(super) fn op_done(&mut self, op: PendingOp, result: Result<(), Fault>) {
        // The backup of what the link replaces has the same name, and reports nothing.
        let target = op.action.and_then(|_| self.link_copies.created(&op.name));
        match (&result, target) {
            (Err(fault), Some(target)) if fault.why == FaultKind::NotKept => {
                return self.copy_instead_of_link(op, target, fault);
            }
            _ => {}
        }
        let PendingOp { name, number, action, bytes, is_file, replaces, expected, itemized } = op;
        let result = match result {
            Err(fault) if is_complete(&fault) => {
                self.unpreserved.add(&name, fault.why, &fault.text);
                if action == Some(ChangeKind::AttributesSet) {
                    return;
                }
                Ok(())
            }
            result => result,
        };
        match (result, number) {
            (Ok(()), _) => {
                let Some(action) = action else { return };
                if is_file {
                    self.hashes.add_to_manifest(&name, &self.options);
                }
                if replaces && self.options.dry_run {
                    self.results.add_replacement(&name);
                }
                match number {
                    Some(number) => self.stored.add(number),
                    None => self.stored.add_link(&name),
                }
                self.record_change(SinkChange { name, action, bytes, itemized });
            }
            // The content is correct.
            (Err(fault), Some(number)) if action == Some(ChangeKind::AttributesSet) => {
                let about = ProblemSubject::File(number, name);
                self.peer.report_problem(about, reason(fault.why), &fault.text);
            }
            (Err(fault), Some(number)) => {
                self.fail(number, &name, &fault);
                if expected.is_some() {
                    self.results.add_failure(&name, expected);
                }
            }
            (Err(fault), None) => {
                self.peer.report_problem(ProblemSubject::Name(name), reason(fault.why), &fault.text);
            }
        }
    }
}
