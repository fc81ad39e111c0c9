//! Files with more holes than their entries can describe.

use crate::sides::{sink, source};
use numaio_mover::drive::TransferCore;
use numaio_mover::entry::MAX_EXTENTS;
use numaio_mover::port::{Fault, FaultKind, FileInfo, FileKind, FileWrite, Operation, Outcome, Stamp, BLOCK};
use numaio_mover::report::{Report, TransferOutcome};
use numaio_mover::simulator::{run, Disk, Inode, Object};
use std::collections::BTreeSet;

/// Number of data pages, each in its own block; the holes between them span two blocks or more.
const PAGES: u64 = MAX_EXTENTS as u64 + 500;
const PAGE_DISTANCE: u64 = 3 * BLOCK as u64;
const SIZE: u64 = PAGES * PAGE_DISTANCE;

fn pages() -> Vec<(u64, u64)> {
    (0..PAGES).map(|page| (page * PAGE_DISTANCE + 4_096, page * PAGE_DISTANCE + 8_192)).collect()
}

/// A disk that records operations; blocks are neither read nor written.
#[derive(Default)]
struct RecordingDisk {
    disk: Disk,
    bytes_read: u64,
    puts: Vec<FileWrite>,
}

impl RecordingDisk {
    fn run(&mut self, operation: Operation<Vec<u8>>) -> Outcome<Vec<u8>> {
        match operation {
            Operation::Read { pieces, .. } => {
                self.bytes_read += pieces.iter().map(|piece| piece.length as u64).sum::<u64>();
                let results = pieces.iter().map(|_| Ok(Default::default())).collect();
                Outcome::Read { results, data: Vec::new(), packed: None }
            }
            Operation::Write { puts, .. } => {
                let results = puts.iter().map(|_| Ok(())).collect();
                self.puts.extend(puts);
                Outcome::Results(results)
            }
            other => match self.disk.run(other) {
                Outcome::Listed(Ok(mut listing)) => {
                    let found = listing.found.iter_mut().filter_map(|(_, found)| found.as_mut().ok());
                    found.for_each(enlarge);
                    Outcome::Listed(Ok(listing))
                }
                outcome => outcome,
            },
        }
    }
}

/// Gives a file the size and the holes of the test.
fn enlarge(found: &mut FileInfo) {
    found.metadata.size = SIZE;
    found.data = Some(pages());
}

#[test]
fn complete_blocks_in_omitted_holes_are_not_transferred() {
    let (mut source, mut sink) = (source(false, false), sink(false));
    let (mut from, mut to) = (RecordingDisk::default(), RecordingDisk::default());
    let mtime = Stamp { seconds: 5, nanoseconds: 6 };
    let object = Object::File(vec![1], BTreeSet::from([0]));
    from.disk.put(b"file", Inode { object, mode: 0o640, user: 1, group: 2, mtime, xattrs: Vec::new() });
    run((&mut source, &mut sink), |operation| from.run(operation), |operation| to.run(operation));
    assert_eq!(
        (source.outcome(), sink.outcome()),
        (Some(&TransferOutcome::Done), Some(&TransferOutcome::Done))
    );
    assert_eq!(from.bytes_read, PAGES * BLOCK as u64);
    let totals = sink.totals();
    assert_eq!((totals.moved, totals.bytes, totals.size), (1, from.bytes_read, from.bytes_read));
    let bytes = |report| if let Report::Change(did) = report { did.bytes } else { 0 };
    assert_eq!(sink.reports().into_iter().map(bytes).sum::<u64>(), from.bytes_read, "bytes in reports");
    // Every page is written, and in a way that turns surrounding zeros into holes.
    let written: Vec<(u64, u64)> = to
        .puts
        .iter()
        .flat_map(|put| &put.parts)
        .map(|part| (part.offset, part.offset + part.bytes.len() as u64))
        .collect();
    let covers = |page: &(u64, u64)| written.iter().any(|part| part.0 <= page.0 && page.1 <= part.1);
    assert!(pages().iter().all(covers));
    assert!(to.puts.iter().all(|put| put.sparse || put.parts.is_empty()));
    assert_eq!(to.puts.last().and_then(|put| put.settle.as_ref()).map(|settle| settle.size), Some(SIZE));
}

