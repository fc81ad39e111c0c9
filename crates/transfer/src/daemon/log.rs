//! The log of a daemon and its sessions, on standard error.

use super::config::ConfigError;
use super::error::DaemonError;
use super::log_options::{LogFormat, LogLevel, LogOptions};
use crate::ssh::stderr_relay::LineSink;
use numaio_linux::journal::Journal;
use numaio_machine::calendar::utc_time;
use numaio_machine::printable::printable;
use numaio_schema::TransferRecord;
use serde::Serialize;
use serde_json::Value;
use std::fmt::Display;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

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
    /// Shared by all clones, so that a reload applies to them.
    options: Arc<Mutex<LogOptions>>,
    /// The journal for entries with fields, opened at the first one; `None` if it cannot be.
    journal: Arc<OnceLock<Option<Journal>>>,
}

/// A line of the log in JSON.
#[derive(Serialize)]
struct JsonLine<'a> {
    time: String,
    level: &'static str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    transfer: Option<&'a TransferRecord>,
}

impl Log {
    /// A log that goes to a sink, which writes each line in one call, because several processes
    /// write to standard error.
    pub fn new(sink: LineSink, is_quiet: bool) -> Self {
        Self { sink, is_quiet, options: Arc::default(), journal: Arc::default() }
    }

    /// Sets format and level.
    pub fn configure(&self, options: LogOptions) {
        *self.options.lock().unwrap_or_else(PoisonError::into_inner) = options;
    }

