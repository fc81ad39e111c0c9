//! Test support: a separate home for each test, and the output of commands.

// No test program uses all of this.
#![allow(dead_code)]

pub mod limits;
pub mod slurm_cluster;

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

/// Reports why a test is skipped, bypassing the capture of the test harness so that the line is
/// counted.
pub fn skipped(reason: impl Display) {
    let _ = writeln!(std::io::stderr(), "skipped: {reason}");
}

/// Waits for a condition; at the limit panics with the message.
pub fn until<M: Display>(ready: impl Fn() -> bool, message: impl Fn() -> M) {
    let start = Instant::now();
    while !ready() {
        assert!(start.elapsed() < LIMIT, "{}", message());
        thread::sleep(Duration::from_millis(5));
    }
}

/// Sends a signal, such as `-TERM`.
pub fn kill(signal: &str, process: u32) {
    let kill = Command::new("kill").args([signal, &process.to_string()]).limited_status();
    assert!(kill.expect("kill").success());
}

/// Returns a process and its children: `numaio copy` moves files in a child process.
pub fn with_children(process: u32) -> Vec<u32> {
    let root = numaio_linux::Root::live().expect("a root");
    let tree = numaio_machine::process::process_trees(&root, &[process]).concat();
    let parent = |pid: u32| numaio_machine::process::threads(&root, pid).map_or(0, |found| found.parent);
    tree.into_iter().filter(|pid| *pid == process || parent(*pid) == process).collect()
}

/// Prefix of a command to restore the default disposition of the signals that tests send.
pub const HEED_SIGNALS: [&str; 2] = ["/usr/bin/env", "--default-signal=HUP,INT,QUIT,TERM"];

/// Returns the content of a file, in which each block of 64 KiB differs from the others. Blocks are
/// copied, since unoptimized tests take seconds to calculate every byte.
pub fn content(bytes: usize, seed: u8) -> Vec<u8> {
    const BLOCK: usize = 64 << 10;
    let pattern = |index: usize| (index as u8).wrapping_mul(31).wrapping_add((index >> 9) as u8) ^ seed;
    let block: Vec<u8> = (0..BLOCK.min(bytes)).map(pattern).collect();
    let mut content = block.repeat(bytes.div_ceil(BLOCK));
    for (number, block) in content.chunks_exact_mut(BLOCK).enumerate().skip(1) {
        block[..8].copy_from_slice(&number.to_le_bytes());
    }
    content.truncate(bytes);
    content
}

/// Returns an ID that no other test has, of this program or of one that runs at the same time.
pub fn unique_id() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// A home directory, removed on drop.
pub struct Home(pub PathBuf);

