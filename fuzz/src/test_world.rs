//! A directory tree that a daemon serves, with links out of it and a directory beside it.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A served directory beside one that must stay empty; both are removed on drop.
pub struct TestWorld {
    parent: PathBuf,
    /// The served directory.
    pub root: PathBuf,
}

static NEXT: AtomicU64 = AtomicU64::new(0);

impl TestWorld {
    /// Creates the directories, files and links.
    pub fn new() -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let parent = std::env::temp_dir().join(format!("numaio-fuzz-{}-{number}", std::process::id()));
        fs::create_dir(&parent).expect("a new directory");
        let parent = parent.canonicalize().expect("a directory");
        let root = parent.join("root");
        fs::create_dir_all(root.join("a/b")).expect("directories");
        fs::create_dir(parent.join("outside")).expect("a directory");
        fs::write(root.join("file"), b"x").expect("a file");
        for (link, to) in [("out", "../outside"), ("up", ".."), ("in", "a"), ("round", "round")] {
            symlink(to, root.join(link)).expect("a link");
        }
        symlink(parent.join("outside"), root.join("abs")).expect("a link");
        Self { parent, root }
    }

    /// Asserts that nothing changed outside of the root.
    pub fn check(&self) {
        let names = |at: &Path| -> BTreeSet<_> {
            fs::read_dir(at).expect("a directory").flatten().map(|entry| entry.file_name()).collect()
        };
        assert_eq!(names(&self.parent), ["outside", "root"].map(Into::into).into());
        assert!(names(&self.parent.join("outside")).is_empty());
    }
}

impl Drop for TestWorld {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.parent));
    }
}
