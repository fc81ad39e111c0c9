//! The sink: decides which data it needs, verifies received data, and gives complete files their
//! names.
//!
//! Each part of its state is a type in a file of its own, with private fields and a stated
//! invariant. The parts do not see [`Sink`], which passes to each what it needs.

mod backup;
mod batches;
mod case_folding;
mod changes;
mod compare;
mod decide;
mod decide_batches;
mod directories;
mod early_frames;
mod ending;
mod existing_policy;
mod file_results;
mod finalize;
mod fixed_owner;
mod hashes;
mod incoming;
mod incoming_file;
mod itemize;
mod journal_opening;
mod link_copies;
mod links;
mod new_directories;
mod not_kept;
mod options;
mod partial_removals;
mod pending_ops;
mod plan;
mod receive;
mod removal;
mod report;
mod requested;
mod requests;
mod resume_checks;
mod resume_log;
mod snapshots;
mod source_names;
mod stored_entries;

pub use crate::own_files::{
    is_journal, is_marker, journal_name, marker_name, shard_journal_name, shard_of_journal, MarkedDirectory,
};
pub use existing_policy::ExistingPolicy;
pub use fixed_owner::FixedOwner;
pub use options::{
    AbandonedShard, BackupNames, CloneSources, PreserveOptions, ProtectedPaths, RemovalLimits, SinkOptions,
    SyncMode, WriterIdentity,
};
pub use requested::RequestedEntries;
pub use resume_log::SERIES;

use crate::drive::{PeerState, PortCommand, TransferCore};
use crate::name::Name;
use crate::port::{Event, Fault, FaultKind, FilePath, JournalState, OpenedJournal, Outcome, Ticket};
use crate::report::{EntryCounts, Report, Totals, TransferOutcome};
use crate::unpreserved::UnpreservedAttributes;
use crate::wire::{Reason, Side};
use batches::Batches;
use changes::Changes;
use directories::Directories;
use early_frames::EarlyFrames;
use ending::Ending;
use file_results::FileResults;
use hashes::FileHashes;
use incoming::IncomingFiles;
use journal_opening::JournalOpening;
use link_copies::LinkCopies;
use links::HardLinks;
use not_kept::NotKeptAttributes;
use pending_ops::PendingOps;
use plan::Plans;
use removal::Removal;
use resume_checks::ResumeChecks;
use resume_log::{ResumeLog, TimesUnreliable};
use source_names::SourceNames;
use std::time::Duration;
use stored_entries::StoredLog;

/// The sink of a transfer: the side that creates files.
///
/// Like the source, it is a state machine without I/O: [`TransferCore::handle`] takes completed
/// operations and received packets, [`TransferCore::poll`] returns the next operation or packet. A
/// transfer passes through these stages:
///
/// 1. *Journal.* The sink opens the journal of the destination (`journal_opening`) and loads which
///    partial files an interrupted transfer left (`resume_log`).
/// 2. *Batches.* It checks that the entries of each batch were requested (`requested`), looks up
///    the existing objects (`batches`), and decides each entry in order (`decide`, `compare`):
///    unchanged, attributes only, create, or transfer. Directories are created first, since later
///    entries are inside them (`plan`).
/// 3. *Requests.* Per batch, it requests the data that it needs (`requests`): nothing, everything,
///    or the ranges that the journal does not list as durable. With `checksum` it first requests
///    hashes (`hashes`). In eager mode the source sends data at once, and frames that arrive before
///    their entry is decided are deferred (`early_frames`).
/// 4. *Data.* It writes chunks to a partial file beside the final name and records durable ranges
///    in the journal; a complete file gets its attributes and is renamed (`incoming`,
///    `incoming_file`).
/// 5. *Finalization.* After the source's end frame: hard links (`links`), removal of extra entries
///    (`removal`), directory attributes (`directories`), and sync. Then it sends its own end frame.
///
/// Invariants: a name always refers to a complete old or complete new file (except with
/// `in_place`); journal records on disk are true at every moment; and a failure of one file does
/// not affect others. Memory is bounded by a window of entries ([`crate::source::WINDOW`]) plus a
/// few bytes per entry for hard links, directories and removal.
#[derive(Debug)]
pub struct Sink<B> {
    options: SinkOptions,
    peer: PeerState<B>,
    journal: JournalOpening,
    resume_log: ResumeLog,
    resume_checks: ResumeChecks,
    batches: Batches,
    plans: Plans,
    incoming: IncomingFiles,
    early_frames: EarlyFrames<B>,
    hashes: FileHashes,
    pending_ops: PendingOps,
    changes: Changes,
    results: FileResults,
    not_kept: NotKeptAttributes,
    unpreserved: UnpreservedAttributes,
    source_names: SourceNames,
    stored: StoredLog,
    links: HardLinks,
    link_copies: LinkCopies,
    removal: Removal,
    directories: Directories,
    ending: Ending,
    /// Whether the file system refused to clone a file.
    clones_refused: bool,
    /// Whether the transfer was aborted; it ends when no operation is in flight.
    stopping: bool,
}

