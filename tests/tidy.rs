//! The house's walls: arrows between rooms, and what may stand in which room.
//!
//! ARCHITECTURE.md names these rules; this test keeps them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Rooms and the rooms they may import. Tests may import more: `dev-dependencies` are not arrows.
const ARROWS: [(&str, &[&str]); 11] = [
    ("machine", &[]),
    ("schema", &["machine"]),
    ("linux", &["machine"]),
    ("sim", &["machine"]),
    ("measure", &["machine", "schema"]),
    ("model", &["machine", "schema"]),
    ("place", &["machine", "schema"]),
    ("mover", &["machine", "schema"]),
    ("report", &["machine", "schema"]),
    ("cli", &["machine", "schema", "linux", "sim", "measure", "model", "place", "mover", "report"]),
    // Beside the house: it runs rooms, and nobody imports it.
    ("fuzz", &["machine", "schema", "linux", "sim", "mover", "cli"]),
];

const LONGEST_FUNCTION: usize = 70;
const LONGEST_FILE: usize = 1_000;
const LONGEST_COMMAND: usize = 300;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the project's root")
}

/// Every Rust file of a room, with its text.
fn files(dir: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("a source file");
                found.push((path, text));
            }
        }
    }
    found.sort();
    found
}

fn rooms() -> Vec<(String, PathBuf)> {
    let mut rooms: Vec<(String, PathBuf)> = fs::read_dir(root().join("crates"))
        .expect("crates")
        .flatten()
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()))
        .collect();
    rooms.sort();
    rooms
}

/// Lines of code as (line number, text) without comments; text in strings stays.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    lines.map(|(number, line)| (number, line.split("//").next().unwrap_or_default()))
}

/// Lines of code that is not there to test. Unit tests stand at the end of a file, or in `tests.rs`.
fn shipped<'a>(path: &Path, text: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
    let tests = path.file_name().is_some_and(|name| name == "tests.rs");
    code(text).take_while(move |(_, line)| !tests && *line != "#[cfg(test)]")
}

/// Pages for people, with their text.
fn pages() -> Vec<(PathBuf, String)> {
    let entries = ["", "docs", "lab"].map(|dir| fs::read_dir(root().join(dir)).expect("a folder").flatten());
    let paths = entries.into_iter().flatten().map(|entry| entry.path());
    let paths = paths.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    paths.map(|path| (path.clone(), fs::read_to_string(path).expect("a page"))).collect()
}

/// Lines of a page with their numbers, without its examples.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut example = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let fence = line.starts_with("```");
        example ^= fence;
        (!fence && !example).then_some((index + 1, line))
    })
}

/// What links to a heading, as code hosts and viewers derive it.
fn anchor(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    let heading = heading.trim_start_matches('#').trim().to_lowercase();
    heading.chars().filter(kept).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Why a link of a page leads nowhere; none if it leads somewhere, or out of the project.
fn broken(page: &Path, link: &str) -> Option<String> {
    if link.contains("://") {
        return None;
    }
    let (file, heading) = link.split_once('#').unwrap_or((link, ""));
    let to = if file.is_empty() { page.to_owned() } else { page.with_file_name(file) };
    if !to.exists() {
        return Some(format!("there is no {}", to.display()));
    }
    let has_it = || {
        let text = fs::read_to_string(&to).expect("a page");
        let found = prose(&text).any(|(_, line)| line.starts_with('#') && anchor(line) == heading);
        found
    };
    (!heading.is_empty() && !has_it()).then(|| format!("{} has no heading #{heading}", to.display()))
}

/// Complaints about lines of code for which `bad` holds, in files of rooms other than `allowed`.
fn complaints(allowed: &[&str], bad: impl Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for (room, dir) in rooms().iter().filter(|(room, _)| !allowed.contains(&room.as_str())) {
        for (path, text) in files(&dir.join("src")) {
            let lines = shipped(&path, &text).filter(|(_, line)| bad(line));
            found.extend(lines.map(|(number, line)| format!("{room}: {}:{number}: {line}", path.display())));
        }
    }
    found
}

fn none(complaints: Vec<String>) {
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

#[test]
fn arrows_point_as_the_design_says() {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo metadata");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON of cargo metadata");
    let allowed: BTreeMap<&str, &[&str]> = ARROWS.into_iter().collect();
    let packages = metadata["packages"].as_array().expect("packages");
    assert_eq!(
        packages.len(),
        allowed.len(),
        "a room was added or torn down: change ARROWS and ARCHITECTURE.md"
    );
    for package in packages {
        let name =
            package["name"].as_str().and_then(|name| name.strip_prefix("numaio-")).expect("a room's name");
        let allowed = allowed.get(name).unwrap_or_else(|| panic!("{name} is no room of the design"));
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let to = dependency["name"].as_str().and_then(|name| name.strip_prefix("numaio-"));
            if let Some(to) = to.filter(|_| dependency["kind"].is_null()) {
                assert!(allowed.contains(&to), "{name} must not import {to}");
            }
        }
    }
}

