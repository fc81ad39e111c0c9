//! Output of a transfer: progress, changes, problems and the summary, as text or lines of JSON; the
//! manifest; and the record of the job. All read the same events.

use super::args::{CopyArgs, DisplayArgs};
use super::change_report::{item_line, ChangeCounts};
use super::failure_lines::FailureLines;
use super::log_file::LogFile;
use super::manifest::Manifest;
use crate::failure::transfer::RESUME_HINT;
use crate::failure::{Failure, INTERRUPTED};
use crate::options::Common;
use crate::output;
use numaio_linux::interrupt::interrupted;
use numaio_machine::printable::printable;
use numaio_machine::units::BandwidthUnit;
use numaio_mover::port::BlockSize;
use numaio_mover::shard::Shard;
use numaio_mover::wire::{Problem, Reason};
use numaio_report::{progress_text, statistics_text, transfer_text};
use numaio_schema::{CapacityState, JobProblem, JobTotals, LentCapacity};
use numaio_transfer::event::{
    self, cpus_text, Change, EndEvent, Event, PlacedConnections, PlacedGroup, PlacementEvent,
};
use numaio_transfer::jobs::JobRecorder;
use numaio_transfer::reporter::{Notice, Observation, Observer, ObserverWishes, ProblemCounts, TransferEnd};
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::mem::replace;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Exit status if some files failed, and all others were transferred.
pub const SOME_FAILED: u8 = 3;
/// Exit status if some files vanished or changed while they were read, and all others were
/// transferred.
const SOME_CHANGED: u8 = 4;
/// Exit status if all files were transferred, and requested attributes could not be set.
const ATTRIBUTES_UNSET: u8 = 5;
/// How often the progress line is updated.
const LINE_INTERVAL: Duration = Duration::from_millis(200);
/// How often a progress event is printed.
const EVENT_INTERVAL: Duration = Duration::from_secs(1);
/// Number of failures from which the summary refers to them.
const MANY_FAILURES: u64 = 10;

/// Prints and records what a transfer reports.
pub struct CopyOutput {
    json: bool,
    verbose: bool,
    progress: bool,
    quiet: bool,
    dry_run: bool,
    archive: bool,
    /// The part of the files that is copied, if it is not all.
    shard: Option<Shard>,
    unit: BandwidthUnit,
    began: Instant,
    last_shown: Option<Instant>,
    /// When the last sign of life was printed.
    last_alive: Option<Instant>,
    /// Text of the batch, which is printed at once.
    text: String,
    manifest: Option<Manifest>,
    /// Whether the manifest uses standard output.
    stdout_is_manifest: bool,
    /// Whether changes are printed by their attributes.
    itemize: bool,
    /// Counts of the changes, with `--stats`.
    counts: Option<ChangeCounts>,
    log: Option<LogFile>,
    /// Failures that were shown.
    failures: FailureLines,
    /// Records the events as a job.
    recorder: JobRecorder,
    /// Whether another numaio reads the events and needs the progress.
    attached: bool,
    /// The places in queues that were shown last.
    shown: ShownPlaces,
    /// First failure to write output.
    failure: Option<Failure>,
}

/// The places of a transfer in queues that were shown last.
struct ShownPlaces {
    /// In a queue before the transfer.
    queue: String,
    /// At this host's daemon.
    here: CapacityState,
    /// At the daemon of the other host.
    there: CapacityState,
}

impl Default for ShownPlaces {
    fn default() -> Self {
        let state = CapacityState::Transferring;
        Self { queue: String::new(), here: state, there: state }
    }
}

impl CopyOutput {
    /// The output that the options request, which is also logged to a file if there is one.
    pub fn new(common: &Common, args: &CopyArgs, shard: Option<Shard>, log: Option<LogFile>) -> Self {
        let DisplayArgs { json, progress } = args.display;
        let verbose = common.verbose;
        let watched = !common.quiet && (progress || io::stderr().is_terminal() && !verbose && !json);
        let manifest = args.manifest.as_deref().map(Manifest::begin).transpose();
        let (manifest, failure) = manifest.map_or_else(|failure| (None, Some(failure)), |it| (it, None));
        Self {
            json,
            verbose: verbose || args.dry_run && !json,
            progress: watched || args.attached && progress,
            quiet: common.quiet,
            dry_run: args.dry_run,
            archive: args.archive,
            shard,
            unit: common.unit,
            began: Instant::now(),
            last_shown: None,
            last_alive: None,
            text: String::new(),
            manifest,
            stdout_is_manifest: args.manifest.as_deref().is_some_and(Manifest::is_output),
            itemize: args.report.itemize_changes,
            counts: args.report.stats.then(ChangeCounts::default),
            log,
            failures: FailureLines::default(),
            recorder: args.recorder.clone(),
            attached: args.attached,
            shown: ShownPlaces::default(),
            failure,
        }
    }

