//! The lab in tests: a machine at a time, a command on it, and what comes back.

use std::fs;
use std::io::Write;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One machine at a time: two would take each other's processors.
static TURN: Mutex<()> = Mutex::new(());

/// Exit status of lab/run if the emulated machine did not do what it was told, whatever the command did.
const LAB_FAILED: i32 = 125;

pub struct Lab {
    _turn: MutexGuard<'static, ()>,
    pub root: PathBuf,
    binary: String,
}

/// Waits until no other test uses the lab.
pub fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Lab {
    /// The lab, or none where it cannot run, which is counted.
    pub fn open(test: &str) -> Option<Self> {
        let turn = turn();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let Ok(binary) = std::env::var("NUMAIO_STATIC") else {
            skip(test, "NUMAIO_STATIC names no static binary; make test sets it");
            return None;
        };
        let check = Command::new(root.join("lab/run")).arg("--check").output();
        match check {
            Ok(output) if output.status.success() => Some(Self { _turn: turn, root, binary }),
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

    /// Runs a command on a machine; what it writes below /out comes back into the folder.
    pub fn run(&self, machine: &str, folder: &Path, command: &[&str]) -> Output {
        self.run_with(&[], machine, folder, command)
    }

    /// The same with modules of the kernel that the machine does not need by itself.
    pub fn run_with(&self, modules: &[&str], machine: &str, folder: &Path, command: &[&str]) -> Output {
        let options: Vec<&str> = modules.iter().flat_map(|module| ["--module", module]).collect();
        self.run_by(&options, machine, folder, command)
    }

    /// The same with options of lab/run.
    pub fn run_by(&self, options: &[&str], machine: &str, folder: &Path, command: &[&str]) -> Output {
        let mut lab = Command::new(self.root.join("lab/run"));
        lab.args([machine, "--timeout", "600", "--bin", &self.binary]).args(options);
        lab.arg("--get").arg(folder).arg("--").args(command);
        let mut output = lab.output().expect("lab/run");
        let said = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.code() == Some(LAB_FAILED) {
            // An emulated machine stood still once, all its processors idle. What stands still by its own fault does so
            // again.
            let _ = writeln!(std::io::stderr(), "the lab is tried again: {}", said(&output));
            output = lab.output().expect("lab/run");
        }
        assert!(output.status.code() != Some(LAB_FAILED), "the lab failed: {}", said(&output));
        output
    }
}

/// How often figures are taken before a wrong one counts.
const TRIES: u32 = 3;

/// Checks figures that are taken in the lab. A busy host spoils a figure now and then, so they are taken again if they
/// are wrong; what numaio does wrong is wrong each time.
pub fn measured(test: &str, check: impl Fn(&Lab)) {
    let Some(lab) = Lab::open(test) else { return };
    for _ in 1..TRIES {
        if catch_unwind(AssertUnwindSafe(|| check(&lab))).is_ok() {
            return;
        }
        let _ = writeln!(std::io::stderr(), "{test}: figures are taken again");
    }
    check(&lab);
}

/// Says that a test did not run, past the capture of the test harness: `tools/test` counts these lines.
pub fn skip(test: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {}", why.replace('\n', "; "));
}

pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("lab-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
