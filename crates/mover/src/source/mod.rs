//! The source: scans the files, announces entries, and sends the data that the sink requests.
//!
//! Each part of its state is a type in a file of its own, with private fields and a stated
//! invariant. The parts do not see [`Source`], which passes to each what it needs.

mod addresses;
mod announce;
mod announced_files;
mod announcements;
mod bandwidth;
mod device_reads;
mod hard_links;
mod hash_index;
mod inode;
mod listed_directory;
mod merged_directories;
mod options;
mod read;
mod read_order;
mod read_pace;
mod read_queue;
mod receive;
mod request_counts;
mod scan;
mod select;
mod storage;
mod stored_files;

pub use options::{Origin, SourceOptions};
pub use read_order::{ReadMode, ReadOrder};
pub use storage::{SourceDevice, SourceStorage};
pub use stored_files::LocalDestination;

use crate::accounts::Accounts;
use crate::chunk::ChunkPolicyError;
use crate::compression::CompressionPolicy;
use crate::drive::{PeerState, PortCommand, TransferCore};
use crate::entry::FileNumber;
use crate::hash_queue::HashQueue;
use crate::port::{Event, Outcome, Ticket};
use crate::report::{EntryCounts, Report, Totals, TransferOutcome};
use crate::unpreserved::UnpreservedAttributes;
use crate::wire::{EndTotals, Frame, ProblemSubject, Reason, Side};
use announced_files::AnnouncedFiles;
use announcements::Announcements;
use bandwidth::BandwidthLimit;
use device_reads::DeviceReads;
use hard_links::HardLinks;
use request_counts::RequestCounts;
use scan::Scan;
use std::collections::BTreeMap;
use std::time::Duration;
use stored_files::StoredFiles;

/// Maximum entries that are unanswered, or whose data is not sent yet.
pub const WINDOW: u64 = 16_384;
/// Minimum part of the window for each storage device: a slow one must not stop the scan of the
/// others.
const MIN_WINDOW_SHARE: u64 = 1_024;

/// The source of a transfer: the side that reads files.
///
/// Like the sink, it is a state machine without I/O: [`TransferCore::handle`] takes completed
/// operations and received packets, [`TransferCore::poll`] returns the next operation or packet.
/// These activities overlap:
///
/// - *Scan.* The source lists directories depth first (`scan`), applies the filter (`select`),
///   detects hard links (`hard_links`), numbers the entries and sends them in batches
///   (`announcements`).
/// - *Requests.* For each regular file (`announced_files`) the sink answers which data it needs, or
///   requests a hash first. In eager mode the source sends all data without waiting.
/// - *Reading.* Requested files are queued for their storage device (`device_reads`), sorted by
///   disk position (`addresses`, `read_queue`), read in blocks or bundles within a bandwidth limit
///   (`bandwidth`), optionally compressed ([`CompressionPolicy`]), and sent with a hash per part
///   (`read`). A file that changes while it is read fails; the others continue.
/// - *End.* When everything is answered and sent, it sends an end frame and waits for the sink's.
///
/// Flow control: at most [`WINDOW`] entries are unanswered or have unsent data, an equal part of
/// them on each storage device, and at most as many buffers are in use as the devices have reads.
/// Memory is independent of the number of files, except for a few bytes per hard link, and per name
/// if origins overlap.
#[derive(Debug)]
pub struct Source<B> {
    options: SourceOptions,
    peer: PeerState<B>,
    scan: Scan,
    accounts: Accounts,
    links: HardLinks,
    announcements: Announcements,
    files: AnnouncedFiles,
    requests: RequestCounts,
    /// Files to hash, of each storage device.
    hash_queues: Vec<HashQueue<FileNumber>>,
    reading: DeviceReads,
    /// Lookups of the ends of truncated files.
    end_lookups: BTreeMap<Ticket, FileNumber>,
    bandwidth: BandwidthLimit,
    compression: CompressionPolicy,
    unpreserved: UnpreservedAttributes,
    stored: StoredFiles,
    /// Whether the sink knows that all data is sent, if entries are removed afterwards.
    sent_all: bool,
    /// Whether the end frame is sent; nothing follows it.
    sent_end: bool,
}

impl<B: AsRef<[u8]>> Source<B> {
    /// Creates a source.
    ///
    /// # Errors
    /// A [`ChunkPolicyError`] if the policy is out of range.
    pub fn new(options: SourceOptions) -> Result<Self, ChunkPolicyError> {
        Ok(Self {
            peer: PeerState::new(Side::Source, options.transfer),
            scan: Scan::new(&options),
            accounts: Accounts::new(options.accounts),
            links: HardLinks::default(),
            announcements: Announcements::new(),
            files: AnnouncedFiles::new(options.policy.block),
            requests: RequestCounts::default(),
            hash_queues: options.storage.devices().iter().map(|_| HashQueue::default()).collect(),
            reading: DeviceReads::new(&options)?,
            end_lookups: BTreeMap::new(),
            bandwidth: BandwidthLimit::new(options.limit),
            compression: CompressionPolicy::new(options.compress, options.limit),
            unpreserved: UnpreservedAttributes::default(),
            stored: StoredFiles::new(options.remove_stored, options.local_destination.clone()),
            sent_all: false,
            sent_end: false,
            options,
        })
    }

