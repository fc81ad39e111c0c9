//! The order in which files are read, and received data is processed.

use crate::sides::{sink, source, source_options};
use numaio_mover::drive::{PortCommand, TransferCore};
use numaio_mover::port::{Details, Event, Operation, Outcome, Stamp, BLOCK};
use numaio_mover::report::TransferOutcome;
use numaio_mover::simulator::{run, run_operations, Disk, Inode, Object};
use numaio_mover::source::{ReadMode, ReadOrder, Source, SourceDevice, SourceOptions, SourceStorage};
use std::collections::BTreeSet;
use std::time::Duration;

/// Bytes of a page of the simulated disk.
const PAGE: u64 = 4_096;

/// Adds a file that is a hole except for its last page.
fn put(disk: &mut Disk, name: &str, size: usize) {
    put_pages(disk, name, size, BTreeSet::from([(size as u64 - 1) / PAGE]));
}

/// Adds a file without holes.
fn put_dense(disk: &mut Disk, name: &str, size: usize) {
    put_pages(disk, name, size, (0..(size as u64).div_ceil(PAGE)).collect());
}

fn put_pages(disk: &mut Disk, name: &str, size: usize, pages: BTreeSet<u64>) {
    let object = Object::File(vec![0; size], pages);
    let mtime = Stamp { seconds: 5, nanoseconds: 6 };
    disk.put(name.as_bytes(), Inode { object, mode: 0o640, user: 1, group: 2, mtime, xattrs: Vec::new() });
}

/// The last, short block of a file is bundled with small files whose entries are not decided yet.
#[test]
fn end_of_a_file_waits_for_its_deferred_last_part() {
    let (mut source, mut sink, mut from, mut to) =
        (source(true, true), sink(true), Disk::default(), Disk::default());
    for number in 0..600 {
        // In inode order, files of the first batch are next to those of the last.
        put(&mut from, &format!("a{number}"), if number % 100 == 0 { BLOCK + 4 } else { 1 });
        put(&mut from, &format!("b{number}"), 1);
    }
    for packet in run_operations(&mut source, |operation| from.run(operation)) {
        sink.handle(Event::Received(packet));
    }
    let mut waiting = Vec::new();
    while sink.outcome().is_none() {
        match sink.poll(Duration::ZERO) {
            // Lookups are completed in reverse order.
            Some(PortCommand::Submit(ticket, look @ Operation::Stat { .. })) => {
                waiting.insert(0, (ticket, look))
            }
            Some(PortCommand::Submit(ticket, operation)) => {
                sink.handle(Event::Done(ticket, to.run(operation)))
            }
            Some(PortCommand::Send(packet)) => source.handle(Event::Received(packet)),
            None => {
                let (ticket, look) = waiting.pop().expect("an operation in flight");
                sink.handle(Event::Done(ticket, to.run(look)));
            }
        }
    }
    assert_eq!((sink.outcome(), sink.totals().moved), (Some(&TransferOutcome::Done), 1_200));
}

/// Copies a hundred files; returns the inode and address of each in read order.
fn order(by_address: bool) -> Vec<(u64, u64)> {
    let (mut source, mut sink, mut from, mut to) =
        (source(by_address, false), sink(false), Disk::default(), Disk::default());
    for number in 0..100 {
        let content = vec![number; 300];
        let object = Object::File(content, BTreeSet::from([0]));
        let mtime = Stamp { seconds: 5, nanoseconds: 6 };
        let inode = Inode { object, mode: 0o640, user: 1, group: 2, mtime, xattrs: Vec::new() };
        from.put(format!("{number}").as_bytes(), inode);
    }
    let mut read = Vec::new();
    let at_source = |operation| {
        if let Operation::Read { pieces, .. } = &operation {
            read.extend(pieces.iter().map(|piece| piece.at.clone()));
        }
        from.run(operation)
    };
    run((&mut source, &mut sink), at_source, |operation| to.run(operation));
    let details = Details { address: true, ..Details::default() };
    let Outcome::Stat(found) = from.run(Operation::Stat { at: read, details, links: Vec::new() }) else {
        panic!("expected a lookup")
    };
    let found = found.into_iter().map(|found| found.expect("a file").expect("a file"));
    found.map(|found| (found.metadata.inode, found.address.expect("an address"))).collect()
}

#[test]
fn reads_in_address_order_on_rotational_disks_and_in_inode_order_elsewhere() {
    let on_disk = order(true);
    assert_eq!(on_disk.len(), 100);
    assert!(on_disk.is_sorted_by_key(|(_, address)| *address), "{on_disk:?}");
    assert!(!on_disk.is_sorted(), "addresses must not be in inode order for this test");
    let elsewhere = order(false);
    assert!(elsewhere.len() == 100 && elsewhere.is_sorted(), "{elsewhere:?}");
}

/// Returns the sizes of the largest sets of reads in flight: of different files, and of one file.
///
/// Reads are completed only when the source waits for them.
fn largest_reads(mode: ReadMode) -> (usize, usize) {
    let device = SourceDevice { reads: 4, order: ReadOrder::Listed };
    let storage = SourceStorage::single(device);
    let options = SourceOptions { mode, storage, ..source_options(false, true) };
    let (mut source, mut from) = (Source::new(options).expect("a policy"), Disk::default());
    (0..6).for_each(|number| put_dense(&mut from, &number.to_string(), 3 * BLOCK));
    let (mut files, mut parts, mut pieces) = (0, 0, 0);
    let mut pending = Vec::new();
    loop {
        match source.poll(Duration::ZERO) {
            Some(PortCommand::Submit(ticket, Operation::Read { pieces, hash, pack })) => {
                pending.push((ticket, Operation::Read { pieces, hash, pack }));
            }
            Some(PortCommand::Submit(ticket, operation)) => {
                source.handle(Event::Done(ticket, from.run(operation)));
            }
            Some(PortCommand::Send(_)) => {}
            None if pending.is_empty() => break,
            None => {
                let path = |(_, operation): &(u64, Operation<_>)| match operation {
                    Operation::Read { pieces, .. } => pieces[0].at.clone(),
                    _ => panic!("expected reads"),
                };
                let all: Vec<_> = pending.iter().map(path).collect();
                let count = |one| all.iter().filter(|other| *other == one).count();
                files = files.max(all.iter().collect::<BTreeSet<_>>().len());
                parts = parts.max(all.iter().map(count).max().unwrap_or(0));
                let (ticket, operation) = pending.remove(0);
                pieces += 1;
                source.handle(Event::Done(ticket, from.run(operation)));
            }
        }
    }
    assert_eq!(pieces, 18);
    (files, parts)
}

#[test]
fn mode_decides_whether_threads_share_a_file() {
    assert_eq!(largest_reads(ReadMode::Stripe), (1, 3));
    assert_eq!(largest_reads(ReadMode::Pipeline), (4, 1));
    let (files, parts) = largest_reads(ReadMode::Auto);
    assert!(files > 1 && parts > 1, "{files} files, {parts} parts");
}
