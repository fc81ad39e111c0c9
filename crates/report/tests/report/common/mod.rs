//! Machines and models for tests, and comparison with stored output.

#![allow(dead_code, clippy::unwrap_used)]

pub mod machines;
pub mod models;

use std::path::Path;

/// Compares output with `tests/expected/NAME`, or writes the file if UPDATE_EXPECTED=1 is set.
pub fn expect(name: &str, output: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/expected").join(name);
    if std::env::var_os("UPDATE_EXPECTED").is_some_and(|value| value == "1") {
        std::fs::write(&path, output).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = expected.lines().zip(output.lines()).position(|(a, b)| a != b);
    assert!(
        expected == output,
        "{name} differs, first in line {}; if that is intended, update it with UPDATE_EXPECTED=1\n{output}",
        differs.map_or("after the end of the shorter text".to_owned(), |line| (line + 1).to_string())
    );
}
