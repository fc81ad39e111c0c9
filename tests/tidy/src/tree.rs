//! The files under check, and views of their text.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders of build outputs, which the checks skip.
const OUTPUTS: [&str; 4] = ["target", "build", "book", ".git"];

/// Returns the root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository's root")
}

/// Returns `path` relative to the root of the repository.
pub fn relative(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).to_string_lossy().into_owned()
}

/// Returns every file below `dir`, sorted.
pub fn walk(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut pending = vec![dir.to_owned()];
    while let Some(dir) = pending.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let output = OUTPUTS.iter().any(|name| entry.file_name() == *name);
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && !output => pending.push(entry.path()),
                Ok(kind) if kind.is_file() => files.push(entry.path()),
                _ => {}
            }
        }
    }
    files.sort();
    files
}

/// Returns every Rust file below `dir` with its text.
pub fn rust_files(dir: &Path) -> Vec<(PathBuf, String)> {
    with_extension(walk(dir), "rs")
}

/// Returns the Markdown pages of the repository with their text.
pub fn pages() -> Vec<(PathBuf, String)> {
    let top = fs::read_dir(root()).expect("the root").flatten().map(|entry| entry.path());
    let mut paths: Vec<PathBuf> = top.filter(|path| path.is_file()).collect();
    paths.extend(["docs", "lab"].iter().flat_map(|dir| walk(&root().join(dir))));
    with_extension(paths, "md")
}

fn with_extension(paths: Vec<PathBuf>, extension: &str) -> Vec<(PathBuf, String)> {
    let paths = paths.into_iter().filter(|path| path.extension().is_some_and(|found| found == extension));
    paths.map(|path| (path.clone(), fs::read_to_string(path).expect("a text file"))).collect()
}

/// Returns the crates of the program as (name, directory).
pub fn crates() -> Vec<(String, PathBuf)> {
    let mut crates: Vec<(String, PathBuf)> = fs::read_dir(root().join("crates"))
        .expect("crates")
        .flatten()
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()))
        .collect();
    crates.sort();
    crates
}

/// Returns lines of code as (line number, text) without comments; strings keep their text.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    lines.map(|(number, line)| (number, line.split("//").next().unwrap_or_default()))
}

/// Returns lines of code outside of unit tests, which are at the end of a file or in `tests.rs`.
pub fn shipped<'a>(path: &Path, text: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
    let tests = path.file_name().is_some_and(|name| name == "tests.rs" || name == "test_support.rs");
    code(text).take_while(move |(_, line)| !tests && *line != "#[cfg(test)]")
}

/// Returns the lines of a page as (line number, text) without fenced code blocks.
pub fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_block = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let fence = line.starts_with("```");
        in_block ^= fence;
        (!fence && !in_block).then_some((index + 1, line))
    })
}

/// Fails with the complaints, if there are any.
pub fn assert_none(complaints: Vec<String>) {
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}
