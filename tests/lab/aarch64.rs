//! numaio on an emulated aarch64 machine (`lab/aarch64`).
//!
//! The test needs a binary for that processor, which `tools/static aarch64` builds. Its path is in
//! `NUMAIO_STATIC_AARCH64`.

use crate::support::{skip, Turn};
use std::path::Path;
use std::process::Command;

const TEST: &str = "an_aarch64_machine_is_measured_and_copies_files";

/// Measures with the loops of this processor, and copies files.
const SCRIPT: &str = "set -e
numaio topology
numaio model --all --no-save --time-limit 20
mkdir -p /tmp/a/b; dd if=/dev/urandom of=/tmp/a/b/f bs=1M count=4 2>/dev/null
numaio copy --quiet -a /tmp/a/ /tmp/c && cmp /tmp/a/b/f /tmp/c/b/f && echo copied
";

#[test]
fn an_aarch64_machine_is_measured_and_copies_files() {
    let _turn = Turn::shared();
    let lab = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/aarch64");
    let Ok(binary) = std::env::var("NUMAIO_STATIC_AARCH64") else {
        return skip(TEST, "NUMAIO_STATIC_AARCH64 names no static binary for aarch64 (tools/static aarch64)");
    };
    let check = Command::new(&lab).arg("--check").output().expect("lab/aarch64");
    if !check.status.success() {
        return skip(TEST, String::from_utf8_lossy(&check.stderr).trim());
    }
    let output = Command::new(&lab).args([&binary, SCRIPT]).output().expect("lab/aarch64");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    for expected in ["aarch64, Linux", "2 nodes, 4 CPUs", "Target node 0", "Target node 1", "copied"] {
        assert!(text.contains(expected), "expected '{expected}' in: {text}");
    }
}
