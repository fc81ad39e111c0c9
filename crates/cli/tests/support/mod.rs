//! A home of its own for each test, and what numaio said.

// Each test program uses what it needs of this.
#![allow(dead_code)]

pub mod limits;

pub use limits::{Limited, LIMIT};

use std::fmt::Display;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Says why a test does nothing here. Past what the harness keeps to itself of tests that pass, so that it is counted.
pub fn skipped(why: impl Display) {
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

/// Waits until something is so; the panic at the limit says what was not.
pub fn until<W: Display>(ready: impl Fn() -> bool, what: impl Fn() -> W) {
    let began = Instant::now();
    while !ready() {
        assert!(began.elapsed() < LIMIT, "{}", what());
        thread::sleep(Duration::from_millis(5));
    }
}

/// Sends a signal, as `-TERM`.
pub fn kill(signal: &str, process: u32) {
    let kill = Command::new("kill").args([signal, &process.to_string()]).limited_status();
    assert!(kill.expect("kill").success());
}

/// Runs a program with the default disposition of the signals that tests send.
pub const HEED_SIGNALS: [&str; 2] = ["/usr/bin/env", "--default-signal=HUP,INT,QUIT,TERM"];

/// A folder that is home, removed at the end.
pub struct Home(pub PathBuf);

impl Home {
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("home-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    /// Writes a file and gives its path.
    pub fn file(&self, name: &str, content: &str) -> String {
        fs::write(self.0.join(name), content).expect("a file");
        self.path(name)
    }

    /// Writes a document and gives the path of its file.
    #[allow(dead_code)] // not every test has documents
    pub fn document(&self, name: &str, document: &impl serde::Serialize) -> String {
        self.file(name, &serde_json::to_string(document).expect("JSON"))
    }

    pub fn path(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }

    pub fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).env("HOME", &self.0).env("XDG_STATE_HOME", self.0.join("state"));
        command
            .env("LC_ALL", "C.UTF-8")
            .env_remove("NO_COLOR")
            .env_remove("XDG_CONFIG_HOME")
            .current_dir(&self.0)
            .stdin(Stdio::null());
        command
    }

    /// Returns a command of numaio that reacts to interrupts. Under nohup and in background jobs the tests ignore
    /// SIGINT and SIGQUIT, and so would every program that they start.
    pub fn numaio(&self, args: &[&str]) -> Command {
        self.command_by(&[], args)
    }

    /// Returns a command by which the program `starter` starts numaio.
    pub fn command_by(&self, starter: &[&str], args: &[&str]) -> Command {
        let words = [starter, &HEED_SIGNALS, &[env!("CARGO_BIN_EXE_numaio")], args].concat();
        self.command(words[0], &words[1..])
    }

    /// Every model that was saved.
    pub fn saved_models(&self) -> Vec<String> {
        let folders = fs::read_dir(self.0.join("state/numaio/models")).into_iter().flatten().flatten();
        let files = folders.flat_map(|folder| fs::read_dir(folder.path()).expect("a folder").flatten());
        files.map(|file| fs::read_to_string(file.path()).expect("a model")).collect()
    }

    /// Runs numaio.
    pub fn run(&self, args: &[&str]) -> Said {
        Said::of(self.numaio(args).limited_output().expect("numaio"))
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if fs::remove_dir_all(&self.0).is_err() {
            open(&self.0);
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}

/// Opens directories that a test closed to whom they belong.
fn open(dir: &Path) {
    let _ = fs::set_permissions(dir, fs::Permissions::from_mode(0o700));
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open(&entry.path());
        }
    }
}

/// Exit status and output.
pub struct Said {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Said {
    pub fn of(output: Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
    }

    /// What it printed; it succeeded.
    pub fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{}", self.err);
        self.out
    }

    /// It failed with this status, and the message holds all of these.
    pub fn failed(self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, Some(code), "{}{}", self.out, self.err);
        for part in parts {
            assert!(self.err.contains(part), "{part:?} is not in: {}", self.err);
        }
        assert!(!self.err.contains("panicked"), "{}", self.err);
    }
}

/// A device of this machine that moves data; empty if it has none.
pub fn device(home: &Home) -> String {
    let seen = home.run(&["topology", "--json"]);
    let document = numaio_schema::TopologyDocument::from_json(&seen.out).expect("a topology");
    let devices = document.topology.devices.iter().filter(|device| device.moves_data());
    devices.map(|device| device.name()).next().unwrap_or_default()
}

/// Compares with a file; UPDATE_EXPECTED=1 writes it anew.
pub fn expect(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/expected").join(name);
    if std::env::var_os("UPDATE_EXPECTED").is_some() {
        fs::write(&path, found).expect("the expected file");
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, expected, "{name}; UPDATE_EXPECTED=1 rewrites it");
}
