//! Snapshots of directory trees, to detect any change.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Maps every path below a directory to all metadata of lstat(2) except the access time. Any change
/// of an attribute changes the ctime.
pub fn snapshot(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut tree = BTreeMap::new();
    let mut rest = vec![root.to_owned()];
    while let Some(path) = rest.pop() {
        let found = fs::symlink_metadata(&path).expect("a file");
        let text = format!(
            "{} {:o} {}:{} {} names, {} bytes in {} blocks, {:?} {:?} {:?}",
            found.ino(),
            found.mode(),
            found.uid(),
            found.gid(),
            found.nlink(),
            found.size(),
            found.blocks(),
            (found.mtime(), found.mtime_nsec()),
            (found.ctime(), found.ctime_nsec()),
            fs::read_link(&path).ok(),
        );
        if found.is_dir() {
            rest.extend(fs::read_dir(&path).expect("a folder").map(|entry| entry.expect("an entry").path()));
        }
        tree.insert(path, text);
    }
    tree
}
