//! A source and a sink with default options, and functions to run them in tests.

use crate::chunk::ChunkPolicy;
use crate::compression::CompressMode;
use crate::drive::{PortCommand, TransferCore};
use crate::filter::Filter;
use crate::hash::HashKind;
use crate::mode_changes::ModeChanges;
use crate::port::{BlockSize, Event, KeptAttributes, NameMatching, Operation, Outcome, Packet, Stamp};
use crate::sink::{
    ExistingPolicy, FixedOwner, PreserveOptions, ProtectedPaths, RemovalLimits, RequestedEntries, Sink,
    SinkOptions, SyncMode, WriterIdentity,
};
use crate::source::{Origin, ReadMode, ReadOrder, Source, SourceDevice, SourceOptions, SourceStorage};
use crate::wire::TransferId;
use std::time::Duration;

const TRANSFER: TransferId = TransferId([7; 16]);

/// Returns the origin of everything below a root.
pub fn all_of_root(root: u32) -> Origin {
    Origin { root, only: None, enter: true, with_parents: false }
}

/// All attributes.
pub const PRESERVE_ALL: PreserveOptions = PreserveOptions {
    modes: true,
    users: true,
    groups: true,
    xattrs: true,
    times: true,
    directory_times: true,
};

/// Returns the options of a source of everything below the first root.
pub fn source_options() -> SourceOptions {
    SourceOptions {
        origins: vec![all_of_root(0)],
        recursive: true,
        listed: false,
        follow_links: false,
        mode_changes: ModeChanges::default(),
        remove_stored: false,
        local_destination: None,
        one_file_system: false,
        announce_mount_points: false,
        accounts: None,
        xattrs: true,
        devices: false,
        filter: Filter::default(),
        rejects_empty: false,
        skip_directory: None,
        hash: HashKind::Xxh3,
        policy: ChunkPolicy::for_port(BlockSize::default()),
        active_files: false,
        storage: SourceStorage::single(SourceDevice { reads: 4, order: ReadOrder::PhysicalIfSlow }),
        mode: ReadMode::Auto,
        limit: None,
        compress: CompressMode::None,
        eager: false,
        links: true,
        shard: None,
        acls: true,
        transfer: TRANSFER,
    }
}

/// Returns the options of a sink for such a source.
pub fn sink_options() -> SinkOptions {
    SinkOptions {
        preserve: PreserveOptions::default(),
        kept: KeptAttributes::default(),
        writer: WriterIdentity::default(),
        devices: false,
        update: false,
        ignore_times: false,
        checksum: false,
        manifest: false,
        accounts: None,
        sizes: 0..=u64::MAX,
        delete: false,
        removal_limits: RemovalLimits::default(),
        existing: ExistingPolicy::default(),
        owner: FixedOwner::default(),
        itemize: false,
        is_shard: false,
        abandoned_shards: Vec::new(),
        confirm_stored: false,
        snapshots: 0,
        clones: None,
        backup: None,
        one_file_system: false,
        filter: Filter::default(),
        requested: Some(RequestedEntries::new(&[all_of_root(0)], true, false)),
        dry_run: false,
        keep_partials_since: Stamp { seconds: i64::MAX, nanoseconds: 0 },
        names: NameMatching::Exact,
        protected: ProtectedPaths::default(),
        destination_created: false,
        report_changes: false,
        alias: None,
        in_place: false,
        in_order: false,
        resumes: true,
        sync: SyncMode::None,
        block: BlockSize::default(),
        hash: HashKind::Xxh3,
        accept_compressed: false,
        acls: true,
        eager: false,
        journal: (*b".numaio-journal").into(),
        is_retry: false,
        transfer: TRANSFER,
    }
}

/// Runs a transfer; the functions execute the operations of each side immediately and in order.
pub fn run(
    (source, sink): (&mut Source<Vec<u8>>, &mut Sink<Vec<u8>>),
    mut at_source: impl FnMut(Operation<Vec<u8>>) -> Outcome<Vec<u8>>,
    mut at_sink: impl FnMut(Operation<Vec<u8>>) -> Outcome<Vec<u8>>,
) {
    while sink.outcome().is_none() || source.outcome().is_none() {
        run_operations(source, &mut at_source)
            .into_iter()
            .for_each(|packet| sink.handle(Event::Received(packet)));
        run_operations(sink, &mut at_sink)
            .into_iter()
            .for_each(|packet| source.handle(Event::Received(packet)));
    }
}

/// Executes the operations of a side until there are none; returns the packets that it sends.
pub fn run_operations<C: TransferCore<Vec<u8>>>(
    core: &mut C,
    mut done: impl FnMut(Operation<Vec<u8>>) -> Outcome<Vec<u8>>,
) -> Vec<Packet<Vec<u8>>> {
    let mut sent = Vec::new();
    while let Some(command) = core.poll(Duration::ZERO) {
        match command {
            PortCommand::Submit(ticket, operation) => core.handle(Event::Done(ticket, done(operation))),
            PortCommand::Send(packet) => sent.push(packet),
        }
    }
    sent
}
