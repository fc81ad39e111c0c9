//! Machines and models built by hand, and the comparison with stored outputs.

#![allow(dead_code, clippy::unwrap_used)]

pub mod machines;
pub mod models;

use std::path::Path;

/// Compares with `tests/expected/NAME`; with UPDATE_EXPECTED=1 in the environment writes it instead.
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
        "{name} differs, first in line {}; is it right? Then UPDATE_EXPECTED=1 stores it.\n{output}",
        differs.map_or("after the shorter one's end".to_owned(), |line| (line + 1).to_string())
    );
}
