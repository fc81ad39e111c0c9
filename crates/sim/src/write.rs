//! A tree as files, for tests of what reads files.

use numaio_machine::tree::{Entry, Tree};
use std::io;
use std::path::{Path, PathBuf};

/// Writes a tree below a directory, which is made if it is not there: `/sys/x` becomes `DIR/sys/x`.
///
/// Links whose target is absolute become relative ones, so that they stay below the directory. What cannot
/// be read becomes an empty file without any permission; what leads nowhere a link to nothing.
///
/// # Errors
/// What the file system says; links of a tree are written last, so nothing is written through one.
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
        // Entries come by path: most lie in the directory of the one before.
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

/// The target of a link as seen from the link's directory.
fn relative(path: &str, target: &str) -> String {
    match target.strip_prefix('/') {
        Some(below) => "../".repeat(path.matches('/').count() - 1) + below,
        None => target.to_owned(),
    }
}
