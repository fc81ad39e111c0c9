//! The scan of the source: directories are listed depth first, several at a time and large ones in
//! parts, so that the complete list of files is never in memory.

use super::listed_directory::ListedDirectory;
use super::merged_directories::{MergedDirectories, MergedPart};
use super::options::{Origin, SourceOptions};
use super::storage::SourceStorage;
use crate::drive::PeerState;
use crate::name::Name;
use crate::name_set::NameSet;
use crate::own_files::is_own_file;
use crate::port::{
    Details, DirectoryIdentity, Fault, FaultKind, FileInfo, FilePath, Listing, Operation, Ticket,
};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// Maximum listings of a device in flight.
const MAX_LISTINGS: usize = 4;
/// Maximum names per listing.
const NAMES_PER_LISTING: usize = 512;

/// The fault of an origin without entries.
const EMPTY_ORIGIN: &str = "the source directory is empty, and its file system may not be mounted; \
                            --allow-empty-source deletes what the destination has";

/// An entry that the scan found, or why it could not be examined.
pub(super) struct ScannedEntry {
    /// The path at the source.
    pub path: FilePath,
    /// The name at the sink.
    pub name: Name,
    /// Whether the contents of a directory are included.
    pub enter: bool,
    /// The directory that was listed; `None` for an origin.
    pub listed_in: Option<Arc<ListedDirectory>>,
    /// The object.
    pub found: Result<FileInfo, Fault>,
}

#[derive(Debug)]
enum ScanStep {
    /// Look up the entries at which origins start.
    Start(Vec<Origin>),
    /// List a directory.
    List(FilePath, Name, Arc<ListedDirectory>),
    More(u64, FilePath, Name, Arc<ListedDirectory>),
}

/// How origins with the same names are scanned: the first of them with a name wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OriginOrder {
    /// No name occurs twice.
    Disjoint,
    /// Each origin is completed before the next one starts.
    Sequential,
    /// Origins on several devices are scanned side by side, but a directory that several of them
    /// have is listed in their order.
    Merged,
}

/// The scan of all origins, depth first on each storage device.
///
/// Invariants: every object to list is in `starts`, in a stack, in `merges` or in flight until its
/// entries are returned, so that each is returned once; at most [`MAX_LISTINGS`] operations of each
/// device are in flight.
#[derive(Debug)]
pub(super) struct Scan {
    details: Details,
    recursive: bool,
    /// Whether links are followed, so that directories may contain themselves.
    follow_links: bool,
    storage: SourceStorage,
    /// Origins to look up; the next ones are last.
    starts: Vec<Vec<Origin>>,
    /// Pending steps of each device; the next one is last.
    stacks: Vec<Vec<ScanStep>>,
    /// Steps in flight, with their device.
    in_flight: BTreeMap<Ticket, (usize, ScanStep)>,
    merges: MergedDirectories,
    /// The origins, if an empty one is a fault.
    must_have_entries: Vec<FilePath>,
    /// The names found so far; only kept if origins may overlap.
    seen_names: Option<NameSet<14>>,
    /// The parent directories of origins found so far.
    visited_parents: NameSet<14>,
    order: OriginOrder,
}

/// The earlier finding of the scan under a name.
pub(super) enum PreviousName {
    /// Nothing.
    New,
    /// A directory.
    Directory,
    /// Another object.
    Other,
}

impl Scan {
    /// Creates a scan of the origins.
    pub fn new(options: &SourceOptions) -> Self {
        let origins = &options.origins;
        let seen_names = may_overlap(origins).then(NameSet::default);
        let order = OriginOrder::of(origins, &options.storage);
        let origins_per_step = if order == OriginOrder::Sequential { 1 } else { NAMES_PER_LISTING };
        Self {
            details: Details {
                xattrs: options.xattrs,
                holes: true,
                handles: options.follow_links || options.skip_directory.is_some(),
                ..Details::default()
            },
            recursive: options.recursive,
            must_have_entries: match options.rejects_empty {
                true => origins.iter().map(Origin::path).collect(),
                false => Vec::new(),
            },
            follow_links: options.follow_links,
            seen_names,
            visited_parents: NameSet::default(),
            order,
            starts: origins.chunks(origins_per_step).rev().map(<[Origin]>::to_vec).collect(),
            stacks: options.storage.devices().iter().map(|_| Vec::new()).collect(),
            in_flight: BTreeMap::new(),
            merges: MergedDirectories::default(),
            storage: options.storage.clone(),
        }
    }

    /// Returns whether the scan is complete.
    pub fn is_finished(&self) -> bool {
        self.starts.is_empty() && self.has_no_listings() && self.merges.is_empty()
    }

