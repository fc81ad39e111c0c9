//! Sides that ask or tell of far more than they may, in few bytes.

use numaio_machine::port::{Event, FileKind, Journal, Listing, Names, Operation, Outcome, Packet};
use numaio_mover::drive::TransferCore;
use numaio_mover::entry::{Content, Entry, FileNumber, Inode, Kind, Mode, Object, Owner, Time, Xattrs};
use numaio_mover::extent::Extent;
use numaio_mover::name::Name;
use numaio_mover::report::Report;
use numaio_mover::wire::{BatchEncoder, Frame, StreamHeader, Holes, NeededData, Side, TransferId, DataRequest, DataRequests};
use crate::sides::{found, sink, source, run_operations};

const FILES: u64 = 1_000;

fn hello(side: Side) -> Vec<u8> {
    let mut bytes = Vec::new();
    StreamHeader { side, transfer: TransferId([7; 16]) }.encode(&mut bytes);
    bytes
}

fn packet(frames: Vec<u8>) -> Event<Vec<u8>> {
    Event::Received(Packet { frames, data: None })
}

/// The last problem that a side told.
fn last_problem<C: TransferCore<Vec<u8>>>(core: &mut C) -> Option<String> {
    core.reports().into_iter().rev().find_map(|report| match report {
        Report::Problem(problem) => Some(problem.text.as_str().to_owned()),
        _ => None,
    })
}

/// A disk with files in one directory.
fn run_operation(operation: Operation<Vec<u8>>) -> Outcome<Vec<u8>> {
    match operation {
        Operation::List { .. } => {
            let one = |number: u64| (number.to_string().into_bytes().into(), Ok(found(FileKind::File)));
            Outcome::Listed(Ok(Listing {
                found: (0..FILES).map(one).collect(),
                more: None,
                names: Names::Apart,
            }))
        }
        Operation::Look { at, .. } => {
            Outcome::Looked(at.iter().map(|_| Ok(Some(found(FileKind::Directory)))).collect())
        }
        Operation::Sum(summing) => Outcome::Summed(Ok(summing)),
        Operation::Open { .. } => Outcome::Opened(Ok(Journal::Absent)),
        other => panic!("{other:?}"),
    }
}

/// Each takes six bytes, and would be gone through a thousand times.
#[test]
fn who_asks_for_more_hashes_than_there_are_files_is_left() {
    let mut source = source(false, false);
    run_operations(&mut source, run_operation);
    source.handle(packet(hello(Side::Sink)));
    let number = |number| FileNumber::new(number).expect("a number");
    let ask = |first, count, what| {
        let mut bytes = Vec::new();
        let want = DataRequest { first: number(first), count, what };
        Frame::DataRequests(DataRequests::new(vec![want]).expect("a want")).encode(&mut bytes);
        bytes
    };
    // Of each once, and the root is no file.
    source.handle(packet(ask(1, FILES, NeededData::Hash)));
    assert_eq!(last_problem(&mut source), None);
    source.handle(packet(ask(0, FILES + 1, NeededData::Nothing)));
    assert_eq!(last_problem(&mut source), None);
    let again: Vec<u8> = (0..2).flat_map(|_| ask(0, FILES, NeededData::Hash)).collect();
    source.handle(packet(again));
    assert_eq!(last_problem(&mut source).as_deref(), Some("an answer about no entry has no meaning"));
}

/// Entries that share all with the one before, in packets which are refused at their end.
#[test]
fn a_flood_is_noticed_before_all_of_it_is_there() {
    let mut sink = sink(false);
    run_operations(&mut sink, run_operation);
    let (mut bytes, mut batch) = (hello(Side::Source), BatchEncoder::new(FileNumber::FIRST));
    let name = Name::new(vec![b'n'; 200]).expect("a name");
    for _ in 0..100_000 {
        let entry = Entry { name: name.clone(), object: Object::HardLink(name.clone()) };
        if !batch.push(&entry).expect("an entry") {
            batch.take(&mut bytes).expect("a batch");
            batch.push(&entry).expect("an entry");
        }
    }
    batch.take(&mut bytes).expect("a batch");
    bytes.push(u8::MAX);
    sink.handle(packet(bytes));
    assert_eq!(last_problem(&mut sink).as_deref(), Some("a flood of entries has no meaning"));
}

/// They come before it is known whether the file is needed, and wait.
#[test]
fn holes_that_nobody_asked_for_wait_within_limits() {
    let mut sink = sink(true);
    run_operations(&mut sink, run_operation);
    sink.handle(packet(hello(Side::Source)));
    let mut batch = BatchEncoder::new(FileNumber::FIRST);
    let inode = Inode {
        kind: Kind::File(Content::dense(1 << 40).expect("a size")),
        mode: Mode::new(0o600).expect("a mode"),
        mtime: Time::new(5, 5).expect("a time"),
        user: Owner::new(0, None).expect("an owner"),
        group: Owner::new(0, None).expect("an owner"),
        xattrs: Xattrs::default(),
    };
    batch
        .push(&Entry { name: Name::new(&b"f"[..]).expect("a name"), object: Object::New(inode) })
        .expect("an entry");
    let mut bytes = Vec::new();
    batch.take(&mut bytes).expect("a batch");
    sink.handle(packet(bytes));
    let holes = (0..4_096).filter_map(|index| Extent::at(index << 21, 1 << 20)).collect();
    let mut bytes = Vec::new();
    Frame::Holes(Holes::new(FileNumber::FIRST, holes).expect("holes")).encode(&mut bytes);
    let mut frames = 0;
    let refused = loop {
        sink.handle(packet(bytes.clone()));
        frames += 1;
        if let Some(last_problem) = last_problem(&mut sink) {
            break last_problem;
        }
        assert!(frames < 10_000, "they wait without an end");
    };
    assert_eq!((&refused[..], frames), ("a flood of what nobody asked for has no meaning", 1_025));
}