    /// Returns whether a notice only repeats the place of a transfer: estimates and rates change
    /// often.
    fn is_known_place(&mut self, notice: &Notice) -> bool {
        match notice {
            Notice::Queued { host, position, why, .. } => {
                let place = format!("{host} {position} {why}");
                replace(&mut self.shown.queue, place.clone()) == place
            }
            // Both hosts are about to begin.
            Notice::Lent(lent) | Notice::PeerLent(lent)
                if lent.state == CapacityState::Active || lent.reason == LentCapacity::AWAITS_PEER =>
            {
                true
            }
            Notice::Lent(lent) => replace(&mut self.shown.here, lent.state) == lent.state,
            Notice::PeerLent(lent) => replace(&mut self.shown.there, lent.state) == lent.state,
            _ => false,
        }
    }

    /// Shows the progress, unless it was shown a moment ago.
    fn show_progress(&mut self, event: &Event, totals: &JobTotals) {
        let now = Instant::now();
        let each = if self.json { EVENT_INTERVAL } else { LINE_INTERVAL };
        if !self.progress || self.last_shown.is_some_and(|last_shown| now.duration_since(last_shown) < each) {
            return;
        }
        self.last_shown = Some(now);
        if self.json {
            return self.print(&event.line());
        }
        let line = progress_text(totals, self.began.elapsed().as_secs_f64(), self.unit);
        let width = numaio_linux::terminal::width().unwrap_or(80).saturating_sub(1);
        let _ = write!(io::stderr(), "\r{line:.width$}\x1b[K").and_then(|()| io::stderr().flush());
    }

    fn print(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.clear();
        if self.stdout_is_manifest {
            let _ = io::stderr().write_all(text.as_bytes());
        } else {
            self.keep_first_failure(output::print(text));
        }
    }

    /// Keeps the first of several failures.
    fn keep_first_failure(&mut self, result: Result<(), Failure>) {
        self.failure = self.failure.take().or(result.err());
    }

    fn clear(&self) {
        if self.progress && !self.json && self.last_shown.is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }

    /// Shows an event as text.
    fn show(&mut self, event: &Event) {
        match event {
            Event::Did(change) | Event::Would(change) if self.itemize => {
                self.text += &(item_line(change) + "\n");
            }
            Event::Did(change) | Event::Would(change) if self.verbose => {
                let would = if self.dry_run { "would be " } else { "" };
                let Change { action, name, .. } = change;
                self.text += &format!("{would}{action}: {name}\n");
            }
            // The reason of a failed transfer is the failure of the command.
            Event::Problem(JobProblem { name: Some(name), text, side, .. }) => {
                let cause = format!("{text} ({side})");
                if self.failures.add(&cause) || self.verbose {
                    self.print_failure(format_args!("{name}: {cause}"));
                }
            }
            Event::Placement(placement) => placement_lines(placement).into_iter().for_each(output::detail),
            Event::End(end) => {
                let others = self.failures.others().filter(|_| !self.verbose);
                others.for_each(|(cause, count)| self.print_failure(format_args!("{count} more: {cause}")));
                let statistics = self.counts.map(|counts| counts.statistics(&end.totals));
                self.text += &statistics.map_or(String::new(), |it| statistics_text(&it, end.seconds));
                if !self.quiet {
                    self.text += &self.summary(end);
                }
            }
            _ => {}
        }
    }

    /// Prints a failure, even with `--quiet`.
    fn print_failure(&self, failure: fmt::Arguments<'_>) {
        self.clear();
        let _ = writeln!(io::stderr(), "numaio: {failure}");
    }

    /// Returns the line of the end, with the shard if there is one.
    fn end_line(&self, end: &EndEvent) -> String {
        let shard = self.shard.map(|shard| format!("shard {shard}: ")).unwrap_or_default();
        shard + &transfer_text(&end.totals, end.seconds, self.dry_run, self.unit)
    }

