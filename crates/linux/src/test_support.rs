//! Test helpers: disassembly of the test binary, messages of skipped tests, and files of machines.

use crate::Root;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
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

/// A folder with the files of a machine, removed at the end.
pub(crate) struct TestTree(PathBuf);

impl TestTree {
    /// Creates an empty folder; `name` is unique among the tests.
    pub(crate) fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("numaio-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        Self(folder)
    }

    /// Writes a file of the machine.
    pub(crate) fn file(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, content).expect("a file");
    }

    /// Returns the content of a file.
    pub(crate) fn bytes(&self, path: &str) -> Vec<u8> {
        fs::read(self.path(path)).expect("a file")
    }

    /// Returns the content of a file as text.
    pub(crate) fn text(&self, path: &str) -> String {
        String::from_utf8(self.bytes(path)).expect("text")
    }

    /// Opens the folder as a root directory.
    pub(crate) fn root(&self) -> Root {
        Root::open(&self.0).expect("a root")
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.join(path.trim_start_matches('/'))
    }
}

impl Drop for TestTree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
