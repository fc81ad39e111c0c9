//! In-memory file tree of a machine, for tapes, simulated machines and tests.

use crate::sysfs::{ReadError, ReadErrorKind, Sysfs, MAX_FILE_BYTES};
use std::collections::BTreeMap;
use std::ops::Bound;

/// Maximum number of symbolic links in a path resolution, as in the kernel (`MAXSYMLINKS`).
const MAX_LINKS: usize = 40;

/// Maximum path length in bytes, as in the kernel (`PATH_MAX`).
pub const MAX_PATH_BYTES: usize = 4096;

/// An entry of a [`Tree`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A file and its content.
    File(Vec<u8>),
    /// A symbolic link and its target, relative or absolute below the root.
    Link(String),
    /// An empty directory; parents of other entries have no entry.
    Dir,
    /// A file that exists but cannot be read, such as `speed` of a network port that is down.
    Unreadable(ReadErrorKind),
    /// A name that does not resolve: a dangling link, or a link without permission to follow it.
    Unreachable(ReadErrorKind),
}

/// Files, directories and symbolic links in memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tree {
    /// Entries by canonical path; no path is a proper prefix of another.
    entries: BTreeMap<String, Entry>,
}

impl Tree {
    /// Creates an empty tree.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds or replaces a file, following symbolic links in its path.
    ///
    /// Adding any entry removes conflicting entries (a file in place of a parent directory, a
    /// directory in place of the entry). A path longer than [`MAX_PATH_BYTES`] is ignored.
    pub fn file(&mut self, path: &str, content: impl Into<Vec<u8>>) -> &mut Self {
        self.insert(path, Entry::File(content.into()))
    }

    /// Adds a symbolic link and removes entries below its path; therefore add links first.
    pub fn link(&mut self, path: &str, target: &str) -> &mut Self {
        self.insert(path, Entry::Link(target.to_owned()))
    }

    /// Adds an empty directory unless the path exists.
    pub fn dir(&mut self, path: &str) -> &mut Self {
        match self.place(path) {
            Some(place) if self.must_exist(&place).is_err() => self.insert_at(place, Entry::Dir),
            _ => self,
        }
    }

    /// Adds an entry that exists but cannot be read.
    pub fn unreadable(&mut self, path: &str, why: ReadErrorKind) -> &mut Self {
        self.insert(path, Entry::Unreadable(why))
    }

    /// Adds a name that does not resolve.
    pub fn unreachable(&mut self, path: &str, why: ReadErrorKind) -> &mut Self {
        self.insert(path, Entry::Unreachable(why))
    }

    /// Removes a file, a link or a directory with its content; the parent directory stays.
    pub fn remove(&mut self, path: &str) -> &mut Self {
        let Some(path) = self.place(path) else { return self };
        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
        let parent_was = self.must_exist(parent).is_ok();
        self.entries.remove(&path);
        self.remove_below(&path);
        if parent_was {
            self.dir(parent);
        }
        self
    }

