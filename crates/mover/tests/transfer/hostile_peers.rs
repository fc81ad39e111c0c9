//! Peers that request or announce far more than allowed, in few bytes.

use crate::sides::{found, sink, source};
use numaio_mover::drive::TransferCore;
use numaio_mover::entry::{Content, Entry, FileNumber, Inode, Kind, Mode, Object, Owner, Time, Xattrs};
use numaio_mover::extent::Extent;
use numaio_mover::name::Name;
use numaio_mover::port::{
    Event, FileKind, JournalState, Listing, NameMatching, OpenedJournal, Operation, Outcome, Packet,
};
use numaio_mover::report::Report;
use numaio_mover::simulator::run_operations;
use numaio_mover::wire::{
    BatchEncoder, DataRequest, DataRequests, Frame, Holes, NeededData, Side, StreamHeader, TransferId,
};

const FILES: u64 = 1_000;

fn stream_header(side: Side) -> Vec<u8> {
    let mut bytes = Vec::new();
    StreamHeader { side, transfer: TransferId([7; 16]) }.encode(&mut bytes);
    bytes
}

fn packet(frames: Vec<u8>) -> Event<Vec<u8>> {
    Event::Received(Packet { frames, data: None })
}

/// Returns the text of the last problem that a side reported.
fn last_problem<C: TransferCore<Vec<u8>>>(core: &mut C) -> Option<String> {
    core.reports().into_iter().rev().find_map(|report| match report {
        Report::Problem(problem) => Some(problem.text.as_str().to_owned()),
        _ => None,
    })
}

/// Simulates a disk with files in one directory.
fn run_operation(operation: Operation<Vec<u8>>) -> Outcome<Vec<u8>> {
    match operation {
        Operation::List { .. } => {
            let one = |number: u64| (number.to_string().into_bytes().into(), Ok(found(FileKind::File)));
            Outcome::Listed(Ok(Listing {
                found: (0..FILES).map(one).collect(),
                more: None,
                names: NameMatching::Exact,
            }))
        }
        Operation::Stat { at, .. } => {
            Outcome::Stat(at.iter().map(|_| Ok(Some(found(FileKind::Directory)))).collect())
        }
        Operation::HashFile(summing) => Outcome::HashedFile(Ok(summing)),
        Operation::OpenJournal { .. } => {
            Outcome::OpenedJournal(Ok(OpenedJournal { state: JournalState::Absent, has_others: false }))
        }
        other => panic!("{other:?}"),
    }
}

/// Each request takes six bytes, and would cause work for a thousand files.
#[test]
fn source_rejects_more_hash_requests_than_files() {
    let mut source = source(false, false);
    run_operations(&mut source, run_operation);
    source.handle(packet(stream_header(Side::Sink)));
    let number = |number| FileNumber::new(number).expect("a number");
    let ask = |first, count, what| {
        let mut bytes = Vec::new();
        let want = DataRequest { first: number(first), count, what };
        Frame::DataRequests(DataRequests::new(vec![want]).expect("a request")).encode(&mut bytes);
        bytes
    };
    // Each file is requested once; the root is not a file.
    source.handle(packet(ask(1, FILES, NeededData::Hash)));
    assert_eq!(last_problem(&mut source), None);
    source.handle(packet(ask(0, FILES + 1, NeededData::Nothing)));
    assert_eq!(last_problem(&mut source), None);
    let again: Vec<u8> = (0..2).flat_map(|_| ask(0, FILES, NeededData::Hash)).collect();
    source.handle(packet(again));
    assert_eq!(
        last_problem(&mut source).as_deref(),
        Some("invalid data from the peer: a request for an unknown entry")
    );
}

/// Minimal entries in packets that end with an invalid frame.
#[test]
fn sink_rejects_too_many_entries_before_reading_all() {
    let mut sink = sink(false);
    run_operations(&mut sink, run_operation);
    let (mut bytes, mut batch) = (stream_header(Side::Source), BatchEncoder::new(FileNumber::FIRST));
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
    assert_eq!(
        last_problem(&mut sink).as_deref(),
        Some("invalid data from the peer: too many unanswered entries")
    );
}

/// In eager mode, holes that arrive before their entry is decided are deferred.
#[test]
fn deferred_holes_are_limited() {
    let mut sink = sink(true);
    run_operations(&mut sink, run_operation);
    sink.handle(packet(stream_header(Side::Source)));
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
    let rejected = loop {
        sink.handle(packet(bytes.clone()));
        frames += 1;
        if let Some(last_problem) = last_problem(&mut sink) {
            break last_problem;
        }
        assert!(frames < 10_000, "unlimited frames are deferred");
    };
    assert_eq!((&rejected[..], frames), ("invalid data from the peer: too many unrequested frames", 1_025));
}
