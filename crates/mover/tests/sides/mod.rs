//! Two sides of a transfer with plain wishes.

// Each test program uses what it needs of this.
#![allow(dead_code)]

use numaio_machine::port::{Event, FileKind, Found, Names, Operation, Outcome, Packet, Seen, Stamp};
use numaio_mover::chunk::Policy;
use numaio_mover::drive::{Command, Core};
use numaio_mover::filter::Filter;
use numaio_mover::hash::HashKind;
use numaio_mover::packing::Compress;
use numaio_mover::sink::{Asked, Keep, Own, Sink, SinkOptions, Spared, Sync};
use numaio_mover::source::{Origin, Source, SourceOptions};
use numaio_mover::wire::TransferId;
use std::time::Duration;

const TRANSFER: TransferId = TransferId([7; 16]);

/// A source of all that is in a root. An unasked one sends all at once, as to an empty place.
pub fn source(by_address: bool, unasked: bool) -> Source<Vec<u8>> {
    Source::new(wishes(by_address, unasked)).expect("a policy")
}

pub fn wishes(by_address: bool, unasked: bool) -> SourceOptions {
    SourceOptions {
        origins: vec![Origin { root: 0, only: None, enter: true, way: false }],
        recursive: true,
        listed: false,
        accounts: None,
        xattrs: true,
        devices: false,
        filter: Filter::default(),
        except: None,
        hash: HashKind::None,
        policy: Policy { bundle_files: 20, ..Policy::of_blocks() },
        reads: 2,
        by_address,
        limit: None,
        compress: Compress::None,
        unasked,
        holes: true,
        links: true,
        changed: true,
        acls: true,
        transfer: TRANSFER,
    }
}

/// A sink that takes it.
pub fn sink(unasked: bool) -> Sink<Vec<u8>> {
    sink_of(unasked, Keep::default(), Own::default())
}

/// The same of a user, who keeps some attributes.
pub fn sink_of(unasked: bool, keep: Keep, own: Own) -> Sink<Vec<u8>> {
    Sink::new(demands(unasked, keep, own))
}

/// What such a sink does.
pub fn demands(unasked: bool, keep: Keep, own: Own) -> SinkOptions {
    SinkOptions {
        keep,
        own,
        devices: false,
        update: false,
        ignore_times: false,
        checksum: false,
        manifest: false,
        accounts: None,
        sizes: 0..=u64::MAX,
        delete: false,
        filter: Filter::default(),
        asked: Some(Asked::new(&wishes(false, false).origins, true, false)),
        rehearse: false,
        spared_since: Stamp { seconds: i64::MAX, nanoseconds: 0 },
        names: Names::Apart,
        spared: Spared::default(),
        made: false,
        tell: false,
        alias: None,
        in_place: false,
        sync: Sync::None,
        hash: HashKind::None,
        packed: false,
        acls: true,
        unasked,
        again: false,
        transfer: TRANSFER,
    }
}

/// Moves all; what a side wants of its disk is done by a function, at once and in order.
pub fn run(
    (source, sink): (&mut Source<Vec<u8>>, &mut Sink<Vec<u8>>),
    mut at_source: impl FnMut(Operation<Vec<u8>>) -> Outcome<Vec<u8>>,
    mut at_sink: impl FnMut(Operation<Vec<u8>>) -> Outcome<Vec<u8>>,
) {
    while sink.ended().is_none() || source.ended().is_none() {
        work(source, &mut at_source).into_iter().for_each(|packet| sink.handle(Event::Received(packet)));
        work(sink, &mut at_sink).into_iter().for_each(|packet| source.handle(Event::Received(packet)));
    }
}

/// Does what a side wants; gives what it sends.
pub fn work<C: Core<Vec<u8>>>(
    core: &mut C,
    mut done: impl FnMut(Operation<Vec<u8>>) -> Outcome<Vec<u8>>,
) -> Vec<Packet<Vec<u8>>> {
    let mut said = Vec::new();
    while let Some(command) = core.poll(Duration::ZERO) {
        match command {
            Command::Submit(ticket, operation) => core.handle(Event::Done(ticket, done(operation))),
            Command::Send(packet) => said.push(packet),
        }
    }
    said
}

/// What is found of something empty.
pub fn found(kind: FileKind) -> Found {
    let mtime = Stamp { seconds: 5, nanoseconds: 6 };
    let seen = Seen {
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
    Found { seen, hides: false, target: None, xattrs: Vec::new(), data: None, address: None, led_to: false }
}
