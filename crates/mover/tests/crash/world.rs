//! A simulated world: two sides, two disks and a link.

use numaio_mover::chunk::ChunkPolicy;
use numaio_mover::compression::CompressMode;
use numaio_mover::drive::{PortCommand, TransferCore};
use numaio_mover::hash::HashKind;
use numaio_mover::port::{
    BlockSize, Digest, Event, Fault, FaultKind, FilePath, Operation, Outcome, Packet, Ticket,
};
use numaio_mover::report::{Report, Totals};
use numaio_mover::simulator::{sink_options, source_options, Chance, Disk, Inode, PRESERVE_ALL};
use numaio_mover::sink::{ProtectedPaths, RemovalLimits, Sink, SinkOptions, SyncMode};
use numaio_mover::source::{ReadMode, ReadOrder, Source, SourceDevice, SourceOptions, SourceStorage};
use numaio_mover::wire::{Side as WireSide, SinkChange, TransferId};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Maximum packets with data that are on the link or being written.
const BUFFERS: usize = 6;

/// Time per step: it results in some 100 MB/s, so that compression is worthwhile.
const STEP_TIME: Duration = Duration::from_millis(1);

/// An event that ends a run early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interruption {
    /// Both processes are killed.
    Kill,
    /// The link is closed; both sides notice.
    Disconnect,
    /// The machine of the sink loses power.
    Power,
}

/// The options of the user.
#[derive(Debug, Clone)]
pub struct Options {
    pub sync: SyncMode,
    pub hash: HashKind,
    pub delete: bool,
    pub ignore_times: bool,
    pub in_place: bool,
    pub checksum: bool,
    pub manifest: bool,
    pub order: ReadOrder,
    pub mode: ReadMode,
    pub block: BlockSize,
    pub report_changes: bool,
    pub compress: CompressMode,
    pub eager: bool,
    pub active_files: bool,
}

/// All orders of reads.
const READ_ORDERS: [ReadOrder; 4] =
    [ReadOrder::Inode, ReadOrder::Physical, ReadOrder::PhysicalIfSlow, ReadOrder::Listed];

/// Returns any block size; the default half of the time.
pub fn random_block(chance: &mut Chance) -> BlockSize {
    let bit = if chance.once_in(2) { 20 } else { 16 + chance.below(9) };
    BlockSize::new(1 << bit).expect("a block size")
}

impl Options {
    pub fn plain() -> Self {
        Self {
            sync: SyncMode::None,
            hash: HashKind::Xxh3,
            delete: false,
            ignore_times: false,
            in_place: false,
            checksum: false,
            manifest: false,
            order: ReadOrder::Inode,
            mode: ReadMode::Auto,
            block: BlockSize::default(),
            report_changes: false,
            compress: CompressMode::None,
            eager: false,
            active_files: false,
        }
    }

    /// Returns the same options with another block size, as a later numaio may choose it.
    pub fn with_random_block(&self, chance: &mut Chance) -> Self {
        Self { block: random_block(chance), ..self.clone() }
    }

    pub fn random(chance: &mut Chance) -> Self {
        let checksum = chance.once_in(4);
        Self {
            checksum,
            manifest: chance.once_in(2),
            sync: [SyncMode::None, SyncMode::File, SyncMode::End][chance.below(3) as usize],
            hash: HashKind::ALL[chance.below(3) as usize],
            delete: chance.once_in(3),
            ignore_times: !checksum && chance.once_in(8),
            in_place: chance.once_in(6),
            order: READ_ORDERS[chance.below(4) as usize],
            mode: [ReadMode::Auto, ReadMode::Stripe, ReadMode::Pipeline][chance.below(3) as usize],
            block: random_block(chance),
            report_changes: chance.once_in(2),
            compress: [CompressMode::None, CompressMode::Auto, CompressMode::Zstd][chance.below(3) as usize],
            eager: !checksum && chance.once_in(2),
            active_files: false,
        }
    }
}

/// Calls of a port that find objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LookupCall {
    /// Each part of a listing.
    Listing,
    /// The lookup of each object, listed or not.
    Object,
}

