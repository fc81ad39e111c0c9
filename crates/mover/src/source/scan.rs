//! Finding what is to be moved: directories are listed depth first, several at a time, a part of a large one after
//! the other, so that no list of all files is ever held.

use super::{Origin, SourceOptions};
use crate::name::Name;
use crate::name_set::NameSet;
use crate::own_files::is_own_file;
use numaio_machine::port::{Details, Fault, FilePath, Found, Listing, Operation, Ticket};
use std::collections::{BTreeMap, HashSet};

/// Listings under way at a time.
const MAX_LISTINGS: usize = 4;
/// Names of one listing.
const NAMES_PER_LISTING: usize = 512;

/// Something that was met, or why it could not be looked at.
pub(super) struct ScannedEntry {
    /// Where it is.
    pub path: FilePath,
    /// What it is called at the sink.
    pub name: Name,
    /// Whether what it holds is moved too, if it is a directory.
    pub enter: bool,
    /// What it is.
    pub found: Result<Found, Fault>,
}

#[derive(Debug)]
enum ScanStep {
    /// Look at where origins begin.
    Begin(Vec<Origin>),
    List(FilePath, Name),
    More(u64, FilePath, Name),
}

/// A walk over all origins.
#[derive(Debug)]
pub(super) struct Scan {
    details: Details,
    recursive: bool,
    /// What is still to do; the last one first.
    stack: Vec<ScanStep>,
    in_flight: BTreeMap<Ticket, ScanStep>,
    /// The names that were met; kept if one may be met twice.
    seen_names: Option<NameSet<14>>,
    /// The directories above origins that were met.
    visited_parents: NameSet<14>,
    /// Whether all of an origin is met before the next one, so that the same ones come first each time.
    sequential_origins: bool,
}

/// What was met under a name.
pub enum PreviousName {
    New,
    Directory,
    Other,
}

impl Scan {
    pub fn new(options: &SourceOptions) -> Self {
        let origins = &options.origins;
        let seen_names = may_overlap(origins).then(NameSet::default);
        // Of one root, the same name is the same thing.
        let sequential_origins = seen_names.is_some() && origins.windows(2).any(|two| two[0].root != two[1].root);
        let origins_per_step = if sequential_origins { 1 } else { NAMES_PER_LISTING };
        Self {
            details: Details { xattrs: options.xattrs, holes: true, ..Details::default() },
            recursive: options.recursive,
            seen_names,
            visited_parents: NameSet::default(),
            sequential_origins,
            stack: origins.chunks(origins_per_step).rev().map(|some| ScanStep::Begin(some.to_vec())).collect(),
            in_flight: BTreeMap::new(),
        }
    }

    /// Whether all was met.
    pub fn is_finished(&self) -> bool {
        self.stack.is_empty() && self.in_flight.is_empty()
    }

    /// Names that listings under way may give, and one more.
    pub fn expected(&self) -> usize {
        (self.in_flight.len() + 1) * NAMES_PER_LISTING
    }

    /// What to do next; it is to be told by [`Scan::submitted`].
    pub fn next<B>(&mut self) -> Option<(Operation<B>, SubmittedStep)> {
        if self.in_flight.len() == MAX_LISTINGS || self.must_wait() {
            return None;
        }
        let step = match self.stack.pop()? {
            ScanStep::Begin(origins) => ScanStep::Begin(self.with_parents_of(origins)),
            step => step,
        };
        let (most, details) = (NAMES_PER_LISTING, self.details);
        let operation = match &step {
            ScanStep::Begin(origins) => {
                let at = origins.iter().map(Origin::path).collect();
                Operation::Look { at, details, links: Vec::new() }
            }
            ScanStep::List(path, _) => Operation::List { directory: path.clone(), most, details },
            ScanStep::More(listing, ..) => Operation::More { listing: *listing, most, details },
        };
        Some((operation, SubmittedStep(step)))
    }

    /// The first of some origins, with those directories above them that were not met yet; the others come later. As names may lie
    /// deep, what is above all of them may be far more than they are.
    fn with_parents_of(&mut self, origins: Vec<Origin>) -> Vec<Origin> {
        let mut all = Vec::with_capacity(origins.len());
        let mut origins = origins.into_iter();
        while let Some(origin) = (all.len() < NAMES_PER_LISTING).then(|| origins.next()).flatten() {
            // What is above one that was met was met, too.
            let above = std::iter::successors(origin.only.as_ref().and_then(Name::parent), Name::parent);
            let above = above.take_while(|name| origin.with_parents && !name.is_root() && self.visited_parents.add(name));
            let above = above.map(|name| Origin { only: Some(name), enter: false, with_parents: false, ..origin });
            let above: Vec<Origin> = above.collect();
            all.extend(above.into_iter().rev());
            all.push(origin);
        }
        let others: Vec<Origin> = origins.collect();
        if !others.is_empty() {
            self.stack.push(ScanStep::Begin(others));
        }
        all
    }

    /// Whether the next origins must wait: their directories may be among those that are looked at, or names of theirs among what
    /// is listed.
    fn must_wait(&self) -> bool {
        let begins = |step: &ScanStep| matches!(step, ScanStep::Begin(_));
        self.stack.last().is_some_and(begins)
            && self.in_flight.values().any(|step| self.sequential_origins || begins(step))
    }

