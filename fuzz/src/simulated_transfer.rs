//! A small transfer between two simulated disks, from which seeds are made.

use crate::peers::input_of;
use numaio_mover::accounts::AccountLookup;
use numaio_mover::chunk::ChunkPolicy;
use numaio_mover::compression::CompressMode;
use numaio_mover::drive::{PortCommand, TransferCore};
use numaio_mover::filter::Filter;
use numaio_mover::hash::HashKind;
use numaio_mover::mode_changes::ModeChanges;
use numaio_mover::port::{BlockSize, Event, KeptAttributes, NameMatching, Packet, Stamp};
use numaio_mover::simulator::{Disk, Inode, Kind, Object};
use numaio_mover::sink::{
    ExistingPolicy, FixedOwner, PreserveOptions, ProtectedPaths, RemovalLimits, RequestedEntries, Sink,
    SinkOptions, SyncMode, WriterIdentity,
};
use numaio_mover::source::{Origin, ReadMode, ReadOrder, Source, SourceDevice, SourceOptions, SourceStorage};
use numaio_mover::wire::TransferId;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const TRANSFER: TransferId = TransferId([7; 16]);

/// Maps an id to a letter as its name, and a name to the code of its first letter.
const LOOKUP: AccountLookup = AccountLookup {
    name: |_, id| u8::try_from(id).ok().map(|id| vec![b'a' + id % 16]),
    id: |_, name| name.first().map(|letter| u32::from(*letter)),
};

/// An ACL with entries for the owner, users 1 and 2, the group, group 3, the mask, and others.
///
/// Entries other than users and groups have the undefined id.
const ACL: &[u8] = b"\x02\0\0\0\
    \x01\0\x07\0\xff\xff\xff\xff\x02\0\x06\0\x01\0\0\0\x02\0\x04\0\x02\0\0\0\x04\0\x05\0\xff\xff\xff\xff\
    \x08\0\x05\0\x03\0\0\0\x10\0\x07\0\xff\xff\xff\xff\x20\0\0\0\xff\xff\xff\xff";

/// Creates the source; an eager one sends data before the sink requests it.
pub fn source_side(eager: bool) -> Source<Vec<u8>> {
    let options = SourceOptions {
        origins: vec![Origin { root: 0, only: None, enter: true, with_parents: false }],
        recursive: true,
        listed: false,
        follow_links: false,
        mode_changes: ModeChanges::default(),
        remove_stored: false,
        local_destination: None,
        one_file_system: false,
        announce_mount_points: false,
        accounts: Some(LOOKUP),
        xattrs: true,
        devices: true,
        filter: Filter::default(),
        rejects_empty: false,
        skip_directory: None,
        hash: HashKind::Xxh3,
        policy: ChunkPolicy::for_port(BlockSize::default()),
        active_files: false,
        storage: SourceStorage::single(SourceDevice { reads: 4, order: ReadOrder::PhysicalIfSlow }),
        mode: ReadMode::Auto,
        limit: None,
        compress: CompressMode::Zstd,
        eager,
        links: true,
        shard: None,
        acls: true,
        transfer: TRANSFER,
    };
    Source::new(options).expect("a policy")
}

/// Creates the sink; an eager one accepts unrequested data, any other compares hashes.
pub fn sink_side(eager: bool) -> Sink<Vec<u8>> {
    Sink::new(SinkOptions {
        preserve: PreserveOptions {
            modes: true,
            users: true,
            groups: true,
            xattrs: true,
            ..PreserveOptions::default()
        },
        kept: KeptAttributes::default(),
        writer: WriterIdentity::default(),
        devices: true,
        update: false,
        ignore_times: false,
        checksum: !eager,
        manifest: true,
        accounts: Some(LOOKUP),
        sizes: 0..=u64::MAX,
        delete: true,
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
        requested: Some(RequestedEntries::new(
            &[Origin { root: 0, only: None, enter: true, with_parents: false }],
            true,
            false,
        )),
        dry_run: false,
        keep_partials_since: numaio_mover::port::Stamp { seconds: i64::MAX, nanoseconds: 0 },
        names: NameMatching::Exact,
        protected: ProtectedPaths::default(),
        destination_created: false,
        report_changes: true,
        alias: None,
        in_place: false,
        in_order: false,
        resumes: true,
        sync: SyncMode::None,
        block: BlockSize::default(),
        hash: HashKind::Xxh3,
        accept_compressed: true,
        acls: true,
        eager,
        journal: (*b".numaio-journal").into(),
        is_retry: false,
        transfer: TRANSFER,
    })
}

