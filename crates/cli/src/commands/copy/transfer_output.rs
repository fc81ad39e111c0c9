//! Output of a transfer: progress, changes, problems and the summary.

use super::event::{self, job_totals, Change, EndEvent, Event, Progress};
use super::manifest::Manifest;
use super::retry::add_totals;
use super::{CopyArgs, DisplayArgs};
use crate::failure::Failure;
use crate::options::Common;
use crate::output;
use numaio_linux::interrupt::interrupted;
use numaio_machine::units::BandwidthUnit;
use numaio_mover::drive::TransferCore;
use numaio_mover::report::Report;
use numaio_mover::wire::{DisplayText, Problem, ProblemSubject, Reason, Side, SinkChange};
use numaio_report::{progress_text, transfer_text};
use numaio_schema::JobTotals;
use numaio_transfer::jobs::JobRecorder;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// How often the progress line is updated.
const LINE_INTERVAL: Duration = Duration::from_millis(200);
/// How often a progress event is printed.
const EVENT_INTERVAL: Duration = Duration::from_secs(1);
/// Hint after an interrupted transfer.
pub const RESUME_HINT: &str = "run the same command again to resume";
/// Number of failures from which the summary refers to them.
const MANY_FAILURES: u64 = 10;

/// Prints and records what a side reports.
pub struct TransferOutput {
    json: bool,
    verbose: bool,
    progress: bool,
    quiet: bool,
    dry_run: bool,
    unit: BandwidthUnit,
    began: Instant,
    last_shown: Option<Instant>,
    pub failed: u64,
    /// JobTotals of the earlier attempts.
    earlier: Option<JobTotals>,
    manifest: Option<Manifest>,
    /// Whether the manifest uses standard output.
    stdout_is_manifest: bool,
    /// Why the transfer failed.
    pub given_up: Option<Problem>,
    /// Records the output as a job.
    recorder: JobRecorder,
    /// Whether another numaio reads the events and needs the progress.
    attached: bool,
    /// First failure to write output.
    failure: Option<Failure>,
}

impl TransferOutput {
    /// The output that the options request.
    pub fn new(common: &Common, args: &CopyArgs) -> Self {
        let DisplayArgs { json, progress } = args.display;
        let verbose = common.verbose;
        let watched = !common.quiet && (progress || io::stderr().is_terminal() && !verbose && !json);
        Self {
            json,
            verbose: verbose || args.dry_run && !json,
            progress: watched || args.attached && progress,
            quiet: common.quiet,
            dry_run: args.dry_run,
            unit: common.unit,
            began: Instant::now(),
            last_shown: None,
            failed: 0,
            earlier: None,
            given_up: None,
            manifest: None,
            stdout_is_manifest: args.manifest.as_deref().is_some_and(Manifest::is_output),
            recorder: args.recorder.clone(),
            attached: args.attached,
            failure: None,
        }
        .with_manifest(args)
    }

    fn with_manifest(mut self, args: &CopyArgs) -> Self {
        let manifest = args.manifest.as_deref().map(Manifest::begin).transpose();
        self.manifest = manifest.map_err(|failure| self.failure = Some(failure)).unwrap_or_default();
        self
    }

    /// Updates the output from a side, and stops it after an interrupt.
    pub fn update<B: AsRef<[u8]>>(&mut self, core: &mut impl TransferCore<B>) {
        if interrupted() {
            core.stop(Reason::Cancelled, "it was interrupted");
        }
        let reports = core.reports();
        if !reports.is_empty() {
            let text: String = reports.iter().filter_map(|report| self.show_report(report)).collect();
            self.print(&text);
        }
        self.progress(job_totals(core.totals()), Some(core.progress()));
    }

    /// Prints and records the progress.
    fn progress(&mut self, totals: JobTotals, reached: Option<u64>) {
        let totals = self.earlier.map_or(totals, |earlier| add_totals(earlier, totals));
        self.recorder.update(totals);
        let now = Instant::now();
        let each = if self.json { EVENT_INTERVAL } else { LINE_INTERVAL };
        if !self.progress || self.last_shown.is_some_and(|last_shown| now.duration_since(last_shown) < each) {
            return;
        }
        self.last_shown = Some(now);
        if self.json {
            return self.print(&Event::Progress(Progress { totals, reached }).line());
        }
        let line = progress_text(&totals, self.began.elapsed().as_secs_f64(), self.unit);
        let width = numaio_linux::terminal::width().unwrap_or(80).saturating_sub(1);
        let _ = write!(io::stderr(), "\r{line:.width$}\x1b[K").and_then(|()| io::stderr().flush());
    }

