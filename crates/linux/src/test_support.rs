//! Test helpers: disassembly of the test binary, and messages of skipped tests.

use std::io::Write as _;
use std::process::Command;

/// Asserts that functions of a module contain the given instructions, unchanged by the optimizer.
pub fn expect_instructions(module: &str, functions: &[(&str, &[&str])]) {
    let Some(listing) = ["objdump", "llvm-objdump"].iter().find_map(|tool| listing(tool)) else {
        return print_skipped("skipped: neither objdump nor llvm-objdump can read this program");
    };
    for (name, instructions) in functions {
        let body = function(&listing, &format!("<numaio_linux::{module}{name}"));
        for instruction in *instructions {
            assert!(body.contains(instruction), "{module}{name} lacks {instruction}:\n{body}");
        }
    }
}

/// Disassembles the running program, or `None` if the tool is missing or cannot read it.
fn listing(tool: &str) -> Option<String> {
    let program = std::env::current_exe().expect("this program");
    let output = Command::new(tool).args(["-d", "-C", "--no-show-raw-insn"]).arg(program).output().ok()?;
    // Some tools list only section names for a foreign architecture and exit with 0.
    let listing = String::from_utf8_lossy(&output.stdout).into_owned();
    Some(listing).filter(|listing| output.status.success() && listing.contains(">:"))
}

/// Returns the code of one function from an objdump listing.
fn function(listing: &str, name: &str) -> String {
    // Some disassemblers keep the hash suffix of the symbol name.
    let begins = |line: &str| {
        let rest = line.split_once(name).map_or("", |(_, rest)| rest);
        rest == ">:" || rest.starts_with("::h") && rest.ends_with(">:")
    };
    let lines = listing.lines().skip_while(|line| !begins(line));
    lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

/// Prints why a test was skipped.
pub(crate) fn print_skipped(why: &str) {
    // Writes directly to stderr, past the test harness, so that skipped tests are visible.
    let _ = writeln!(std::io::stderr(), "{why}");
}