    /// Returns whether no listing is pending or in flight.
    fn has_no_listings(&self) -> bool {
        self.stacks.iter().all(Vec::is_empty) && self.in_flight.is_empty()
    }

    /// Returns the number of names that listings in flight and one more may return.
    pub fn expected(&self) -> usize {
        (self.in_flight.len() + 1) * NAMES_PER_LISTING
    }

    /// Returns that number for the listings of a device.
    pub fn expected_of(&self, device: usize) -> usize {
        (self.in_flight_on(device) + 1) * NAMES_PER_LISTING
    }

    fn in_flight_on(&self, device: usize) -> usize {
        self.in_flight.values().filter(|(on, _)| *on == device).count()
    }

    /// Submits the next operation of a device; returns `false` if none can be submitted now.
    pub fn submit_next<B: AsRef<[u8]>>(&mut self, device: usize, peer: &mut PeerState<B>) -> bool {
        self.enter_merged();
        if self.in_flight_on(device) >= MAX_LISTINGS {
            return false;
        }
        let Some(step) = self.next_step(device) else { return false };
        let (most, details) = (NAMES_PER_LISTING, self.details);
        let operation = match &step {
            ScanStep::Start(origins) => {
                let at = origins.iter().map(Origin::path).collect();
                Operation::Stat { at, details, links: Vec::new() }
            }
            ScanStep::List(path, ..) => Operation::List { directory: path.clone(), most, details },
            ScanStep::More(listing, ..) => Operation::ListMore { listing: *listing, most, details },
        };
        self.in_flight.insert(peer.submit(operation), (device, step));
        true
    }

    /// Takes the next step of a device. Origins are looked up when it has no directory to list, so
    /// that directories do not accumulate.
    fn next_step(&mut self, device: usize) -> Option<ScanStep> {
        if let Some(step) = self.stacks.get_mut(device).and_then(Vec::pop) {
            return Some(step);
        }
        if self.must_wait() {
            return None;
        }
        let origins = self.starts.pop()?;
        Some(ScanStep::Start(self.with_parents_of(origins)))
    }

    /// Schedules the contents of directories that all their origins have listed.
    fn enter_merged(&mut self) {
        let may_close_origins =
            self.order == OriginOrder::Merged && self.starts.is_empty() && !self.is_starting();
        for part in self.merges.take_listable(may_close_origins) {
            self.list(part);
        }
    }

    fn list(&mut self, MergedPart { path, name, directory }: MergedPart) {
        let device = self.storage.device_of(path.root);
        if let Some(stack) = self.stacks.get_mut(device) {
            stack.push(ScanStep::List(path, name, Arc::new(directory)));
        }
    }

    /// Returns the first of some origins, preceded by their parent directories not found yet, and
    /// defers the others. Deep names may have far more parents than there are names.
    fn with_parents_of(&mut self, origins: Vec<Origin>) -> Vec<Origin> {
        let mut all = Vec::with_capacity(origins.len());
        let mut origins = origins.into_iter();
        while let Some(origin) = (all.len() < NAMES_PER_LISTING).then(|| origins.next()).flatten() {
            // The parents of a known parent are known.
            let above = std::iter::successors(origin.only.as_ref().and_then(Name::parent), Name::parent);
            let above = above
                .take_while(|name| origin.with_parents && !name.is_root() && self.visited_parents.add(name));
            let above =
                above.map(|name| Origin { only: Some(name), enter: false, with_parents: false, ..origin });
            let above: Vec<Origin> = above.collect();
            all.extend(above.into_iter().rev());
            all.push(origin);
        }
        let others: Vec<Origin> = origins.collect();
        if !others.is_empty() {
            self.starts.push(others);
        }
        all
    }

    /// Returns whether the next origins must wait, because lookups or listings may return their
    /// parents or the same names.
    fn must_wait(&self) -> bool {
        self.is_starting() || self.order == OriginOrder::Sequential && !self.has_no_listings()
    }

    /// Returns whether a lookup of origins is in flight.
    fn is_starting(&self) -> bool {
        self.in_flight.values().any(|(_, step)| matches!(step, ScanStep::Start(_)))
    }