/// A call that fails.
#[derive(Debug, Clone, Copy)]
pub struct LookupFault {
    pub side: WireSide,
    pub call: LookupCall,
    /// The number of earlier ones.
    pub number: u64,
    pub why: FaultKind,
}

/// The result of a run.
#[derive(Debug)]
pub struct RunResult {
    /// Whether the sink completed the transfer.
    pub done: bool,
    /// Whether an interruption ended it.
    pub crashed: bool,
    /// Problems that the sink reported.
    pub failures: Vec<String>,
    /// The manifest: names and hashes.
    pub manifest: BTreeMap<Vec<u8>, Digest>,
    pub totals: Totals,
    /// Number of packets of both sides.
    pub packets: u64,
}

pub struct World {
    pub source: Disk,
    pub sink: Disk,
    /// The tree of the sink at the start.
    pub before: BTreeMap<Vec<u8>, (u64, Inode)>,
    /// The step at which the file of the source is modified.
    pub change_at: Option<u64>,
    /// Steps at which the file of the source is truncated, and its sizes.
    pub truncations: Vec<(u64, u64)>,
    /// Whether everything happens in order and without delay.
    pub in_order: bool,
    /// Whether the sink rejects compressed data.
    pub rejects_compressed: bool,
    /// Every n-th write to the journal fails and leaves a part.
    pub fails_records: Option<u64>,
    /// Whether the link corrupts the first bytes of data.
    pub corrupts_data: bool,
    /// Whether another transfer creates some of the sink's objects first.
    pub is_shared: bool,
    /// A call that fails.
    pub lookup_fault: Option<LookupFault>,
    /// The number of such calls so far.
    pub lookups: u64,
    pub removal_limits: RemovalLimits,
    pub protected: ProtectedPaths,
    seed: u64,
    chance: Chance,
    runs: u8,
    boots: u8,
}

/// A running side.
struct Side<C> {
    core: C,
    pending: Vec<(Ticket, Operation<Vec<u8>>)>,
    /// Packets from the peer.
    inbox: VecDeque<Packet<Vec<u8>>>,
}

impl<C: TransferCore<Vec<u8>>> Side<C> {
    fn new(core: C) -> Self {
        Self { core, pending: Vec::new(), inbox: VecDeque::new() }
    }

    /// Collects the operations of the core; returns its packets.
    fn poll(&mut self, now: Duration) -> Vec<Packet<Vec<u8>>> {
        let mut sent = Vec::new();
        while let Some(command) = self.core.poll(now) {
            match command {
                PortCommand::Submit(ticket, operation) => self.pending.push((ticket, operation)),
                PortCommand::Send(packet) => sent.push(packet),
            }
        }
        sent
    }

    fn with_data(&self) -> usize {
        let writes = self.pending.iter();
        let writes =
            writes.filter(|(_, operation)| matches!(operation, Operation::Write { data: Some(_), .. }));
        writes.count() + self.inbox.iter().filter(|packet| packet.data.is_some()).count()
    }
}

type Sides = (Side<Source<Vec<u8>>>, Side<Sink<Vec<u8>>>);

impl World {
    pub fn new(source: Disk, sink: Disk, seed: u64) -> Self {
        let before = sink.tree();
        let chance = Chance::new(seed ^ 0x5555);
        Self {
            source,
            sink,
            before,
            change_at: None,
            truncations: Vec::new(),
            in_order: false,
            rejects_compressed: false,
            fails_records: None,
            corrupts_data: false,
            is_shared: false,
            lookup_fault: None,
            lookups: 0,
            removal_limits: RemovalLimits::default(),
            protected: ProtectedPaths::default(),
            seed,
            chance,
            runs: 0,
            boots: 1,
        }
    }

