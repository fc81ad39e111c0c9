//! Received batches of entries, until they are decided.

use super::case_folding::DuplicateNames;
use super::decide::check_name;
use super::new_directories::NewDirectories;
use super::options::SinkOptions;
use super::requested::RequestedEntries;
use super::snapshots::SnapshotFile;
use crate::accounts::{Account, Accounts};
use crate::acl;
use crate::drive::PeerState;
use crate::entry::{Entry, FileNumber, Inode, Kind, Object};
use crate::name::Name;
use crate::port::{Details, Fault, FileInfo, FilePath, Operation, Ticket};
use crate::wire::{Batch, WireError};
use std::collections::VecDeque;

/// Maximum entries that are undecided or incomplete; a source stays below.
pub(super) const MAX_OPEN_ENTRIES: usize = 4 * crate::source::WINDOW as usize;

/// The object with a name, if any.
pub(super) type LookupResult = Result<Option<FileInfo>, Fault>;

/// Entries of a received batch, in order.
#[derive(Debug)]
pub(super) struct IncomingBatch {
    first: FileNumber,
    entries: Vec<Entry>,
    /// Marks names that are case-insensitive duplicates of earlier ones at the destination.
    duplicates: Vec<bool>,
    /// Marks new objects in newly created directories, which need no lookup.
    fresh: Vec<bool>,
    /// The existing objects with these names; `None` until the lookup is complete.
    found: Option<Vec<LookupResult>>,
    /// The files of earlier snapshots with the names of new regular files.
    snapshots: VecDeque<Vec<SnapshotFile>>,
    /// The lookup operation. It waits for the journal, whose holder may still be completing files.
    lookup: Option<Ticket>,
}

/// An entry to decide.
pub(super) struct UndecidedEntry {
    /// Its number.
    pub number: FileNumber,
    /// The entry, as received.
    pub entry: Entry,
    /// Whether an earlier entry has an equivalent name at the destination.
    pub is_duplicate: bool,
    /// The existing object with its name; not looked up for hard links.
    pub found: LookupResult,
    /// The files of earlier snapshots with its name, if it is a regular file.
    pub snapshots: Vec<SnapshotFile>,
}

/// A new object of a batch whose lookup is complete.
pub(super) struct NewEntry<'a> {
    /// Its number.
    pub number: FileNumber,
    /// The name.
    pub name: &'a Name,
    /// The object.
    pub inode: &'a Inode,
    /// Whether an earlier entry has an equivalent name at the destination.
    pub is_duplicate: bool,
    /// The existing object with this name.
    pub found: &'a mut LookupResult,
}

/// The received batches that are not decided yet, in order.
///
/// Invariants: the batches are consecutive and end at `next`, so an entry below the first batch is
/// decided. Every entry was requested. Each batch is looked up once.
#[derive(Debug)]
pub(super) struct Batches {
    /// The number that the next received entry must have.
    next: u64,
    waiting: VecDeque<IncomingBatch>,
    /// The entries that the user requested; `None` accepts all.
    requested: Option<RequestedEntries>,
    accounts: Accounts,
    duplicates: DuplicateNames,
    new_directories: NewDirectories,
    /// Whether objects that block entries of the first batch are being removed.
    removing_blockers: bool,
}

impl Batches {
    /// Creates the state before the first batch. Takes the requested entries, which may be many.
    pub fn new(options: &mut SinkOptions) -> Self {
        Self {
            next: 0,
            waiting: VecDeque::new(),
            requested: options.requested.take(),
            accounts: Accounts::new(options.accounts),
            duplicates: DuplicateNames::new(options.names),
            new_directories: NewDirectories::default(),
            removing_blockers: false,
        }
    }

    /// Returns whether all received entries are decided.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns whether an entry with this number was received.
    pub fn is_known(&self, number: FileNumber) -> bool {
        number.get() < self.next
    }

    /// Returns whether an entry is known and decided.
    pub fn is_decided(&self, number: FileNumber) -> bool {
        number.get() < self.waiting.front().map_or(self.next, |batch| batch.first.get())
    }