impl<B: AsRef<[u8]>> Sink<B> {
    /// Creates a sink that has not received anything yet.
    pub fn new(mut options: SinkOptions) -> Self {
        let mut peer = PeerState::new(Side::Sink, options.transfer);
        let journal = FilePath::new(0, options.journal.clone());
        let not_kept = NotKeptAttributes::new(&mut options);
        let distrusts = TimesUnreliable(options.checksum || options.ignore_times);
        let mut resume_log = ResumeLog::new(options.transfer, journal.clone(), options.sync, distrusts)
            .with_abandoned_shards(&options.abandoned_shards);
        if !options.resumes {
            resume_log.disable();
        }
        Self {
            journal: JournalOpening::new(options.dry_run || !options.resumes, &journal, &mut peer),
            resume_log,
            resume_checks: ResumeChecks::default(),
            batches: Batches::new(&mut options),
            plans: Plans::default(),
            incoming: IncomingFiles::default(),
            early_frames: EarlyFrames::default(),
            hashes: FileHashes::default(),
            pending_ops: PendingOps::default(),
            changes: Changes::default(),
            results: FileResults::default(),
            not_kept,
            unpreserved: UnpreservedAttributes::default(),
            source_names: SourceNames::new(&options),
            stored: StoredLog::new(&options),
            links: HardLinks::default(),
            link_copies: LinkCopies::default(),
            removal: Removal::new(options.removal_limits.max),
            directories: Directories::default(),
            ending: Ending::default(),
            clones_refused: false,
            stopping: false,
            peer,
            options,
        }
    }

    fn done(&mut self, ticket: Ticket, outcome: Outcome<B>) {
        if self.journal.completed(ticket) {
            return self.journal_opened(outcome);
        }
        match outcome {
            Outcome::Stat(found) => {
                if let Some(links) = self.links.looked_up(ticket) {
                    self.create_links(links, &found);
                } else if let Some(batch) = self.batches.looked_up(ticket, found, &self.options) {
                    if self.options.checksum && !self.options.eager {
                        let answers = self.hashes.compare(batch, &self.options);
                        self.send_requests(answers);
                    }
                }
            }
            Outcome::Listed(listing) => self.directory_listed(ticket, listing),
            Outcome::Results(results) => self.results_arrived(ticket, results),
            Outcome::HashedFile(outcome) if self.resume_checks.is_in_flight(ticket) => {
                if let Some((number, damaged)) = self.resume_checks.completed(ticket, outcome) {
                    self.resume_checked(number, &damaged);
                }
            }
            Outcome::HashedFile(outcome) => self.hashes.completed(ticket, outcome, &mut self.peer),
            Outcome::Read { results, data, .. } => {
                let ended = self.link_copies.read(ticket, results, data, &self.options, &mut self.peer);
                ended.into_iter().for_each(|copy| self.link_copied(copy));
            }
            Outcome::OpenedJournal(_) => {}
        }
    }

    fn results_arrived(&mut self, ticket: Ticket, results: Vec<Result<(), Fault>>) {
        if let Some((ops, plan)) = self.plans.directories_created(ticket) {
            return self.directories_created(ops, results, plan);
        }
        if let Some(links) = self.plans.snapshot_links_created(ticket) {
            return self.snapshot_links_created(links, results);
        }
        if let Some(prepared) = self.plans.files_started(ticket) {
            return self.files_started(prepared, results);
        }
        if let Some(written) = self.incoming.take_writes(ticket) {
            let all = written.into_iter().zip(results);
            return all.for_each(|(item, result)| self.write_completed(&item, result));
        }
        if self.link_copies.is_in_flight(ticket) {
            let result = results.into_iter().next().unwrap_or(Ok(()));
            let ended = self.link_copies.written(ticket, result);
            return ended.into_iter().for_each(|copy| self.link_copied(copy));
        }
        if let Some(failed) = self.resume_log.completed(ticket, &results) {
            if let Some(fault) = self.resume_log.take_failure() {
                self.report_missing_journal(&fault);
            }
            return self.sync_failed(failed);
        }
        for (op, result) in self.pending_ops.completed(ticket, results) {
            self.op_done(op, result);
        }
    }

    fn journal_opened(&mut self, outcome: Outcome<B>) {
        match outcome {
            Outcome::OpenedJournal(Ok(OpenedJournal { state, has_others })) => {
                if has_others {
                    self.removal.keep_all_partials();
                }
                match state {
                    JournalState::Content(bytes) => self.resume_log.load(&bytes),
                    JournalState::Absent => {}
                    JournalState::Locked if self.options.is_retry => self.journal.wait(),
                    JournalState::Locked => self.resume_log.disable(),
                }
                // The journal shows a run with `--finish` that the shard is running.
                if self.options.is_shard {
                    self.resume_log.require_journal();
                }
            }
            Outcome::OpenedJournal(Err(fault)) => {
                // The journal of another user, whose transfer may be running.
                if matches!(fault.why, FaultKind::Exists | FaultKind::Permission) {
                    self.removal.keep_all_partials();
                }
                self.resume_log.disable();
                self.report_missing_journal(&fault);
            }
            _ => self.resume_log.disable(),
        }
    }

