//! Messages of skipped tests.

use std::io::Write as _;

/// Prints why a test was skipped.
pub fn print_skipped(why: &str) {
    // Writes directly to stderr, past the test harness, so that skipped tests are visible.
    let _ = writeln!(std::io::stderr(), "{why}");
}
