//! What of a tree is moved, and from where: the rules of rsync, as its manual states them (rsync(1), sections
//! "Usage", "Filter rules in depth" and "Pattern matching rules").

use crate::name::Name;
use pattern::Subject;
use std::collections::HashMap;

mod pattern;
pub use pattern::{Pattern, PatternError, MAX_PATTERN};

/// What happens to a name that a rule's pattern matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// It is moved.
    Include,
    /// It is left out, and if it is a directory so is all below it.
    Exclude,
}

/// Rules in order, of which the first that matches decides. What none matches is moved.
///
/// Patterns that stand for themselves alone are looked up, however many there are; the others are tried in turn.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    actions: Vec<Action>,
    /// By place in the order.
    wild: Vec<(usize, Pattern)>,
    literal: HashMap<Subject, HashMap<Box<[u8]>, Places>>,
}

/// The first places in the order at which a pattern stands.
#[derive(Debug, Clone, Copy, Default)]
struct Places {
    any: Option<usize>,
    only_directories: Option<usize>,
}

impl Filter {
    /// Adds a rule behind the others.
    pub fn add(&mut self, action: Action, pattern: Pattern) {
        let place = self.actions.len();
        self.actions.push(action);
        let Some((subject, bytes)) = pattern.literal() else { return self.wild.push((place, pattern)) };
        let places = self.literal.entry(subject).or_default().entry(bytes).or_default();
        let first = if pattern.only_directories() { &mut places.only_directories } else { &mut places.any };
        first.get_or_insert(place);
    }

    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.actions.is_empty()
    }

    /// Whether a name is moved, given that the directory that holds it is. A scan asks this on its way down
    /// and does not enter directories that are left out. No rule matches the root.
    pub fn takes(&self, name: &Name, is_directory: bool) -> bool {
        let literal = self.first_literal(name, is_directory).filter(|_| !name.is_root());
        let before = |(place, _): &&(usize, Pattern)| literal.is_none_or(|literal| *place < literal);
        let mut wild = self.wild.iter().take_while(before);
        let wild = wild.find(|(_, pattern)| pattern.matches(name, is_directory)).map(|(place, _)| *place);
        wild.or(literal).is_none_or(|first| self.actions[first] == Action::Include)
    }

    /// The first place in the order of a pattern that matches and stands for itself alone.
    fn first_literal(&self, name: &Name, is_directory: bool) -> Option<usize> {
        let places =
            self.literal.iter().filter_map(|(subject, places)| places.get(subject.of(name.as_bytes())?));
        let first = |places: &Places| {
            let only_directories = places.only_directories.filter(|_| is_directory);
            [places.any, only_directories].into_iter().flatten().min()
        };
        places.filter_map(first).min()
    }

    /// Whether a name is moved: it and every directory on its way are taken.
    pub fn reaches(&self, name: &Name, is_directory: bool) -> bool {
        let above = std::iter::successors(name.parent(), Name::parent);
        self.takes(name, is_directory) && above.into_iter().all(|directory| self.takes(&directory, true))
    }
}

/// Where a transfer begins, for a source that a user named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The directory that is the root of the transfer, as a path for the kernel.
    pub root: Vec<u8>,
    /// The one thing in it that is moved; none if all of the directory's content is.
    pub only: Option<Name>,
}

