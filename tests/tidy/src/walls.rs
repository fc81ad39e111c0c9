//! Dependencies between crates, and code that only some crates may contain.
//!
//! ARCHITECTURE.md states these rules.

use crate::tree::{assert_none, crates, root, rust_files, shipped};
use std::collections::BTreeMap;
use std::process::Command;

/// Crates and the crates that they may depend on; `dev-dependencies` do not count.
const ARROWS: [(&str, &[&str]); 19] = [
    ("machine", &[]),
    ("schema", &["machine"]),
    ("linux", &["machine"]),
    ("sim", &["machine"]),
    ("measure", &["machine", "schema"]),
    ("model", &["machine", "schema"]),
    ("place", &["machine", "schema"]),
    ("mover", &[]),
    ("broker", &[]),
    ("mover-linux", &["machine", "mover", "linux"]),
    ("report", &["machine", "schema"]),
    ("fleet", &["machine", "schema", "linux"]),
    ("transfer", &["machine", "schema", "linux", "mover", "mover-linux", "broker"]),
    (
        "cli",
        &[
            "machine",
            "schema",
            "linux",
            "sim",
            "measure",
            "model",
            "place",
            "mover",
            "mover-linux",
            "report",
            "transfer",
            "fleet",
        ],
    ),
    // No crate depends on the last five. Files that only commands read are parsed in cli.
    ("fuzz", &["machine", "schema", "linux", "mover", "mover-linux", "report", "transfer", "fleet", "cli"]),
    ("lab", &[]),
    ("published", &["machine", "model", "schema"]),
    ("schemas", &[]),
    ("tidy", &[]),
];

/// Returns the lines outside of tests that `bad` matches, in crates other than `allowed`.
fn complaints(allowed: &[&str], bad: impl Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for (name, dir) in crates().iter().filter(|(name, _)| !allowed.contains(&name.as_str())) {
        for (path, text) in rust_files(&dir.join("src")) {
            let lines = shipped(&path, &text).filter(|(_, line)| bad(line));
            found.extend(lines.map(|(number, line)| format!("{name}: {}:{number}: {line}", path.display())));
        }
    }
    found
}

#[test]
fn crates_depend_only_on_what_the_design_allows() {
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
        "a package was added or removed: change ARROWS and ARCHITECTURE.md"
    );
    for package in packages {
        let name =
            package["name"].as_str().and_then(|name| name.strip_prefix("numaio-")).expect("a package's name");
        let allowed = allowed.get(name).unwrap_or_else(|| panic!("the design has no package {name}"));
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let to = dependency["name"].as_str().and_then(|name| name.strip_prefix("numaio-"));
            if let Some(to) = to.filter(|_| dependency["kind"].is_null()) {
                assert!(allowed.contains(&to), "{name} must not depend on {to}");
            }
        }
    }
}

#[test]
fn only_the_linux_crates_contain_unsafe_code() {
    let word = |line: &str| {
        line.split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-'))).any(|word| word == "unsafe")
    };
    assert_none(complaints(&["linux", "mover-linux"], word));
}

#[test]
fn only_cli_prints_and_exits() {
    let output = [
        "println!",
        "print!",
        "eprintln!",
        "eprint!",
        "dbg!",
        "process::exit",
        "std::io::stdout",
        "std::io::stderr",
    ];
    assert_none(complaints(&["cli"], |line| output.iter().any(|word| line.contains(word))));
}

#[test]
fn only_crates_of_a_machine_contain_paths_of_sys_and_proc() {
    assert_none(complaints(&["machine", "linux", "mover-linux", "sim"], |line| {
        line.contains("\"/sys") || line.contains("\"/proc")
    }));
}

#[test]
fn no_crate_contains_markers_of_unfinished_work() {
    let markers = ["todo!", "unimplemented!", "TODO", "FIXME", "XXX"];
    assert_none(complaints(&[], |line| markers.iter().any(|marker| line.contains(marker))));
}
