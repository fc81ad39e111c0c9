//! Plans: the operations and requests of one batch, and the plans that are not completed yet.

use super::directories::DirectoryPlan;
use super::incoming_file::IncomingFile;
use super::options::SinkOptions;
use super::pending_ops::{PendingOp, PendingOps};
use super::resume_log::ResumeLog;
use super::snapshots::{SnapshotLink, SnapshotLinks};
use crate::drive::PeerState;
use crate::entry::FileNumber;
use crate::port::{Attributes, FilePath, FileWrite, NewObject, OpenMode, Operation, Ticket};
use crate::wire::NeededData;
use std::collections::BTreeMap;

/// Requests for a batch, and the files to start before they are sent.
#[derive(Debug, Default)]
pub(super) struct Prepared {
    /// The requests, by file number.
    pub answers: BTreeMap<FileNumber, NeededData>,
    /// Files started by this operation, and how each is started.
    pub files: Vec<(FileNumber, OpenMode)>,
}

/// The pending operations of a batch.
///
/// Invariants: `puts` and the files of `prepared` are the same, in the same order, and every
/// started file has a request.
#[derive(Debug, Default)]
pub(super) struct BatchPlan {
    /// Whether a file is written to a partial file.
    beside: bool,
    prepared: Prepared,
    /// Files to start, in the order of `prepared.files`.
    puts: Vec<FileWrite>,
    directories: Vec<(NewObject, PendingOp)>,
    /// Files that need no data.
    empty: Vec<(FileWrite, PendingOp)>,
    make: Vec<(NewObject, PendingOp)>,
    set_attributes: Vec<((FilePath, Attributes), PendingOp)>,
    /// Hard links to snapshots. Their entries have no request yet.
    snapshot_links: Vec<SnapshotLink>,
}

impl BatchPlan {
    /// Requests no data of an entry, unless another request follows.
    pub fn request_nothing(&mut self, number: FileNumber) {
        self.prepared.answers.insert(number, NeededData::Nothing);
    }

    /// Creates a directory before all other objects.
    pub fn add_directory(&mut self, directory: DirectoryPlan) {
        self.directories.push((directory.making, directory.op));
    }

    /// Keeps an object before it is replaced.
    pub fn back_up(&mut self, (making, op): (NewObject, PendingOp)) {
        self.directories.push((making, op));
    }

    /// Removes the operations and the request of an entry that failed.
    pub fn cancel(&mut self, number: FileNumber) {
        self.request_nothing(number);
        if let Some(index) = self.prepared.files.iter().position(|(file, _)| *file == number) {
            self.prepared.files.remove(index);
            self.puts.remove(index);
        }
        let is_other = |op: &PendingOp| op.number != Some(number);
        self.empty.retain(|(_, op)| is_other(op));
        self.make.retain(|(_, op)| is_other(op));
    }

    /// Creates an object other than a regular file.
    pub fn create(&mut self, making: NewObject, op: PendingOp) {
        self.make.push((making, op));
    }

    /// Creates a hard link to a snapshot before anything is requested of its entry.
    pub fn link_to_snapshot(&mut self, link: SnapshotLink) {
        self.prepared.answers.remove(&link.number);
        self.snapshot_links.push(link);
    }

    /// Sets the attributes of an object.
    pub fn set_attributes(&mut self, at: FilePath, attributes: Attributes, op: PendingOp) {
        self.set_attributes.push(((at, attributes), op));
    }

    /// Writes a file that needs no data.
    pub fn write_empty(&mut self, put: FileWrite, op: PendingOp) {
        self.beside |= put.begin != OpenMode::InPlace;
        self.empty.push((put, op));
    }

    /// Requests the data of a file. A file of several parts is started before, unless it is written
    /// in order; `resumed` if parts of it exist.
    pub fn receive(&mut self, number: FileNumber, file: &IncomingFile, resumed: bool) {
        let target = file.target();
        self.beside |= !target.in_place;
        self.prepared.answers.insert(number, file.needed(resumed));
        if target.is_one_block() || target.in_order {
            return;
        }
        let (begin, held) = match (resumed, target.in_place) {
            (true, _) => (OpenMode::Continue, file.recorded_ranges()),
            (false, true) => (OpenMode::InPlace, Vec::new()),
            (false, false) => (OpenMode::Fresh, Vec::new()),
        };
        self.start(number, FileWrite { held, ..FileWrite::new(target.at.clone(), begin) });
    }

    /// Starts a file again whose partial file cannot be trusted.
    pub fn restart(&mut self, number: FileNumber, at: FilePath) {
        self.prepared.answers.insert(number, NeededData::All);
        self.start(number, FileWrite::new(at, OpenMode::Fresh));
    }

    fn start(&mut self, number: FileNumber, put: FileWrite) {
        self.prepared.files.push((number, put.begin));
        self.puts.push(put);
    }

    /// Returns whether no file is started.
    pub fn starts_nothing(&self) -> bool {
        self.puts.is_empty()
    }

    /// Takes the directories to create.
    pub fn take_directories(&mut self) -> Vec<(NewObject, PendingOp)> {
        std::mem::take(&mut self.directories)
    }

