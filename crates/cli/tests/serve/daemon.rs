//! A daemon that runs, and what it said.

use crate::support::{kill, until, Home, Limited};
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

/// A daemon with its folder, in which are its key, its file and its roots.
pub struct Daemon {
    pub home: Home,
    pub port: u16,
    /// Its public key.
    pub key: String,
    child: Child,
    said: Arc<Mutex<String>>,
}

impl Daemon {
    /// Starts one by a file; FOLDER in its text stands for the daemon's folder, which has the folders `data` and `outside`.
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
        let mut child = command.spawn().expect("numaio");
        let said = Arc::new(Mutex::new(String::new()));
        let (from, log) = (child.stderr.take().expect("a pipe"), said.clone());
        thread::spawn(move || {
            for line in BufReader::new(from).lines().map_while(Result::ok) {
                log.lock().expect("a lock").push_str(&format!("{line}\n"));
            }
        });
        let mut daemon = Self { home, port: 0, key, child, said };
        let said = daemon.said_soon("listening at ");
        let address = said.split("listening at ").nth(1).and_then(|rest| rest.lines().next());
        let port = address.and_then(|address| address.rsplit(':').next()).and_then(|port| port.parse().ok());
        daemon.port = port.expect("a port");
        daemon
    }

    /// Writes its file anew.
    pub fn configure(&self, config: &str) {
        write_config(&self.home, config);
    }

    /// All that it and its sessions said.
    pub fn said(&self) -> String {
        self.said.lock().expect("a lock").clone()
    }

    /// Waits until it has said something.
    pub fn said_soon(&self, words: &str) -> String {
        until(|| self.said().contains(words), || format!("{words:?} is not in: {}", self.said()));
        self.said()
    }

    pub fn signal(&self, signal: &str) {
        kill(signal, self.child.id());
    }

    /// Waits for its end.
    pub fn ended(&mut self) -> ExitStatus {
        self.child.limited_status().expect("ended")
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("asked").is_none()
    }

    /// What users write before a path below a root.
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
