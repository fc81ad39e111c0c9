//! What a user asked for, as far as names tell: a source that lies may send anything, `.ssh/authorized_keys` in place of a report.
//! Whatever it may send by its own scan is said here once more, and nothing of what it says of itself is believed.

use crate::entry::{Entry, Kind, Object};
use crate::filter::Filter;
use crate::name::Name;
use crate::source::Origin;

/// Which entries a source may send.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Where it begins, in the order of names; the root if that is all that a directory holds.
    names: Vec<Name>,
    recursive: bool,
    /// Whether the names are a list: then directories among them and on their way come by themselves.
    listed: bool,
    /// The directory that was entered last, and the name by which it was asked for: what comes next mostly lies in it, too.
    inside: Option<(Name, Name)>,
}

impl Asked {
    /// What a source with the same wishes sends.
    pub fn new(origins: &[Origin], recursive: bool, listed: bool) -> Self {
        let name = |origin: &Origin| origin.only.clone().unwrap_or_else(Name::root);
        let mut names: Vec<Name> = origins.iter().map(name).collect();
        names.sort_unstable();
        names.dedup();
        Self { names, recursive, listed, inside: None }
    }

    /// Whether an entry may come. So must the first name of a file that gets a further one: else that would be one of something that was
    /// at the destination before.
    pub fn takes(&mut self, entry: &Entry, filter: &Filter) -> bool {
        match &entry.object {
            Object::New(inode) => self.takes_name(&entry.name, inode.kind == Kind::Directory, filter),
            Object::HardLink(first) => {
                self.takes_name(first, false, filter) && self.takes_name(&entry.name, false, filter)
            }
        }
    }

    fn takes_name(&mut self, name: &Name, is_directory: bool, filter: &Filter) -> bool {
        match is_directory {
            true if !self.recursive && !self.listed => false,
            // Rules are not about what is on the way of a name.
            true if self.listed && self.is_on_the_way(name) => true,
            _ => filter.takes(name, is_directory) && (self.is_named(name) || self.is_entered(name, filter)),
        }
    }

    fn is_named(&self, name: &Name) -> bool {
        self.names.binary_search(name).is_ok()
    }

    /// Whether a name that was asked for lies below. All of these follow it in their order. The root is not on the way: it is there.
    fn is_on_the_way(&self, name: &Name) -> bool {
        let next = self.names.get(self.names.partition_point(|other| other <= name));
        !name.is_root() && next.is_some_and(|next| next.is_within(name))
    }

    /// Whether it lies in a directory that was asked for with all that it holds, and no rule leaves one out on the way from there.
    fn is_entered(&mut self, name: &Name, filter: &Filter) -> bool {
        let Some(above) = name.parent().filter(|_| self.recursive) else { return false };
        let by = self.entered_by(&above, filter);
        let is_entered = by.is_some();
        if let Some(by) = by {
            self.inside = Some((above, by));
        }
        is_entered
    }