    fn abort(&mut self, reason: Reason, text: &str) {
        if self.peer.outcome.is_none() {
            self.peer.report_problem(ProblemSubject::Transfer, reason, text);
            self.peer.outcome = Some(TransferOutcome::Failed);
        }
    }

    fn done(&mut self, ticket: Ticket, outcome: Outcome<B>) {
        match outcome {
            Outcome::Listed(listing) => {
                let scanned = self.scan.listed(ticket, listing);
                scanned.into_iter().for_each(|scanned| self.add_scanned(scanned));
            }
            Outcome::Stat(found) => {
                if let Some(number) = self.end_lookups.remove(&ticket) {
                    return self.end_looked_up(number, found);
                }
                if self.reading.looked_up(ticket, &found) {
                    return;
                }
                let scanned = self.scan.looked_up(ticket, found);
                scanned.into_iter().for_each(|scanned| self.add_scanned(scanned));
            }
            Outcome::Read { results, data, packed } => self.read(ticket, results, data, packed),
            Outcome::HashedFile(outcome) => self.hashed(ticket, outcome),
            Outcome::Results(results) => self.stored.completed(ticket, results, &mut self.peer),
            Outcome::OpenedJournal(_) => {}
        }
    }

    /// Continues the scan of each device if the window has space for its results.
    fn submit_scan(&mut self) {
        let devices = self.options.storage.devices().len();
        let share = (WINDOW / devices as u64).max(MIN_WINDOW_SHARE);
        (0..devices).for_each(|device| self.submit_scan_of(device, share));
    }

    fn submit_scan_of(&mut self, device: usize, share: u64) {
        while self.files.len() as u64 + self.unanswered() + (self.scan.expected() as u64) <= WINDOW
            && self.files.on_device(device) as u64 + (self.scan.expected_of(device) as u64) <= share
        {
            if !self.scan.submit_next(device, &mut self.peer) {
                return;
            }
        }
    }

    fn unanswered(&self) -> u64 {
        self.announcements.count() - self.requests.answered()
    }

    /// Returns the number of sent entries without an answer.
    fn awaited(&self) -> u64 {
        match self.options.eager {
            true => 0,
            false => self.announcements.sent() - self.requests.answered(),
        }
    }

    fn end_if_complete(&mut self) {
        let is_announced = self.scan.is_finished() && self.announcements.is_flushed();
        let is_sent = self.awaited() == 0 && self.files.is_empty() && self.reading.is_idle();
        // The bandwidth limit also covers the last bytes; otherwise transfers of one block are
        // unlimited.
        let is_sent = is_sent && self.bandwidth.wake().is_none();
        let may_end = self.options.eager || self.peer.received_header;
        if is_announced && is_sent && may_end && self.stored.is_enabled() && !self.sent_all {
            self.sent_all = true;
            self.peer.send(&Frame::AllSent);
        }
        if is_announced && is_sent && may_end && !self.sent_end && self.stored.is_finished() {
            self.unpreserved.report(&mut self.peer);
            self.sent_end = true;
            let totals = &self.peer.totals;
            let (entries, failed, bytes) = (totals.entries, totals.failed, totals.bytes);
            self.peer.send(&Frame::End(EndTotals { entries, failed, bytes, ..EndTotals::default() }));
        }
    }
}

impl<B: AsRef<[u8]>> TransferCore<B> for Source<B> {
    fn handle(&mut self, event: Event<B>) {
        if self.peer.outcome.is_some() {
            return;
        }
        match event {
            Event::Done(ticket, outcome) => self.done(ticket, outcome),
            Event::Received(packet) => {
                let length = packet.data.as_ref().map(|(_, length)| *length);
                if let Err(error) = self.received(&packet.frames, length) {
                    self.abort(Reason::Protocol, &error.to_string());
                }
            }
            Event::Sent(bytes) => self.compression.link.sent(bytes as u64),
            Event::Closed(why) => {
                self.abort(Reason::Other, &format!("the connection to the destination was lost: {why}"))
            }
        }
    }

    fn poll(&mut self, now: Duration) -> Option<PortCommand<B>> {
        self.compression.link.update(now);
        self.reading.update(now);
        if self.peer.commands.is_empty() && self.peer.outcome.is_none() {
            self.submit_scan();
            self.flush_batch();
            self.hash_queues.iter_mut().for_each(|queue| queue.submit_reads(&mut self.peer));
            self.reading.submit_lookups(&self.files, &mut self.peer);
            self.submit_reads(now);
            self.end_if_complete();
        }
        self.peer.commands.pop_front()
    }

    fn wake(&self) -> Option<Duration> {
        self.bandwidth.wake()
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
        let received = self.requests.unneeded_bytes().saturating_add(self.peer.totals.bytes);
        received.saturating_add(self.requests.answered())
    }
}