    /// Prints an event of another numaio.
    pub fn show_event(&mut self, event: Event) {
        // Text output is sanitized; JSON escapes control characters.
        let event = if self.json { event } else { event.sanitize() };
        let text = match event {
            Event::Did(change) | Event::Would(change) => Some(self.changed(change)),
            Event::Problem(problem) => self.problem(&event::from_job_problem(&problem), problem.name),
            Event::Progress(Progress { totals, reached }) => return self.progress(totals, reached),
            Event::End(_) | Event::Other => None,
        };
        self.print(&text.unwrap_or_default());
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

    /// Starts an attempt after earlier ones: problems are cleared, because those that persist are
    /// reported again.
    pub fn begin(&mut self, earlier: Option<JobTotals>) {
        (self.given_up, self.failed, self.earlier) = (None, 0, earlier);
        self.recorder.clear_problems();
        let emptied = self.manifest.as_mut().map_or(Ok(()), Manifest::restart);
        self.keep_first_failure(emptied);
    }

    /// Records the failure of a transfer whose peer, of the given side, was lost.
    pub fn give_up(&mut self, side: Side, why: &str) {
        let (about, text) = (ProblemSubject::Transfer, DisplayText::new(why));
        self.given_up = Some(Problem { about, side, reason: Reason::Other, text });
    }

    /// Whether the attempt was lost, so that a retry may get further.
    ///
    /// Either the local side reports its closed link, or the peer was interrupted and this process
    /// was not.
    pub fn is_lost(&self, ours: Side, closed: bool) -> bool {
        let Some(problem) = &self.given_up else { return false };
        let is_link = problem.reason == Reason::Other && problem.side == ours && closed;
        (is_link || problem.reason == Reason::Cancelled) && !interrupted()
    }

    /// Returns why the transfer failed.
    pub fn why(&self) -> String {
        self.given_up.as_ref().map(|problem| problem.text.as_str().to_owned()).unwrap_or_default()
    }

    /// Prints a line on standard error, unless --quiet.
    pub fn notice(&self, words: &str) {
        if !self.quiet {
            self.clear();
            let _ = writeln!(io::stderr(), "numaio: {words}");
        }
    }

    /// Prints a line with --verbose or --progress.
    pub fn remark(&self, words: &str) {
        if self.verbose || self.progress {
            self.notice(words);
        }
    }

    /// Returns the output line of a report.
    fn show_report(&mut self, report: &Report) -> Option<String> {
        match report {
            // Most changes are not printed.
            Report::Change(_) if !self.json && !self.verbose => None,
            Report::Change(SinkChange { name, action, bytes }) => {
                let (action, name) = (action.name().to_owned(), name.to_string());
                Some(self.changed(Change { action, name, bytes: *bytes }))
            }
            Report::ManifestEntry(there) => {
                let added = self.manifest.as_mut().map_or(Ok(()), |manifest| manifest.add(there));
                self.keep_first_failure(added);
                None
            }
            Report::Problem(problem) => {
                let name = match &problem.about {
                    ProblemSubject::Transfer => None,
                    ProblemSubject::File(_, name) | ProblemSubject::Name(name) => Some(name.to_string()),
                };
                self.problem(problem, name)
            }
        }
    }

    fn changed(&self, change: Change) -> String {
        let would = if self.dry_run { "would be " } else { "" };
        match (self.json, self.verbose) {
            (true, _) if self.dry_run => Event::Would(change).line(),
            (true, _) => Event::Did(change).line(),
            (false, true) => format!("{would}{}: {}\n", change.action, change.name),
            (false, false) => String::new(),
        }
    }

    /// Prints and records a problem; `name` is the affected file, or `None` for the transfer.
    fn problem(&mut self, problem: &Problem, name: Option<String>) -> Option<String> {
        if name.is_none() {
            // Printed at the end, because a retry may succeed.
            self.given_up.get_or_insert_with(|| problem.clone());
            return None;
        }
        self.failed += 1;
        let problem = event::to_job_problem(problem, name);
        self.recorder.problem(problem.clone());
        if self.json {
            return Some(Event::Problem(problem).line());
        }
        if let Some(name) = problem.name {
            let line = format!("{name}: {} ({})", problem.text, problem.side);
            self.clear();
            // Errors are printed even with --quiet.
            let _ = writeln!(io::stderr(), "numaio: {line}");
        }
        None
    }

    /// Prints the end; returns the number of failures, and whether the transfer failed.
    pub fn end(mut self, totals: &JobTotals) -> Result<(u64, bool), Failure> {
        self.clear();
        let seconds = self.began.elapsed().as_secs_f64();
        let all = JobTotals { failed: self.failed, ..*totals };
        self.recorder.update(all);
        if let Some(problem) = &self.given_up {
            let problem = event::to_job_problem(problem, None);
            self.recorder.problem(problem.clone());
            if self.json {
                self.print(&Event::Problem(problem).line());
            }
        }
        if self.json {
            self.print(&Event::End(EndEvent { done: self.given_up.is_none(), seconds, totals: all }).line());
        } else if !self.quiet {
            let text = self.summary(&all, seconds);
            self.print(&text);
        }
        if let Some(manifest) = self.manifest.take().filter(|_| self.given_up.is_none()) {
            self.keep_first_failure(manifest.end());
        }
        self.failure.take().map_or(Ok(()), Err)?;
        match self.given_up.take() {
            // After an interrupt the reason is obvious, and another numaio has received the event.
            Some(problem) if !interrupted() && !self.attached => Err(given_up(&problem)),
            Some(_) => Ok((self.failed, true)),
            None => Ok((self.failed, false)),
        }
    }

    fn summary(&self, totals: &JobTotals, seconds: f64) -> String {
        let mut text = transfer_text(totals, seconds, self.dry_run, self.unit) + "\n";
        if self.failed > MANY_FAILURES {
            text += &format!("All {} failures are listed above.\n", self.failed);
        }
        text
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