    /// The name by which the content of a directory was asked for.
    fn entered_by(&self, directory: &Name, filter: &Filter) -> Option<Name> {
        let all = std::iter::successors(Some(directory.clone()), Name::parent);
        for above in all {
            // All directories between these two were looked at before.
            if let Some((inside, by)) = &self.inside {
                if inside.is_within(&above) && above.is_within(by) {
                    return Some(by.clone());
                }
            }
            if !filter.takes(&above, true) {
                return None;
            }
            if self.is_named(&above) {
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

    fn asked(names: &[&str], recursive: bool, listed: bool) -> Asked {
        let only = |text: &&str| Some(name(text.as_bytes())).filter(|name| !name.is_root());
        let origin = |text| Origin { root: 0, only: only(text), enter: true, way: listed };
        Asked::new(&names.iter().map(origin).collect::<Vec<_>>(), recursive, listed)
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
    fn tells(mut asked: Asked, rules: &[&str], may: &[&str], may_not: &[&str]) {
        let mut filter = Filter::default();
        for rule in rules {
            let action = if rule.starts_with('+') { Action::Include } else { Action::Exclude };
            filter.add(action, Pattern::new(&rule.as_bytes()[2..]).expect("a pattern"));
        }
        let all: Vec<_> = [(may, true), (may_not, false)]
            .iter()
            .flat_map(|(entries, taken)| entries.iter().map(|entry| (*entry, *taken)))
            .collect();
        for (text, taken) in all.iter().chain(all.iter().rev()) {
            assert_eq!(
                asked.takes(&entry(text.as_bytes()), &filter),
                *taken,
                "{text} of {asked:?} by {rules:?}"
            );
        }
    }

    #[test]
    fn one_thing_is_one_thing() {
        let others = ["/", "a/", "a/b", "b", ".bashrc", "a ", "A", "a>b", "b>a", "a/b>a", ".ssh/", ".ssh/x"];
        tells(asked(&["a"], false, false), &[], &["a"], &others);
        tells(
            asked(&["a", "b"], false, false),
            &[],
            &["a", "b", "b>a"],
            &["/", "a/", "a/b", "c", "c>a", "a>c"],
        );
        // Directories are left out, also what one holds.
        tells(asked(&[""], false, false), &[], &[], &["/", "a", "a/", "a/b"]);
        tells(asked(&[], true, false), &[], &[], &["/", "a", "a/"]);
    }

    #[test]
    fn a_directory_is_that_with_all_that_it_holds() {
        let held = ["d/", "d/a", "d/e/", "d/e/a", "d", "d/a>d/e/a"];
        tells(asked(&["d"], true, false), &[], &held, &["/", "a", "e/", "da/", "d a", "d/a>a", "d!/a"]);
        let all = ["/", "a", "d/", "d/e/f", ".ssh/", ".ssh/x"];
        tells(asked(&[""], true, false), &[], &all, &[]);
        tells(asked(&["d", ""], true, false), &[], &all, &[]);
    }

    #[test]
    fn a_list_is_what_it_names_and_what_leads_there() {
        let list = ["d/e/f", "g", "h/i", "h"];
        let may = ["d/", "d/e/", "d/e/f", "d/e/f/", "g", "g/", "h/", "h", "h/i"];
        let below = ["d/e/f/x", "g/x/", "h/i/x/y"];
        let others = ["/", "d", "d/e", "d/x", "d/e/x/", "a", "d/e/f!", "d/f/", "dd/"];
        tells(asked(&list, false, true), &[], &may, &[&below[..], &others, &["h/x"]].concat());
        tells(asked(&list, true, true), &[], &[&may[..], &below, &["h/x", "h/x/"]].concat(), &others);
        tells(asked(&[""], false, true), &[], &["/"], &["a", "a/"]);
        tells(asked(&["", "a/b"], false, true), &[], &["/", "a/", "a/b"], &["a", "b", "a/c"]);
    }

    #[test]
    fn what_rules_leave_out_does_not_come() {
        let rules = ["+ keep.o", "- *.o", "- tmp/"];
        let may = ["d/", "d/a", "d/keep.o", "d/tmp", "d/e/tmp", "d/e/f/g"];
        tells(
            asked(&["d"], true, false),
            &rules,
            &may,
            &["d/a.o", "d/tmp/", "d/tmp/keep.o", "d/e/tmp/f/g", "d/a>d/a.o"],
        );
        // Rules are not about what is on the way, and are about what is listed and what it holds.
        let (may, may_not) =
            (["tmp/", "tmp/a", "x.o/", "x.o/y", "d/"], ["tmp", "tmp/b", "x.o", "d/tmp/", "d/tmp/e"]);
        tells(asked(&["tmp/a", "x.o/y", "d"], true, true), &rules, &may, &may_not);
        tells(
            asked(&["tmp", "tmp/e"], true, true),
            &rules,
            &["tmp/", "tmp/e/", "tmp/e/x"],
            &["tmp/x", "tmp/x/"],
        );
    }

    #[test]
    fn names_are_bytes() {
        let origin = Origin { root: 0, only: Some(name(b"\xff\xfe")), enter: true, way: false };
        let mut asked = Asked::new(&[origin], false, false);
        let mut takes = |text: &[u8]| asked.takes(&entry(text), &Filter::default());
        assert_eq!(
            [&b"\xff\xfe"[..], b"\xff", "\u{fffd}\u{fffd}".as_bytes()].map(&mut takes),
            [true, false, false]
        );
    }
}
