//! Operations of which nothing depends but what is told of them.

use crate::entry::FileNumber;
use crate::name::Name;
use crate::report::ChangeKind;
use numaio_machine::port::{Fault, Stamp, Ticket};
use std::collections::BTreeMap;

/// What one of the results of an operation is about.
#[derive(Debug)]
pub(super) struct PendingOp {
    /// Its name.
    pub name: Name,
    /// Its number, if the source knows it by one.
    pub number: Option<FileNumber>,
    /// What was done; none if success is not worth a word.
    pub action: Option<ChangeKind>,
    /// Bytes of data that would be moved for it, in a rehearsal.
    pub bytes: u64,
    /// Whether a regular file is there then, which a manifest lists.
    pub is_file: bool,
    /// Whether it would take the place of a file, in a rehearsal: further names of that would be another's.
    pub replaces: bool,
    /// The size and time of what is made: it may be there although an attribute could not be set. None if what was there had both.
    pub expected: Option<(u64, Option<Stamp>)>,
}

impl PendingOp {
    /// One that is told when it is done, about what the source does not know by a number.
    pub fn reported(name: Name, action: ChangeKind) -> Self {
        Self { action: Some(action), ..Self::unreported(name) }
    }

    /// One of which only failure is told.
    pub fn unreported(name: Name) -> Self {
        Self { name, number: None, action: None, bytes: 0, is_file: false, replaces: false, expected: None }
    }
}

/// Operations under way.
#[derive(Debug, Default)]
pub(super) struct PendingOps(BTreeMap<Ticket, Vec<PendingOp>>);

impl PendingOps {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn submitted(&mut self, ticket: Ticket, pending_ops: Vec<PendingOp>) {
        self.0.insert(ticket, pending_ops);
    }

    pub fn completed(
        &mut self,
        ticket: Ticket,
        results: Vec<Result<(), Fault>>,
    ) -> impl Iterator<Item = (PendingOp, Result<(), Fault>)> {
        self.0.remove(&ticket).unwrap_or_default().into_iter().zip(results)
    }
}
