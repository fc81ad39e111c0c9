//! Directories that the sink has just created: they are empty, so their contents need no lookup.

use crate::name::Name;
use std::collections::{HashSet, VecDeque};

/// Maximum directories to remember: the contents of a directory usually follow soon.
const MAX_DIRECTORIES: usize = 4_096;

/// The most recent directories that did not exist.
///
/// Invariant: both collections hold the same names, at most [`MAX_DIRECTORIES`].
#[derive(Debug, Default)]
pub(super) struct NewDirectories {
    names: HashSet<Box<[u8]>>,
    oldest_first: VecDeque<Box<[u8]>>,
}

impl NewDirectories {
    /// Adds a directory that did not exist and is about to be created.
    pub fn push(&mut self, name: &Name) {
        let name: Box<[u8]> = name.as_bytes().into();
        if !self.names.insert(name.clone()) {
            return;
        }
        self.oldest_first.push_back(name);
        if self.oldest_first.len() > MAX_DIRECTORIES {
            let oldest = self.oldest_first.pop_front();
            oldest.map(|name| self.names.remove(&name));
        }
    }

    /// Returns whether the parent of `name` is one of these directories.
    pub fn contains_parent_of(&self, name: &Name) -> bool {
        let name = name.as_bytes();
        let slash = name.iter().rposition(|&byte| byte == b'/');
        !self.names.is_empty() && slash.is_some_and(|slash| self.names.contains(&name[..slash]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text.as_bytes().to_vec()).expect("a name")
    }

    #[test]
    fn contains_only_direct_children_of_recent_directories() {
        let mut directories = NewDirectories::default();
        assert!(!directories.contains_parent_of(&name("a/f")));
        directories.push(&name("a"));
        directories.push(&name("a"));
        assert!(directories.contains_parent_of(&name("a/f")) && !directories.contains_parent_of(&name("a")));
        assert!(
            !directories.contains_parent_of(&name("a/b/f")) && !directories.contains_parent_of(&name("ab/f"))
        );
        (1..MAX_DIRECTORIES).for_each(|number| directories.push(&name(&format!("b/{number}"))));
        assert!(
            directories.contains_parent_of(&name("a/f")) && directories.contains_parent_of(&name("b/1/f"))
        );
        directories.push(&name("c"));
        assert!(
            !directories.contains_parent_of(&name("a/f"))
                && directories.contains_parent_of(&name("b/1/f"))
                && directories.contains_parent_of(&name("c/f"))
        );
        assert_eq!(directories.names.len(), MAX_DIRECTORIES);
    }
}