    /// Adds a received batch, while `incoming` files are incomplete.
    pub fn receive<B>(
        &mut self,
        batch: Batch,
        incoming: usize,
        options: &SinkOptions,
        peer: &mut PeerState<B>,
    ) -> Result<(), WireError> {
        let (first, mut entries) = batch.into_parts();
        let waiting: usize = self.waiting.iter().map(|batch| batch.entries.len()).sum();
        if first.get() != self.next {
            return Err(WireError::InvalidValue("the number of a batch's first entry"));
        }
        if waiting + incoming > MAX_OPEN_ENTRIES {
            return Err(WireError::InvalidValue("too many unanswered entries"));
        }
        self.check_requested(&entries, options)?;
        self.next += entries.len() as u64;
        peer.totals.entries += entries.len() as u64;
        entries.iter().for_each(|entry| peer.entry_counts.add(&entry.object));
        self.apply_alias(&mut entries, options)?;
        self.map_accounts(&mut entries, options)?;
        let duplicates = entries.iter().map(|entry| self.duplicates.add(&entry.name)).collect();
        let new = entries.iter().filter(|entry| matches!(entry.object, Object::New(_)));
        let fresh = new.map(|entry| self.new_directories.contains_parent_of(&entry.name)).collect();
        self.waiting.push_back(IncomingBatch {
            first,
            entries,
            duplicates,
            fresh,
            found: None,
            snapshots: VecDeque::new(),
            lookup: None,
        });
        Ok(())
    }

    /// Rejects entries that were not requested, by their names at the source.
    fn check_requested(&mut self, entries: &[Entry], options: &SinkOptions) -> Result<(), WireError> {
        let Some(requested) = &mut self.requested else { return Ok(()) };
        match entries.iter().find(|entry| !requested.accepts(entry, &options.filter)) {
            Some(entry) => Err(WireError::NotRequested(entry.name.clone())),
            None => Ok(()),
        }
    }

    /// Gives the only entry of the source its name at the destination, if the user chose one.
    fn apply_alias(&self, entries: &mut [Entry], options: &SinkOptions) -> Result<(), WireError> {
        let Some(alias) = &options.alias else { return Ok(()) };
        // The root is the parent of the named destination: the source may touch nothing else in it.
        if self.next > 1 || !entries.iter().all(is_one_file) {
            return Err(WireError::InvalidValue("more entries than the announced single file"));
        }
        entries.iter_mut().for_each(|entry| entry.name = alias.clone());
        Ok(())
    }

    /// Replaces the users and groups of the source by those of this machine.
    fn map_accounts(&mut self, entries: &mut [Entry], options: &SinkOptions) -> Result<(), WireError> {
        for entry in entries {
            if let Object::New(inode) = &mut entry.object {
                self.accounts.map_owner(Account::User, &mut inode.user);
                self.accounts.map_owner(Account::Group, &mut inode.group);
                options.owner.apply(inode);
                match options.acls {
                    true => acl::decode_names(&mut inode.xattrs, &mut self.accounts)?,
                    false => acl::reject_wire_only(&inode.xattrs)?,
                }
            }
        }
        Ok(())
    }

    /// Records a directory that is about to be created: its contents need no lookup.
    pub fn add_new_directory(&mut self, name: &Name) {
        self.new_directories.push(name);
    }

    /// Looks up the existing objects of batches without a lookup.
    pub fn submit_lookups<B: AsRef<[u8]>>(&mut self, options: &SinkOptions, peer: &mut PeerState<B>) {
        for batch in self.waiting.iter_mut().filter(|batch| batch.lookup.is_none()) {
            batch.lookup = Some(peer.submit(batch.lookup_operation(options)));
        }
    }

    /// Handles a completed lookup; returns its batch, or `None` if the ticket is not one of these.
    pub fn looked_up(
        &mut self,
        ticket: Ticket,
        found: Vec<LookupResult>,
        options: &SinkOptions,
    ) -> Option<&mut IncomingBatch> {
        let batch = self.waiting.iter_mut().find(|batch| batch.lookup == Some(ticket))?;
        let mut found = found.into_iter();
        let fresh = std::mem::take(&mut batch.fresh).into_iter();
        let all = fresh.map(|fresh| if fresh { Ok(None) } else { found.next().unwrap_or(Ok(None)) });
        batch.found = Some(all.collect());
        // The lookups in snapshots follow.
        let files = batch.new_files().filter(|_| options.unchanged_path_count() > 0);
        let in_snapshots = |name| {
            let found = options.paths_of_unchanged(name).zip(found.by_ref());
            found.filter_map(|(path, found)| Some((path, found.ok()??))).collect()
        };
        batch.snapshots = files.map(in_snapshots).collect();
        Some(batch)
    }

    /// Returns the first batch if its lookup is complete.
    pub fn front(&self) -> Option<&IncomingBatch> {
        self.waiting.front().filter(|batch| batch.found.is_some())
    }

