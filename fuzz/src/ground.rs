//! A directory that a daemon may serve, with links that lead out of it, and one beside it in which nothing may happen.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Removed when it is dropped.
pub struct Ground {
    all: PathBuf,
    /// What is served.
    pub root: PathBuf,
}

static NEXT: AtomicU64 = AtomicU64::new(0);

impl Ground {
    pub fn new() -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let all = std::env::temp_dir().join(format!("numaio-fuzz-{}-{number}", std::process::id()));
        fs::create_dir(&all).expect("a new directory");
        let all = all.canonicalize().expect("a directory");
        let root = all.join("root");
        fs::create_dir_all(root.join("a/b")).expect("directories");
        fs::create_dir(all.join("outside")).expect("a directory");
        fs::write(root.join("file"), b"x").expect("a file");
        for (link, to) in [("out", "../outside"), ("up", ".."), ("in", "a"), ("round", "round")] {
            symlink(to, root.join(link)).expect("a link");
        }
        symlink(all.join("outside"), root.join("abs")).expect("a link");
        Self { all, root }
    }

    /// Nothing happened outside of the root.
    pub fn check(&self) {
        let names = |at: &Path| -> BTreeSet<_> {
            fs::read_dir(at).expect("a directory").flatten().map(|entry| entry.file_name()).collect()
        };
        assert_eq!(names(&self.all), ["outside", "root"].map(Into::into).into());
        assert!(names(&self.all.join("outside")).is_empty());
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.all));
    }
}