    fn sides(&mut self, options: &Options) -> Sides {
        self.runs += 1;
        (self.source.block, self.sink.block) = (options.block, options.block);
        let mut transfer = [self.runs; 16];
        transfer[..8].fill(self.boots);
        let transfer = TransferId(transfer);
        let source = SourceOptions {
            devices: true,
            hash: options.hash,
            policy: ChunkPolicy { bundle_files: 20, ..ChunkPolicy::for_port(options.block) },
            active_files: options.active_files,
            storage: SourceStorage::single(SourceDevice { reads: 4, order: options.order }),
            mode: options.mode,
            compress: options.compress,
            eager: options.eager,
            transfer,
            ..source_options()
        };
        let sink = SinkOptions {
            preserve: PRESERVE_ALL,
            devices: true,
            ignore_times: options.ignore_times,
            checksum: options.checksum,
            manifest: options.manifest,
            delete: options.delete,
            removal_limits: self.removal_limits,
            protected: self.protected.clone(),
            report_changes: options.report_changes,
            in_place: options.in_place,
            sync: options.sync,
            block: options.block,
            hash: options.hash,
            accept_compressed: options.compress != CompressMode::None && !self.rejects_compressed,
            eager: options.eager,
            transfer,
            ..sink_options()
        };
        let source = Source::new(source).expect("a policy");
        (Side::new(source), Side::new(Sink::new(sink)))
    }

    /// Runs a transfer to its end, or to an interruption at some step.
    pub fn run(&mut self, options: &Options, crash: Option<(u64, Interruption)>) -> RunResult {
        let (mut source, mut sink) = self.sides(options);
        let (mut failures, mut manifest, mut received_manifest) =
            (Vec::new(), BTreeMap::new(), BTreeMap::new());
        let (mut reported, mut received_changes) = (Vec::new(), Vec::new());
        let (mut step, mut packets, mut cut) = (0, 0, false);
        loop {
            let now = STEP_TIME * step as u32;
            let (to_sink, to_source) = (source.poll(now), sink.poll(now));
            packets += (to_sink.len() + to_source.len()) as u64;
            if !cut {
                sink.inbox.extend(to_sink);
                source.inbox.extend(to_source);
            }
            let reports = source.core.reports();
            received_manifest.extend(reports.iter().filter_map(manifest_entry));
            received_changes.extend(reports.into_iter().filter_map(change));
            let reports = sink.core.reports();
            failures.extend(reports.iter().filter_map(failure));
            manifest.extend(reports.iter().filter_map(manifest_entry));
            reported.extend(reports.into_iter().filter_map(change));
            if sink.core.outcome().is_some() && (cut || source.core.outcome().is_some()) {
                break;
            }
            step += 1;
            if self.change_at == Some(step) {
                self.modify_source();
            }
            if let Some((_, size)) = self.truncations.iter().find(|(at, _)| *at == step) {
                truncate(&mut self.source, *size);
            }
            match crash.filter(|(at, _)| *at == step) {
                Some((_, Interruption::Disconnect)) => {
                    cut = true;
                    (source.inbox, sink.inbox) = Default::default();
                    source.core.handle(Event::Closed("cut".into()));
                    sink.core.handle(Event::Closed("cut".into()));
                    continue;
                }
                Some((_, kind)) => {
                    self.crash(kind, sink.pending);
                    let totals = sink.core.totals();
                    return RunResult { done: false, crashed: true, failures, manifest, totals, packets };
                }
                None => {}
            }
            assert!(
                self.step(&mut source, &mut sink),
                "seed {}: stuck at step {step}: {:#?}",
                self.seed,
                sink.core
            );
        }
        self.source.end_process();
        self.sink.end_process();
        let done = sink.core.outcome() == Some(&numaio_mover::report::TransferOutcome::Done);
        if done && !cut {
            assert_eq!(manifest, received_manifest, "seed {}: both sides have the manifest", self.seed);
            assert_eq!(
                received_changes,
                if options.report_changes { reported } else { Vec::new() },
                "seed {}: changes sent to the source",
                self.seed
            );
            assert_eq!(count(&source.core), count(&sink.core), "seed {}: totals of both sides", self.seed);
        }
        RunResult { done, crashed: cut, failures, manifest, totals: sink.core.totals(), packets }
    }

