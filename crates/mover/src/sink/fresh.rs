//! Directories that a sink makes itself: nothing is in them yet, so nobody needs to look there.

use crate::name::Name;
use std::collections::{HashSet, VecDeque};

/// Directories that are kept in mind: what they hold is told soon after them.
const MOST: usize = 4_096;

/// The last directories that were not there.
#[derive(Debug, Default)]
pub(super) struct Fresh {
    names: HashSet<Box<[u8]>>,
    order: VecDeque<Box<[u8]>>,
}

impl Fresh {
    /// A directory that was not there, and is about to be made.
    pub fn push(&mut self, name: &Name) {
        let name: Box<[u8]> = name.as_bytes().into();
        if !self.names.insert(name.clone()) {
            return;
        }
        self.order.push_back(name);
        if self.order.len() > MOST {
            let oldest = self.order.pop_front();
            oldest.map(|name| self.names.remove(&name));
        }
    }

    /// Whether something lies in one of them.
    pub fn holds(&self, name: &Name) -> bool {
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
        let mut fresh = Fresh::default();
        assert!(!fresh.holds(&name("a/f")));
        fresh.push(&name("a"));
        fresh.push(&name("a"));
        assert!(fresh.holds(&name("a/f")) && !fresh.holds(&name("a")));
        assert!(!fresh.holds(&name("a/b/f")) && !fresh.holds(&name("ab/f")));
        (1..MOST).for_each(|number| fresh.push(&name(&format!("b/{number}"))));
        assert!(fresh.holds(&name("a/f")) && fresh.holds(&name("b/1/f")));
        fresh.push(&name("c"));
        assert!(!fresh.holds(&name("a/f")) && fresh.holds(&name("b/1/f")) && fresh.holds(&name("c/f")));
        assert_eq!(fresh.names.len(), MOST);
    }
}
