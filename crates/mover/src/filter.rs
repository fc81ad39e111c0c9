//! What of a tree is moved, and from where: the rules of rsync, as its manual states them (rsync(1), sections
//! "Usage", "Filter rules in depth" and "Pattern matching rules").

use crate::name::Name;

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
#[derive(Debug, Clone, Default)]
pub struct Filter {
    rules: Vec<(Action, Pattern)>,
}

impl Filter {
    /// Adds a rule behind the others.
    pub fn add(&mut self, action: Action, pattern: Pattern) {
        self.rules.push((action, pattern));
    }

    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Whether a name is moved, given that the directory that holds it is. A scan asks this on its way down
    /// and does not enter directories that are left out. No rule matches the root.
    pub fn takes(&self, name: &Name, is_directory: bool) -> bool {
        let first = self.rules.iter().find(|(_, pattern)| pattern.matches(name, is_directory));
        first.is_none_or(|(action, _)| *action == Action::Include)
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
        nothing.add(Action::Exclude, Pattern::new(b"**").expect("a pattern"));
        assert!(nothing.takes(&Name::root(), true));
    }
}
