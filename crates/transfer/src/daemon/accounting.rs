//! Log and records of a daemon's sessions, and its state for `numaio metrics`.

use super::loaded_config::LoadedConfig;
use super::log::Log;
use super::log_options::LogLevel;
use super::record_writer::RecordWriter;
use super::session_ipc::{AdmissionRequest, SessionEnd};
use super::session_table::{SessionCounts, SessionTable};
use crate::line::sanitize;
use crate::local_host::LocalHost;
use crate::transfer_records::write_state;
use numaio_machine::calendar::{seconds_since_1970, Day};
use numaio_schema::{
    ActiveSessions, DaemonState, TransferCounts, TransferDirection, TransferRecord, TransferResult,
    DAEMON_STATE_SCHEMA, TRANSFER_RECORD_SCHEMA,
};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Builder};
use std::time::{Duration, Instant, SystemTime};

/// How often the state is written if it has changed.
const STATE_INTERVAL: Duration = Duration::from_secs(1);

/// Accounts of the sessions of a daemon.
pub struct Accounting {
    log: Log,
    writer: RecordWriter,
}

/// The start of a session.
pub struct SessionStartTime {
    at: SystemTime,
    instant: Instant,
}

impl SessionStartTime {
    /// The present time.
    pub fn now() -> Self {
        Self { at: SystemTime::now(), instant: Instant::now() }
    }
}

impl Accounting {
    /// Accounts that use a log.
    pub fn new(log: &Log) -> Self {
        Self { log: log.clone(), writer: RecordWriter::default() }
    }

    /// Logs and records a session whose process has exited: with its report, or without one if it
    /// was admitted or killed.
    pub fn session_ended(
        &self,
        loaded: &LoadedConfig,
        (client, began): (SocketAddr, &SessionStartTime),
        admitted: Option<&AdmissionRequest>,
        (end, status): (Option<SessionEnd>, ExitStatus),
    ) {
        let end = match end {
            Some(end) => end,
            None if admitted.is_none() && status.signal().is_none() => return,
            None => unreported(status),
        };
        // The daemon knows these of an admitted user.
        let SessionEnd { user, root, direction, .. } = &end;
        let (user, root, direction) = match admitted {
            Some(AdmissionRequest { user, root, direction, .. }) => (user, root, Some(*direction)),
            None => (user, root, *direction),
        };
        let config = &loaded.config;
        let known = |is_known: bool, name: &String| if is_known { name.clone() } else { String::new() };
        let seconds = began.instant.elapsed().as_secs_f64();
        let seconds = (seconds * 1e3).round() / 1e3;
        let counts = end.counts;
        let record = TransferRecord {
            schema: TRANSFER_RECORD_SCHEMA.to_owned(),
            started_at: seconds_since_1970(began.at),
            ended_at: seconds_since_1970(SystemTime::now()),
            client: client.to_string(),
            user: known(config.users.contains_key(user), user),
            user_class: config.class_of(user).to_owned(),
            root: known(config.roots.contains_key(root), root),
            direction,
            result: end.result,
            reason: sanitize(&end.reason),
            retry: end.is_retry,
            transfer: sanitize(&end.transfer),
            seconds,
            bytes_per_s: (counts.bytes as f64 / seconds.max(0.001)).round(),
            counts,
        };
        self.log.line(level(record.result), &log_text(&record), Some(&record));
        if let Some(options) = &config.records {
            self.writer.write(&self.log, options, Day::of(SystemTime::now()), &record);
        }
    }

    /// Starts a thread that writes the state and deletes old records, so that a slow disk does not
    /// delay clients.
    pub fn run_in_background(
        self: &Arc<Self>,
        sessions: &Arc<SessionTable>,
        loaded: &Arc<Mutex<Arc<LoadedConfig>>>,
    ) {
        let (accounting, sessions, loaded) = (self.clone(), sessions.clone(), loaded.clone());
        let run = move || {
            let process = DaemonProcess::current();
            let mut written = None;
            loop {
                let loaded = loaded.lock().unwrap_or_else(PoisonError::into_inner).clone();
                if let Some(options) = &loaded.config.records {
                    accounting.writer.maintain(&accounting.log, options, Day::of(SystemTime::now()));
                    let state = (sessions.counts(), accounting.writer.lost());
                    let path = &options.directory.value;
                    let is_new = written.as_ref() != Some(&(path.clone(), state.clone()));
                    if is_new && write_state(path, &process.state(&loaded, state.clone())).is_ok() {
                        written = Some((path.clone(), state));
                    }
                }
                thread::sleep(STATE_INTERVAL);
            }
        };
        if let Err(error) = Builder::new().name("records".to_owned()).spawn(run) {
            self.log.error(&format!("cannot write the state: no thread: {error}"));
        }
    }
}