    /// Iterates over all entries in ascending order of paths.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.entries.iter().map(|(path, entry)| (path.as_str(), entry))
    }

    /// Returns the entry at a path without following a final link; `None` for implicit directories.
    pub fn entry(&self, path: &str) -> Option<&Entry> {
        self.entries.get(&self.place(path)?)
    }

    fn insert(&mut self, path: &str, entry: Entry) -> &mut Self {
        match self.place(path) {
            Some(place) => self.insert_at(place, entry),
            None => self,
        }
    }

    fn insert_at(&mut self, path: String, entry: Entry) -> &mut Self {
        // Parent directories need no entry of their own.
        for (slash, _) in path.match_indices('/').skip(1) {
            self.entries.remove(&path[..slash]);
        }
        if entry != Entry::Dir {
            self.remove_below(&path);
        }
        self.entries.insert(path, entry);
        self
    }

    /// Returns the canonical path of an entry, following links in all but the last component.
    ///
    /// The entry need not exist. `None` for the root and for too long paths.
    fn place(&self, path: &str) -> Option<String> {
        if path.len() > MAX_PATH_BYTES {
            return None;
        }
        let path = path.trim_end_matches('/');
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        if matches!(name, "" | "." | "..") {
            let path = self.follow(path).unwrap_or_else(|_| normal(path));
            return if path == "/" { None } else { self.place(&path) };
        }
        let by_name = || normal(parent);
        let parent = self.follow(parent).or_else(|_| self.follow(&by_name())).unwrap_or_else(|_| by_name());
        Some(join(&parent, name)).filter(|path| path.len() <= MAX_PATH_BYTES)
    }

    /// Resolves every link in `path` as described in path_resolution(7).
    ///
    /// `..` is the parent of the reached directory, not of the link. The result need not exist, but
    /// the directory that `..` leaves must.
    fn follow(&self, path: &str) -> Result<String, ReadErrorKind> {
        let too_long = || ReadErrorKind::Failed("path too long".to_owned());
        if path.len() > MAX_PATH_BYTES {
            return Err(too_long());
        }
        let mut done = String::new();
        let mut rest: Vec<&str> = path.split('/').rev().collect();
        let mut links = 0;
        while let Some(name) = rest.pop() {
            match name {
                "" | "." => continue,
                ".." => {
                    self.must_exist(&done)?;
                    done.truncate(done.rfind('/').unwrap_or(0));
                    continue;
                }
                _ => {}
            }
            let parent = done.len();
            done.push('/');
            done.push_str(name);
            if done.len() > MAX_PATH_BYTES {
                return Err(too_long());
            }
            match self.entries.get(&done) {
                Some(Entry::Link(target)) => {
                    links += 1;
                    if links > MAX_LINKS || target.len() > MAX_PATH_BYTES {
                        return Err(ReadErrorKind::Failed("too many links".to_owned()));
                    }
                    done.truncate(if target.starts_with('/') { 0 } else { parent });
                    rest.extend(target.split('/').rev());
                }
                Some(Entry::Unreachable(why)) => return Err(why.clone()),
                Some(Entry::File(_) | Entry::Unreadable(ReadErrorKind::WrongKind)) if !rest.is_empty() => {
                    return Err(ReadErrorKind::WrongKind);
                }
                _ => {}
            }
        }
        Ok(if done.is_empty() { "/".to_owned() } else { done })
    }

    fn must_exist(&self, place: &str) -> Result<(), ReadErrorKind> {
        let exists = matches!(place, "" | "/") || self.entries.contains_key(place) || self.has_below(place);
        exists.then_some(()).ok_or(ReadErrorKind::Absent)
    }

    fn canonical(&self, path: &str) -> Result<String, ReadErrorKind> {
        let found = self.follow(path)?;
        self.must_exist(&found)?;
        Ok(found)
    }

    fn has_below(&self, dir: &str) -> bool {
        let start = join(dir, "");
        self.from(&start).is_some_and(|key| key.starts_with(&start))
    }

    fn remove_below(&mut self, dir: &str) {
        let start = join(dir, "");
        while let Some(key) = self.from(&start).filter(|key| key.starts_with(&start)).cloned() {
            self.entries.remove(&key);
        }
    }

    /// Returns the first path that is not less than `start`.
    fn from(&self, start: &str) -> Option<&String> {
        self.entries.range::<str, _>((Bound::Included(start), Bound::Unbounded)).next().map(|(key, _)| key)
    }
}

impl Sysfs for Tree {
    fn read(&self, path: &str) -> Result<Vec<u8>, ReadError> {
        let found = self.canonical(path).map_err(|why| ReadError::new(path, why))?;
        match self.entries.get(&found) {
            Some(Entry::File(content)) if content.len() > MAX_FILE_BYTES => {
                Err(ReadError::new(path, ReadErrorKind::TooLong))
            }
            Some(Entry::File(content)) => Ok(content.clone()),
            Some(Entry::Unreadable(why)) => Err(ReadError::new(path, why.clone())),
            _ => Err(ReadError::new(path, ReadErrorKind::WrongKind)),
        }
    }

