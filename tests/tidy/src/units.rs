//! Units of systemd: what a process of each could still do.

use crate::tree::{relative, root, walk};
use std::fs;
use std::io::Write;
use std::process::Command;

/// Services, and their highest exposure level in tenths, by `systemd-analyze security`.
const EXPOSURE: [(&str, u32); 3] =
    [("numaio-balance.service", 29), ("numaio-metrics.service", 21), ("numaio.service", 19)];

/// Returns whether systemd rates a unit at most at a level in tenths, with its reasons.
fn rate(unit: &str, most: u32) -> Option<Result<(), String>> {
    let output = Command::new("systemd-analyze")
        .args(["security", "--offline=yes", "--no-pager", &format!("--threshold={most}")])
        .arg(root().join("packaging").join(unit))
        .output()
        .ok()?;
    let shown = String::from_utf8_lossy(&output.stdout);
    // Before version 250 it reads no files.
    if !shown.contains("exposure level") {
        return None;
    }
    Some(if output.status.success() { Ok(()) } else { Err(shown.into_owned()) })
}

#[test]
fn services_are_confined_as_the_page_states() {
    let services: Vec<String> = walk(&root().join("packaging"))
        .iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "service"))
        .map(|path| relative(path).replace("packaging/", ""))
        .collect();
    assert_eq!(services, EXPOSURE.map(|(unit, _)| unit), "a service was added or removed");
    let page = fs::read_to_string(root().join("docs/copy/daemon.md")).expect("a page");
    for (unit, most) in EXPOSURE {
        let row = format!("| `{unit}` | {}.{} |", most / 10, most % 10);
        assert!(page.contains(&row), "{row}");
        match rate(unit, most) {
            Some(rated) => assert_eq!(rated, Ok(()), "{unit}"),
            // Bypasses the capture of the test harness, so that skips are visible and counted.
            None => writeln!(std::io::stderr(), "skipped: no systemd-analyze that rates files").unwrap_or(()),
        }
    }
    if let Some(rated) = rate(EXPOSURE[0].0, 1) {
        assert!(rated.is_err(), "the threshold has no effect");
    }
}