fn object(object: Object) -> Inode {
    Inode {
        object,
        mode: 0o640,
        user: 1,
        group: 2,
        mtime: Stamp { seconds: 5, nanoseconds: 6 },
        xattrs: vec![(b"user.a".as_slice().into(), b"b".as_slice().into())],
    }
}

fn file(bytes: &[u8]) -> Inode {
    let pages: BTreeSet<u64> = (0..bytes.len().div_ceil(4096) as u64).collect();
    object(Object::File(bytes.to_vec(), pages))
}

/// Creates the sink's disk: its files have the sizes of the source's, so that hashes are compared.
pub fn sink_disk() -> Disk {
    let mut disk = Disk::default();
    disk.put(b"d", object(Object::Directory(BTreeMap::new())));
    disk.put(b"d/small", file(b"some contents"));
    disk.put(b"d/larger", file(&[43; 9000]));
    disk
}

/// Creates the source's disk, with objects of every kind.
pub fn source_disk() -> Disk {
    let mut disk = Disk::default();
    let acls = ["system.posix_acl_access", "system.posix_acl_default"];
    let xattrs = acls.map(|name| (name.as_bytes().into(), ACL.into())).into();
    disk.put(b"d", Inode { xattrs, ..object(Object::Directory(BTreeMap::new())) });
    disk.put(b"d/small", file(b"some contents"));
    disk.put(b"d/larger", file(&[42; 9000]));
    disk.put(b"empty", file(b""));
    disk.put(b"link", object(Object::Special(Kind::Symlink(b"d/small".as_slice().into()))));
    disk.put(b"pipe", object(Object::Special(Kind::Fifo)));
    disk.link(b"other", b"d/small");
    disk
}

/// Runs a transfer, and returns its packets as inputs of the targets `sink`, `source` and `stream`.
pub fn simulated_transfer() -> [Vec<u8>; 3] {
    let (mut source, mut sink) = (source_side(false), sink_side(false));
    let (mut from, mut to) = (source_disk(), sink_disk());
    let (mut to_sink, mut to_source) = (Vec::new(), Vec::new());
    while sink.outcome().is_none() || source.outcome().is_none() {
        let sent = run_commands(&mut source, &mut from);
        sent.iter().for_each(|packet| sink.handle(Event::Received(copy(packet))));
        to_sink.extend(sent);
        let sent = run_commands(&mut sink, &mut to);
        sent.iter().for_each(|packet| source.handle(Event::Received(copy(packet))));
        to_source.extend(sent);
    }
    let mut stream = vec![100];
    for packet in &to_sink {
        stream.extend(&packet.frames);
        stream.extend(packet.data.iter().flat_map(|(bytes, length)| &bytes[..*length]));
    }
    [input_of(&to_sink), input_of(&to_source), stream]
}

fn copy(packet: &Packet<Vec<u8>>) -> Packet<Vec<u8>> {
    Packet { frames: packet.frames.clone(), data: packet.data.clone() }
}

/// Executes a side's commands until it has none left; returns the packets that it sent.
fn run_commands<C: TransferCore<Vec<u8>>>(core: &mut C, disk: &mut Disk) -> Vec<Packet<Vec<u8>>> {
    let mut sent = Vec::new();
    while let Some(command) = core.poll(Duration::ZERO) {
        match command {
            PortCommand::Submit(ticket, operation) => core.handle(Event::Done(ticket, disk.run(operation))),
            PortCommand::Send(packet) => sent.push(packet),
        }
    }
    sent
}
