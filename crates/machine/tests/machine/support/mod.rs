//! Test helpers: recorded machines on disk, and their hwloc topologies.

pub mod witness;

use numaio_machine::tree::Tree;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Writes to the standard error without the capture of the test harness, to report skipped tests.
pub fn print_note(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Returns the unpacked recorded machines by name.
pub fn machines() -> Vec<(String, PathBuf)> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/hwloc-machines");
    let corpus = std::env::var_os("NUMAIO_CORPUS").map_or(beside, PathBuf::from);
    let Ok(entries) = std::fs::read_dir(&corpus) else {
        print_note("skipped: no corpus of recorded machines (NUMAIO_CORPUS); see crates/machine/tests/machine/corpus.rs");
        return Vec::new();
    };
    let mut machines = Vec::new();
    for archive in entries.flatten().map(|entry| entry.path()) {
        let name = archive.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let Some(name) = name.strip_suffix(".tar.bz2") else { continue };
        match unpack(&archive, name) {
            Ok(root) => machines.push((name.to_owned(), root)),
            Err(why) => print_note(&format!("skipped: {name}: {why}")),
        }
    }
    machines.sort();
    machines
}

/// Unpacks an archive of a machine below the target directory and returns its root.
fn unpack(archive: &Path, name: &str) -> Result<PathBuf, String> {
    // Tests of one run share the folder; each process unpacks into its own, as they may run at the
    // same time.
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
    // The first to finish wins; all copies are identical.
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