impl Origin {
    /// The rule of the trailing slash: `dir` is the directory itself, which is made at the destination; `dir/`
    /// is what it holds. So are `dir/.` and `dir/..`, as a name at the destination must be a plain one.
    ///
    /// None for no bytes, and for a last component that is no name.
    pub fn of(source: &[u8]) -> Option<Self> {
        let end = source.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
        let (path, slashes) = source.split_at(end);
        if path.is_empty() {
            return (!slashes.is_empty()).then(|| Self { root: b"/".to_vec(), only: None });
        }
        let start = path.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
        let (above, last) = path.split_at(start);
        if !slashes.is_empty() || last == b"." || last == b".." {
            return Some(Self { root: path.to_vec(), only: None });
        }
        let root = match above {
            b"" => b".".to_vec(),
            above => match above.iter().rposition(|&byte| byte != b'/') {
                Some(last) => above[..=last].to_vec(),
                None => b"/".to_vec(),
            },
        };
        Some(Self { root, only: Some(Name::new(last).ok()?) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use proptest::prelude::*;

    #[test]
    fn a_trailing_slash_means_the_content() {
        let origin = |source: &str| {
            let origin = Origin::of(source.as_bytes())?;
            Some((String::from_utf8(origin.root).ok()?, origin.only.map(|name| name.to_string())))
        };
        let only = |root: &str, name: &str| Some((root.to_string(), Some(name.to_string())));
        let all = |root: &str| Some((root.to_string(), None));
        assert_eq!(origin("dir"), only(".", "dir"));
        assert_eq!(origin("dir/"), all("dir"));
        assert_eq!(origin("a/dir"), only("a", "dir"));
        assert_eq!(origin("a//dir"), only("a", "dir"));
        assert_eq!(origin("a/dir//"), all("a/dir"));
        assert_eq!(origin("/dir"), only("/", "dir"));
        assert_eq!(origin("/dir/"), all("/dir"));
        assert_eq!(origin("../dir"), only("..", "dir"));
        for same in [".", "..", "a/.", "a/..", "/.."] {
            assert_eq!(origin(same), all(same));
        }
        assert_eq!(origin("./"), all("."));
        assert_eq!(origin("/"), all("/"));
        assert_eq!(origin("//"), all("/"));
        assert_eq!(origin(""), None);
        assert_eq!(origin("a\0b"), None);
    }

    proptest! {
        #![proptest_config(testing::config())]

        #[test]
        fn patterns_that_are_looked_up_decide_as_if_they_were_tried(
            rules in proptest::collection::vec((any::<bool>(), "/?[ab*]{1,2}(/[ab]){0,2}/?"), 0..8),
            name in "[ab]{1,2}(/[ab]{1,2}){0,2}",
            is_directory in any::<bool>(),
        ) {
            let name = Name::new(name.as_bytes()).expect("a name");
            let (mut filter, mut tried) = (Filter::default(), Vec::new());
            for (include, pattern) in rules {
                let pattern = Pattern::new(pattern.as_bytes()).expect("a pattern");
                filter.add(if include { Action::Include } else { Action::Exclude }, pattern.clone());
                tried.push((include, pattern));
            }
            let first = tried.iter().find(|(_, pattern)| pattern.matches(&name, is_directory));
            prop_assert_eq!(filter.takes(&name, is_directory), first.is_none_or(|(include, _)| *include));
        }
    }

    #[test]
    fn the_first_rule_decides_and_directories_hide_what_is_below() {
        let name = |text: &str| Name::new(text.as_bytes()).expect("a name");
        let mut filter = Filter::default();
        for (action, pattern) in
            [(Action::Include, "keep.o"), (Action::Exclude, "*.o"), (Action::Exclude, "/tmp/")]
        {
            filter.add(action, Pattern::new(pattern.as_bytes()).expect("a pattern"));
        }
        assert!(filter.takes(&name("a/keep.o"), false));
        assert!(!filter.takes(&name("a/other.o"), false));
        assert!(filter.takes(&name("tmp/keep.o"), false));
        assert!(!filter.reaches(&name("tmp/keep.o"), false));
        assert!(filter.reaches(&name("a/tmp/keep.o"), false));
        assert!(filter.takes(&name("tmp"), false) && !filter.takes(&name("tmp"), true));
        let mut nothing = Filter::default();
        for pattern in [&b"/"[..], b"**"] {
            nothing.add(Action::Exclude, Pattern::new(pattern).expect("a pattern"));
        }
        assert!(nothing.takes(&Name::root(), true));
    }
}