    fn summary(&self, end: &EndEvent) -> String {
        let mut text = self.end_line(end) + "\n";
        if !self.verbose && self.failures.others().next().is_some() {
            text += "The first failures of each cause are listed above; --verbose lists all.\n";
        } else if end.totals.failed > MANY_FAILURES {
            text += &format!("All {} failures are listed above.\n", end.totals.failed);
        }
        text
    }

    /// Completes the output, and returns the exit status.
    ///
    /// # Errors
    /// Output failed, or the transfer. After an interrupt, output may fail.
    pub fn finish(self, end: &TransferEnd) -> Result<ExitCode, Failure> {
        let (interrupted, archive) = (interrupted(), self.archive);
        match self.complete(end) {
            Err(_) if end.given_up.is_some() && interrupted => Ok(ExitCode::from(INTERRUPTED)),
            Err(failure) => Err(failure),
            Ok(()) => Ok(match (&end.given_up, interrupted) {
                (Some(_), true) => ExitCode::from(INTERRUPTED),
                (Some(_), false) => ExitCode::FAILURE,
                (None, _) => ExitCode::from(problem_status(&end.problems, archive)),
            }),
        }
    }

    fn complete(mut self, end: &TransferEnd) -> Result<(), Failure> {
        if let Some(manifest) = self.manifest.take().filter(|_| end.given_up.is_none()) {
            self.keep_first_failure(manifest.end());
        }
        self.failure.take().map_or(Ok(()), Err)?;
        match &end.given_up {
            // After an interrupt the reason is obvious, and another numaio has received the event.
            Some(problem) if !interrupted() && !self.attached => Err(given_up(problem)),
            _ => Ok(()),
        }
    }

    /// Counts and logs an event, as far as options request it.
    fn count_and_log(&mut self, event: &Event) {
        let (counts, log) = (self.counts.as_mut(), self.log.as_mut());
        match event {
            Event::Did(change) | Event::Would(change) => {
                if let Some(counts) = counts {
                    counts.add(change);
                }
                if let Some(log) = log {
                    log.add(&item_line(change));
                }
            }
            Event::Entries(entries) => counts.into_iter().for_each(|counts| counts.record_entries(*entries)),
            Event::Problem(JobProblem { name, text, side, .. }) => {
                let name = name.as_ref().map(|name| format!("{name}: ")).unwrap_or_default();
                log.into_iter().for_each(|log| log.add(&format!("numaio: {name}{text} ({side})")));
            }
            Event::End(end) => {
                let line = self.end_line(end);
                self.log.iter_mut().for_each(|log| log.add(&line));
            }
            _ => {}
        }
    }

    /// Records and shows an event.
    fn event(&mut self, event: &Event) {
        self.count_and_log(event);
        match event {
            Event::Problem(problem) => self.recorder.problem(problem.clone()),
            Event::Progress(event::Progress { totals, .. }) | Event::End(EndEvent { totals, .. }) => {
                self.recorder.update(*totals);
            }
            _ => {}
        }
        match event {
            Event::Alive {} => self.alive(),
            // The numaio that reads the events shows the sides of its own host.
            Event::Placement(_) if self.attached => {}
            Event::Progress(progress) => self.show_progress(event, &progress.totals),
            Event::End(end) if self.json => {
                self.text += &Event::End(EndEvent { shard: self.shard, ..*end }).line();
            }
            event if self.json => self.text += &event.line(),
            event => self.show(event),
        }
    }

    /// Records and shows a message.
    fn notice(&mut self, notice: &Notice) {
        match notice {
            Notice::KeyRemembered { .. } => return output::detail(notice),
            Notice::Queued { host, position, why, starts_in } => {
                let starts =
                    starts_in.map_or_else(String::new, |seconds| format!("; probably starts in {seconds} s"));
                self.recorder.wait(&format!("position {position} in the queue of {host}: {why}{starts}"));
            }
            Notice::Lent(lent) => self.recorder.lent(lent),
            Notice::PeerLent(lent) => self.recorder.peer_lent(lent),
            _ => {}
        }
        if self.is_known_place(notice) {
            return;
        }
        let is_detail = matches!(notice, Notice::NoDataConnection { .. });
        if !self.quiet && (!is_detail || self.verbose || self.progress) {
            self.clear();
            let _ = writeln!(io::stderr(), "numaio: {}", printable(&notice.to_string()));
        }
    }

