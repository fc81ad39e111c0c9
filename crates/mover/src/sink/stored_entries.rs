//! Entries that are stored completely, which the source may then remove.

use super::batches::LookupResult;
use super::file_results::FileResults;
use super::links::is_same_file;
use super::options::{SinkOptions, SyncMode};
use crate::drive::PeerState;
use crate::entry::FileNumber;
use crate::name::Name;
use crate::wire::{Frame, StoredEntries, WireError, MAX_STORED};
use std::collections::{BTreeSet, HashMap};

/// Entries that are sent together.
const BATCH: usize = 256;

/// The progress of removals at the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Stage {
    /// Entries are still being stored.
    #[default]
    Storing,
    /// All are sent; the source removes them.
    Removing,
    /// The source has removed them.
    Removed,
}

/// Stored entries that the source does not know yet.
///
/// Invariant: an entry is added only once its final name has its complete content, verified by hash
/// or taken for unchanged, and with [`SyncMode::End`] it is sent only after everything is durable.
#[derive(Debug)]
pub(super) struct StoredLog {
    enabled: bool,
    /// Whether anything is stored: not without a destination.
    stores: bool,
    /// Whether entries are sent only at the end.
    deferred: bool,
    unsent: BTreeSet<FileNumber>,
    /// The numbers of hard links, which are created by name.
    links: HashMap<Name, FileNumber>,
    stage: Stage,
    /// Number of problems before the final sync.
    problems_before_sync: u64,
}

impl StoredLog {
    /// Creates an empty log.
    pub fn new(options: &SinkOptions) -> Self {
        Self {
            enabled: options.confirm_stored,
            stores: !options.dry_run,
            deferred: options.sync == SyncMode::End,
            unsent: BTreeSet::new(),
            links: HashMap::new(),
            stage: Stage::Storing,
            problems_before_sync: 0,
        }
    }

    /// Returns whether the source removes stored entries before its end.
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Adds a stored entry.
    pub fn add(&mut self, number: FileNumber) {
        if self.enabled && self.stores {
            self.unsent.insert(number);
        }
    }

    /// Remembers the number of a hard link.
    pub fn expect_link(&mut self, name: &Name, number: FileNumber) {
        if self.enabled {
            self.links.insert(name.clone(), number);
        }
    }

    /// Adds a hard link that was created.
    pub fn add_link(&mut self, name: &Name) {
        if let Some(number) = self.links.remove(name) {
            self.add(number);
        }
    }

    /// Adds a hard link from `name` to `to` that exists already, unless the file has other content.
    pub fn add_existing_link(
        &mut self,
        (name, to): (&Name, &Name),
        (at, first): (&LookupResult, &LookupResult),
        results: &FileResults,
    ) {
        if is_same_file(at, first) && results.has_expected_content(to, first) && !results.is_left_out(to) {
            self.add_link(name);
        }
    }

    /// Sends entries if enough are stored.
    pub fn flush<B: AsRef<[u8]>>(&mut self, peer: &mut PeerState<B>) -> Result<(), WireError> {
        while self.unsent.len() >= BATCH && !self.deferred {
            self.send(peer, false)?;
        }
        Ok(())
    }

    fn send<B: AsRef<[u8]>>(&mut self, peer: &mut PeerState<B>, is_last: bool) -> Result<(), WireError> {
        let rest = self.unsent.iter().nth(MAX_STORED).copied();
        let rest = rest.map(|first| self.unsent.split_off(&first)).unwrap_or_default();
        let entries = std::mem::replace(&mut self.unsent, rest).into_iter().collect();
        let is_last = is_last && self.unsent.is_empty();
        peer.send(&Frame::StoredEntries(StoredEntries::new(entries, is_last)?));
        Ok(())
    }

    /// Notes the number of problems before everything is made durable.
    pub fn begin_sync(&mut self, problems: u64) {
        self.problems_before_sync = problems;
    }

    /// Sends the last entries, after `problems` so far. Returns whether the source has removed all
    /// of them.
    pub fn finish<B: AsRef<[u8]>>(&mut self, peer: &mut PeerState<B>) -> Result<bool, WireError> {
        if !self.enabled || self.stage == Stage::Removed {
            return Ok(true);
        }
        if self.stage == Stage::Storing {
            // What could not be made durable stays at the source.
            if self.deferred && peer.totals.failed > self.problems_before_sync {
                self.unsent.clear();
            }
            while self.unsent.len() > MAX_STORED {
                self.send(peer, false)?;
            }
            self.send(peer, true)?;
            self.stage = Stage::Removing;
        }
        Ok(false)
    }

    /// Returns whether the source is removing the last entries.
    pub fn is_removing(&self) -> bool {
        self.stage == Stage::Removing
    }

    /// Handles the end of the source, which has removed all entries.
    ///
    /// # Errors
    /// [`WireError::InvalidValue`] if it does not know all of them yet.
    pub fn sources_removed(&mut self) -> Result<(), WireError> {
        if !self.is_removing() {
            return Err(WireError::InvalidValue("an end before all removals"));
        }
        self.stage = Stage::Removed;
        Ok(())
    }
}