#[test]
fn unreadable_huge_file_fails_after_few_reads() {
    let (mut source, mut sink) = (source(false, false), sink(false));
    let (mut disk, mut to, mut reads) = (Disk::default(), Disk::default(), 0);
    let mtime = Stamp { seconds: 5, nanoseconds: 6 };
    let object = Object::File(vec![1], BTreeSet::from([0]));
    disk.put(b"file", Inode { object, mode: 0o640, user: 1, group: 2, mtime, xattrs: Vec::new() });
    // The file has 2^42 blocks.
    let from = |operation| match operation {
        Operation::Read { pieces, .. } => {
            reads += 1;
            let results =
                pieces.iter().map(|_| Err(Fault::new(FaultKind::Other, "the disk is broken"))).collect();
            Outcome::Read { results, data: Vec::new(), packed: None }
        }
        other => match disk.run(other) {
            Outcome::Listed(Ok(mut listing)) => {
                let found = listing.found.iter_mut().filter_map(|(_, found)| found.as_mut().ok());
                found.for_each(|found| (found.metadata.size, found.data) = (1 << 62, None));
                Outcome::Listed(Ok(listing))
            }
            outcome => outcome,
        },
    };
    run((&mut source, &mut sink), from, |operation| to.run(operation));
    assert_eq!(
        (source.outcome(), sink.outcome()),
        (Some(&TransferOutcome::Done), Some(&TransferOutcome::Done))
    );
    assert_eq!((sink.totals().failed, sink.totals().moved), (1, 0));
    assert!(reads <= 2, "{reads} reads");
}

/// Runs an operation on a disk where all regular files have the maximum size and no data.
fn run_with_huge_files(disk: &mut Disk, operation: Operation<Vec<u8>>) -> Outcome<Vec<u8>> {
    let enlarge = |found: &mut FileInfo| {
        if found.metadata.kind == FileKind::File {
            (found.metadata.size, found.data) = (i64::MAX as u64, Some(Vec::new()));
        }
    };
    match disk.run(operation) {
        Outcome::Listed(Ok(mut listing)) => {
            listing.found.iter_mut().filter_map(|(_, found)| found.as_mut().ok()).for_each(enlarge);
            Outcome::Listed(Ok(listing))
        }
        Outcome::Stat(mut found) => {
            found.iter_mut().filter_map(|found| found.as_mut().ok()?.as_mut()).for_each(enlarge);
            Outcome::Stat(found)
        }
        outcome => outcome,
    }
}

#[test]
fn totals_of_huge_sparse_files_do_not_overflow() {
    let (mut from, mut to) = (Disk::default(), Disk::default());
    for name in [b"a", b"b", b"c"] {
        let mtime = Stamp { seconds: 5, nanoseconds: 6 };
        let object = Object::File(Vec::new(), BTreeSet::new());
        let inode = Inode { object, mode: 0o640, user: 1, group: 2, mtime, xattrs: Vec::new() };
        from.put(name, inode.clone());
        to.put(name, inode);
    }
    let (mut source, mut sink) = (source(false, false), sink(false));
    run(
        (&mut source, &mut sink),
        |asked| run_with_huge_files(&mut from, asked),
        |asked| run_with_huge_files(&mut to, asked),
    );
    assert_eq!(
        (source.outcome(), sink.outcome()),
        (Some(&TransferOutcome::Done), Some(&TransferOutcome::Done))
    );
    assert_eq!((sink.totals().moved, sink.totals().failed), (0, 0));
    assert_eq!((source.progress(), sink.progress()), (u64::MAX, u64::MAX));
}
