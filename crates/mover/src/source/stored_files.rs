//! Removal of files at the source once the sink has stored them.

use crate::drive::PeerState;
use crate::entry::FileNumber;
use crate::name::Name;
use crate::port::{Fault, FilePath, FileStat, Identity, Operation, SourceRemoval, Ticket};
use crate::report::reason;
use crate::wire::{ProblemSubject, StoredEntries, WireError};
use std::collections::{BTreeMap, HashMap};

/// An entry that is removed once the sink has stored it.
#[derive(Debug)]
struct SentEntry {
    path: FilePath,
    identity: Identity,
    name: Name,
}

/// Where the destination is below the roots of the source, if both are on one machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalDestination {
    /// The root of the port.
    pub root: u32,
    /// The name of a single file in it.
    pub alias: Option<Name>,
}

/// Entries to remove at the source, by number.
///
/// Invariants: directories are never among them. A removal is submitted once, only after the sink
/// has reported the entry as stored.
#[derive(Debug, Default)]
pub(super) struct StoredFiles {
    enabled: bool,
    destination: Option<LocalDestination>,
    sent: HashMap<FileNumber, SentEntry>,
    in_flight: BTreeMap<Ticket, Vec<Name>>,
    /// Whether the sink has reported all entries.
    has_all: bool,
}

impl StoredFiles {
    /// Creates an empty set; it stays empty unless `enabled`.
    pub fn new(enabled: bool, destination: Option<LocalDestination>) -> Self {
        Self { enabled, destination, ..Self::default() }
    }

    /// Adds an announced entry that is not a directory.
    pub fn add(&mut self, number: FileNumber, path: &FilePath, name: &Name, metadata: &FileStat) {
        if self.enabled {
            let (path, identity, name) = (path.clone(), metadata.identity(), name.clone());
            self.sent.insert(number, SentEntry { path, identity, name });
        }
    }

    /// Drops an entry that cannot be announced.
    pub fn forget(&mut self, number: FileNumber) {
        self.sent.remove(&number);
    }

    /// Removes entries that the sink has stored.
    ///
    /// # Errors
    /// [`WireError::InvalidValue`] unless the option is in use and entries may follow.
    pub fn stored<B: AsRef<[u8]>>(
        &mut self,
        stored: &StoredEntries,
        peer: &mut PeerState<B>,
    ) -> Result<(), WireError> {
        if !self.enabled || self.has_all {
            return Err(WireError::InvalidValue("unexpected stored entries"));
        }
        self.has_all = stored.is_last();
        let (mut removals, mut names) = (Vec::new(), Vec::new());
        for entry in stored.entries().iter().filter_map(|number| self.sent.remove(number)) {
            let destination = self.destination.as_ref().map(|destination| {
                let name = destination.alias.as_ref().unwrap_or(&entry.name);
                FilePath::new(destination.root, name.as_bytes())
            });
            removals.push(SourceRemoval { at: entry.path, identity: entry.identity, destination });
            names.push(entry.name);
        }
        if !removals.is_empty() {
            self.in_flight.insert(peer.submit(Operation::RemoveSources(removals)), names);
        }
        Ok(())
    }

    /// Handles removed entries.
    pub fn completed<B: AsRef<[u8]>>(
        &mut self,
        ticket: Ticket,
        results: Vec<Result<(), Fault>>,
        peer: &mut PeerState<B>,
    ) {
        for (name, result) in self.in_flight.remove(&ticket).unwrap_or_default().into_iter().zip(results) {
            if let Err(fault) = result {
                let text = format!("not removed at the source: {}", fault.text);
                peer.report_problem(ProblemSubject::Name(name), reason(fault.why), &text);
            }
        }
    }

    /// Returns whether entries are removed before the end.
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Returns whether nothing is left to remove.
    pub fn is_finished(&self) -> bool {
        !self.enabled || self.has_all && self.in_flight.is_empty()
    }
}
