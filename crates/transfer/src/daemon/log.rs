//! The log of a daemon and its sessions, on standard error.

use super::config::ConfigError;
use super::error::DaemonError;
use crate::ssh::stderr_relay::LineSink;
use std::fmt::Display;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Interval for which lines about unauthenticated peers are limited.
const PEER_INTERVAL: Duration = Duration::from_secs(60);
/// Maximum number of these lines in an interval.
const PEER_LINES: u64 = 20;

/// The log.
#[derive(Clone)]
pub struct Log {
    /// Receives the lines.
    sink: LineSink,
    /// Whether only errors of the configuration are logged.
    is_quiet: bool,
}

impl Log {
    /// A log that goes to a sink, which writes each line in one call, because several processes
    /// write to standard error.
    pub fn new(sink: LineSink, is_quiet: bool) -> Self {
        Self { sink, is_quiet }
    }

    /// Whether only errors of the configuration are logged.
    pub fn is_quiet(&self) -> bool {
        self.is_quiet
    }

    /// Logs a line.
    pub fn line(&self, text: &str) {
        if !self.is_quiet {
            (self.sink)(&format!("numaio: {text}"));
        }
    }

    /// Logs all errors of a configuration file, if that is the error.
    pub fn errors_of(&self, error: &DaemonError) {
        if let DaemonError::InvalidConfig { path, errors } = error {
            self.config_errors(path, errors);
        }
    }

    /// Logs the errors of a configuration file.
    pub(super) fn config_errors(&self, path: &Path, errors: &[ConfigError]) {
        let path = path.display();
        errors.iter().for_each(|ConfigError { line, text }| (self.sink)(&format!("{path}:{line}: {text}")));
    }
}

/// Lines about peers that did not authenticate. Anybody who reaches the port causes them, so that
/// their number is limited; further ones are counted.
#[derive(Clone)]
pub struct PeerLog {
    log: Log,
    interval: Arc<Mutex<PeerInterval>>,
}

/// The current interval.
struct PeerInterval {
    began: Instant,
    /// Number of rejected connections.
    rejected: u64,
    /// Address of the last one that has no line.
    unlisted: Option<SocketAddr>,
}

impl PeerLog {
    /// Lines for a log.
    pub fn new(log: &Log) -> Self {
        let interval = PeerInterval { began: Instant::now(), rejected: 0, unlisted: None };
        Self { log: log.clone(), interval: Arc::new(Mutex::new(interval)) }
    }

    /// Logs or counts a rejected connection.
    pub fn rejected(&self, caller: SocketAddr, why: &dyn Display) {
        self.end_interval(Instant::now());
        let mut interval = self.interval.lock().unwrap_or_else(PoisonError::into_inner);
        interval.rejected += 1;
        match interval.rejected <= PEER_LINES {
            true => self.log.line(&format!("{caller}: {why}")),
            false => interval.unlisted = Some(caller),
        }
    }

    /// Logs the number of connections without a line, once the interval is over.
    pub fn flush(&self) {
        self.end_interval(Instant::now());
    }

    fn end_interval(&self, now: Instant) {
        let mut interval = self.interval.lock().unwrap_or_else(PoisonError::into_inner);
        if now.duration_since(interval.began) < PEER_INTERVAL {
            return;
        }
        let unlisted = interval.rejected.saturating_sub(PEER_LINES);
        if let Some(last) = interval.unlisted {
            let seconds = PEER_INTERVAL.as_secs();
            self.log.line(&format!(
                "rejected {unlisted} more connections of unauthenticated peers within {seconds} s, the last from {last}"
            ));
        }
        *interval = PeerInterval { began: now, rejected: 0, unlisted: None };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_about_unauthenticated_peers_are_limited() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let sink = lines.clone();
        let sink: LineSink = Arc::new(move |line| sink.lock().expect("a lock").push(line.to_owned()));
        let peers = PeerLog::new(&Log::new(sink, false));
        let reject = |count: u16| {
            (0..count).for_each(|port| peers.rejected(([192, 0, 2, 1], port).into(), &"no key"));
        };
        reject(50);
        peers.flush();
        assert_eq!(lines.lock().expect("a lock").len() as u64, PEER_LINES);
        peers.end_interval(Instant::now() + PEER_INTERVAL);
        let last = lines.lock().expect("a lock").pop().expect("a line");
        assert_eq!(
            last,
            "numaio: rejected 30 more connections of unauthenticated peers within 60 s, the last from 192.0.2.1:49"
        );
        lines.lock().expect("a lock").clear();
        // The next interval has lines again, and nothing to count.
        peers.interval.lock().expect("a lock").began = Instant::now();
        reject(2);
        peers.end_interval(Instant::now() + PEER_INTERVAL);
        assert_eq!(
            *lines.lock().expect("a lock"),
            ["numaio: 192.0.2.1:0: no key", "numaio: 192.0.2.1:1: no key"]
        );
    }
}
