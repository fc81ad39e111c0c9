//! Writes a tree to files, to test code that reads files.

use numaio_machine::tree::{Entry, Tree};
use std::io;
use std::path::{Path, PathBuf};

/// Writes a tree below a directory, which is created if necessary: `/sys/x` becomes `DIR/sys/x`.
/// Absolute links become relative ones within the directory. An unreadable file becomes an empty
/// file without permissions, an unresolvable link a dangling one.
///
/// # Errors
/// Errors of the file system. Links are written last, so that nothing is written through them.
pub fn write_tree(tree: &Tree, root: &Path) -> io::Result<()> {
    std::fs::create_dir_all(root)?;
    let mut made = PathBuf::new();
    let (links, others): (Vec<_>, Vec<_>) =
        tree.entries().partition(|(_, entry)| matches!(entry, Entry::Link(_)));
    for (path, entry) in others.into_iter().chain(links) {
        let place = root.join(path.trim_start_matches('/'));
        let dir = match entry {
            Entry::Dir => Some(place.as_path()),
            _ => place.parent(),
        };
        // Entries are sorted by path: most are in the directory of the previous one.
        if let Some(dir) = dir.filter(|dir| *dir != made) {
            std::fs::create_dir_all(dir)?;
            made = dir.to_owned();
        }
        write_entry(entry, path, &place)?;
    }
    Ok(())
}

fn write_entry(entry: &Entry, path: &str, place: &Path) -> io::Result<()> {
    match entry {
        Entry::File(content) => std::fs::write(place, content),
        Entry::Link(target) => std::os::unix::fs::symlink(relative(path, target), place),
        Entry::Dir => Ok(()),
        Entry::Unreachable(_) => std::os::unix::fs::symlink("leads nowhere", place),
        Entry::Unreadable(_) => {
            use std::os::unix::fs::PermissionsExt;
            std::fs::write(place, "")?;
            std::fs::set_permissions(place, std::fs::Permissions::from_mode(0o0))
        }
    }
}

/// Returns a link target relative to the link's directory.
fn relative(path: &str, target: &str) -> String {
    match target.strip_prefix('/') {
        Some(below) => "../".repeat(path.matches('/').count() - 1) + below,
        None => target.to_owned(),
    }
}