/// The process of the daemon.
struct DaemonProcess {
    start_time: u64,
    boot: Option<String>,
}

impl DaemonProcess {
    fn current() -> Self {
        let host = LocalHost::current();
        Self { start_time: host.start_time(std::process::id()), boot: host.boot }
    }

    fn state(&self, loaded: &LoadedConfig, (counts, lost_records): (SessionCounts, u64)) -> DaemonState {
        let users = &loaded.config.users;
        let active = counts.active.into_iter().map(|(user, sessions)| {
            let user_class = loaded.config.class_of(&user).to_owned();
            ActiveSessions { user, user_class, sessions }
        });
        let mut active: Vec<ActiveSessions> = active.collect();
        // A class without sessions has the value 0 in metrics, not none.
        for class in users.values().map(|user| &user.class).collect::<BTreeSet<_>>() {
            if active.iter().all(|sessions| sessions.user_class != *class) {
                let user_class = class.clone();
                active.push(ActiveSessions { user: String::new(), user_class, sessions: 0 });
            }
        }
        DaemonState {
            schema: DAEMON_STATE_SCHEMA.to_owned(),
            numaio: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            start_time: self.start_time,
            boot: self.boot.clone(),
            written_at: seconds_since_1970(SystemTime::now()),
            active,
            unauthenticated: counts.unauthenticated,
            waiting: counts.waiting,
            lost_records,
        }
    }
}

/// Returns the end of a session that did not report it.
fn unreported(status: ExitStatus) -> SessionEnd {
    let reason = match status.signal() {
        Some(signal) => format!("signal {signal}"),
        None => format!("its process ended without a report ({status})"),
    };
    SessionEnd {
        user: String::new(),
        root: String::new(),
        direction: None,
        result: TransferResult::Killed,
        reason,
        transfer: String::new(),
        is_retry: false,
        counts: TransferCounts::default(),
    }
}

fn level(result: TransferResult) -> LogLevel {
    match result {
        TransferResult::Done | TransferResult::DoneWithFailures => LogLevel::Info,
        _ => LogLevel::Warning,
    }
}

/// Formats a record as a line of text: a sentence, then its values.
fn log_text(record: &TransferRecord) -> String {
    let user = if record.user.is_empty() { "unknown user" } else { &record.user };
    let does = match record.direction {
        _ if record.root.is_empty() => user.to_owned(),
        Some(TransferDirection::Read) => format!("{user} reads {}", record.root),
        Some(TransferDirection::Write) => format!("{user} writes to {}", record.root),
        None => user.to_owned(),
    };
    let how = match (record.result, record.reason.as_str()) {
        (TransferResult::DoneWithFailures, _) => format!("done, {} failed", record.counts.failed),
        (result, "") => result.name().to_owned(),
        (result, reason) => format!("{}: {reason}", result.name()),
    };
    let TransferCounts { files, entries, bytes, received, sent, .. } = record.counts;
    let retry = if record.retry { "yes" } else { "no" };
    format!(
        "{}: {does}: {how}; files={files} entries={entries} bytes={bytes} received={received} sent={sent} \
         seconds={:.3} bytes_per_s={:.0} retry={retry}",
        record.client, record.seconds, record.bytes_per_s
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_of_a_session_has_its_values() {
        let text = include_str!("../../../schema/tests/fixtures/transfer-record-1.json");
        let record = TransferRecord::from_json(text).expect("a record");
        assert_eq!(
            log_text(&record),
            "192.0.2.7:40112: alice writes to incoming: done, 2 failed; files=40 entries=44 bytes=6000000 \
             received=6004100 sent=5120 seconds=12.500 bytes_per_s=480000 retry=yes"
        );
        let refused = TransferRecord {
            root: String::new(),
            result: TransferResult::Refused,
            reason: "there is no root \"x\" for alice".to_owned(),
            ..record
        };
        assert!(log_text(&refused)
            .starts_with("192.0.2.7:40112: alice: refused: there is no root \"x\" for alice; files=40 "));
        assert_eq!(level(TransferResult::Refused), LogLevel::Warning);
    }
}
