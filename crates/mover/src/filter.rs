//! Include and exclude rules and source paths, with the semantics of rsync(1) (sections "Usage",
//! "Filter rules in depth" and "Pattern matching rules").

use crate::name::Name;
use pattern::Subject;
use std::collections::HashMap;

mod pattern;
pub use pattern::{Pattern, PatternError, MAX_PATTERN};

/// The action on a name that the pattern of a rule matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The entry is copied.
    Include,
    /// The entry is skipped, and a directory with all its contents.
    Exclude,
}

/// An ordered list of rules, of which the first match decides. Unmatched names are copied.
///
/// Patterns without wildcards are found by hash lookup; the others are tried in order.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    actions: Vec<Action>,
    /// Patterns with wildcards, with their positions in the list.
    wildcards: Vec<(usize, Pattern)>,
    literals: HashMap<Subject, HashMap<Box<[u8]>, RulePositions>>,
}

/// The first positions in the list of rules with the same literal pattern.
#[derive(Debug, Clone, Copy, Default)]
struct RulePositions {
    any: Option<usize>,
    only_directories: Option<usize>,
}

impl Filter {
    /// Appends a rule.
    pub fn add(&mut self, action: Action, pattern: Pattern) {
        let position = self.actions.len();
        self.actions.push(action);
        let Some((subject, bytes)) = pattern.literal() else {
            return self.wildcards.push((position, pattern));
        };
        let positions = self.literals.entry(subject).or_default().entry(bytes).or_default();
        let first =
            if pattern.only_directories() { &mut positions.only_directories } else { &mut positions.any };
        first.get_or_insert(position);
    }

    /// Returns whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.actions.is_empty()
    }

    /// Returns whether `name` is copied, provided that its parent directory is. A scan calls this
    /// top down and does not enter excluded directories. No rule matches the root.
    pub fn includes(&self, name: &Name, is_directory: bool) -> bool {
        let literals = self.first_literal(name, is_directory).filter(|_| !name.is_root());
        let before = |(position, _): &&(usize, Pattern)| literals.is_none_or(|literals| *position < literals);
        let mut wildcards = self.wildcards.iter().take_while(before);
        let wildcards =
            wildcards.find(|(_, pattern)| pattern.matches(name, is_directory)).map(|(position, _)| *position);
        wildcards.or(literals).is_none_or(|first| self.actions[first] == Action::Include)
    }

    /// Returns the position of the first matching rule without wildcards.
    fn first_literal(&self, name: &Name, is_directory: bool) -> Option<usize> {
        let positions = self
            .literals
            .iter()
            .filter_map(|(subject, positions)| positions.get(subject.of(name.as_bytes())?));
        let first = |positions: &RulePositions| {
            let only_directories = positions.only_directories.filter(|_| is_directory);
            [positions.any, only_directories].into_iter().flatten().min()
        };
        positions.filter_map(first).min()
    }

    /// Returns whether `name` and all of its parent directories are included.
    pub fn includes_with_parents(&self, name: &Name, is_directory: bool) -> bool {
        let above = std::iter::successors(name.parent(), Name::parent);
        self.includes(name, is_directory)
            && above.into_iter().all(|directory| self.includes(&directory, true))
    }
}

/// A source as typed by the user, split into a root directory and a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourcePath {
    /// The root directory of the transfer, as a path for the kernel.
    pub root: Vec<u8>,
    /// The only entry below the root that is copied; `None` copies the contents of the root.
    pub only: Option<Name>,
}

impl SourcePath {
    /// Applies rsync's trailing slash rule: `dir` is the directory itself, which is created at the
    /// destination; `dir/` is its contents. So are `dir/.` and `dir/..`, because a name at the
    /// destination must be a plain component.
    ///
    /// Returns `None` for an empty path and for an invalid last component.
    pub fn parse(source: &[u8]) -> Option<Self> {
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
    fn trailing_slash_selects_the_contents() {
        let origin = |source: &str| {
            let origin = SourcePath::parse(source.as_bytes())?;
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
        fn literal_lookup_agrees_with_trying_all_patterns(
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
            prop_assert_eq!(filter.includes(&name, is_directory), first.is_none_or(|(include, _)| *include));
        }
    }

    #[test]
    fn first_matching_rule_decides_and_excluded_directories_hide_their_contents() {
        let name = |text: &str| Name::new(text.as_bytes()).expect("a name");
        let mut filter = Filter::default();
        for (action, pattern) in
            [(Action::Include, "keep.o"), (Action::Exclude, "*.o"), (Action::Exclude, "/tmp/")]
        {
            filter.add(action, Pattern::new(pattern.as_bytes()).expect("a pattern"));
        }
        assert!(filter.includes(&name("a/keep.o"), false));
        assert!(!filter.includes(&name("a/other.o"), false));
        assert!(filter.includes(&name("tmp/keep.o"), false));
        assert!(!filter.includes_with_parents(&name("tmp/keep.o"), false));
        assert!(filter.includes_with_parents(&name("a/tmp/keep.o"), false));
        assert!(filter.includes(&name("tmp"), false) && !filter.includes(&name("tmp"), true));
        let mut nothing = Filter::default();
        for pattern in [&b"/"[..], b"**"] {
            nothing.add(Action::Exclude, Pattern::new(pattern).expect("a pattern"));
        }
        assert!(nothing.includes(&Name::root(), true));
    }
}
