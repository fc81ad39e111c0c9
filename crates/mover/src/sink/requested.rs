//! Validation of received names against the request of the user: a malicious source could send
//! `.ssh/authorized_keys` instead of a report. This repeats the rules by which an honest source
//! scans, and trusts nothing that the source sends.

use crate::entry::{Entry, Kind, Object};
use crate::filter::Filter;
use crate::name::Name;
use crate::source::Origin;

/// The entries that a source may send.
#[derive(Debug, Clone)]
pub struct RequestedEntries {
    /// The requested names, sorted; the root stands for the contents of a directory.
    names: Vec<Name>,
    recursive: bool,
    /// Whether the names are a list: then directories among them and their parents are implied.
    listed: bool,
    /// The last accepted directory, and the requested name that contains it: a cache for siblings.
    last_directory: Option<(Name, Name)>,
}

impl RequestedEntries {
    /// Creates the set of entries that a source with these options sends.
    pub fn new(origins: &[Origin], recursive: bool, listed: bool) -> Self {
        let name = |origin: &Origin| origin.only.clone().unwrap_or_else(Name::root);
        let mut names: Vec<Name> = origins.iter().map(name).collect();
        names.sort_unstable();
        names.dedup();
        Self { names, recursive, listed, last_directory: None }
    }

    /// Returns whether an entry may be received. For a hard link the first name must be acceptable,
    /// too: otherwise it could link to an existing file of the destination.
    pub fn accepts(&mut self, entry: &Entry, filter: &Filter) -> bool {
        match &entry.object {
            Object::New(inode) => self.accepts_name(&entry.name, inode.kind == Kind::Directory, filter),
            Object::HardLink(first) => {
                self.accepts_name(first, false, filter) && self.accepts_name(&entry.name, false, filter)
            }
        }
    }

    fn accepts_name(&mut self, name: &Name, is_directory: bool, filter: &Filter) -> bool {
        match is_directory {
            true if !self.recursive && !self.listed => false,
            // Filter rules do not apply to the parents of listed names.
            true if self.listed && self.is_parent_of_requested(name) => true,
            _ => {
                filter.includes(name, is_directory)
                    && (self.is_requested(name) || self.is_in_requested_directory(name, filter))
            }
        }
    }

    fn is_requested(&self, name: &Name) -> bool {
        self.names.binary_search(name).is_ok()
    }

    /// Returns whether `name` is a parent of a requested name. The root exists and does not count.
    fn is_parent_of_requested(&self, name: &Name) -> bool {
        let next = self.names.get(self.names.partition_point(|other| other <= name));
        !name.is_root() && next.is_some_and(|next| next.is_within(name))
    }

    /// Returns whether `name` is inside a requested directory and no rule excludes a directory
    /// between.
    fn is_in_requested_directory(&mut self, name: &Name, filter: &Filter) -> bool {
        let Some(above) = name.parent().filter(|_| self.recursive) else { return false };
        let ancestor = self.requested_ancestor(&above, filter);
        let is_in_requested_directory = ancestor.is_some();
        if let Some(ancestor) = ancestor {
            self.last_directory = Some((above, ancestor));
        }
        is_in_requested_directory
    }

