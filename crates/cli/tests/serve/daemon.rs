//! A running daemon and its log.

use crate::support::{kill, until, Home, Limited};
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

/// A daemon with its directory, which contains its key, its configuration file and its roots.
pub struct Daemon {
    pub home: Home,
    pub port: u16,
    /// Its public key.
    pub key: String,
    child: Child,
    log: Arc<Mutex<String>>,
}

/// Returns the lines that a process writes to its standard error, as they arrive.
pub fn error_lines(child: &mut Child) -> Arc<Mutex<String>> {
    let log = Arc::new(Mutex::new(String::new()));
    let (stderr, lines) = (child.stderr.take().expect("a pipe"), log.clone());
    thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            lines.lock().expect("a lock").push_str(&format!("{line}\n"));
        }
    });
    log
}

impl Daemon {
    /// Starts a daemon with this configuration. FOLDER in the text stands for the daemon's
    /// directory, which contains the directories `data` and `outside`.
    pub fn start(config: &str) -> Self {
        Self::start_with(config, |_| ())
    }

    pub fn start_with(config: &str, change: impl FnOnce(&mut Command)) -> Self {
        let home = Home::new();
        fs::create_dir_all(home.0.join("data")).expect("a folder");
        fs::create_dir_all(home.0.join("outside")).expect("a folder");
        let key = home.run(&["keygen", "key"]).ok().trim().to_owned();
        write_config(&home, config);
        let mut command = home.numaio(&["serve", "--config", "serve.toml"]);
        command.stderr(Stdio::piped()).stdout(Stdio::null());
        change(&mut command);
        Self::spawn(home, key, command)
    }

    /// Stops the daemon.
    pub fn stop(&mut self) {
        self.signal("-TERM");
        assert!(self.wait_for_exit().success(), "{}", self.log());
    }

    /// Starts a stopped daemon again at its port.
    pub fn restart(&mut self) {
        let config = fs::read_to_string(self.home.0.join("serve.toml")).expect("a file");
        let at = format!("127.0.0.1:{}", self.port);
        fs::write(self.home.0.join("serve.toml"), config.replace("127.0.0.1:0", &at)).expect("a file");
        let mut command = self.home.numaio(&["serve", "--config", "serve.toml"]);
        command.stderr(Stdio::piped()).stdout(Stdio::null());
        self.child = command.spawn().expect("numaio");
        self.log = error_lines(&mut self.child);
        self.wait_for_log("listening at ");
    }

    fn spawn(home: Home, key: String, mut command: Command) -> Self {
        let mut child = command.spawn().expect("numaio");
        let log = error_lines(&mut child);
        let mut daemon = Self { home, port: 0, key, child, log };
        let log = daemon.wait_for_log("listening at ");
        let address = log.split("listening at ").nth(1).and_then(|rest| rest.split(['\n', '"']).next());
        let port = address.and_then(|address| address.rsplit(':').next()).and_then(|port| port.parse().ok());
        daemon.port = port.expect("a port");
        daemon
    }

    /// Replaces its configuration file.
    pub fn configure(&self, config: &str) {
        write_config(&self.home, config);
    }

    /// Everything that the daemon and its sessions have logged.
    pub fn log(&self) -> String {
        self.log.lock().expect("a lock").clone()
    }

    /// Waits until the log contains this text, and returns the log.
    pub fn wait_for_log(&self, text: &str) -> String {
        until(|| self.log().contains(text), || format!("{text:?} is not in: {}", self.log()));
        self.log()
    }

    pub fn process(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: &str) {
        kill(signal, self.process());
    }

    /// Waits until the daemon exits.
    pub fn wait_for_exit(&mut self) -> ExitStatus {
        self.child.limited_status().expect("ended")
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("asked").is_none()
    }

    /// The URL of a path: a root's name, then a path below it.
    pub fn url(&self, path: &str) -> String {
        format!("numaio://127.0.0.1:{}/{path}", self.port)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.limited_status());
    }
}

fn write_config(home: &Home, config: &str) {
    home.file("serve.toml", &config.replace("FOLDER", &home.path("")));
}
