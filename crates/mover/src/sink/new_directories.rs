//! Directories that a sink makes itself: nothing is in them yet, so nobody needs to look there.

use crate::name::Name;
use std::collections::{HashSet, VecDeque};

/// Directories that are kept in mind: what they hold is told soon after them.
const MAX_DIRECTORIES: usize = 4_096;

/// The last directories that were not there.
#[derive(Debug, Default)]
pub(super) struct NewDirectories {
    names: HashSet<Box<[u8]>>,
    oldest_first: VecDeque<Box<[u8]>>,
}

impl NewDirectories {
    /// A directory that was not there, and is about to be made.
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

    /// Whether something lies in one of them.
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
    fn what_lies_in_a_new_directory_is_known_as_long_as_there_are_not_too_many() {
        let mut directories = NewDirectories::default();
        assert!(!directories.contains_parent_of(&name("a/f")));
        directories.push(&name("a"));
        directories.push(&name("a"));
        assert!(directories.contains_parent_of(&name("a/f")) && !directories.contains_parent_of(&name("a")));
        assert!(!directories.contains_parent_of(&name("a/b/f")) && !directories.contains_parent_of(&name("ab/f")));
        (1..MAX_DIRECTORIES).for_each(|number| directories.push(&name(&format!("b/{number}"))));
        assert!(directories.contains_parent_of(&name("a/f")) && directories.contains_parent_of(&name("b/1/f")));
        directories.push(&name("c"));
        assert!(!directories.contains_parent_of(&name("a/f")) && directories.contains_parent_of(&name("b/1/f")) && directories.contains_parent_of(&name("c/f")));
        assert_eq!(directories.names.len(), MAX_DIRECTORIES);
    }
}
