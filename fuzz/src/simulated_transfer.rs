//! A small transfer between two simulated disks, from which seeds are made.

use crate::peers::input_of;
use numaio_mover::accounts::AccountLookup;
use numaio_mover::compression::CompressMode;
use numaio_mover::drive::TransferCore;
use numaio_mover::port::{Event, Packet, Stamp};
use numaio_mover::simulator::{
    run_operations, sink_options, source_options, Disk, Inode, Kind, Object, PRESERVE_ALL,
};
use numaio_mover::sink::{Sink, SinkOptions};
use numaio_mover::source::{Source, SourceOptions};
use std::collections::{BTreeMap, BTreeSet};

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
        accounts: Some(LOOKUP),
        devices: true,
        compress: CompressMode::Zstd,
        eager,
        ..source_options()
    };
    Source::new(options).expect("a policy")
}

/// Creates the sink; an eager one accepts unrequested data, any other compares hashes.
pub fn sink_side(eager: bool) -> Sink<Vec<u8>> {
    Sink::new(SinkOptions {
        preserve: PRESERVE_ALL,
        devices: true,
        checksum: !eager,
        manifest: true,
        accounts: Some(LOOKUP),
        delete: true,
        report_changes: true,
        accept_compressed: true,
        eager,
        ..sink_options()
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
        let sent = run_operations(&mut source, |operation| from.run(operation));
        sent.iter().for_each(|packet| sink.handle(Event::Received(copy(packet))));
        to_sink.extend(sent);
        let sent = run_operations(&mut sink, |operation| to.run(operation));
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
