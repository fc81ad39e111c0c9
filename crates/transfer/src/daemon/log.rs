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
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Interval for which lines about clients that are not served are limited.
const LIMITED_INTERVAL: Duration = Duration::from_secs(60);
/// Maximum number of these lines in an interval.
const LIMITED_LINES: u64 = 20;

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

/// Lines about clients that are not served. Anybody who reaches a socket causes them, so that their
/// number is limited; further ones are counted.
#[derive(Clone)]
pub struct LimitedLog {
    log: Log,
    interval: Arc<Mutex<LineInterval>>,
}

/// The current interval.
struct LineInterval {
    began: Instant,
    /// Number of lines.
    lines: u64,
    /// The last line that was not logged.
    left_out: Option<String>,
}

impl LineInterval {
    fn new(began: Instant) -> Self {
        Self { began, lines: 0, left_out: None }
    }
}

impl LimitedLog {
    /// Lines for a log.
    pub fn new(log: &Log) -> Self {
        Self { log: log.clone(), interval: Arc::new(Mutex::new(LineInterval::new(Instant::now()))) }
    }

    /// Logs or counts a line about a client.
    pub fn warning(&self, text: &str) {
        self.line(LogLevel::Warning, text);
    }

    /// Logs or counts a line about an error that each client may cause.
    pub fn error(&self, text: &str) {
        self.line(LogLevel::Error, text);
    }

    fn line(&self, level: LogLevel, text: &str) {
        self.end_interval(Instant::now());
        let mut interval = self.interval.lock().unwrap_or_else(PoisonError::into_inner);
        interval.lines += 1;
        match interval.lines <= LIMITED_LINES {
            true => self.log.line(level, text, None),
            false => interval.left_out = Some(text.to_owned()),
        }
    }

    /// Logs the number of lines that were left out, once the interval is over.
    pub fn flush(&self) {
        self.end_interval(Instant::now());
    }

    fn end_interval(&self, now: Instant) {
        let mut interval = self.interval.lock().unwrap_or_else(PoisonError::into_inner);
        if now.duration_since(interval.began) < LIMITED_INTERVAL {
            return;
        }
        let ended = std::mem::replace(&mut *interval, LineInterval::new(now));
        if let Some(last) = ended.left_out {
            let (count, seconds) = (ended.lines - LIMITED_LINES, LIMITED_INTERVAL.as_secs());
            self.log
                .warning(&format!("left out {count} more lines within {seconds} s; the last one: {last}"));
        }
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
    fn lines_about_rejected_clients_are_limited() {
        let (log, lines) = collected();
        let limited = LimitedLog::new(&log);
        let reject = |count: u16| {
            (0..count).for_each(|port| limited.warning(&format!("192.0.2.1:{port}: no key")));
        };
        reject(50);
        limited.flush();
        assert_eq!(lines.lock().expect("a lock").len() as u64, LIMITED_LINES);
        limited.end_interval(Instant::now() + LIMITED_INTERVAL);
        let last = lines.lock().expect("a lock").pop().expect("a line");
        assert_eq!(last, "numaio: left out 30 more lines within 60 s; the last one: 192.0.2.1:49: no key");
        lines.lock().expect("a lock").clear();
        // The next interval has lines again, and nothing to count.
        limited.interval.lock().expect("a lock").began = Instant::now();
        reject(2);
        limited.end_interval(Instant::now() + LIMITED_INTERVAL);
        assert_eq!(
            *lines.lock().expect("a lock"),
            ["numaio: 192.0.2.1:0: no key", "numaio: 192.0.2.1:1: no key"]
        );
    }
}