    /// Takes the directories that block other objects of the first batch, to remove them. Only if
    /// extra entries are deleted and no filter may protect their contents.
    pub fn take_blockers(&mut self, options: &SinkOptions) -> Vec<Name> {
        let Some(batch) = self.waiting.front_mut().filter(|_| options.may_remove_blockers()) else {
            return Vec::new();
        };
        let mut names = Vec::new();
        for NewEntry { name, inode, is_duplicate, found, .. } in batch.new_entries() {
            let is_removable = |found: &FileInfo| {
                !found.is_link_destination && options.protected.is_removable_directory(&found.metadata)
            };
            if options.would_create(&inode.kind)
                && matches!(found, Ok(Some(found)) if is_removable(found))
                && check_name(name, is_duplicate, options.names).is_ok()
            {
                *found = Ok(None);
                names.push(name.clone());
            }
        }
        self.removing_blockers |= !names.is_empty();
        names
    }

    /// Takes the first batch to decide it, unless blocking directories are still being removed:
    /// `is_idle` if no removal is in flight.
    pub fn pop(&mut self, is_idle: bool) -> Option<IncomingBatch> {
        if self.removing_blockers && !is_idle {
            return None;
        }
        self.removing_blockers = false;
        self.waiting.pop_front()
    }
}

impl IncomingBatch {
    /// Returns the number of the first entry, and the number of entries.
    pub fn range(&self) -> (FileNumber, usize) {
        (self.first, self.entries.len())
    }

    /// Returns the operation that looks up the existing objects.
    fn lookup_operation<B>(&self, options: &SinkOptions) -> Operation<B> {
        let details = Details { xattrs: options.preserve.xattrs, ..Details::default() };
        // A peer on another machine must not learn where links lead here.
        let follows = !options.protected.sources.is_empty();
        let new = self.entries.iter().filter_map(|entry| match &entry.object {
            Object::New(inode) => Some((&entry.name, &inode.kind)),
            Object::HardLink(_) => None,
        });
        let (mut at, mut links) = (Vec::new(), Vec::new());
        for ((name, kind), _) in new.zip(&self.fresh).filter(|(_, fresh)| !**fresh) {
            match kind {
                Kind::Symlink(target) if follows => links.push((at.len(), target.as_bytes().into())),
                _ => {}
            }
            at.push(FilePath::new(0, name.as_bytes()));
        }
        if options.unchanged_path_count() > 0 {
            at.extend(self.new_files().flat_map(|name| options.paths_of_unchanged(name)));
        }
        Operation::Stat { at, details, links }
    }

    /// Iterates over the names of new regular files.
    fn new_files(&self) -> impl Iterator<Item = &Name> {
        self.entries.iter().filter(|entry| is_new_file(entry)).map(|entry| &entry.name)
    }

    /// Iterates over the new objects, with the existing objects of their names.
    pub fn new_entries(&mut self) -> impl Iterator<Item = NewEntry<'_>> {
        let entries = numbers(self.first).zip(self.entries.iter().zip(&self.duplicates));
        let new = entries.filter_map(|(number, (Entry { name, object }, &is_duplicate))| match object {
            Object::New(inode) => Some((number, name, inode, is_duplicate)),
            Object::HardLink(_) => None,
        });
        new.zip(self.found.iter_mut().flatten()).map(|((number, name, inode, is_duplicate), found)| {
            NewEntry { number, name, inode, is_duplicate, found }
        })
    }

    /// Iterates over the entries in order, with the existing objects of their names.
    pub fn into_entries(self) -> impl Iterator<Item = UndecidedEntry> {
        let mut found = self.found.unwrap_or_default().into_iter();
        let mut snapshots = self.snapshots;
        let entries = self.entries.into_iter().zip(self.duplicates);
        numbers(self.first).zip(entries).map(move |(number, (entry, is_duplicate))| {
            let is_new = matches!(entry.object, Object::New(_));
            let found = if is_new { found.next().unwrap_or(Ok(None)) } else { Ok(None) };
            let in_snapshots = if is_new_file(&entry) { snapshots.pop_front() } else { None };
            let snapshots = in_snapshots.unwrap_or_default();
            UndecidedEntry { number, entry, is_duplicate, found, snapshots }
        })
    }
}

/// Iterates over the numbers from `first`.
fn numbers(first: FileNumber) -> impl Iterator<Item = FileNumber> {
    (first.get()..).map_while(|number| FileNumber::new(number).ok())
}

/// Returns whether an entry is a regular file without an earlier name.
fn is_new_file(entry: &Entry) -> bool {
    matches!(&entry.object, Object::New(Inode { kind: Kind::File(_), .. }))
}

/// Returns whether an entry can be the only one of a source that is not a directory.
fn is_one_file(entry: &Entry) -> bool {
    let is_file = matches!(&entry.object, Object::New(inode) if inode.kind != Kind::Directory);
    is_file && entry.name.components().count() == 1
}