    /// Handles a lookup; returns the entries, none if the ticket is not part of the scan.
    pub fn looked_up(
        &mut self,
        ticket: Ticket,
        found: Vec<Result<Option<FileInfo>, Fault>>,
    ) -> Vec<ScannedEntry> {
        let Some((_, ScanStep::Start(origins))) = self.in_flight.remove(&ticket) else { return Vec::new() };
        let scanned = |(origin, found): (Origin, Result<Option<FileInfo>, Fault>)| {
            let path = origin.path();
            let absent = || Fault::new(FaultKind::NotFound, "no such file or directory");
            let found = found.map_err(without_proof).and_then(|found| found.ok_or_else(absent));
            let (name, enter) = (origin.only.unwrap_or_else(Name::root), origin.enter);
            ScannedEntry { path, name, enter, listed_in: None, found }
        };
        origins.into_iter().zip(found).map(scanned).collect()
    }

    /// Handles a listing; returns its entries, or the directory with the fault if it failed.
    pub fn listed(&mut self, ticket: Ticket, listing: Result<Listing, Fault>) -> Vec<ScannedEntry> {
        let (path, name, directory, is_first) = match self.in_flight.remove(&ticket) {
            Some((_, ScanStep::List(path, name, directory))) => (path, name, directory, true),
            Some((_, ScanStep::More(_, path, name, directory))) => (path, name, directory, false),
            _ => return Vec::new(),
        };
        let listed_in = Some(directory.clone());
        if !listing.as_ref().is_ok_and(|listing| listing.more.is_some()) {
            self.merges.listed(directory.merged);
        }
        let is_empty = |listing: &Listing| {
            is_first && listing.more.is_none() && listing.found.iter().all(|(name, _)| is_own_file(name))
        };
        let listing = match listing {
            Ok(listing) if is_empty(&listing) && self.must_have_entries.contains(&path) => {
                let fault = Fault::new(FaultKind::Other, EMPTY_ORIGIN);
                return vec![ScannedEntry { path, name, enter: false, listed_in, found: Err(fault) }];
            }
            Ok(listing) => listing,
            Err(fault) => {
                let found = Err(match fault.why {
                    FaultKind::NotFound => as_change(fault),
                    _ => without_proof(fault),
                });
                return vec![ScannedEntry { path, name, enter: false, listed_in, found }];
            }
        };
        if let Some(more) = listing.more {
            let device = self.storage.device_of(path.root);
            let more = ScanStep::More(more, path.clone(), name.clone(), directory);
            if let Some(stack) = self.stacks.get_mut(device) {
                stack.push(more);
            }
        }
        let entries = listing.found.into_iter().filter(|(component, _)| !is_own_file(component));
        entries
            .map(|(component, found)| {
                let found = found.map_err(without_proof);
                let below = if path.name.is_empty() {
                    component.clone()
                } else {
                    [&path.name, &b"/"[..], &component].concat().into()
                };
                let path = FilePath::new(path.root, below);
                let listed_in = listed_in.clone();
                match name.join(&component) {
                    Ok(name) => ScannedEntry { path, name, enter: true, listed_in, found },
                    Err(error) => {
                        let why = FaultKind::NameTooLong;
                        let found = Err(Fault::new(why, error));
                        ScannedEntry { path, name: name.clone(), enter: false, listed_in, found }
                    }
                }
            })
            .collect()
    }

    /// Schedules the contents of a directory, which `listed_in` contains.
    pub fn enter(
        &mut self,
        path: FilePath,
        name: Name,
        identity: DirectoryIdentity,
        listed_in: Option<Arc<ListedDirectory>>,
    ) {
        if !self.recursive {
            return;
        }
        let merged_in = listed_in.as_ref().map(|above| above.merged);
        let parent = listed_in.filter(|_| self.follow_links);
        let directory = ListedDirectory { identity, merged: None, parent };
        let part = MergedPart { path, name, directory };
        match merged_in {
            None if self.order == OriginOrder::Merged => self.merges.add_origin(part),
            Some(Some(above)) => self.merges.add(above, part),
            None | Some(None) => self.list(part),
        }
    }

    /// Records a name; returns what was found under it before. The first of several origins wins.
    pub fn record_name(&mut self, name: &Name, is_directory: bool) -> PreviousName {
        let Some(seen_names) = &mut self.seen_names else { return PreviousName::New };
        // No name ends with a slash, so this key is distinct.
        let as_directory = || [name.as_bytes(), b"/"].concat();
        if seen_names.add(name) {
            if is_directory {
                seen_names.add(as_directory());
            }
            return PreviousName::New;
        }
        if seen_names.has(as_directory()) {
            PreviousName::Directory
        } else {
            PreviousName::Other
        }
    }
}

/// Returns a fault that leaves open whether the object exists. Of some kinds, a sink would conclude
/// that the source has nothing there.
fn without_proof(fault: Fault) -> Fault {
    match fault.why {
        FaultKind::Changed | FaultKind::Attribute | FaultKind::NotKept => {
            Fault { why: FaultKind::Other, ..fault }
        }
        _ => fault,
    }
}

