//! In which order files are read.

use numaio_machine::port::{Details, Event, FilePath, Operation, Outcome, Packet, Stamp};
use numaio_mover::chunk::Policy;
use numaio_mover::drive::{Command, Core};
use numaio_mover::filter::Filter;
use numaio_mover::hash::HashKind;
use numaio_mover::packing::Compress;
use numaio_mover::sink::{Keep, Sink, SinkOptions, Sync};
use numaio_mover::source::{Origin, Source, SourceOptions};
use numaio_mover::wire::TransferId;
use numaio_sim::mover::{Disk, Inode, Object};
use std::collections::BTreeSet;
use std::time::Duration;

const TRANSFER: TransferId = TransferId([7; 16]);

fn source(by_address: bool) -> Source<Vec<u8>> {
    let options = SourceOptions {
        origins: vec![Origin { root: 0, only: None, enter: true }],
        recursive: true,
        listed: false,
        accounts: None,
        xattrs: false,
        devices: false,
        filter: Filter::default(),
        except: None,
        hash: HashKind::None,
        policy: Policy { bundle_files: 20, ..Policy::of_blocks() },
        reads: 2,
        by_address,
        limit: None,
        compress: Compress::None,
        unasked: false,
        transfer: TRANSFER,
    };
    Source::new(options).expect("a policy")
}

fn sink() -> Sink<Vec<u8>> {
    Sink::new(SinkOptions {
        keep: Keep::default(),
        devices: false,
        update: false,
        ignore_times: false,
        checksum: false,
        manifest: false,
        accounts: None,
        sizes: 0..=u64::MAX,
        delete: false,
        filter: Filter::default(),
        rehearse: false,
        spared_since: numaio_machine::port::Stamp { seconds: i64::MAX, nanoseconds: 0 },
        made: false,
        tell: false,
        alias: None,
        in_place: false,
        sync: Sync::None,
        hash: HashKind::None,
        packed: false,
        unasked: false,
        transfer: TRANSFER,
    })
}

/// Does what a side wants; gives what it sends, and notes what it reads.
fn work<C: Core<Vec<u8>>>(core: &mut C, disk: &mut Disk, read: &mut Vec<FilePath>) -> Vec<Packet<Vec<u8>>> {
    let mut said = Vec::new();
    while let Some(command) = core.poll(Duration::ZERO) {
        match command {
            Command::Submit(ticket, operation) => {
                if let Operation::Read { pieces, .. } = &operation {
                    read.extend(pieces.iter().map(|piece| piece.at.clone()));
                }
                core.handle(Event::Done(ticket, disk.run(operation)));
            }
            Command::Send(packet) => said.push(packet),
        }
    }
    said
}

/// Copies a hundred files; gives inode and address of each in the order in which they were read.
fn order(by_address: bool) -> Vec<(u64, u64)> {
    let (mut source, mut sink, mut from, mut to) =
        (source(by_address), sink(), Disk::default(), Disk::default());
    for number in 0..100 {
        let content = vec![number; 300];
        let object = Object::File(content, BTreeSet::from([0]));
        let mtime = Stamp { seconds: 5, nanoseconds: 6 };
        let inode = Inode { object, mode: 0o640, user: 1, group: 2, mtime, xattrs: Vec::new() };
        from.put(format!("{number}").as_bytes(), inode);
    }
    let mut read = Vec::new();
    while sink.ended().is_none() || source.ended().is_none() {
        let said = work(&mut source, &mut from, &mut read);
        said.into_iter().for_each(|packet| sink.handle(Event::Received(packet)));
        let said = work(&mut sink, &mut to, &mut Vec::new());
        said.into_iter().for_each(|packet| source.handle(Event::Received(packet)));
    }
    let details = Details { address: true, ..Details::default() };
    let Outcome::Looked(found) = from.run(Operation::Look { at: read, details }) else { panic!("a look") };
    let found = found.into_iter().map(|found| found.expect("a file").expect("a file"));
    found.map(|found| (found.seen.inode, found.address.expect("an address"))).collect()
}

#[test]
fn files_are_read_as_they_lie_on_a_disk_with_a_head_and_by_inode_elsewhere() {
    let on_disk = order(true);
    assert_eq!(on_disk.len(), 100);
    assert!(on_disk.is_sorted_by_key(|(_, address)| *address), "{on_disk:?}");
    assert!(!on_disk.is_sorted(), "the addresses of this test are those of inodes");
    let elsewhere = order(false);
    assert!(elsewhere.len() == 100 && elsewhere.is_sorted(), "{elsewhere:?}");
}