    /// Runs a transfer whose source receives nothing, and whose sink first receives everything.
    pub fn run_without_answers(&mut self, options: &Options) -> RunResult {
        let (mut source, mut sink) = self.sides(options);
        let mut packets_sent = source.poll(Duration::ZERO);
        while let Some((ticket, operation)) = source.pending.pop() {
            source.core.handle(Event::Done(ticket, self.source.run(operation)));
            packets_sent.extend(source.poll(Duration::ZERO));
        }
        let packets = packets_sent.len() as u64;
        packets_sent.into_iter().for_each(|packet| sink.core.handle(Event::Received(packet)));
        drop(sink.poll(Duration::ZERO));
        while !sink.pending.is_empty() {
            let (ticket, operation) =
                sink.pending.swap_remove(self.chance.below(sink.pending.len() as u64) as usize);
            sink.core.handle(Event::Done(ticket, self.sink.run(operation)));
            drop(sink.poll(Duration::ZERO));
        }
        let failures = sink.core.reports().iter().filter_map(failure).collect();
        let done = sink.core.outcome() == Some(&numaio_mover::report::TransferOutcome::Done);
        RunResult {
            done,
            crashed: false,
            failures,
            manifest: BTreeMap::new(),
            totals: sink.core.totals(),
            packets,
        }
    }

    fn crash(&mut self, kind: Interruption, mut pending: Vec<(Ticket, Operation<Vec<u8>>)>) {
        while !pending.is_empty() && self.chance.once_in(2) {
            let index = self.chance.below(pending.len() as u64) as usize;
            let (_, operation) = pending.swap_remove(index);
            self.sink.run_partially(operation, &mut self.chance);
        }
        self.source.end_process();
        self.sink.end_process();
        if kind == Interruption::Power {
            self.sink.lose_power(&mut self.chance);
            self.boots += 1;
        }
    }

    /// Completes a random operation or delivers a packet; returns `false` if there is none.
    fn step(&mut self, source: &mut Side<Source<Vec<u8>>>, sink: &mut Side<Sink<Vec<u8>>>) -> bool {
        let buffers = sink.with_data();
        let reads =
            |(_, operation): &(Ticket, Operation<Vec<u8>>)| matches!(operation, Operation::Read { .. });
        let may_run: Vec<usize> =
            (0..source.pending.len()).filter(|&i| buffers < BUFFERS || !reads(&source.pending[i])).collect();
        let counts = [may_run.len(), sink.pending.len(), source.inbox.len().min(1), sink.inbox.len().min(1)];
        let all: usize = counts.iter().sum();
        if all == 0 {
            return false;
        }
        let mut pick = if self.in_order { all - 1 } else { self.chance.below(all as u64) as usize };
        let mut kind = 0;
        while pick >= counts[kind] {
            pick -= counts[kind];
            kind += 1;
        }
        match kind {
            0 => {
                let (ticket, operation) = source.pending.remove(may_run[pick]);
                let mut outcome = self.source.run(operation);
                self.fail_lookup(WireSide::Source, &mut outcome);
                source.core.handle(Event::Done(ticket, outcome));
            }
            1 => {
                let (ticket, operation) = sink.pending.remove(pick);
                let mut outcome = self.run_at_sink(operation);
                self.fail_lookup(WireSide::Sink, &mut outcome);
                sink.core.handle(Event::Done(ticket, outcome));
            }
            2 => source.inbox.pop_front().into_iter().for_each(|it| source.core.handle(Event::Received(it))),
            _ => sink.inbox.pop_front().into_iter().for_each(|mut it| {
                if let Some((bytes, length)) = &mut it.data {
                    source.core.handle(Event::Sent(*length));
                    let turned = if self.corrupts_data { 4 } else { 0 };
                    bytes.iter_mut().take(turned).for_each(|byte| *byte ^= 0xff);
                }
                sink.core.handle(Event::Received(it));
            }),
        }
        true
    }

    fn run_at_sink(&mut self, operation: Operation<Vec<u8>>) -> Outcome<Vec<u8>> {
        if let Operation::Create(objects) = &operation {
            let by_another = objects.iter().filter(|_| self.is_shared && self.chance.once_in(2)).cloned();
            self.sink.run(Operation::Create(by_another.collect()));
        }
        match (&operation, self.fails_records) {
            (Operation::WriteJournal(record), Some(one_of)) if self.chance.once_in(one_of) => {
                let fault = || Fault::new(FaultKind::NoSpace, "the journal is full");
                let mut results: Vec<_> = record.after.iter().map(|_| Ok(())).collect();
                results.push(Err(fault()));
                self.sink.run_partially(operation, &mut self.chance);
                Outcome::Results(results)
            }
            _ => self.sink.run(operation),
        }
    }

