//! Upper limits for the lengths of files and functions.

use crate::tree::{assert_none, relative, root, rust_files};
use std::path::PathBuf;

const LONGEST_FUNCTION: usize = 70;
const LONGEST_FILE: usize = 1_000;

fn sources() -> impl Iterator<Item = (PathBuf, String)> {
    ["crates", "fuzz", "tests", "lab"].into_iter().flat_map(|dir| rust_files(&root().join(dir)))
}

#[test]
fn files_stay_short() {
    let mut found = Vec::new();
    for (path, text) in sources() {
        let path = relative(&path);
        let lines = text.lines().count();
        found
            .extend((lines > LONGEST_FILE).then(|| format!("{path}: {lines} lines, {LONGEST_FILE} at most")));
    }
    assert_none(found);
}

/// Sources are formatted: a function ends at the next closing brace in the column of its first
/// line.
#[test]
fn functions_stay_short() {
    let mut found = Vec::new();
    for (path, text) in sources() {
        let lines: Vec<&str> = text.lines().collect();
        for (first, line) in lines.iter().enumerate() {
            let indent = line.len() - line.trim_start().len();
            let is_function = line.split_whitespace().take(5).any(|word| word == "fn");
            if !is_function || line.trim_start().starts_with("//") {
                continue;
            }
            let close = format!("{}}}", " ".repeat(indent));
            let end = lines[first..].iter().position(|line| *line == close || line.trim_end().ends_with(';'));
            let ends = lines[first..].iter().position(|line| *line == close);
            // A signature without a body ends with a semicolon before any brace.
            let body = lines[first..].iter().position(|line| line.trim_end().ends_with('{'));
            let length = match (ends, end, body) {
                (Some(close), Some(end), Some(body)) if body <= end || close == end => close + 1,
                _ => 0,
            };
            if length > LONGEST_FUNCTION {
                found.push(format!("{}:{}: {length} lines", relative(&path), first + 1));
            }
        }
    }
    assert_none(found);
}
