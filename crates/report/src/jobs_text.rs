//! Formats a user's transfer jobs as text.

use crate::phrases::{bandwidth, count, joined};
use crate::plan_text::seconds;
use crate::record_header::date;
use crate::style::TextStyle;
use crate::table::{Align, Cell, Table};
use crate::text_page::TextPage;
use numaio_machine::units::format_size;
use numaio_schema::{CommandArg, Job, JobProblem, JobState, LentCapacity, QueuedTransfer};
use std::borrow::Cow;

/// Formats jobs as a table, in the given order.
pub fn jobs_text(jobs: &[Job], style: &TextStyle) -> String {
    let mut page = TextPage::new(style);
    if jobs.is_empty() {
        page.heading("No jobs. Each 'numaio copy' records one.");
        return page.into_text();
    }
    let columns = [
        ("JOB", Align::Right),
        ("STATE", Align::Left),
        ("STARTED", Align::Left),
        ("MOVED", Align::Right),
        ("DATA", Align::Left),
        ("RATE", Align::Right),
        ("FAILED", Align::Right),
        ("COMMAND", Align::Left),
    ];
    let mut table = Table::new(columns).shrink_first("COMMAND");
    for job in jobs {
        let failed = if job.totals.failed == 0 { String::new() } else { job.totals.failed.to_string() };
        table.row([
            Cell::from(job.id.to_string()),
            job.shown_state().into(),
            date(job.started_at).into(),
            job.totals.moved.to_string().into(),
            data(job).into(),
            rate(job, style).into(),
            failed.into(),
            command(job).into(),
        ]);
    }
    page.table(0, &table.without_empty_columns());
    page.into_text()
}

/// Formats the details of a job.
pub fn job_text(job: &Job, style: &TextStyle) -> String {
    let mut page = TextPage::new(style);
    let why = if job.reason.is_empty() { String::new() } else { format!(": {}", job.reason) };
    page.heading(&format!("Job {}, {}{why}", job.id, job.shown_state()));
    let runs = if job.runs > 1 { format!(", run {}", job.runs) } else { String::new() };
    let environment: Vec<String> =
        job.environment.iter().map(|(name, value)| format!("{name}={}", quoted(value))).collect();
    for line in [
        command(job),
        format!("Directory: {}", text(&job.directory)),
        if environment.is_empty() {
            String::new()
        } else {
            format!("Environment: {}", environment.join(" "))
        },
        format!("Started {}, last updated {}{runs}", date(job.started_at), date(job.written_at)),
        format!("Process {} on {}, numaio {}", job.process.pid, job.process.host, job.numaio),
        found_line(job),
        moved_line(job, style),
        lent_line("This host's daemon", job.capacity.as_ref()),
        lent_line("The other host's daemon", job.peer_capacity.as_ref()),
    ] {
        page.paragraph(2, 2, &line);
    }
    if !job.problems.is_empty() {
        page.heading(&match job.totals.failed as usize {
            failed if failed > job.problems.len() => {
                format!("Errors (first {} of {failed})", job.problems.len())
            }
            _ => "Errors".to_owned(),
        });
        job.problems.iter().for_each(|problem| page.paragraph(2, 2, &problem_line(problem)));
    }
    if !job.log.is_empty() {
        page.heading("Log");
        job.log.iter().for_each(|line| page.paragraph(2, 2, &format!("{}  {}", date(line.at), line.text)));
    }
    page.into_text()
}

/// Formats the transfers of a daemon as a table.
pub fn queue_text(transfers: &[QueuedTransfer], style: &TextStyle) -> String {
    let mut page = TextPage::new(style);
    if transfers.is_empty() {
        page.heading("No transfers.");
        return page.into_text();
    }
    let columns = [
        ("USER", Align::Left),
        ("TRANSFER", Align::Left),
        ("STATE", Align::Left),
        ("SHARE", Align::Right),
        ("THREADS", Align::Right),
        ("DATA", Align::Right),
        ("DEVICES", Align::Left),
    ];
    let mut table = Table::new(columns).shrink_first("DEVICES");
    for QueuedTransfer { user, subject: what, devices, bytes, capacity } in transfers {
        table.row([
            Cell::from(user.clone()),
            what.clone().into(),
            capacity.state.name().into(),
            share(capacity).into(),
            capacity.threads.map_or_else(String::new, |threads| threads.to_string()).into(),
            format_size(*bytes).into(),
            devices.join(", ").into(),
        ]);
    }
    page.table(0, &table.without_empty_columns());
    let waiting = transfers.iter().filter(|transfer| transfer.capacity.position.is_some());
    waiting.for_each(|QueuedTransfer { user, subject: what, capacity, .. }| {
        page.paragraph(0, 2, &format!("{user}, {what}: {}", lent_text(capacity)));
    });
    page.into_text()
}

/// Describes what a daemon lends to a job; empty if it lends nothing.
fn lent_line(who: &str, lent: Option<&LentCapacity>) -> String {
    lent.map_or_else(String::new, |lent| format!("{who}: {}", lent_text(lent)))
}

