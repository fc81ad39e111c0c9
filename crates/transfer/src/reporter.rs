//! Reports of a running transfer: events, notices and manifest entries, for any number of
//! readers.

use crate::capacity::link::{CurrentRate, LinkNews};
use crate::changed_item::{ChangedItem, EntryStatistics};
use crate::event::{self, add_totals, job_totals, Change, EndEvent, Event, Progress};
use numaio_linux::interrupt::interrupted;
use numaio_mover::drive::TransferCore;
use numaio_mover::report::Report;
use numaio_mover::wire::{DisplayText, ManifestEntry, Problem, ProblemSubject, Reason, Side, SinkChange};
use numaio_schema::{JobTotals, LentCapacity};
use std::fmt;
use std::mem::discriminant;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Receives what a transfer reports, in order.
pub trait Observer {
    /// Receives an observation.
    fn observe(&mut self, observation: Observation<'_>);

    /// Returns which optional observations the observer needs; none by default.
    fn wishes(&self) -> ObserverWishes {
        ObserverWishes::default()
    }
}

/// A report of a transfer to its observer.
#[derive(Debug, Clone, Copy)]
pub enum Observation<'a> {
    /// An event; [`Event::Alive`] while the transfer waits for another host.
    Event(&'a Event),
    /// A message that is not part of the result.
    Notice(&'a Notice),
    /// The hash of a file at the destination.
    ManifestEntry(&'a ManifestEntry),
    /// Another attempt begins: problems and manifest entries that persist are reported again.
    Restart,
    /// The end of a batch of events, which may be printed together.
    Flush,
}

/// The wishes of an observer beside the observations that all receive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ObserverWishes {
    /// Changes; many transfers have millions.
    pub changes: bool,
    /// The numbers of entries.
    pub entries: bool,
    /// Control characters in the texts of other hosts, because all readers escape them, as JSON
    /// does. Otherwise they are removed.
    pub control_characters: bool,
}

/// A message about how a transfer runs.
#[derive(Debug, Clone, PartialEq)]
pub enum Notice {
    /// The connection was lost, and is opened again after a pause.
    Retrying {
        /// Name of the host.
        host: String,
        /// Why the connection was lost.
        why: String,
        /// Length of the pause.
        seconds: f64,
        /// Whether all further pauses have this length.
        repeats: bool,
    },
    /// A host takes long to answer before the transfer.
    Waiting {
        /// Name of the host.
        host: String,
        /// How long the wait may take; `None` without a limit.
        limit: Option<Duration>,
    },
    /// A daemon serves others first.
    Queued {
        /// HOST:PORT of the daemon.
        host: String,
        /// Position in its queue, from 1.
        position: u64,
        /// Why.
        why: String,
        /// Seconds until it probably starts, if that is known.
        starts_in: Option<u64>,
    },
    /// The capacity that the broker of this host lends has changed.
    Lent(LentCapacity),
    /// The capacity that the daemon of the other host lends has changed.
    PeerLent(LentCapacity),
    /// The broker of this host cannot be used, or has ended.
    NoCapacity {
        /// Why.
        why: String,
    },
    /// An address of the other host has no data connection.
    UnusedAddress {
        /// The address.
        address: String,
    },
    /// Data goes through the control channel.
    NoDataConnection {
        /// Name of the host.
        host: String,
        /// Why there is no data connection.
        why: String,
        /// Name of the control channel.
        channel: &'static str,
    },
    /// The key of a daemon was added to a list.
    KeyRemembered {
        /// Path of the list.
        list: PathBuf,
    },
    /// The key of a daemon cannot be remembered.
    KeyNotRemembered {
        /// HOST:PORT of the daemon.
        host_port: String,
        /// Why.
        why: String,
    },
    /// A remark about the placement.
    Placement(String),
    /// A remark of either side about what the user typed.
    Remark(String),
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Retrying { host, why, seconds, repeats } => {
                let when = if *repeats { "every" } else { "in" };
                write!(f, "{host}: {why}; retrying {when} {seconds:.1} s")
            }
            Self::Waiting { host, limit: None } => write!(f, "waiting for {host} to answer"),
            Self::Waiting { host, limit: Some(limit) } => {
                write!(f, "waiting for {host} to answer, for up to {} s (--timeout)", limit.as_secs())
            }
            Self::Queued { host, position, why, starts_in } => {
                write!(f, "waiting in the queue of {host}, position {position}: {why}")?;
                starts_in.map_or(Ok(()), |seconds| write!(f, "; probably starts in {seconds} s"))
            }
            Self::PeerLent(lent) => {
                write!(f, "the daemon: {}", lent.state)?;
                lent.position.map_or(Ok(()), |position| {
                    write!(f, ", position {position} in its queue: {}", lent.reason)
                })
            }
            Self::Lent(LentCapacity { state, reason: why, position, .. }) => {
                write!(f, "{state}")?;
                position.map_or(Ok(()), |position| {
                    write!(f, " in the queue of this host's daemon, position {position}: {why}")
                })
            }
            Self::NoCapacity { why } => write!(f, "continuing without this host's daemon: {why}"),
            Self::UnusedAddress { address } => {
                write!(f, "no data connection to {address}: other addresses are used instead")
            }
            Self::NoDataConnection { host, why, channel } => {
                write!(f, "no data connection to {host} ({why}): data goes through {channel}")
            }
            Self::KeyRemembered { list } => write!(f, "wrote {}", list.display()),
            Self::KeyNotRemembered { host_port, why } => {
                write!(f, "cannot remember the key of {host_port}: {why}")
            }
            Self::Placement(remark) | Self::Remark(remark) => f.write_str(remark),
        }
    }
}

