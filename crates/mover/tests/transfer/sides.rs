//! A source and a sink with default options, and functions to run them.

use numaio_mover::chunk::ChunkPolicy;
use numaio_mover::compression::CompressMode;
use numaio_mover::drive::{PortCommand, TransferCore};
use numaio_mover::filter::Filter;
use numaio_mover::hash::HashKind;
use numaio_mover::mode_changes::ModeChanges;
use numaio_mover::port::{
    BlockSize, Event, FileInfo, FileKind, FileStat, NameMatching, Operation, Outcome, Packet, Stamp,
};
use numaio_mover::sink::{
    ExistingPolicy, FixedOwner, PreserveOptions, ProtectedPaths, RemovalLimits, RequestedEntries, Sink,
    SinkOptions, SyncMode, WriterIdentity,
};
use numaio_mover::source::{Origin, ReadMode, ReadOrder, Source, SourceDevice, SourceOptions, SourceStorage};
use numaio_mover::wire::TransferId;
use std::time::Duration;

const TRANSFER: TransferId = TransferId([7; 16]);

/// Creates a source of everything below a root. In eager mode it sends data without requests.
pub fn source(by_address: bool, eager: bool) -> Source<Vec<u8>> {
    Source::new(source_options(by_address, eager)).expect("a policy")
}

/// Returns the options of such a source.
pub fn source_options(by_address: bool, eager: bool) -> SourceOptions {
    SourceOptions {
        origins: vec![Origin { root: 0, only: None, enter: true, with_parents: false }],
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
        hash: HashKind::None,
        policy: ChunkPolicy { bundle_files: 20, ..ChunkPolicy::for_port(BlockSize::default()) },
        active_files: false,
        storage: SourceStorage::single(SourceDevice {
            reads: 2,
            order: if by_address { ReadOrder::PhysicalIfSlow } else { ReadOrder::Inode },
        }),
        mode: ReadMode::Auto,
        limit: None,
        compress: CompressMode::None,
        eager,
        links: true,
        shard: None,
        acls: true,
        transfer: TRANSFER,
    }
}

/// Creates a matching sink.
pub fn sink(eager: bool) -> Sink<Vec<u8>> {
    sink_for_user(eager, PreserveOptions::default(), WriterIdentity::default())
}

/// Creates a sink of a user that preserves some attributes.
pub fn sink_for_user(eager: bool, preserve: PreserveOptions, writer: WriterIdentity) -> Sink<Vec<u8>> {
    Sink::new(sink_options(eager, preserve, writer))
}

/// Returns the options of such a sink.
pub fn sink_options(eager: bool, preserve: PreserveOptions, writer: WriterIdentity) -> SinkOptions {
    SinkOptions {
        preserve,
        kept: numaio_mover::port::KeptAttributes::default(),
        writer,
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
        requested: Some(RequestedEntries::new(&source_options(false, false).origins, true, false)),
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
        hash: HashKind::None,
        accept_compressed: false,
        acls: true,
        eager,
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

/// Returns an empty object.
pub fn found(kind: FileKind) -> FileInfo {
    let mtime = Stamp { seconds: 5, nanoseconds: 6 };
    let metadata = FileStat {
        kind,
        mode: 0o640,
        user: 0,
        group: 0,
        size: 0,
        mtime,
        ctime: mtime,
        inode: 1,
        volume: 1,
        links: 1,
    };
    FileInfo {
        metadata,
        has_hidden_xattrs: false,
        other_xattrs: Vec::new(),
        target: None,
        xattrs: Vec::new(),
        data: None,
        address: None,
        is_link_destination: false,
        handle: None,
    }
}
