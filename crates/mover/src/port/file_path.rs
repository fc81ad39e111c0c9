//! Paths of files below a port's roots.

/// A file below one of a port's roots.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FilePath {
    /// Index of the root.
    pub root: u32,
    /// Components separated by single slashes, none of them `.` or `..`; empty for the root itself.
    pub name: Box<[u8]>,
}

impl FilePath {
    /// Returns the path `name` below `root`.
    pub fn new(root: u32, name: impl Into<Box<[u8]>>) -> Self {
        Self { root, name: name.into() }
    }
}
