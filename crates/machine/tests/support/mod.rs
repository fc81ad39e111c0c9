//! Helpers of the tests: recorded machines from disk, and what hwloc says of them.

pub mod witness;

use numaio_machine::tree::Tree;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Unpacks an archive of a machine below the target directory and gives the root in it.
pub fn unpack(archive: &Path, name: &str) -> Result<PathBuf, String> {
    // Tests of one run share the folder; each process unpacks into its own, as they may run at the same time.
    let unpacked = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hwloc-machines").join(name);
    if let Some(root) = only_child(&unpacked) {
        return Ok(root);
    }
    let thread =
        format!("{:?}", std::thread::current().id()).replace(|c: char| !c.is_ascii_alphanumeric(), "");
    let fresh = unpacked.with_file_name(format!(".{name}.{}.{thread}", std::process::id()));
    std::fs::create_dir_all(&fresh).map_err(|error| error.to_string())?;
    let tar = Command::new("tar").arg("-xjf").arg(archive).arg("-C").arg(&fresh).output();
    let result = match tar {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("tar: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) => Err(format!("tar: {error}")),
    };
    // The first to finish wins; the others' copies are the same.
    let _ = std::fs::rename(&fresh, &unpacked);
    let _ = std::fs::remove_dir_all(&fresh);
    result?;
    only_child(&unpacked).ok_or_else(|| "it does not hold one directory".to_owned())
}

fn only_child(directory: &Path) -> Option<PathBuf> {
    let mut entries = std::fs::read_dir(directory).ok()?.flatten();
    entries.next().map(|entry| entry.path())
}

/// Loads a directory as the root of a machine.
pub fn load(root: &Path) -> Tree {
    let mut tree = Tree::new();
    let mut left = vec![root.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in std::fs::read_dir(&directory).expect("a directory of the corpus").flatten() {
            let path = entry.path();
            let name = path.strip_prefix(root).expect("below the root").to_string_lossy().into_owned();
            let kind = entry.file_type().expect("a kind of file");
            if kind.is_dir() {
                tree.dir(&name);
                left.push(path);
            } else if kind.is_symlink() {
                tree.link(&name, &std::fs::read_link(&path).expect("a link").to_string_lossy());
            } else if let Ok(content) = std::fs::read(&path) {
                tree.file(&name, content);
            }
        }
    }
    tree
}