    /// Prints a sign of life for the numaio that reads the events.
    pub fn alive(&mut self) {
        let is_due = |last: Instant| last.elapsed() >= EVENT_INTERVAL;
        if self.attached && self.json && self.last_alive.is_none_or(is_due) {
            self.last_alive = Some(Instant::now());
            self.print(&Event::Alive {}.line());
        }
    }

    /// Forgets what the last attempt reported.
    fn restart(&mut self) {
        self.recorder.clear_problems();
        self.failures = FailureLines::default();
        let emptied = self.manifest.as_mut().map_or(Ok(()), Manifest::restart);
        self.keep_first_failure(emptied);
    }

    /// Prints the batch.
    fn flush(&mut self) {
        let text = std::mem::take(&mut self.text);
        self.print(&text);
        let logged = self.log.as_mut().map_or(Ok(()), LogFile::flush);
        self.keep_first_failure(logged);
    }
}

impl Observer for CopyOutput {
    fn observe(&mut self, observation: Observation<'_>) {
        match observation {
            Observation::Event(event) => self.event(event),
            Observation::Notice(notice) => self.notice(notice),
            Observation::ManifestEntry(entry) => {
                let added = self.manifest.as_mut().map_or(Ok(()), |manifest| manifest.add(entry));
                self.keep_first_failure(added);
            }
            Observation::Restart => self.restart(),
            Observation::Flush => self.flush(),
        }
    }

    fn wishes(&self) -> ObserverWishes {
        let has_counts = self.counts.is_some();
        ObserverWishes {
            changes: self.json || self.verbose || self.itemize || has_counts || self.log.is_some(),
            entries: has_counts,
            control_characters: self.json,
        }
    }
}

/// Returns the exit status of a complete transfer with these problems. Without `archive` no
/// attributes were requested.
fn problem_status(problems: &ProblemCounts, archive: bool) -> u8 {
    match problems {
        ProblemCounts { failed, changed, .. } if failed > changed => SOME_FAILED,
        ProblemCounts { failed: 1.., .. } => SOME_CHANGED,
        ProblemCounts { attributes: 1.., .. } if archive => ATTRIBUTES_UNSET,
        _ => 0,
    }
}

/// Returns a placement as text: a line for each storage device, if there are several.
fn placement_lines(placement: &PlacementEvent) -> Vec<String> {
    let PlacementEvent { side, by, block, groups, io, network } = placement;
    let block = BlockSize::new(*block).unwrap_or_default();
    let mut devices: Vec<Option<&str>> = groups.iter().map(|group| group.device.as_deref()).collect();
    devices.dedup();
    let line = |(index, device): (usize, &Option<&str>)| {
        let groups = groups.iter().filter(|group| group.device.as_deref() == *device);
        let parts = groups.map(group_text).chain([format!("blocks of {block} by {io}")]);
        // The threads of data connections serve all devices.
        let network = network.as_ref().filter(|_| index == 0).map(connections_text);
        let parts: Vec<String> = parts.chain(network).collect();
        let device = device.map(|device| format!(" {device}")).unwrap_or_default();
        format!("{side}{device}, placed by {by}: {}", parts.join("; "))
    };
    devices.iter().enumerate().map(line).collect()
}

fn group_text(PlacedGroup { threads, cpus, node, .. }: &PlacedGroup) -> String {
    let cpus = cpus.as_ref().map_or("any CPU".to_owned(), cpus_text);
    let node = node.map_or("anywhere".to_owned(), |node| format!("on node {node}"));
    let s = if *threads == 1 { "" } else { "s" };
    format!("{threads} thread{s} on {cpus}, buffers {node}")
}

fn connections_text(PlacedConnections { by, cpus }: &PlacedConnections) -> String {
    let mut cpu_sets: Vec<String> = Vec::new();
    for place in cpus.iter().map(cpus_text) {
        if !cpu_sets.contains(&place) {
            cpu_sets.push(place);
        }
    }
    match &cpu_sets[..] {
        [] => "data connections on any CPU".to_owned(),
        cpu_sets => format!("data connections on {}, placed by {by}", cpu_sets.join(" and ")),
    }
}

/// The failure of a failed transfer.
fn given_up(problem: &Problem) -> Failure {
    let hint = match problem.reason {
        Reason::Protocol => {
            "use the same numaio at both ends; if it is the same, the other side may be hostile"
        }
        _ => RESUME_HINT,
    };
    let (words, side) = (problem.text.as_str(), event::side_name(problem.side));
    Failure::new(format!("the transfer failed: {words} ({side})")).hint(hint)
}
