//! Metrics of transfers: sessions of a daemon, and jobs.

use super::table::{Labels, MetricTable};
use numaio_schema::{DaemonState, Job, JobState, TransferResult, TransferTotal, TransferTotals};
use prometheus_client::registry::Unit;

/// The state of a daemon.
#[derive(Debug, Clone, Copy, Default)]
pub enum DaemonStatus<'a> {
    /// It is not known whether a daemon runs.
    #[default]
    Unknown,
    /// No daemon runs.
    Down,
    /// A daemon runs.
    Up(&'a DaemonState),
}

/// Returns the label of a user's class, and of the user on request.
fn user_labels(user: &str, class: &str, by_user: bool) -> Labels {
    let user = by_user.then(|| ("user", user.to_owned()));
    [("user_class", class.to_owned())].into_iter().chain(user).collect()
}

/// Adds the totals of finished sessions.
pub fn add_totals(table: &mut MetricTable, totals: &TransferTotals, by_user: bool) {
    let labels = |total: &TransferTotal, more: &[(&'static str, &str)]| -> Labels {
        let direction = total.direction.map_or("", |direction| direction.name());
        let fixed = [("root", total.root.as_str()), ("direction", direction)];
        let all = fixed.iter().chain(more).map(|(name, value)| (*name, (*value).to_owned()));
        all.chain(user_labels(&total.user, &total.user_class, by_user)).collect()
    };
    let all = &totals.totals;
    let mut bytes =
        table.counter("numaio_transfer", Some(Unit::Bytes), "File data transferred by finished sessions");
    all.iter().for_each(|total| bytes.add(labels(total, &[]), total.counts.bytes));
    let help = "Packets of finished sessions that the daemon received and sent, without TLS and TCP";
    let mut wire = table.counter("numaio_transfer_wire", Some(Unit::Bytes), help);
    for total in all {
        wire.add(labels(total, &[("flow", "received")]), total.counts.received);
        wire.add(labels(total, &[("flow", "sent")]), total.counts.sent);
    }
    let mut files = table.counter("numaio_transfer_files", None, "Regular files of finished sessions");
    all.iter().for_each(|total| files.add(labels(total, &[]), total.counts.files));
    let mut sessions = table.counter("numaio_transfer_sessions", None, "Finished sessions by result");
    for total in all {
        for result in TransferResult::ALL {
            let count = total.sessions.get(&result).copied().unwrap_or(0);
            sessions.add(labels(total, &[("result", result.name())]), count);
        }
    }
    let mut seconds =
        table.counter("numaio_transfer_session", Some(Unit::Seconds), "Duration of finished sessions");
    all.iter().for_each(|total| seconds.add(labels(total, &[]), total.seconds));
    let mut retries =
        table.counter("numaio_transfer_retries", None, "Finished sessions that attempted a transfer again");
    all.iter().for_each(|total| retries.add(labels(total, &[]), total.retries));
    let mut errors =
        table.counter("numaio_transfer_errors", None, "Entries that failed in finished sessions");
    all.iter().for_each(|total| errors.add(labels(total, &[]), total.counts.failed));
}

/// Adds the state of a daemon.
pub fn add_daemon(table: &mut MetricTable, daemon: DaemonStatus<'_>, by_user: bool) {
    let state = match daemon {
        DaemonStatus::Unknown => return,
        DaemonStatus::Down => None,
        DaemonStatus::Up(state) => Some(state),
    };
    table
        .gauge("numaio_daemon_up", None, "Whether the daemon of the records runs")
        .add(Vec::new(), u64::from(state.is_some()));
    let Some(state) = state else { return };
    let mut active = table.gauge("numaio_sessions_active", None, "Running sessions of admitted users");
    for sessions in &state.active {
        active.add(user_labels(&sessions.user, &sessions.user_class, by_user), sessions.sessions);
    }
    table
        .gauge("numaio_sessions_unauthenticated", None, "Connections that are being authenticated")
        .add(Vec::new(), state.unauthenticated);
    table
        .gauge("numaio_sessions_waiting", None, "Connections that wait for a slot, and sessions in the queue")
        .add(Vec::new(), state.waiting);
    table
        .counter("numaio_records_lost", None, "Records that the daemon could not write since its start")
        .add(Vec::new(), state.lost_records);
}

/// Adds the jobs of this user.
pub fn add_jobs(table: &mut MetricTable, jobs: &[Job]) {
    let states = [
        JobState::Waiting,
        JobState::Running,
        JobState::Cancelling,
        JobState::Done,
        JobState::Failed,
        JobState::Interrupted,
    ];
    let mut by_state = table.gauge("numaio_jobs", None, "Recorded jobs by state");
    for state in states {
        let count = jobs.iter().filter(|job| job.state == state).count() as u64;
        by_state.add(vec![("state", state.name().to_owned())], count);
    }
    let running: Vec<&Job> = jobs.iter().filter(|job| job.state.is_alive()).collect();
    let label = |job: &Job| vec![("job", job.id.to_string())];
    let mut moved = table.gauge(
        "numaio_job_transferred",
        Some(Unit::Bytes),
        "File data that a running job has transferred",
    );
    running.iter().for_each(|job| moved.add(label(job), job.totals.bytes));
    let mut size =
        table.gauge("numaio_job_size", Some(Unit::Bytes), "File data that a running job has found");
    running.iter().for_each(|job| size.add(label(job), job.totals.size));
    let mut entries = table.gauge("numaio_job_entries", None, "Entries that a running job has found");
    running.iter().for_each(|job| entries.add(label(job), job.totals.entries));
    let mut changed =
        table.gauge("numaio_job_changed_entries", None, "Entries that a running job has changed");
    running.iter().for_each(|job| changed.add(label(job), job.totals.moved));
    let mut errors = table.gauge("numaio_job_errors", None, "Entries that failed in a running job");
    running.iter().for_each(|job| errors.add(label(job), job.totals.failed));
}