    fn options(&self) -> LogOptions {
        *self.options.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether only errors of the configuration are logged.
    pub fn is_quiet(&self) -> bool {
        self.is_quiet
    }

    /// Logs a line that reports that the daemon does not work as configured.
    pub fn error(&self, text: &str) {
        self.line(LogLevel::Error, text, None);
    }

    /// Logs a line about a failed session or connection.
    pub fn warning(&self, text: &str) {
        self.line(LogLevel::Warning, text, None);
    }

    /// Logs a line about a session, or a change of the daemon's state.
    pub fn info(&self, text: &str) {
        self.line(LogLevel::Info, text, None);
    }

    /// Logs a detail.
    pub fn debug(&self, text: &str) {
        self.line(LogLevel::Debug, text, None);
    }

    /// Logs a line with the record of the session that it describes.
    pub fn line(&self, level: LogLevel, text: &str, transfer: Option<&TransferRecord>) {
        if !self.is_quiet {
            self.write(level, ("numaio: ", text), transfer);
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
        for ConfigError { line, text } in errors {
            self.write(LogLevel::Error, ("", &format!("{path}:{line}: {text}")), None);
        }
    }

    /// Writes a line, with a prefix in text.
    fn write(&self, level: LogLevel, (prefix, text): (&str, &str), transfer: Option<&TransferRecord>) {
        let options = self.options();
        if level > options.level {
            return;
        }
        let text = &printable(text);
        match options.format {
            LogFormat::Text => (self.sink)(&format!("{prefix}{text}")),
            LogFormat::Journal => {
                if !transfer.is_some_and(|transfer| self.send_record(level, text, transfer)) {
                    (self.sink)(&format!("<{}>{prefix}{text}", level.priority()));
                }
            }
            LogFormat::Json => {
                let time = utc_time(SystemTime::now());
                let line = JsonLine { time, level: level.name(), message: text, transfer };
                (self.sink)(&serde_json::to_string(&line).unwrap_or_default());
            }
        }
    }

    /// Sends a line to the journal with the fields of its record; returns whether the journal took
    /// it.
    fn send_record(&self, level: LogLevel, text: &str, transfer: &TransferRecord) -> bool {
        let journal = self.journal.get_or_init(|| Journal::open().ok());
        journal.as_ref().is_some_and(|journal| journal.send(&journal_fields(level, text, transfer)).is_ok())
    }
}

/// Returns the fields of the journal for a line with a record: `bytes_per_s` of the record is
/// `NUMAIO_BYTES_PER_S`.
fn journal_fields(level: LogLevel, text: &str, transfer: &TransferRecord) -> Vec<(String, String)> {
    let of_line = [
        ("MESSAGE", text.to_owned()),
        ("PRIORITY", level.priority().to_string()),
        ("SYSLOG_IDENTIFIER", "numaio".to_owned()),
    ];
    let mut fields: Vec<(String, String)> =
        of_line.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let Ok(Value::Object(record)) = serde_json::to_value(transfer) else { return fields };
    let of_record = record.into_iter().filter(|(name, _)| name != "schema").map(|(name, value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        (format!("NUMAIO_{}", name.to_ascii_uppercase()), value)
    });
    fields.extend(of_record.filter(|(_, value)| !value.is_empty()));
    fields
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
            true => self.log.warning(&format!("{caller}: {why}")),
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
            self.log.warning(&format!(
                "rejected {unlisted} more connections of unauthenticated peers within {seconds} s, the last from {last}"
            ));
        }
        *interval = PeerInterval { began: now, rejected: 0, unlisted: None };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log with the lines that it writes.
    fn collected() -> (Log, Arc<Mutex<Vec<String>>>) {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let sink = lines.clone();
        let sink: LineSink = Arc::new(move |line| sink.lock().expect("a lock").push(line.to_owned()));
        (Log::new(sink, false), lines)
    }

    #[test]
    fn formats_and_levels_apply_to_every_line() {
        let (log, lines) = collected();
        let write_all = |format, level| {
            // A clone shares the options.
            log.clone().configure(LogOptions { format, level });
            log.error("e");
            log.warning("w");
            log.info("i \"quoted\"");
            log.debug("d");
            log.config_errors(Path::new("f"), &[ConfigError::new(3, "c")]);
            std::mem::take(&mut *lines.lock().expect("a lock"))
        };
        assert_eq!(
            write_all(LogFormat::Text, LogLevel::Info),
            ["numaio: e", "numaio: w", "numaio: i \"quoted\"", "f:3: c"]
        );
        assert_eq!(
            write_all(LogFormat::Journal, LogLevel::Debug),
            ["<3>numaio: e", "<4>numaio: w", "<6>numaio: i \"quoted\"", "<7>numaio: d", "<3>f:3: c"]
        );
        assert_eq!(write_all(LogFormat::Text, LogLevel::Warning), ["numaio: e", "numaio: w", "f:3: c"]);
        assert_eq!(write_all(LogFormat::Text, LogLevel::Error), ["numaio: e", "f:3: c"]);
        let json = write_all(LogFormat::Json, LogLevel::Info);
        let parsed = json.iter().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
        let fields: Vec<String> = parsed
            .map(|line| format!("{} {} {}", line["time"].is_string(), line["level"], line["message"]))
            .collect();
        assert_eq!(
            fields,
            [
                "true \"error\" \"e\"",
                "true \"warning\" \"w\"",
                "true \"info\" \"i \\\"quoted\\\"\"",
                "true \"error\" \"f:3: c\"",
            ]
        );
    }

    #[test]
    fn journal_has_the_fields_of_a_record() {
        let text = include_str!("../../../schema/tests/fixtures/transfer-record-1.json");
        let record = TransferRecord::from_json(text).expect("a record");
        let fields = journal_fields(LogLevel::Warning, "a line", &record);
        let value =
            |name: &str| fields.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str());
        for (name, expected) in [
            ("MESSAGE", "a line"),
            ("PRIORITY", "4"),
            ("SYSLOG_IDENTIFIER", "numaio"),
            ("NUMAIO_USER", "alice"),
            ("NUMAIO_RETRY", "true"),
            ("NUMAIO_BYTES", "6000000"),
        ] {
            assert_eq!(value(name), Some(expected), "{name}");
        }
        let is_name = |name: &str| {
            name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
        };
        assert!(fields.iter().all(|(name, value)| is_name(name) && !value.is_empty()), "{fields:?}");
        assert!(value("NUMAIO_SCHEMA").is_none());
    }

    #[test]
    fn lines_about_unauthenticated_peers_are_limited() {
        let (log, lines) = collected();
        let peers = PeerLog::new(&log);
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
