//! Tests of the Python package, by every supported Python of this machine.

#[path = "../support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{skipped, CommandOutput, Home, Limited, HEED_SIGNALS};

/// Names of interpreters. The distribution's is first: tools/setup installs optional packages for
/// it.
const INTERPRETERS: [&str; 7] =
    ["/usr/bin/python3", "python3", "python3.9", "python3.10", "python3.11", "python3.12", "python3.13"];

/// Oldest supported version.
const OLDEST: (u32, u32) = (3, 9);

/// Prints the version, and the path that starts this interpreter without a wrapper.
const VERSION: &str = "import sys; print(*sys.version_info[:2], sys.executable)";

/// Returns a supported interpreter for each version by its path.
fn interpreters() -> BTreeMap<(u32, u32), PathBuf> {
    let mut found = BTreeMap::new();
    for name in INTERPRETERS {
        let Ok(output) = Command::new(name).args(["-c", VERSION]).limited_output() else { continue };
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut words = text.trim().splitn(3, ' ');
        let mut number = || words.next().and_then(|word| word.parse::<u32>().ok());
        let (Some(major), Some(minor)) = (number(), number()) else { continue };
        if let (true, Some(path)) = ((major, minor) >= OLDEST, words.next()) {
            found.entry((major, minor)).or_insert_with(|| PathBuf::from(path));
        }
    }
    found
}

/// Runs the tests of the package, and forwards the reasons of those that were skipped.
fn run_package_tests(python: &Path) {
    let home = Home::new();
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let package = repository.join("python");
    let python_path = python.to_string_lossy();
    let mut command = home.command(
        HEED_SIGNALS[0],
        &[HEED_SIGNALS[1], &python_path, "-m", "unittest", "discover", "-v", "-s", "tests", "-t", "."],
    );
    command
        .current_dir(&package)
        .env("NUMAIO", env!("CARGO_BIN_EXE_numaio"))
        .env("PYTHONPATH", package.join("src"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("MPLCONFIGDIR", home.path("matplotlib"));
    let output = CommandOutput::of(command.limited_output().expect("Python"));
    assert_eq!(output.code, Some(0), "{}: {}{}", python.display(), output.out, output.err);
    assert!(output.err.contains("\nRan "), "{}: no test ran: {}", python.display(), output.err);
    for reason in skipped_tests(&output.err) {
        skipped(format!("{}: {reason}", python.display()));
    }
}

/// Returns the reasons in unittest's lines such as `test_x (tests.test_y.Z) ... skipped 'reason'`.
fn skipped_tests(output: &str) -> Vec<&str> {
    output
        .lines()
        .filter_map(|line| line.split_once(" ... skipped "))
        .map(|(_, reason)| reason.trim_matches(['\'', '"']))
        .collect()
}

#[test]
fn python_package_passes_its_tests_on_every_supported_python() {
    let interpreters = interpreters();
    if interpreters.is_empty() {
        return skipped("python_package: no Python 3.9 or newer is installed");
    }
    for python in interpreters.values() {
        run_package_tests(python);
    }
}

#[test]
fn reasons_of_skipped_tests_are_found() {
    let output =
        "test_a (tests.test_b.C.test_a) ... ok\ntest_d (tests.test_b.C.test_d) ... skipped 'plots: no x'\n";
    assert_eq!(skipped_tests(output), ["plots: no x"]);
}
