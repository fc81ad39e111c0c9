//! Users of a daemon, and the configurations of daemons.

use crate::daemon::Daemon;
use crate::support::{content, until, CommandOutput, Home, Limited};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Stdio};

/// Start of the configuration of every daemon in these tests.
pub const HEAD: &str = "listen = \"127.0.0.1:0\"\nkey = \"FOLDER/key\"\nas_root = true\n";
/// A root that every user may read and write.
pub const OPEN: &str = "[root.data]\npath = \"FOLDER/data\"\nread = \"*\"\nwrite = \"*\"\n";

/// A user with a home and a key.
pub struct User {
    pub home: Home,
    pub key: String,
}

impl User {
    pub fn new() -> Self {
        let home = Home::new();
        let key = home.run(&["keygen"]).ok().trim().to_owned();
        fs::create_dir_all(home.0.join("src/d")).expect("a folder");
        for (name, size) in
            [("src/big", 5_000_001), ("src/d/block", 1 << 20), ("src/d/empty", 0), ("src/small", 99)]
        {
            fs::write(home.0.join(name), content(size, 1)).expect("a file");
        }
        Self { home, key }
    }

    /// Configuration lines that authorize this user.
    pub fn known_as(&self, name: &str) -> String {
        format!("[user.{name}]\nkeys = [\"{}\"]\n", self.key)
    }

    /// Adds the daemon's key to the user's known hosts.
    pub fn trust(&self, daemon: &Daemon) {
        let folder = self.home.0.join(".config/numaio");
        let line = format!("127.0.0.1:{} {}\n", daemon.port, daemon.key);
        fs::write(folder.join("known_hosts"), line).expect("a file");
    }

    pub fn copy(&self, args: &[&str]) -> CommandOutput {
        self.home.run(&[&["copy"], args].concat())
    }

    /// Starts a copy that runs until it is complete or killed.
    pub fn copying(&self, args: &[&str]) -> Child {
        let mut command = self.home.numaio(&[&["copy"], args].concat());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("numaio")
    }

    /// Starts an upload at a rate, and waits until the daemon writes.
    pub fn copying_slowly(&self, daemon: &Daemon, rate: &str) -> Child {
        let child = self.copying(&["-r", "--bwlimit", rate, "src/", &daemon.url("data")]);
        let writes = || fs::read_dir(daemon.home.0.join("data")).expect("a folder").count() > 0;
        until(writes, || daemon.log());
        child
    }
}

pub fn skipped(why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

/// A daemon with one open root, and a user that it authorizes.
pub fn open(more: &str) -> (Daemon, User) {
    let user = User::new();
    let daemon = Daemon::start(&format!("{HEAD}{more}{OPEN}{}", user.known_as("alice")));
    user.trust(&daemon);
    (daemon, user)
}

pub fn same(home: &Home, one: &str, other: &Path) {
    let output = home.command("diff", &["-r", one, &other.to_string_lossy()]).limited_output().expect("diff");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