/// Returns the fault of an object that was found before: if it is missing now, it has changed.
pub(super) fn as_change(fault: Fault) -> Fault {
    match fault.why {
        FaultKind::NotFound => Fault { why: FaultKind::Changed, ..fault },
        _ => fault,
    }
}

impl OriginOrder {
    fn of(origins: &[Origin], storage: &SourceStorage) -> Self {
        // Origins with the same root have the same objects.
        let is_one_root = origins.windows(2).all(|two| two[0].root == two[1].root);
        if is_one_root || !may_overlap(origins) {
            return Self::Disjoint;
        }
        let is_one_device =
            origins.windows(2).all(|two| storage.device_of(two[0].root) == storage.device_of(two[1].root));
        // A name inside another one is found by a listing, after its own origin was looked up.
        match is_one_device || is_one_inside_another(origins) {
            true => Self::Sequential,
            false => Self::Merged,
        }
    }
}

/// Returns whether two origins are equal or one is inside another.
fn may_overlap(origins: &[Origin]) -> bool {
    let names: HashSet<Option<&Name>> = origins.iter().map(|origin| origin.only.as_ref()).collect();
    names.len() < origins.len() || is_one_inside_another(origins)
}

/// Returns whether an origin is inside another one.
fn is_one_inside_another(origins: &[Origin]) -> bool {
    let names: HashSet<Option<&Name>> = origins.iter().map(|origin| origin.only.as_ref()).collect();
    let is_below = |name: &Name| {
        let mut above = std::iter::successors(name.parent(), Name::parent);
        names.contains(&None) || above.any(|above| names.contains(&Some(&above)))
    };
    names.iter().any(|name| name.is_some_and(is_below))
}

#[cfg(test)]
mod tests {
    use super::super::read_order::ReadOrder;
    use super::super::storage::SourceDevice;
    use super::*;

    #[test]
    fn remembers_names_only_if_origins_overlap() {
        let twice = |names: &[&str]| {
            let only = |name: &&str| (!name.is_empty()).then(|| Name::new(name.as_bytes()).expect("a name"));
            let origin = |name| Origin { root: 0, only: only(name), enter: true, with_parents: false };
            may_overlap(&names.iter().map(origin).collect::<Vec<_>>())
        };
        for names in [&[""][..], &["a"], &["a", "b"], &["a/b", "a/c"], &["a", "ab"]] {
            assert!(!twice(names), "{names:?}");
        }
        for names in [&["", ""][..], &["", "a"], &["a", "a"], &["a/b/c", "x", "a"], &["b", "a", "a/b"]] {
            assert!(twice(names), "{names:?}");
        }
    }

    #[test]
    fn parents_precede_names_once_and_in_bounded_batches() {
        let origin = |name: &str| {
            let name = Name::new(name.as_bytes()).expect("a name");
            Origin { root: 0, only: Some(name), enter: true, with_parents: true }
        };
        let mut scan = Scan {
            details: Details::default(),
            recursive: false,
            follow_links: false,
            storage: SourceStorage::single(SourceDevice { reads: 1, order: ReadOrder::Inode }),
            starts: Vec::new(),
            stacks: vec![Vec::new()],
            merges: MergedDirectories::default(),
            in_flight: BTreeMap::new(),
            must_have_entries: Vec::new(),
            seen_names: None,
            visited_parents: NameSet::default(),
            order: OriginOrder::Disjoint,
        };
        let listed = ["a/b/c", "a/d", "e", "a/b"].map(origin).to_vec();
        let shown = |origin: Origin| (origin.only.expect("a name").to_string(), origin.enter);
        let all: Vec<_> = scan.with_parents_of(listed).into_iter().map(shown).collect();
        let expected =
            [("a", false), ("a/b", false), ("a/b/c", true), ("a/d", true), ("e", true), ("a/b", true)];
        assert_eq!(all, expected.map(|(name, enter)| (name.to_owned(), enter)));
        // Ten deep names.
        let deep = |number: usize| origin(&vec![number.to_string(); 1_000].join("/"));
        let mut some = scan.with_parents_of((0..10).map(deep).collect());
        let mut count = 0;
        loop {
            count += some.len();
            assert!(some.len() < NAMES_PER_LISTING + 1_000 && some.last().is_some_and(|last| last.enter));
            let Some(others) = scan.starts.pop() else { break };
            some = scan.with_parents_of(others);
        }
        assert_eq!(count, 10_000);
    }
}
