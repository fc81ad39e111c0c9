//! A machine's files in memory: what a tape holds, what a simulated machine renders, what tests write.

use crate::sysfs::{ReadError, Sysfs, WhyUnread};
use std::collections::BTreeMap;
use std::ops::Bound;

/// Symbolic links followed before a path counts as a loop, as in the kernel.
const MOST_LINKS: usize = 40;

/// One entry of a [`Tree`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A file and its content.
    File(Vec<u8>),
    /// A symbolic link and its target, relative or absolute below the root.
    Link(String),
    /// A directory; those on the way to another entry need no entry of their own.
    Dir,
}

/// Files, directories and symbolic links in memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tree {
    /// By canonical path: no component before the last is a link.
    entries: BTreeMap<String, Entry>,
}

impl Tree {
    /// An empty tree.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file, replacing what stood there. Links on the way are followed.
    pub fn file(&mut self, path: &str, content: impl Into<Vec<u8>>) -> &mut Self {
        self.insert(path, Entry::File(content.into()))
    }

    /// Adds a symbolic link.
    pub fn link(&mut self, path: &str, target: &str) -> &mut Self {
        self.insert(path, Entry::Link(target.to_owned()))
    }

    /// Adds a directory, for one that has no entries.
    pub fn dir(&mut self, path: &str) -> &mut Self {
        if self.canonical(path).is_ok() {
            return self;
        }
        self.insert(path, Entry::Dir)
    }

    /// Takes a file, a link or a whole directory out.
    pub fn remove(&mut self, path: &str) -> &mut Self {
        let path = self.parent_canonical(path);
        let below = format!("{path}/");
        self.entries.retain(|key, _| key != &path && !key.starts_with(&below));
        self
    }

    /// All entries by path, ascending; links come with their targets.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.entries.iter().map(|(path, entry)| (path.as_str(), entry))
    }

    fn insert(&mut self, path: &str, entry: Entry) -> &mut Self {
        let path = self.parent_canonical(path);
        self.entries.insert(path, entry);
        self
    }

    /// The path with links in all but its last component followed, whether or not it exists.
    fn parent_canonical(&self, path: &str) -> String {
        let path = normal("/", path);
        match path.rsplit_once('/') {
            Some((parent, name)) => {
                let parent = self.follow(parent).unwrap_or_else(|| parent.to_owned());
                format!("{}/{name}", parent.trim_end_matches('/'))
            }
            None => path,
        }
    }

    /// Follows every link in `path`; nothing on a loop of links. The result need not exist.
    fn follow(&self, path: &str) -> Option<String> {
        let mut done = String::new();
        let mut rest: Vec<String> = components(path);
        rest.reverse();
        let mut links = 0;
        while let Some(name) = rest.pop() {
            let next = format!("{done}/{name}");
            match self.entries.get(&next) {
                Some(Entry::Link(target)) => {
                    links += 1;
                    if links > MOST_LINKS {
                        return None;
                    }
                    let target = normal(&done, target);
                    done.clear();
                    rest.extend(components(&target).into_iter().rev());
                }
                _ => done = next,
            }
        }
        Some(if done.is_empty() { "/".to_owned() } else { done })
    }

    fn canonical(&self, path: &str) -> Result<String, WhyUnread> {
        let found = self.follow(&normal("/", path)).ok_or(WhyUnread::Failed("too many links".into()))?;
        if found == "/" || self.entries.contains_key(&found) || self.first_below(&found).is_some() {
            Ok(found)
        } else {
            Err(WhyUnread::Absent)
        }
    }

    fn first_below(&self, dir: &str) -> Option<&String> {
        let start = format!("{}/", dir.trim_end_matches('/'));
        let key = self.entries.range::<str, _>((Bound::Included(start.as_str()), Bound::Unbounded)).next()?.0;
        key.starts_with(&start).then_some(key)
    }
}

impl Sysfs for Tree {
    fn read(&self, path: &str) -> Result<Vec<u8>, ReadError> {
        let found = self.canonical(path).map_err(|why| ReadError::new(path, why))?;
        match self.entries.get(&found) {
            Some(Entry::File(content)) => Ok(content.clone()),
            _ => Err(ReadError::new(path, WhyUnread::WrongKind)),
        }
    }

    fn list(&self, path: &str) -> Result<Vec<String>, ReadError> {
        let found = self.canonical(path).map_err(|why| ReadError::new(path, why))?;
        if matches!(self.entries.get(&found), Some(Entry::File(_))) {
            return Err(ReadError::new(path, WhyUnread::WrongKind));
        }
        let start = format!("{}/", found.trim_end_matches('/'));
        let mut names: Vec<String> = Vec::new();
        let mut from = start.clone();
        // Jump from child to child: a subtree below a child is never walked.
        while let Some((key, _)) =
            self.entries.range::<str, _>((Bound::Included(from.as_str()), Bound::Unbounded)).next()
        {
            let Some(below) = key.strip_prefix(&start) else { break };
            let name = below.split('/').next().unwrap_or_default().to_owned();
            from = if below.len() == name.len() {
                format!("{start}{name}\0")
            } else {
                format!("{start}{name}0") // '0' is the character after '/'
            };
            if names.last() != Some(&name) {
                names.push(name);
            }
        }
        names.sort();
        names.dedup();
        Ok(names)
    }

    fn resolve(&self, path: &str) -> Result<String, ReadError> {
        self.canonical(path).map_err(|why| ReadError::new(path, why))
    }
}

fn components(path: &str) -> Vec<String> {
    path.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// `path` seen from directory `base`, with `.` and `..` worked out; never above the root.
fn normal(base: &str, path: &str) -> String {
    let mut parts = if path.starts_with('/') { Vec::new() } else { components(base) };
    for part in components(path) {
        match part.as_str() {
            "." => {}
            ".." => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_keeps_the_rules_of_the_seam() {
        let mut tree = Tree::new();
        crate::conformance::fill(|path, content| {
            tree.file(path, content);
        });
        crate::conformance::fill_links(|path, target| {
            tree.link(path, target);
        });
        crate::conformance::sysfs(&tree);
    }

    #[test]
    fn names_that_sort_around_the_slash_are_listed_once() {
        let mut tree = Tree::new();
        tree.file("/d/a", "")
            .file("/d/a-b/x", "")
            .file("/d/a.b", "")
            .file("/d/a0/x", "")
            .file("/d/b/x/y", "");
        assert_eq!(tree.list("/d").expect("a directory"), ["a", "a-b", "a.b", "a0", "b"]);
        assert_eq!(tree.remove("/d/b").list("/d").expect("a directory"), ["a", "a-b", "a.b", "a0"]);
    }

    #[test]
    fn files_added_through_a_link_lie_at_its_target() {
        let mut tree = Tree::new();
        tree.link("/class/eth0", "../devices/pci/eth0").file("/class/eth0/speed", "100");
        assert_eq!(tree.read("/devices/pci/eth0/speed").expect("a file"), b"100");
    }
}