    /// Returns the requested name that includes the contents of a directory.
    fn requested_ancestor(&self, directory: &Name, filter: &Filter) -> Option<Name> {
        let all = std::iter::successors(Some(directory.clone()), Name::parent);
        for above in all {
            // The directories between these two were checked before.
            if let Some((last_directory, ancestor)) = &self.last_directory {
                if last_directory.is_within(&above) && above.is_within(ancestor) {
                    return Some(ancestor.clone());
                }
            }
            if !filter.includes(&above, true) {
                return None;
            }
            if self.is_requested(&above) {
                return Some(above);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{Inode, Mode, Owner, Target, Time, Xattrs};
    use crate::filter::{Action, Pattern};

    fn name(text: &[u8]) -> Name {
        if text.is_empty() {
            Name::root()
        } else {
            Name::new(text).expect("a name")
        }
    }

    fn requested(names: &[&str], recursive: bool, listed: bool) -> RequestedEntries {
        let only = |text: &&str| Some(name(text.as_bytes())).filter(|name| !name.is_root());
        let origin = |text| Origin { root: 0, only: only(text), enter: true, with_parents: listed };
        RequestedEntries::new(&names.iter().map(origin).collect::<Vec<_>>(), recursive, listed)
    }

    /// Parses an entry: a directory if it ends with a slash, `name>target` for a hard link, or a
    /// symlink.
    fn entry(text: &[u8]) -> Entry {
        let owner = || Owner::new(0, None).expect("an owner");
        let inode = |kind| Inode {
            kind,
            mode: Mode::new(0o644).expect("a mode"),
            mtime: Time::new(5, 5).expect("a time"),
            user: owner(),
            group: owner(),
            xattrs: Xattrs::default(),
        };
        if let [text @ .., b'/'] = text {
            return Entry { name: name(text), object: Object::New(inode(Kind::Directory)) };
        }
        match text.split(|&byte| byte == b'>').collect::<Vec<_>>()[..] {
            [further, first] => Entry { name: name(further), object: Object::HardLink(name(first)) },
            _ => {
                let target = Target::new(&b"/"[..]).expect("a target");
                Entry { name: name(text), object: Object::New(inode(Kind::Symlink(target))) }
            }
        }
    }

    /// Checks that the first entries are accepted and the others rejected, in any order.
    fn check(mut requested: RequestedEntries, rules: &[&str], accepted: &[&str], rejected: &[&str]) {
        let mut filter = Filter::default();
        for rule in rules {
            let action = if rule.starts_with('+') { Action::Include } else { Action::Exclude };
            filter.add(action, Pattern::new(&rule.as_bytes()[2..]).expect("a pattern"));
        }
        let all: Vec<_> = [(accepted, true), (rejected, false)]
            .iter()
            .flat_map(|(entries, taken)| entries.iter().map(|entry| (*entry, *taken)))
            .collect();
        for (text, taken) in all.iter().chain(all.iter().rev()) {
            assert_eq!(
                requested.accepts(&entry(text.as_bytes()), &filter),
                *taken,
                "{text} of {requested:?} by {rules:?}"
            );
        }
    }

    #[test]
    fn single_name_accepts_only_itself() {
        let others = ["/", "a/", "a/b", "b", ".bashrc", "a ", "A", "a>b", "b>a", "a/b>a", ".ssh/", ".ssh/x"];
        check(requested(&["a"], false, false), &[], &["a"], &others);
        check(
            requested(&["a", "b"], false, false),
            &[],
            &["a", "b", "b>a"],
            &["/", "a/", "a/b", "c", "c>a", "a>c"],
        );
        // Without recursion, directories are skipped with their contents.
        check(requested(&[""], false, false), &[], &[], &["/", "a", "a/", "a/b"]);
        check(requested(&[], true, false), &[], &[], &["/", "a", "a/"]);
    }

    #[test]
    fn directory_includes_its_contents() {
        let held = ["d/", "d/a", "d/e/", "d/e/a", "d", "d/a>d/e/a"];
        check(requested(&["d"], true, false), &[], &held, &["/", "a", "e/", "da/", "d a", "d/a>a", "d!/a"]);
        let all = ["/", "a", "d/", "d/e/f", ".ssh/", ".ssh/x"];
        check(requested(&[""], true, false), &[], &all, &[]);
        check(requested(&["d", ""], true, false), &[], &all, &[]);
    }

    #[test]
    fn list_includes_its_names_and_their_parents() {
        let list = ["d/e/f", "g", "h/i", "h"];
        let accepted = ["d/", "d/e/", "d/e/f", "d/e/f/", "g", "g/", "h/", "h", "h/i"];
        let below = ["d/e/f/x", "g/x/", "h/i/x/y"];
        let others = ["/", "d", "d/e", "d/x", "d/e/x/", "a", "d/e/f!", "d/f/", "dd/"];
        check(requested(&list, false, true), &[], &accepted, &[&below[..], &others, &["h/x"]].concat());
        check(
            requested(&list, true, true),
            &[],
            &[&accepted[..], &below, &["h/x", "h/x/"]].concat(),
            &others,
        );
        check(requested(&[""], false, true), &[], &["/"], &["a", "a/"]);
        check(requested(&["", "a/b"], false, true), &[], &["/", "a/", "a/b"], &["a", "b", "a/c"]);
    }

    #[test]
    fn excluded_entries_are_rejected() {
        let rules = ["+ keep.o", "- *.o", "- tmp/"];
        let accepted = ["d/", "d/a", "d/keep.o", "d/tmp", "d/e/tmp", "d/e/f/g"];
        check(
            requested(&["d"], true, false),
            &rules,
            &accepted,
            &["d/a.o", "d/tmp/", "d/tmp/keep.o", "d/e/tmp/f/g", "d/a>d/a.o"],
        );
        // Rules apply to listed names and their contents, but not to parents of listed names.
        let (accepted, rejected) =
            (["tmp/", "tmp/a", "x.o/", "x.o/y", "d/"], ["tmp", "tmp/b", "x.o", "d/tmp/", "d/tmp/e"]);
        check(requested(&["tmp/a", "x.o/y", "d"], true, true), &rules, &accepted, &rejected);
        check(
            requested(&["tmp", "tmp/e"], true, true),
            &rules,
            &["tmp/", "tmp/e/", "tmp/e/x"],
            &["tmp/x", "tmp/x/"],
        );
    }

    #[test]
    fn names_are_compared_as_bytes() {
        let origin = Origin { root: 0, only: Some(name(b"\xff\xfe")), enter: true, with_parents: false };
        let mut requested = RequestedEntries::new(&[origin], false, false);
        let mut takes = |text: &[u8]| requested.accepts(&entry(text), &Filter::default());
        assert_eq!(
            [&b"\xff\xfe"[..], b"\xff", "\u{fffd}\u{fffd}".as_bytes()].map(&mut takes),
            [true, false, false]
        );
    }
}