/// Number of problems of a transfer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProblemCounts {
    /// Files that failed.
    pub failed: u64,
    /// Those of them that vanished or changed while the source read them.
    pub changed: u64,
    /// Kinds of attributes that could not be set.
    pub attributes: u64,
}

impl ProblemCounts {
    fn add(&mut self, problem: &Problem) {
        match problem.reason {
            Reason::Attribute => self.attributes += 1,
            Reason::NotKept => {}
            Reason::Changed if problem.side == Side::Source => {
                self.failed += 1;
                self.changed += 1;
            }
            _ => self.failed += 1,
        }
    }

    /// Returns the sums.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            failed: self.failed + other.failed,
            changed: self.changed + other.changed,
            attributes: self.attributes + other.attributes,
        }
    }
}

/// How a transfer ended.
#[derive(Debug)]
pub struct TransferEnd {
    /// Number of problems.
    pub problems: ProblemCounts,
    /// Why the transfer failed, if it did.
    pub given_up: Option<Problem>,
}

/// Reports a transfer to an observer, over all attempts.
pub struct Reporter<'a> {
    observer: &'a mut dyn Observer,
    dry_run: bool,
    began: Instant,
    /// Totals of the earlier attempts.
    earlier: Option<JobTotals>,
    /// Entries of the source in the last attempt.
    entries: EntryStatistics,
    /// Whether the files go to another host.
    pub sends: bool,
    /// End the transfer after this number of failed files.
    pub max_errors: Option<u64>,
    /// Number of problems of this attempt.
    pub problems: ProblemCounts,
    /// Why the transfer failed.
    pub given_up: Option<Problem>,
    /// The last notice of each kind that was reported by [`notice_once`](Self::notice_once).
    last_notices: Vec<Notice>,
}

impl<'a> Reporter<'a> {
    /// Returns a reporter of a transfer that begins now.
    pub fn new(observer: &'a mut dyn Observer, dry_run: bool) -> Self {
        Self {
            observer,
            dry_run,
            began: Instant::now(),
            earlier: None,
            entries: EntryStatistics::default(),
            sends: false,
            max_errors: None,
            problems: ProblemCounts::default(),
            given_up: None,
            last_notices: Vec::new(),
        }
    }

    /// Begins an attempt after earlier ones with these totals.
    pub fn begin(&mut self, earlier: Option<JobTotals>) {
        (self.given_up, self.problems, self.earlier) = (None, ProblemCounts::default(), earlier);
        self.observer.observe(Observation::Restart);
    }

    /// Reports the news of a side, and stops it after an interrupt.
    pub fn update<B: AsRef<[u8]>>(&mut self, core: &mut impl TransferCore<B>) {
        if interrupted() {
            core.stop(Reason::Cancelled, "it was interrupted");
        }
        let reports = core.reports();
        if !reports.is_empty() {
            reports.into_iter().for_each(|report| self.report(report));
            self.observer.observe(Observation::Flush);
        }
        if self.has_too_many_errors() {
            let failed = self.problems.failed;
            core.stop(
                Reason::Other,
                &format!("the number of failed files has reached --max-errors: {failed}"),
            );
        }
        self.entries = core.entry_counts().into();
        self.progress(job_totals(core.totals()), core.progress());
    }

    fn report(&mut self, report: Report) {
        match report {
            Report::Change(_) if !self.observer.wishes().changes => {}
            Report::Change(SinkChange { name, action, bytes, itemized }) => {
                let item = itemized.as_deref().map(|item| ChangedItem::new(item, self.sends));
                self.change(Change { action: action.name().to_owned(), name: name.to_string(), bytes, item });
            }
            Report::ManifestEntry(entry) => self.observer.observe(Observation::ManifestEntry(&entry)),
            Report::Problem(problem) => {
                let name = match &problem.about {
                    ProblemSubject::Transfer => None,
                    ProblemSubject::File(_, name) | ProblemSubject::Name(name) => Some(name.to_string()),
                };
                self.problem(problem, name);
            }
        }
    }

