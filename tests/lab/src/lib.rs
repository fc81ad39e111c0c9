//! Runs commands on emulated machines, beside each other; a measurement with a wrong value is
//! repeated alone.

use std::fs;
use std::io::Write;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Read by every test, and written by one that must be alone: a second machine competes for this
/// one's processors.
static TURN: RwLock<()> = RwLock::new(());

/// Exit status of a program of the lab if the emulated machine failed, independent of the command.
const LAB_FAILED: i32 = 125;

/// A test's turn in the lab, which ends when it is dropped.
pub enum Turn {
    /// No other test runs.
    Alone(RwLockWriteGuard<'static, ()>),
    /// Other tests may run too.
    Shared(RwLockReadGuard<'static, ()>),
}

impl Turn {
    /// Waits until no other test uses the lab.
    fn alone() -> Self {
        Self::Alone(TURN.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until no other test is alone.
    pub fn shared() -> Self {
        Self::Shared(TURN.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A processor that the lab emulates, and the variable with the path of its static binary.
pub type Processor = (&'static str, &'static str);

/// The processor of the host.
pub const X86: Processor = ("x86_64", "NUMAIO_STATIC");
/// The other processor of the lab.
pub const AARCH64: Processor = ("aarch64", "NUMAIO_STATIC_AARCH64");

/// The lab in a test's turn.
pub struct Lab {
    _turn: Turn,
    /// Root of the repository.
    pub root: PathBuf,
    arch: &'static str,
    binary: String,
}

impl Lab {
    /// Returns the lab for a test that may run beside others; reports the test as skipped if the
    /// lab cannot run.
    pub fn open(test: &str) -> Option<Self> {
        Self::open_in(Turn::shared(), test, X86)
    }

    /// As [`Lab::open`], for emulated machines of a processor.
    pub fn open_on(processor: Processor, test: &str) -> Option<Self> {
        Self::open_in(Turn::shared(), test, processor)
    }

    fn open_in(turn: Turn, test: &str, (arch, variable): Processor) -> Option<Self> {
        let root = root();
        let Ok(binary) = std::env::var(variable) else {
            skip(test, &format!("{variable} names no static binary; make test sets it"));
            return None;
        };
        let check = Command::new(root.join("lab/run")).args(["--check", arch]).output();
        match check {
            Ok(output) if output.status.success() => Some(Self { _turn: turn, root, arch, binary }),
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

/// Runs a program of the lab, and repeats it if the emulated machine fails: QEMU rarely locks up
/// while it boots. A hang caused by numaio repeats.
pub fn output_of(mut lab: Command) -> Output {
    const TRIES: u32 = 3;
    let mut output = lab.output().expect("a program of the lab");
    for _ in 1..TRIES {
        if output.status.code() != Some(LAB_FAILED) {
            break;
        }
        let stderr = String::from_utf8_lossy(&output.stderr);
        let _ = writeln!(std::io::stderr(), "retrying after a failure of the lab: {stderr}");
        output = lab.output().expect("a program of the lab");
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() != Some(LAB_FAILED), "the lab failed: {stderr}");
    output
}

/// Checks measurements in the lab beside other tests, and repeats them alone if the check fails.
///
/// Most processors are idle while rates are limited, so that the first attempt usually passes. A
/// busy host disturbs single measurements; an error of numaio fails every attempt.
pub fn with_retries(test: &str, check: impl Fn(&Lab)) {
    with_retries_on(X86, test, check);
}

/// As [`with_retries`], on emulated machines of a processor.
pub fn with_retries_on(processor: Processor, test: &str, check: impl Fn(&Lab)) {
    repeat_alone(test, |turn| {
        if let Some(lab) = Lab::open_in(turn, test, processor) {
            check(&lab);
        }
    });
}

/// Runs a check beside other tests, and repeats it up to three times alone if it fails.
pub fn repeat_alone(test: &str, check: impl Fn(Turn)) {
    for turn in [Turn::shared as fn() -> Turn, Turn::alone, Turn::alone] {
        let Err(panic) = catch_unwind(AssertUnwindSafe(|| check(turn()))) else { return };
        // The harness shows the output of a test only if the last attempt fails too.
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let why = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or_default();
        let _ = writeln!(std::io::stderr(), "{test}: repeating alone: {why}");
    }
    check(Turn::alone());
}

/// Returns the root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Reports a skipped test past the harness's capture, in a line that `tools/test` counts.
pub fn skip(test: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {}", why.replace('\n', "; "));
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
