//! What a user asked for, as far as names tell: a source that lies may send anything, `.ssh/authorized_keys` in place of a report.
//! Whatever it may send by its own scan is said here once more, and nothing of what it says of itself is believed.

use crate::entry::{Entry, Kind, Object};
use crate::filter::Filter;
use crate::name::Name;
use crate::source::Origin;

/// Which entries a source may send.
#[derive(Debug, Clone)]
pub struct RequestedEntries {
    /// Where it begins, in the order of names; the root if that is all that a directory holds.
    names: Vec<Name>,
    recursive: bool,
    /// Whether the names are a list: then directories among them and on their way come by themselves.
    listed: bool,
    /// The directory that was entered last, and the name by which it was asked for: what comes next mostly lies in it, too.
    last_directory: Option<(Name, Name)>,
}

impl RequestedEntries {
    /// What a source with the same wishes sends.
    pub fn new(origins: &[Origin], recursive: bool, listed: bool) -> Self {
        let name = |origin: &Origin| origin.only.clone().unwrap_or_else(Name::root);
        let mut names: Vec<Name> = origins.iter().map(name).collect();
        names.sort_unstable();
        names.dedup();
        Self { names, recursive, listed, last_directory: None }
    }

    /// Whether an entry may come. So must the first name of a file that gets a further one: else that would be one of something that was
    /// at the destination before.
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
            // Rules are not about what is on the way of a name.
            true if self.listed && self.is_parent_of_requested(name) => true,
            _ => filter.includes(name, is_directory) && (self.is_requested(name) || self.is_in_requested_directory(name, filter)),
        }
    }

    fn is_requested(&self, name: &Name) -> bool {
        self.names.binary_search(name).is_ok()
    }

    /// Whether a name that was asked for lies below. All of these follow it in their order. The root is not on the way: it is there.
    fn is_parent_of_requested(&self, name: &Name) -> bool {
        let next = self.names.get(self.names.partition_point(|other| other <= name));
        !name.is_root() && next.is_some_and(|next| next.is_within(name))
    }

    /// Whether it lies in a directory that was asked for with all that it holds, and no rule leaves one out on the way from there.
    fn is_in_requested_directory(&mut self, name: &Name, filter: &Filter) -> bool {
        let Some(above) = name.parent().filter(|_| self.recursive) else { return false };
        let ancestor = self.requested_ancestor(&above, filter);
        let is_in_requested_directory = ancestor.is_some();
        if let Some(ancestor) = ancestor {
            self.last_directory = Some((above, ancestor));
        }
        is_in_requested_directory
    }

    /// The name by which the content of a directory was asked for.
    fn requested_ancestor(&self, directory: &Name, filter: &Filter) -> Option<Name> {
        let all = std::iter::successors(Some(directory.clone()), Name::parent);
        for above in all {
            // All directories between these two were looked at before.
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

    /// A directory if it ends with a slash, a further name of what is behind an arrow, or a link.
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

    /// Each of the first may come, in any order, and none of the others.
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
    fn one_thing_is_one_thing() {
        let others = ["/", "a/", "a/b", "b", ".bashrc", "a ", "A", "a>b", "b>a", "a/b>a", ".ssh/", ".ssh/x"];
        check(requested(&["a"], false, false), &[], &["a"], &others);
        check(
            requested(&["a", "b"], false, false),
            &[],
            &["a", "b", "b>a"],
            &["/", "a/", "a/b", "c", "c>a", "a>c"],
        );
        // Directories are left out, also what one holds.
        check(requested(&[""], false, false), &[], &[], &["/", "a", "a/", "a/b"]);
        check(requested(&[], true, false), &[], &[], &["/", "a", "a/"]);
    }

    #[test]
    fn a_directory_is_that_with_all_that_it_holds() {
        let held = ["d/", "d/a", "d/e/", "d/e/a", "d", "d/a>d/e/a"];
        check(requested(&["d"], true, false), &[], &held, &["/", "a", "e/", "da/", "d a", "d/a>a", "d!/a"]);
        let all = ["/", "a", "d/", "d/e/f", ".ssh/", ".ssh/x"];
        check(requested(&[""], true, false), &[], &all, &[]);
        check(requested(&["d", ""], true, false), &[], &all, &[]);
    }

    #[test]
    fn a_list_is_what_it_names_and_what_leads_there() {
        let list = ["d/e/f", "g", "h/i", "h"];
        let accepted = ["d/", "d/e/", "d/e/f", "d/e/f/", "g", "g/", "h/", "h", "h/i"];
        let below = ["d/e/f/x", "g/x/", "h/i/x/y"];
        let others = ["/", "d", "d/e", "d/x", "d/e/x/", "a", "d/e/f!", "d/f/", "dd/"];
        check(requested(&list, false, true), &[], &accepted, &[&below[..], &others, &["h/x"]].concat());
        check(requested(&list, true, true), &[], &[&accepted[..], &below, &["h/x", "h/x/"]].concat(), &others);
        check(requested(&[""], false, true), &[], &["/"], &["a", "a/"]);
        check(requested(&["", "a/b"], false, true), &[], &["/", "a/", "a/b"], &["a", "b", "a/c"]);
    }

    #[test]
    fn what_rules_leave_out_does_not_come() {
        let rules = ["+ keep.o", "- *.o", "- tmp/"];
        let accepted = ["d/", "d/a", "d/keep.o", "d/tmp", "d/e/tmp", "d/e/f/g"];
        check(
            requested(&["d"], true, false),
            &rules,
            &accepted,
            &["d/a.o", "d/tmp/", "d/tmp/keep.o", "d/e/tmp/f/g", "d/a>d/a.o"],
        );
        // Rules are not about what is on the way, and are about what is listed and what it holds.
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
    fn names_are_bytes() {
        let origin = Origin { root: 0, only: Some(name(b"\xff\xfe")), enter: true, with_parents: false };
        let mut requested = RequestedEntries::new(&[origin], false, false);
        let mut takes = |text: &[u8]| requested.accepts(&entry(text), &Filter::default());
        assert_eq!(
            [&b"\xff\xfe"[..], b"\xff", "\u{fffd}\u{fffd}".as_bytes()].map(&mut takes),
            [true, false, false]
        );
    }
}