    /// The operation was submitted.
    pub fn submitted(&mut self, ticket: Ticket, step: SubmittedStep) {
        self.in_flight.insert(ticket, step.0);
    }

    /// Objects were looked at. Nothing if the ticket is none of a scan.
    pub fn looked_up(&mut self, ticket: Ticket, found: Vec<Result<Option<Found>, Fault>>) -> Vec<ScannedEntry> {
        let Some(ScanStep::Begin(origins)) = self.in_flight.remove(&ticket) else { return Vec::new() };
        let seen_names = |(origin, found): (Origin, Result<Option<Found>, Fault>)| {
            let path = origin.path();
            let absent = || Fault::new(numaio_machine::port::Why::NotFound, "there is no such file");
            let found = found.and_then(|found| found.ok_or_else(absent));
            ScannedEntry { path, name: origin.only.unwrap_or_else(Name::root), enter: origin.enter, found }
        };
        origins.into_iter().zip(found).map(seen_names).collect()
    }

    /// A directory was listed, or some more of it. The fault of one that cannot be is given with its name.
    pub fn listed(&mut self, ticket: Ticket, listing: Result<Listing, Fault>) -> Vec<ScannedEntry> {
        let (path, name) = match self.in_flight.remove(&ticket) {
            Some(ScanStep::List(path, name) | ScanStep::More(_, path, name)) => (path, name),
            _ => return Vec::new(),
        };
        let listing = match listing {
            Ok(listing) => listing,
            Err(fault) => return vec![ScannedEntry { path, name, enter: false, found: Err(fault) }],
        };
        if let Some(more) = listing.more {
            self.stack.push(ScanStep::More(more, path.clone(), name.clone()));
        }
        let entries = listing.found.into_iter().filter(|(component, _)| !is_own_file(component));
        entries
            .map(|(component, found)| {
                let below = if path.name.is_empty() {
                    component.clone()
                } else {
                    [&path.name, &b"/"[..], &component].concat().into()
                };
                let path = FilePath::new(path.root, below);
                match name.join(&component) {
                    Ok(name) => ScannedEntry { path, name, enter: true, found },
                    Err(error) => {
                        let why = numaio_machine::port::Why::NameTooLong;
                        let found = Err(Fault::new(why, error));
                        ScannedEntry { path, name: name.clone(), enter: false, found }
                    }
                }
            })
            .collect()
    }

    /// A directory is to be moved: so is what it holds.
    pub fn enter(&mut self, path: FilePath, name: Name) {
        if self.recursive {
            self.stack.push(ScanStep::List(path, name));
        }
    }

    /// What was met under a name before. Two origins may hold the same name; the first one counts.
    pub fn record_name(&mut self, name: &Name, is_directory: bool) -> PreviousName {
        let Some(seen_names) = &mut self.seen_names else { return PreviousName::New };
        // No name ends with a slash.
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

/// Whether two origins may hold the same name: one of them is the other one, or lies below it.
fn may_overlap(origins: &[Origin]) -> bool {
    let names: HashSet<Option<&Name>> = origins.iter().map(|origin| origin.only.as_ref()).collect();
    let is_below = |name: &Name| {
        let mut above = std::iter::successors(name.parent(), Name::parent);
        names.contains(&None) || above.any(|above| names.contains(&Some(&above)))
    };
    names.len() < origins.len() || names.iter().any(|name| name.is_some_and(is_below))
}

/// A step that was taken from the stack.
pub(super) struct SubmittedStep(ScanStep);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_remembered_only_where_one_may_come_twice() {
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
    fn directories_above_names_come_first_and_once_and_not_all_at_a_time() {
        let origin = |name: &str| {
            let name = Name::new(name.as_bytes()).expect("a name");
            Origin { root: 0, only: Some(name), enter: true, with_parents: true }
        };
        let mut scan = Scan {
            details: Details::default(),
            recursive: false,
            stack: Vec::new(),
            in_flight: BTreeMap::new(),
            seen_names: None,
            visited_parents: NameSet::default(),
            sequential_origins: false,
        };
        let listed = ["a/b/c", "a/d", "e", "a/b"].map(origin).to_vec();
        let shown = |origin: Origin| (origin.only.expect("a name").to_string(), origin.enter);
        let all: Vec<_> = scan.with_parents_of(listed).into_iter().map(shown).collect();
        let expected =
            [("a", false), ("a/b", false), ("a/b/c", true), ("a/d", true), ("e", true), ("a/b", true)];
        assert_eq!(all, expected.map(|(name, enter)| (name.to_owned(), enter)));
        // Ten names that lie deep.
        let deep = |number: usize| origin(&vec![number.to_string(); 1_000].join("/"));
        let mut some = scan.with_parents_of((0..10).map(deep).collect());
        let mut count = 0;
        loop {
            count += some.len();
            assert!(some.len() < NAMES_PER_LISTING + 1_000 && some.last().is_some_and(|last| last.enter));
            let Some(ScanStep::Begin(others)) = scan.stack.pop() else { break };
            some = scan.with_parents_of(others);
        }
        assert_eq!(count, 10_000);
    }
}