    fn list(&self, path: &str) -> Result<Vec<String>, ReadError> {
        let found = self.canonical(path).map_err(|why| ReadError::new(path, why))?;
        match self.entries.get(&found) {
            Some(Entry::File(_)) => return Err(ReadError::new(path, ReadErrorKind::WrongKind)),
            Some(Entry::Unreadable(why)) => return Err(ReadError::new(path, why.clone())),
            _ => {}
        }
        let start = join(&found, "");
        let mut names: Vec<String> = Vec::new();
        let mut from = start.clone();
        // Jump from child to child without walking their subtrees.
        while let Some(below) = self.from(&from).and_then(|key| key.strip_prefix(&start)) {
            let name = below.split('/').next().unwrap_or_default().to_owned();
            from = if below.len() == name.len() {
                format!("{start}{name}\0")
            } else {
                format!("{start}{name}0") // '0' is the character after '/'
            };
            names.push(name);
        }
        names.sort();
        names.dedup();
        Ok(names)
    }

    fn resolve(&self, path: &str) -> Result<String, ReadError> {
        self.canonical(path).map_err(|why| ReadError::new(path, why))
    }
}

/// Joins `name` to the directory `dir`.
pub(crate) fn join(dir: &str, name: &str) -> String {
    format!("{}/{name}", dir.trim_end_matches('/'))
}

/// Returns `path` with `.` and `..` resolved lexically, never above the root.
fn normal(path: &str) -> String {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tree_passes_sysfs_conformance() {
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
    fn lists_names_once_that_sort_around_the_slash() {
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
    fn adds_files_at_the_target_of_a_link() {
        let mut tree = Tree::new();
        tree.link("/class/eth0", "../devices/pci/eth0").file("/class/eth0/speed", "100");
        assert_eq!(tree.read("/devices/pci/eth0/speed").expect("a file"), b"100");
    }

    #[test]
    fn dot_dot_is_the_parent_of_the_reached_directory() {
        let mut tree = Tree::new();
        tree.link("/class/eth0", "../devices/pci/eth0")
            .file("/devices/pci/eth0/speed", "")
            .file("/devices/pci/id", "7");
        assert_eq!(tree.read("/class/eth0/../id").expect("a file"), b"7");
        assert_eq!(tree.read("/class/absent/../eth0").expect_err("no way").why, ReadErrorKind::Absent);
        assert_eq!(tree.read("/devices/pci/id/x").expect_err("no way").why, ReadErrorKind::WrongKind);
        assert_eq!(tree.read("/devices/pci/id/").expect_err("no directory").why, ReadErrorKind::WrongKind);
    }

    #[test]
    fn replaces_conflicting_entries() {
        let mut tree = Tree::new();
        tree.file("/a", "file").file("/a/b/c", "below");
        assert_eq!(tree.list("/a").expect("a directory now"), ["b"]);
        tree.file("/a", "file again");
        assert_eq!(tree.entries().count(), 1);
        tree.dir("/a");
        assert_eq!(tree.read("/a").expect("it stays"), b"file again");
        tree.file("/d/x", "").remove("/d/x");
        assert!(tree.list("/d").expect("the directory stays").is_empty());
    }

    #[test]
    fn unreadable_entries_report_their_reason() {
        let mut tree = Tree::new();
        tree.unreadable("/speed", ReadErrorKind::Failed("EINVAL".into()))
            .unreachable("/cwd", ReadErrorKind::Denied);
        assert_eq!(tree.read("/speed").expect_err("down").why, ReadErrorKind::Failed("EINVAL".into()));
        assert_eq!(tree.resolve("/speed").expect("it is there"), "/speed");
        assert_eq!(tree.resolve("/cwd/x").expect_err("no way").why, ReadErrorKind::Denied);
        assert_eq!(tree.list("/").expect("both are named"), ["cwd", "speed"]);
    }

    #[test]
    fn rejects_too_long_paths() {
        let mut tree = Tree::new();
        tree.file(&"/a".repeat(MAX_PATH_BYTES), "").file("/", "");
        assert_eq!(tree.entries().count(), 0);
        // Each link makes the path longer, and never does it end.
        tree.link("/l", "l/l");
        assert!(tree.read("/l").is_err());
        let long = "/b".repeat(MAX_PATH_BYTES / 2);
        tree.link("/long", &long[1..]).file(&long, "deep");
        assert!(tree.read(&format!("/long/../{}", &long[1..])).is_err());
    }
}