impl Home {
    /// Creates a unique directory.
    pub fn new() -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("home-{}", unique_id()));
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    /// Writes a file and returns its path.
    pub fn file(&self, name: &str, content: &str) -> String {
        fs::write(self.0.join(name), content).expect("a file");
        self.path(name)
    }

    /// Writes an executable script and returns its path. One that other processes run is
    /// replaced at once.
    pub fn script(&self, name: &str, content: &str) -> String {
        let new = self.file(&format!("{name}.new"), content);
        fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).expect("a mode");
        fs::rename(new, self.0.join(name)).expect("a script");
        self.path(name)
    }

    /// Writes a document and returns the path of its file.
    pub fn document(&self, name: &str, document: &impl serde::Serialize) -> String {
        self.file(name, &serde_json::to_string(document).expect("JSON"))
    }

    /// Returns the path of a file in this directory.
    pub fn path(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }

    /// Returns a command that runs a program in this home.
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

    /// Returns a command that runs numaio with signals enabled. Under nohup and in background jobs,
    /// tests and the programs that they start would ignore SIGINT and SIGQUIT.
    pub fn numaio(&self, args: &[&str]) -> Command {
        self.command_by(&[], args)
    }

    /// Returns a command that runs numaio through the program `starter`.
    pub fn command_by(&self, starter: &[&str], args: &[&str]) -> Command {
        let command_line = [starter, &HEED_SIGNALS, &[env!("CARGO_BIN_EXE_numaio")], args].concat();
        self.command(command_line[0], &command_line[1..])
    }

    /// Returns the saved models.
    pub fn saved_models(&self) -> Vec<String> {
        let folders = fs::read_dir(self.0.join("state/numaio/models")).into_iter().flatten().flatten();
        let files = folders.flat_map(|folder| fs::read_dir(folder.path()).expect("a folder").flatten());
        files.map(|file| fs::read_to_string(file.path()).expect("a model")).collect()
    }

    /// Runs numaio and returns its output.
    pub fn run(&self, args: &[&str]) -> CommandOutput {
        CommandOutput::of(self.numaio(args).limited_output().expect("numaio"))
    }

    /// Writes a program in place of ssh that runs commands on this machine, and returns its path.
    pub fn local_ssh(&self) -> String {
        let script = "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done\nshift 2\nexec sh -c \"$*\"\n";
        self.script("ssh", script)
    }

    /// Runs `numaio copy`; every host name leads to this machine.
    pub fn copy_by_local_ssh(&self, args: &[&str]) -> CommandOutput {
        let args = [&["copy", "--remote-numaio", env!("CARGO_BIN_EXE_numaio")], args].concat();
        let mut command = self.numaio(&args);
        CommandOutput::of(command.env("NUMAIO_SSH", self.local_ssh()).limited_output().expect("numaio"))
    }

    /// Runs a shell script with arguments, from `$0` on, in namespaces with these options of
    /// unshare(1); `$NUMAIO` is the program. `None` if that is impossible here, which the script
    /// reports by status 99.
    pub fn run_unshared(&self, options: &str, script: &[&str]) -> Option<CommandOutput> {
        let mut command = self.command("unshare", &[&[options, "sh", "-c"], script].concat());
        let output = command.env("NUMAIO", env!("CARGO_BIN_EXE_numaio")).limited_output().ok()?;
        let output = CommandOutput::of(output);
        // unshare itself fails without permission.
        (output.code != Some(99) && !output.err.contains("unshare: ")).then_some(output)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if fs::remove_dir_all(&self.0).is_err() {
            make_accessible(&self.0);
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}

/// Makes directories accessible again that a test made inaccessible.
fn make_accessible(dir: &Path) {
    let _ = fs::set_permissions(dir, fs::Permissions::from_mode(0o700));
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            make_accessible(&entry.path());
        }
    }
}

/// The exit status and output of a command.
pub struct CommandOutput {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl CommandOutput {
    /// Converts the output of a process.
    pub fn of(output: Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
    }

    /// Returns standard output after asserting success.
    pub fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{}", self.err);
        self.out
    }

    /// Asserts this exit status, and an error message with all of these parts.
    pub fn failed(self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, Some(code), "{}{}", self.out, self.err);
        for part in parts {
            assert!(self.err.contains(part), "{part:?} is not in: {}", self.err);
        }
        assert!(!self.err.contains("panicked"), "{}", self.err);
    }
}

/// Returns a device of this machine that moves data; empty if there is none.
pub fn device(home: &Home) -> String {
    let output = home.run(&["topology", "--json"]);
    let document = numaio_schema::TopologyDocument::from_json(&output.out).expect("a topology");
    let devices = document.topology.devices.iter().filter(|device| device.moves_data());
    devices.map(|device| device.name()).next().unwrap_or_default()
}

/// Compares text with a file of tests/expected; UPDATE_EXPECTED=1 rewrites the file.
pub fn expect(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/expected").join(name);
    if std::env::var_os("UPDATE_EXPECTED").is_some() {
        fs::write(&path, found).expect("the expected file");
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, expected, "{name}; UPDATE_EXPECTED=1 rewrites it");
}