    /// Returns whether a partial file may be written, which requires a journal.
    pub fn needs_journal(&self) -> bool {
        let writes =
            !self.empty.is_empty() || self.prepared.answers.values().any(|what| *what != NeededData::Nothing);
        self.beside && writes
    }

    /// Returns the operations to report in a dry run, and the requests.
    pub fn into_dry_run(mut self) -> (impl Iterator<Item = PendingOp>, BTreeMap<FileNumber, NeededData>) {
        let links = std::mem::take(&mut self.snapshot_links);
        links.iter().for_each(|link| self.request_nothing(link.number));
        let links = links.into_iter().map(|link| link.op);
        let empty = self.empty.into_iter().map(|(_, op)| op);
        let make = self.make.into_iter().map(|(_, op)| op);
        let set_attributes = self.set_attributes.into_iter().map(|(_, op)| op);
        (links.chain(empty).chain(make).chain(set_attributes), self.prepared.answers)
    }
}

/// Plans that are not completed yet.
///
/// Invariants: at most one plan waits for its directories, and no other batch is decided
/// meanwhile. A plan that waits for the journal has no directories left to create.
#[derive(Debug, Default)]
pub(super) struct Plans {
    /// The plan that waits for the creation of its directories.
    creating: Option<(Ticket, Vec<PendingOp>, Box<BatchPlan>)>,
    /// Plans that wait for the journal.
    waiting: Vec<BatchPlan>,
    /// Requests that wait until their files are started.
    preparing: BTreeMap<Ticket, Prepared>,
    /// Hard links to snapshots.
    linking: SnapshotLinks,
}

impl Plans {
    /// Returns whether directories are being created.
    pub fn is_creating_directories(&self) -> bool {
        self.creating.is_some()
    }

    /// Returns whether a plan waits for the journal.
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns whether no operation of a plan is in flight.
    pub fn is_idle(&self) -> bool {
        self.preparing.is_empty() && self.linking.is_empty() && self.creating.is_none()
    }

    /// Creates the directories of a plan, which continues afterwards.
    pub fn create_directories<B: AsRef<[u8]>>(
        &mut self,
        directories: Vec<(NewObject, PendingOp)>,
        plan: BatchPlan,
        peer: &mut PeerState<B>,
    ) {
        let (makings, ops) = directories.into_iter().unzip();
        self.creating = Some((peer.submit(Operation::Create(makings)), ops, Box::new(plan)));
    }

    /// Handles the creation of directories; returns their operations and the rest of the plan, or
    /// `None` if the ticket is not this one.
    pub fn directories_created(&mut self, ticket: Ticket) -> Option<(Vec<PendingOp>, BatchPlan)> {
        self.creating.take_if(|(creating, ..)| *creating == ticket).map(|(_, ops, plan)| (ops, *plan))
    }

    /// Adds a plan that waits for the journal.
    pub fn push(&mut self, plan: BatchPlan) {
        self.waiting.push(plan);
    }

    /// Takes a plan if the journal on disk allows to start files.
    pub fn next(&mut self, log: &ResumeLog) -> Option<BatchPlan> {
        log.may_start_files().then(|| self.waiting.pop()).flatten()
    }

    /// Submits the operations of a plan. Returns its requests, unless files must be started before.
    pub fn start<B: AsRef<[u8]>>(
        &mut self,
        plan: BatchPlan,
        options: &SinkOptions,
        peer: &mut PeerState<B>,
        pending_ops: &mut PendingOps,
    ) -> BTreeMap<FileNumber, NeededData> {
        let BatchPlan { prepared, puts, empty, make, set_attributes, snapshot_links, .. } = plan;
        let hash = options.hash.function();
        if !empty.is_empty() {
            let (puts, ops) = empty.into_iter().unzip();
            let ticket = peer.submit(Operation::Write { puts, data: None, hash, packed: None });
            pending_ops.submitted(ticket, ops);
        }
        if !make.is_empty() {
            let (makings, ops) = make.into_iter().unzip();
            pending_ops.submitted(peer.submit(Operation::Create(makings)), ops);
        }
        if !snapshot_links.is_empty() {
            let makings = snapshot_links.iter().map(|link| link.making.clone()).collect();
            self.linking.submitted(peer.submit(Operation::Create(makings)), snapshot_links);
        }
        if !set_attributes.is_empty() {
            let (all, ops) = set_attributes.into_iter().unzip();
            pending_ops.submitted(peer.submit(Operation::SetAttributes(all)), ops);
        }
        if puts.is_empty() {
            return prepared.answers;
        }
        let ticket = peer.submit(Operation::Write { puts, data: None, hash, packed: None });
        self.preparing.insert(ticket, prepared);
        BTreeMap::new()
    }

    /// Takes the hard links to snapshots of a completed operation, or `None` if the ticket is not
    /// one of these.
    pub fn snapshot_links_created(&mut self, ticket: Ticket) -> Option<Vec<SnapshotLink>> {
        self.linking.completed(ticket)
    }

    /// Handles started files; returns them with their requests, or `None` if the ticket is not one
    /// of these.
    pub fn files_started(&mut self, ticket: Ticket) -> Option<Prepared> {
        self.preparing.remove(&ticket)
    }
}