    /// Lets a call fail, if it is its turn.
    fn fail_lookup(&mut self, side: WireSide, outcome: &mut Outcome<Vec<u8>>) {
        let Some(failing) = self.lookup_fault.filter(|failing| failing.side == side) else { return };
        let mut fault = || {
            self.lookups += 1;
            (self.lookups == failing.number + 1).then(|| Fault::new(failing.why, "injected"))
        };
        match (outcome, failing.call) {
            (Outcome::Listed(listing), LookupCall::Listing) => {
                fault().into_iter().for_each(|fault| *listing = Err(fault));
            }
            (Outcome::Listed(Ok(listing)), LookupCall::Object) => {
                for (_, found) in &mut listing.found {
                    fault().into_iter().for_each(|fault| *found = Err(fault));
                }
            }
            (Outcome::Stat(all), LookupCall::Object) => {
                all.iter_mut().for_each(|found| fault().into_iter().for_each(|fault| *found = Err(fault)));
            }
            _ => {}
        }
    }

    /// Removes the partial files of the sink.
    pub fn remove_partials(&mut self) {
        let is_part = |name: &Vec<u8>| name.starts_with(b".numaio-part-");
        let parts = self.sink.tree().into_keys().filter(is_part);
        let parts = parts.map(|name| FilePath::new(0, &name[..])).collect();
        self.sink.run(Operation::Remove(parts));
    }

    /// Flips a byte of a partial file; returns `false` if there is none.
    pub fn damage_partial(&mut self) -> bool {
        let tree = self.sink.tree();
        let Some((name, (_, inode))) = tree.iter().find(|(name, _)| name.starts_with(b".numaio-part-"))
        else {
            return false;
        };
        let mut inode = inode.clone();
        if let numaio_mover::simulator::Object::File(content, _) = &mut inode.object {
            let at = self.chance.below(content.len().max(1) as u64) as usize;
            content.get_mut(at).into_iter().for_each(|byte| *byte ^= 0xff);
        }
        self.sink.put(name, inode);
        true
    }

    /// Flips bytes of the first file of the sink without changing its attributes.
    pub fn damage_sink(&mut self) {
        flip_bytes(&mut self.sink, 0);
    }

    /// Modifies the first file of the source.
    fn modify_source(&mut self) {
        flip_bytes(&mut self.source, 1);
    }
}

/// Flips bytes of the first file of a disk and advances its mtime by `seconds`.
fn flip_bytes(disk: &mut Disk, seconds: i64) {
    let is_file = |inode: &Inode| matches!(inode.object, numaio_mover::simulator::Object::File(..));
    let file = disk.tree().into_iter().find(|(_, (_, inode))| is_file(inode));
    if let Some((name, (_, mut inode))) = file {
        if let numaio_mover::simulator::Object::File(content, _) = &mut inode.object {
            content.iter_mut().take(10).for_each(|byte| *byte ^= 0xff);
        }
        inode.mtime.seconds += seconds;
        disk.put(&name, inode);
    }
}

/// Truncates the file of a disk.
fn truncate(disk: &mut Disk, size: u64) {
    let Some((name, (_, mut inode))) = disk.tree().into_iter().nth(1) else { return };
    if let numaio_mover::simulator::Object::File(content, pages) = &mut inode.object {
        content.truncate(size as usize);
        pages.retain(|page| page * 4_096 < size);
    }
    inode.mtime.seconds += 1;
    disk.put(&name, inode);
}

fn failure(report: &Report) -> Option<String> {
    match report {
        Report::Problem(problem) if !problem.reason.is_about_attributes() => Some(format!("{problem:?}")),
        _ => None,
    }
}

fn change(report: Report) -> Option<SinkChange> {
    match report {
        Report::Change(did) => Some(did),
        _ => None,
    }
}

/// Returns the totals that are equal at both sides.
fn count(core: &impl TransferCore<Vec<u8>>) -> Totals {
    Totals { failed: 0, sent: 0, ..core.totals() }
}

fn manifest_entry(report: &Report) -> Option<(Vec<u8>, Digest)> {
    match report {
        Report::ManifestEntry(there) => Some((there.name.as_bytes().to_vec(), there.digest)),
        _ => None,
    }
}