    /// Reports why interrupted files cannot be resumed, unless it is reported anyway: a missing
    /// root and the like, when entries cannot be created.
    fn report_missing_journal(&mut self, fault: &Fault) {
        if matches!(fault.why, FaultKind::Exists | FaultKind::Unsupported) {
            let text = format!("an interrupted run cannot be resumed: {}", fault.text);
            self.unpreserved.add(&Name::root(), FaultKind::NotKept, &text);
        }
    }

    /// Submits the operations of the journal that are due.
    fn submit_journal(&mut self) {
        if !self.journal.is_ready() {
            return;
        }
        while let Some(operation) = self.resume_log.next() {
            self.resume_log.submitted(self.peer.submit(operation));
        }
    }

    /// Returns whether no operation is in flight, apart from the journal's.
    fn is_idle(&self) -> bool {
        self.plans.is_idle()
            && self.incoming.is_idle()
            && self.pending_ops.is_empty()
            && self.hashes.is_idle()
            && self.resume_checks.is_idle()
            && self.links.is_idle()
            && !self.link_copies.has_in_flight()
            && self.removal.is_idle()
    }

    fn finish_stopping(&mut self) {
        self.hashes.stop();
        self.resume_checks.stop();
        self.early_frames.clear();
        let is_done = !self.stopping || self.peer.outcome.is_some();
        if is_done || !self.is_idle() || self.journal.is_in_flight() {
            return;
        }
        for (name, at) in self.link_copies.stop() {
            self.resume_log.discard_partial(&name, at);
        }
        // Without a journal, no later run can find the partial files.
        if !self.resume_log.is_enabled() {
            let files = self.incoming.drain().map(|file| file.into_target());
            for file in files.filter(|file| !file.in_place && !file.is_one_block()) {
                self.resume_log.discard_partial(&file.name, file.at);
            }
        }
        if let Some(operation) = self.resume_log.next_final() {
            self.resume_log.submitted(self.peer.submit(operation));
        }
        if !self.resume_log.is_busy() {
            self.peer.outcome = Some(TransferOutcome::Failed);
        }
    }
}

impl<B: AsRef<[u8]>> TransferCore<B> for Sink<B> {
    fn handle(&mut self, event: Event<B>) {
        match event {
            Event::Done(ticket, outcome) => self.done(ticket, outcome),
            Event::Received(packet) if !self.stopping && self.peer.outcome.is_none() => {
                if let Err(error) = self.received(&packet.frames, packet.data) {
                    self.abort(Reason::Protocol, &error.to_string());
                }
            }
            Event::Received(_) | Event::Sent(_) => {}
            Event::Closed(why) => {
                // After its end frame, the source may close the connection.
                let awaits_source = !self.ending.has_source_ended() || self.stored.is_removing();
                if self.peer.outcome.is_none() && awaits_source {
                    self.abort(Reason::Other, &format!("the connection to the source was lost: {why}"));
                }
            }
        }
    }

    fn poll(&mut self, now: Duration) -> Option<PortCommand<B>> {
        if self.peer.commands.is_empty() && self.peer.outcome.is_none() {
            if self.journal.retry(now, &mut self.peer) {
                self.resume_log.disable();
            }
            if self.stopping {
                self.finish_stopping();
            } else if self.journal.is_ready() {
                self.batches.submit_lookups(&self.options, &mut self.peer);
                self.process_batches();
                if let Err(error) = self.apply_deferred() {
                    self.abort(Reason::Protocol, &error.to_string());
                }
                self.hashes.submit_reads(&mut self.peer);
                self.resume_checks.submit_reads(&mut self.peer);
                self.submit_journal();
                if let Err(error) = self.stored.flush(&mut self.peer) {
                    self.abort(Reason::Other, &error.to_string());
                }
                self.continue_finalization();
            }
            self.changes.flush(&mut self.peer);
        }
        self.peer.commands.pop_front()
    }

    fn wake(&self) -> Option<Duration> {
        self.journal.wake()
    }

    fn stop(&mut self, reason: Reason, text: &str) {
        self.abort(reason, text);
    }

    fn outcome(&self) -> Option<&TransferOutcome> {
        self.peer.outcome.as_ref().filter(|_| self.peer.commands.is_empty())
    }

    fn reports(&mut self) -> Vec<Report> {
        std::mem::take(&mut self.peer.reports)
    }

    fn totals(&self) -> Totals {
        self.peer.totals
    }

    fn entry_counts(&self) -> EntryCounts {
        self.peer.entry_counts
    }

    fn progress(&self) -> u64 {
        let Totals { bytes, resumed, moved, unchanged, .. } = self.peer.totals;
        [bytes, resumed, moved, unchanged]
            .into_iter()
            .fold(self.changes.unchanged_bytes(), u64::saturating_add)
    }
}