    /// Forwards an event of another numaio.
    pub fn relay(&mut self, event: Event) {
        let event = if self.observer.wishes().control_characters { event } else { event.sanitize() };
        match event {
            Event::Did(change) | Event::Would(change) => self.change(change),
            Event::Problem(problem) => self.problem(event::from_job_problem(&problem), problem.name),
            Event::Progress(Progress { totals, reached }) => return self.progress(totals, reached),
            Event::Entries(entries) => self.entries = entries,
            Event::Placement(_) | Event::Alive {} | Event::End(_) => {}
        }
        self.observer.observe(Observation::Flush);
    }

    fn event(&mut self, event: Event) {
        self.observer.observe(Observation::Event(&event));
    }

    fn change(&mut self, change: Change) {
        self.event(if self.dry_run { Event::Would(change) } else { Event::Did(change) });
    }

    /// Reports a problem; `name` is the affected file, or `None` for the transfer.
    fn problem(&mut self, problem: Problem, name: Option<String>) {
        if name.is_none() {
            // Reported at the end, because a retry may succeed.
            self.given_up.get_or_insert(problem);
            return;
        }
        self.problems.add(&problem);
        self.event(Event::Problem(event::to_job_problem(&problem, name)));
    }

    fn progress(&mut self, totals: JobTotals, reached: u64) {
        let totals = self.earlier.map_or(totals, |earlier| add_totals(earlier, totals));
        self.event(Event::Progress(Progress { totals, reached }));
    }

    /// Reports the placement of a side.
    pub fn placement(&mut self, placement: event::PlacementEvent) {
        self.event(Event::Placement(placement));
        self.observer.observe(Observation::Flush);
    }

    /// Reports a message.
    pub fn notice(&mut self, notice: Notice) {
        self.observer.observe(Observation::Notice(&notice));
    }

    /// Reports a message, unless it was the last one of its kind: what repeats for hours takes one
    /// line.
    pub fn notice_once(&mut self, notice: Notice) {
        let is_same = |other: &Notice| discriminant(other) == discriminant(&notice);
        match self.last_notices.iter_mut().find(|other| is_same(other)) {
            Some(last) if *last == notice => return,
            Some(last) => *last = notice.clone(),
            None => self.last_notices.push(notice.clone()),
        }
        self.observer.observe(Observation::Notice(&notice));
    }

    /// Reports what this host's broker has changed.
    pub fn lent(&mut self, current: Option<&CurrentRate>) {
        for news in current.map(CurrentRate::take_news).unwrap_or_default() {
            self.notice(match news {
                LinkNews::Lent(lent) => Notice::Lent(lent),
                LinkNews::PeerLent(lent) => Notice::PeerLent(lent),
                LinkNews::Closed => Notice::NoCapacity { why: "it has ended".to_owned() },
            });
        }
    }

    /// Reports a sign of life while the transfer waits for another host.
    pub fn alive(&mut self) {
        self.event(Event::Alive {});
    }

    /// Records the failure of a transfer whose peer, of the given side, was lost.
    pub fn give_up(&mut self, side: Side, why: &str) {
        let (about, text) = (ProblemSubject::Transfer, DisplayText::new(why));
        self.given_up = Some(Problem { about, side, reason: Reason::Other, text });
    }

    /// Whether as many files failed as the user accepts.
    fn has_too_many_errors(&self) -> bool {
        self.max_errors.is_some_and(|most| self.problems.failed >= most)
    }

    /// Whether the attempt was lost, so that a retry may get further.
    ///
    /// Either the local side reports its closed link, or the peer was interrupted and this process
    /// was not.
    pub fn is_lost(&self, ours: Side, closed: bool) -> bool {
        let Some(problem) = &self.given_up else { return false };
        let is_link = problem.reason == Reason::Other && problem.side == ours && closed;
        (is_link || problem.reason == Reason::Cancelled) && !interrupted() && !self.has_too_many_errors()
    }

    /// Returns why the transfer failed.
    pub fn why(&self) -> String {
        self.given_up.as_ref().map(|problem| problem.text.as_str().to_owned()).unwrap_or_default()
    }

    /// Reports the end.
    pub fn end(mut self, totals: JobTotals) -> TransferEnd {
        let (problems, given_up) = (self.problems, self.given_up.take());
        if let Some(problem) = &given_up {
            self.event(Event::Problem(event::to_job_problem(problem, None)));
        }
        let (done, seconds) = (given_up.is_none(), self.began.elapsed().as_secs_f64());
        let totals = JobTotals { failed: problems.failed, ..totals };
        if self.observer.wishes().entries {
            self.event(Event::Entries(self.entries));
        }
        self.event(Event::End(EndEvent { done, seconds, totals, shard: None }));
        self.observer.observe(Observation::Flush);
        TransferEnd { problems, given_up }
    }
}