#[test]
fn unsafe_stands_only_in_linux() {
    let word = |line: &str| {
        line.split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-'))).any(|word| word == "unsafe")
    };
    none(complaints(&["linux"], word));
}

#[test]
fn only_cli_prints_and_exits() {
    let speaks = [
        "println!",
        "print!",
        "eprintln!",
        "eprint!",
        "dbg!",
        "process::exit",
        "std::io::stdout",
        "std::io::stderr",
    ];
    none(complaints(&["cli"], |line| speaks.iter().any(|word| line.contains(word))));
}

#[test]
fn only_machine_linux_and_sim_know_paths_of_sys_and_proc() {
    none(complaints(&["machine", "linux", "sim"], |line| {
        line.contains("\"/sys") || line.contains("\"/proc")
    }));
}

#[test]
fn nothing_is_left_to_do() {
    let words = ["todo!", "unimplemented!", "TODO", "FIXME", "XXX"];
    none(complaints(&[], |line| words.iter().any(|word| line.contains(word))));
}

#[test]
fn files_stay_short() {
    let mut found = Vec::new();
    for (_, dir) in rooms() {
        for (path, text) in files(&dir) {
            let most = if path.to_string_lossy().contains("cli/src/commands") {
                LONGEST_COMMAND
            } else {
                LONGEST_FILE
            };
            let lines = text.lines().count();
            found
                .extend((lines > most).then(|| format!("{}: {lines} lines, {most} at most", path.display())));
        }
    }
    none(found);
}

/// Sources are formatted, so a function ends at the next closing brace in the column of its first line.
#[test]
fn functions_stay_short() {
    let mut found = Vec::new();
    for (_, dir) in rooms() {
        for (path, text) in files(&dir) {
            let lines: Vec<&str> = text.lines().collect();
            for (first, line) in lines.iter().enumerate() {
                let indent = line.len() - line.trim_start().len();
                let is_function = line.split_whitespace().take(5).any(|word| word == "fn");
                if !is_function || line.trim_start().starts_with("//") {
                    continue;
                }
                let close = format!("{}}}", " ".repeat(indent));
                let end =
                    lines[first..].iter().position(|line| *line == close || line.trim_end().ends_with(';'));
                let ends = lines[first..].iter().position(|line| *line == close);
                // A signature without a body ends with a semicolon before any brace.
                let body = lines[first..].iter().position(|line| line.trim_end().ends_with('{'));
                let length = match (ends, end, body) {
                    (Some(close), Some(end), Some(body)) if body <= end || close == end => close + 1,
                    _ => 0,
                };
                if length > LONGEST_FUNCTION {
                    found.push(format!("{}:{}: {length} lines", path.display(), first + 1));
                }
            }
        }
    }
    none(found);
}

#[test]
fn links_of_pages_lead_somewhere() {
    let mut found = Vec::new();
    for (page, text) in pages() {
        for (number, line) in prose(&text) {
            let links = line.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
            let bad = links.filter_map(|(link, _)| broken(&page, link));
            found.extend(bad.map(|why| format!("{}:{number}: {why}", page.display())));
        }
    }
    none(found);
    let readme = root().join("README.md");
    assert_eq!(broken(&readme, "docs/benchmarks.md#numaio-copy-compared-with-other-programs"), None);
    assert!(broken(&readme, "docs/gone.md").is_some() && broken(&readme, "#gone").is_some());
}
