//! What this very program consists of, for tests of loops written in assembly.

use std::io::Write as _;
use std::process::Command;

/// Makes sure that functions of a module of this crate consist of some instructions: no optimiser replaced them.
pub fn expect_instructions(module: &str, functions: &[(&str, &[&str])]) {
    let Some(listing) = ["objdump", "llvm-objdump"].iter().find_map(|tool| listing(tool)) else {
        return print_skipped("skipped: neither objdump nor llvm-objdump reads this program");
    };
    for (name, instructions) in functions {
        let body = function(&listing, &format!("<numaio_linux::{module}{name}"));
        for instruction in *instructions {
            assert!(body.contains(instruction), "{module}{name} has no {instruction}:\n{body}");
        }
    }
}

/// This very program, disassembled; none if the tool is not there or cannot read it.
fn listing(tool: &str) -> Option<String> {
    let program = std::env::current_exe().expect("this program");
    let output = Command::new(tool).args(["-d", "-C", "--no-show-raw-insn"]).arg(program).output().ok()?;
    // Of another architecture's program some only name the sections, and call that success.
    let listing = String::from_utf8_lossy(&output.stdout).into_owned();
    Some(listing).filter(|listing| output.status.success() && listing.contains(">:"))
}

/// The code of one function in a listing of objdump.
fn function(listing: &str, name: &str) -> String {
    // Some disassemblers leave the hash behind the name.
    let begins = |line: &str| {
        let rest = line.split_once(name).map_or("", |(_, rest)| rest);
        rest == ">:" || rest.starts_with("::h") && rest.ends_with(">:")
    };
    let lines = listing.lines().skip_while(|line| !begins(line));
    lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

/// Tells the person who runs the tests why one did not run.
pub(crate) fn print_skipped(why: &str) {
    // Past the capture of the test harness, so that it is seen and counted.
    let _ = writeln!(std::io::stderr(), "{why}");
}
