//! Operations whose results are only reported.

use crate::drive::PeerState;
use crate::entry::FileNumber;
use crate::name::Name;
use crate::port::{Fault, FilePath, Operation, Stamp, Ticket};
use crate::wire::{ChangeKind, Itemized};
use std::collections::BTreeMap;

/// The object that one result of an operation belongs to.
#[derive(Debug)]
pub(super) struct PendingOp {
    /// The name.
    pub name: Name,
    /// The number, if the source numbered the entry.
    pub number: Option<FileNumber>,
    /// The change to report on success; `None` to report failure only.
    pub action: Option<ChangeKind>,
    /// Bytes of data that would be transferred, in a dry run.
    pub bytes: u64,
    /// Whether the result is a regular file, which belongs in a manifest.
    pub is_file: bool,
    /// Whether it would replace a file, in a dry run: hard links of the old file would then differ.
    pub replaces: bool,
    /// The size and mtime of the new object: after a failure to set an attribute, it may exist all
    /// the same. `None` if the old object had both.
    pub expected: Option<(u64, Option<Stamp>)>,
    /// The changed attributes, if they are reported.
    pub itemized: Option<Box<Itemized>>,
}

impl PendingOp {
    /// Creates an operation on an unnumbered entry whose success is reported as `action`.
    pub fn reported(name: Name, action: ChangeKind) -> Self {
        Self { action: Some(action), ..Self::unreported(name) }
    }

    /// Creates an operation of which only failure is reported.
    pub fn unreported(name: Name) -> Self {
        Self {
            name,
            number: None,
            action: None,
            bytes: 0,
            is_file: false,
            replaces: false,
            expected: None,
            itemized: None,
        }
    }
}

/// Operations in flight, by ticket.
///
/// Invariant: holds an operation from its submission to its outcome.
#[derive(Debug, Default)]
pub(super) struct PendingOps(BTreeMap<Ticket, Vec<PendingOp>>);

impl PendingOps {
    /// Returns whether no operation is in flight.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Records a submitted operation.
    pub fn submitted(&mut self, ticket: Ticket, pending_ops: Vec<PendingOp>) {
        self.0.insert(ticket, pending_ops);
    }

    /// Removes a file of the sink itself; only failure is reported.
    pub fn remove_unreported<B: AsRef<[u8]>>(&mut self, what: FilePath, peer: &mut PeerState<B>) {
        let name = Name::new(what.name.to_vec()).unwrap_or_else(|_| Name::root());
        let ticket = peer.submit(Operation::Remove(vec![what]));
        self.submitted(ticket, vec![PendingOp::unreported(name)]);
    }

    /// Makes the complete destination durable; only failure is reported.
    pub fn sync<B: AsRef<[u8]>>(&mut self, peer: &mut PeerState<B>) {
        let ticket = peer.submit(Operation::Sync { root: 0 });
        self.submitted(ticket, vec![PendingOp::unreported(Name::root())]);
    }

    /// Removes a completed operation; returns its objects with their results.
    pub fn completed(
        &mut self,
        ticket: Ticket,
        results: Vec<Result<(), Fault>>,
    ) -> impl Iterator<Item = (PendingOp, Result<(), Fault>)> {
        self.0.remove(&ticket).unwrap_or_default().into_iter().zip(results)
    }
}