/// Describes what a daemon lends: `suspended, position 1: sda serves 1 at once`.
fn lent_text(lent: &LentCapacity) -> String {
    let position =
        lent.position.map_or_else(String::new, |position| format!("position {position}: {}", lent.reason));
    let threads = lent.threads.map_or_else(String::new, |threads| count(threads as usize, "thread"));
    let starts = lent.starts_in.map_or_else(String::new, |time| format!("probably starts in {time} s"));
    joined([lent.state.name().to_owned(), share(lent), threads, position, starts], ", ")
}

/// Returns the share of the devices, if it is limited.
fn share(lent: &LentCapacity) -> String {
    lent.rate.filter(|_| lent.is_limited).map_or_else(String::new, |rate| format!("{}/s", format_size(rate)))
}

fn found_line(job: &Job) -> String {
    let found = count(usize::try_from(job.totals.entries).unwrap_or(usize::MAX), "entry");
    match job.totals.size {
        0 => format!("Found {found}"),
        size => format!("Found {found}, {} to move", format_size(size)),
    }
}

/// Summarizes a job: `12 moved, 3 unchanged, 1 failed; 1.5 GiB in 3.2 s, 0.5 GB/s`.
fn moved_line(job: &Job, style: &TextStyle) -> String {
    let totals = &job.totals;
    let counts = [
        (totals.moved, "moved"),
        (totals.unchanged, "unchanged"),
        (totals.removed, "removed"),
        (totals.failed, "failed"),
    ];
    let counts =
        counts.map(|(count, what)| if count == 0 { String::new() } else { format!("{count} {what}") });
    let resumed = match totals.resumed {
        0 => String::new(),
        bytes => format!("{} resumed", format_size(bytes)),
    };
    let data = format!("{} in {}", format_size(totals.bytes), seconds(job.seconds));
    joined([joined(counts, ", "), resumed, joined([data, rate(job, style)], ", ")], "; ")
}

fn problem_line(problem: &JobProblem) -> String {
    let name = problem.name.as_deref().unwrap_or("the transfer");
    format!("{name}: {} ({})", problem.text, problem.side)
}

/// Returns the moved bytes, and the total found so far while the job is unfinished.
fn data(job: &Job) -> String {
    let bytes = format_size(job.totals.bytes);
    match (job.state, job.totals.size) {
        (JobState::Done, _) | (_, 0) => bytes,
        _ => format!("{bytes} of {}", format_size(job.totals.size)),
    }
}

/// Returns the mean rate of the run; empty if nothing was moved.
fn rate(job: &Job, style: &TextStyle) -> String {
    match job.totals.bytes {
        0 => String::new(),
        bytes => bandwidth(bytes as f64 / job.seconds.max(1e-3), style.unit),
    }
}

/// Returns the command, quoted for a shell.
fn command(job: &Job) -> String {
    let words: Vec<Cow<'_, str>> = job.command.iter().map(text).collect();
    let words: Vec<Cow<'_, str>> = words.iter().map(|word| quoted(word)).collect();
    format!("numaio {}", words.join(" "))
}

fn text(word: &CommandArg) -> Cow<'_, str> {
    match word {
        CommandArg::Text(text) => text.into(),
        CommandArg::Bytes(bytes) => String::from_utf8_lossy(bytes),
    }
}

fn quoted(word: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_alphanumeric() || "-_./:@=,+%".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.into(),
        false => format!("'{}'", word.replace('\'', r"'\''")).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> Job {
        let text = include_str!("../../schema/tests/fixtures/job-1.json");
        Job::from_json(text).expect("a job")
    }

    #[test]
    fn a_job_is_a_row_of_the_table() {
        let mut other = job();
        other.state = JobState::Done;
        (other.id, other.totals.failed) = (8, 0);
        let text = jobs_text(&[job(), other], &TextStyle { width: 140, ..TextStyle::default() });
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[1],
            "  7  interrupted  2026-11-21 03:24 UTC     12  2 GiB of 4 GiB  0.54 GB/s       1  \
             numaio copy -a 'my data/' host:to"
        );
        assert!(lines[2].contains("  8  done ") && lines[2].contains("  2 GiB  "), "{text}");
        assert!(jobs_text(&[], &TextStyle::default()).contains("No jobs"));
    }

    #[test]
    fn job_details_are_complete_and_clean() {
        let mut job = job();
        job.problems[0].name = Some("a\x1b[2Jb".to_owned());
        job.command.push(CommandArg::Bytes(b"\xff it's".to_vec()));
        let text = job_text(&job, &TextStyle::default());
        for part in [
            "Job 7, interrupted: its process no longer exists\n",
            "numaio copy -a 'my data/' host:to '\u{fffd} it'\\''s'\n",
            "Directory: /home/ada\n",
            "Environment: NUMAIO_SSH=/opt/ssh\n",
            "12 moved, 3 unchanged, 1 failed; 1 GiB resumed; 2 GiB in 4.0 s, 0.54 GB/s\n",
            "a\u{fffd}[2Jb: open it to read: permission denied (source)\n",
            "2026-11-21 03:24 UTC  began\n",
        ] {
            assert!(text.contains(part), "{part:?} is not in {text}");
        }
    }
}
