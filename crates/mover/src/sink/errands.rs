//! Operations of which nothing depends but what is told of them.

use crate::entry::FileNumber;
use crate::name::Name;
use crate::report::Action;
use numaio_machine::port::{Fault, Ticket};
use std::collections::BTreeMap;

/// What one of the results of an operation is about.
#[derive(Debug)]
pub(super) struct Errand {
    /// Its name.
    pub name: Name,
    /// Its number, if the source knows it by one.
    pub number: Option<FileNumber>,
    /// What was done; none if success is not worth a word.
    pub action: Option<Action>,
    /// Bytes of data that would be moved for it, in a rehearsal.
    pub bytes: u64,
}

/// Operations under way.
#[derive(Debug, Default)]
pub(super) struct Errands(BTreeMap<Ticket, Vec<Errand>>);

impl Errands {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn began(&mut self, ticket: Ticket, errands: Vec<Errand>) {
        self.0.insert(ticket, errands);
    }

    pub fn done(
        &mut self,
        ticket: Ticket,
        results: Vec<Result<(), Fault>>,
    ) -> impl Iterator<Item = (Errand, Result<(), Fault>)> {
        self.0.remove(&ticket).unwrap_or_default().into_iter().zip(results)
    }
}
