//! Runs commands on emulated machines, beside each other. `tools/test` repeats a measurement that
//! has a wrong value alone, after all tests.

use std::cell::RefCell;
use std::fmt::Display;
use std::fs;
use std::io::Write;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

thread_local! {
    /// What the test of this thread has measured.
    static MEASURED: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Exit status of a program of the lab if the emulated machine failed, independent of the command.
const LAB_FAILED: i32 = 125;

/// A processor that the lab emulates, and the variable with the path of its static binary.
pub type Processor = (&'static str, &'static str);

/// The processor of the host.
pub const X86: Processor = ("x86_64", "NUMAIO_STATIC");
/// The other processor of the lab.
pub const AARCH64: Processor = ("aarch64", "NUMAIO_STATIC_AARCH64");

/// The lab, with the program that its guests run.
pub struct Lab {
    /// Root of the repository.
    pub root: PathBuf,
    arch: &'static str,
    binary: String,
}

impl Lab {
    /// Returns the lab for a test; reports the test as skipped if the lab cannot run.
    pub fn open(test: &str) -> Option<Self> {
        Self::open_on(X86, test)
    }

    /// As [`Lab::open`], for emulated machines of a processor.
    pub fn open_on((arch, variable): Processor, test: &str) -> Option<Self> {
        let root = root();
        let Ok(binary) = std::env::var(variable) else {
            skip(test, &format!("{variable} names no static binary; make test sets it"));
            return None;
        };
        let check = Command::new(root.join("lab/run")).args(["--check", arch]).output();
        match check {
            Ok(output) if output.status.success() => Some(Self { root, arch, binary }),
            Ok(output) => {
                let why = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
                skip(test, why.trim());
                None
            }
            Err(error) => {
                skip(test, &format!("lab/run: {error}"));
                None
            }
        }
    }

    /// Builds a C program of `tests/lab/programs` for the emulated machine; reports the test as
    /// skipped and returns false without a compiler for static programs.
    pub fn build(&self, test: &str, source: &str, program: &Path) -> bool {
        let mut cc = Command::new("cc");
        cc.args(["-O2", "-static", "-pthread", "-fno-tree-loop-distribute-patterns", "-o"]);
        cc.arg(program).arg(self.root.join("tests/lab/programs").join(source));
        let is_built = cc.output().is_ok_and(|output| output.status.success());
        if !is_built {
            skip(test, "cc cannot build static programs");
        }
        is_built
    }

    /// Runs a command on a machine, and copies what it writes below /out to the folder.
    pub fn run(&self, machine: &str, folder: &Path, command: &[&str]) -> Output {
        self.run_with_modules(&[], machine, folder, command)
    }

    /// Runs a command with additional kernel modules.
    pub fn run_with_modules(
        &self,
        modules: &[&str],
        machine: &str,
        folder: &Path,
        command: &[&str],
    ) -> Output {
        let options: Vec<&str> = modules.iter().flat_map(|module| ["--module", module]).collect();
        self.run_with_options(&options, machine, folder, command)
    }

    /// Runs a command with options of lab/run.
    pub fn run_with_options(
        &self,
        options: &[&str],
        machine: &str,
        folder: &Path,
        command: &[&str],
    ) -> Output {
        let mut lab = Command::new(self.root.join("lab/run"));
        lab.args([machine, "--arch", self.arch, "--timeout", "600", "--bin", &self.binary]).args(options);
        lab.arg("--get").arg(folder).arg("--").args(command);
        output_of(lab)
    }
}

/// Runs a program of the lab, and repeats it if the emulated machine fails before it is up: QEMU
/// rarely locks up while it boots. A command that does not end is not repeated.
pub fn output_of(mut lab: Command) -> Output {
    const TRIES: u32 = 3;
    let mut output = lab.output().expect("a program of the lab");
    for _ in 1..TRIES {
        let stderr = String::from_utf8_lossy(&output.stderr);
        if output.status.code() != Some(LAB_FAILED) || stderr.contains("after the command started") {
            break;
        }
        note("repeated boot", &stderr);
        output = lab.output().expect("a program of the lab");
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() != Some(LAB_FAILED), "the lab failed: {stderr}");
    output
}

/// Checks measurements in the lab. If the check fails, `tools/test` repeats it alone: a busy host
/// disturbs single measurements, and an error of numaio fails every attempt.
pub fn measure(test: &str, check: impl Fn(&Lab)) {
    measure_on(X86, test, check);
}

/// As [`measure`], on emulated machines of a processor.
pub fn measure_on(processor: Processor, test: &str, check: impl Fn(&Lab)) {
    if let Some(lab) = Lab::open_on(processor, test) {
        repeatable(test, || check(&lab));
    }
}

/// Runs a check that `tools/test` repeats alone if it fails, and reports what it measured.
pub fn repeatable(test: &str, check: impl FnOnce()) {
    let result = catch_unwind(AssertUnwindSafe(check));
    let mut measured = MEASURED.take();
    let Err(panic) = result else { return note("measured", &format!("{test}: {}", measured.join(", "))) };
    let text = panic.downcast_ref::<String>().map(String::as_str);
    measured.extend(text.or_else(|| panic.downcast_ref::<&str>().copied()).map(str::to_owned));
    note("measurement failed", &format!("{test}: {}", measured.join(", ")));
    resume_unwind(panic);
}

/// Records a measured value for the report of repeated checks.
pub fn note_value(name: &str, value: impl Display) {
    MEASURED.with_borrow_mut(|measured| measured.push(format!("{name} {value}")));
}

/// Reports past the harness's capture, in a line that `tools/test` reads.
fn note(kind: &str, text: &str) {
    let _ = writeln!(std::io::stderr(), "{kind}: {}", text.trim().replace('\n', "; "));
}

/// Returns the root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Reports a skipped test past the harness's capture, in a line that `tools/test` counts.
pub fn skip(test: &str, why: &str) {
    note("skipped", &format!("{test}: {why}"));
}

/// A folder that is removed on drop.
pub struct Folder(pub PathBuf);

impl Folder {
    /// Creates a folder for the results of one test.
    pub fn new(name: &str) -> Self {
        let path = root().join(format!("target/tmp/lab-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
