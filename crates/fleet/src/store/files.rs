//! The files that a user adds: documents, and directories of documents.

use crate::launch::run_directory::{HOSTS_DIRECTORY, RUN_FILE};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Maximum depth of directories below a named one.
const MAX_DEPTH: usize = 16;

/// Lists files: named ones, and all `*.json` below named directories, sorted by name.
///
/// Names that start with a dot are ignored: they are temporary files of a host that writes its
/// report. Of the directory of a run, its description is left out. Symbolic links to directories
/// are not followed, so a circle of them ends.
///
/// # Errors
/// For each path that cannot be read, the path with the error; the others are listed nevertheless.
pub fn list_files(paths: &[PathBuf]) -> (Vec<PathBuf>, Vec<(PathBuf, io::Error)>) {
    let (mut files, mut errors) = (Vec::new(), Vec::new());
    for path in paths {
        match fs::metadata(path) {
            Ok(found) if found.is_dir() => list_directory(path, 0, &mut files, &mut errors),
            Ok(_) => files.push(path.clone()),
            Err(error) => errors.push((path.clone(), error)),
        }
    }
    (files, errors)
}

fn list_directory(
    directory: &Path,
    depth: usize,
    files: &mut Vec<PathBuf>,
    errors: &mut Vec<(PathBuf, io::Error)>,
) {
    if depth > MAX_DEPTH {
        let why = format!("more than {MAX_DEPTH} directories deep");
        return errors.push((directory.to_owned(), io::Error::other(why)));
    }
    let entries = match fs::read_dir(directory).and_then(Iterator::collect::<io::Result<Vec<_>>>) {
        Ok(entries) => entries,
        Err(error) => return errors.push((directory.to_owned(), error)),
    };
    let visible = |entry: &fs::DirEntry| !entry.file_name().as_encoded_bytes().starts_with(b".");
    let mut entries: Vec<fs::DirEntry> = entries.into_iter().filter(visible).collect();
    let is_run = entries.iter().any(|entry| entry.file_name() == HOSTS_DIRECTORY);
    entries.retain(|entry| !(is_run && entry.file_name() == RUN_FILE));
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => list_directory(&path, depth + 1, files, errors),
            // A FIFO among the files would block.
            Ok(_) if path.extension().is_some_and(|end| end == "json") && path.is_file() => files.push(path),
            Ok(_) => {}
            Err(error) => errors.push((path, error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::run_directory::tests::{run_of, Scratch};
    use crate::launch::run_directory::RunDirectory;

    #[test]
    fn reports_of_a_run_are_listed_without_its_description() {
        let scratch = Scratch::new();
        let run = RunDirectory::create(&scratch.0, &run_of(&["n1"])).expect("a run");
        run.write_report("n1", "{}").expect("a report");
        let listed = |path: &Path| list_files(&[path.to_owned()]).0;
        assert_eq!(listed(run.path()), [run.report_path("n1")]);
        assert_eq!(listed(&scratch.0), [scratch.0.join("r1/hosts/n1.json")]);
        // A document of that name elsewhere is a document.
        let other = scratch.0.join("other");
        fs::create_dir(&other).expect("a directory");
        fs::write(other.join(RUN_FILE), "{}").expect("a file");
        assert_eq!(listed(&other), [other.join(RUN_FILE)]);
    }
}
