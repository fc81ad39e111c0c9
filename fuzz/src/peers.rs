//! One side of a transfer whose peer sends arbitrary packets.

use crate::simulated_transfer::{sink_disk, sink_side, source_disk, source_side};
use numaio_mover::drive::{PortCommand, TransferCore};
use numaio_mover::port::{Attributes, Event, FilePath, Operation, Packet, BLOCK, MAX_FRAME_BYTES};
use numaio_mover::simulator::Disk;
use std::time::Duration;

/// Decodes packets from an input: the lengths of frames and data in two bytes each, then both.
fn packets(mut input: &[u8]) -> Vec<Packet<Vec<u8>>> {
    let mut packets = Vec::new();
    while let Some((head, rest)) = input.split_first_chunk::<4>() {
        let number = |at: usize| usize::from(u16::from_be_bytes([head[at], head[at + 1]]));
        let (frames, rest) = rest.split_at(number(0).min(rest.len()));
        let (data, rest) = rest.split_at(number(2).min(rest.len()));
        let data = (!data.is_empty()).then(|| (data.to_vec(), data.len()));
        packets.push(Packet { frames: frames.to_vec(), data });
        input = rest;
    }
    packets
}

/// Encodes packets as an input of the targets `sink` and `source`.
pub fn input_of(packets: &[Packet<Vec<u8>>]) -> Vec<u8> {
    let mut input = Vec::new();
    for packet in packets {
        let data = packet.data.as_ref().map_or(&[][..], |(bytes, length)| &bytes[..*length]);
        input.extend((packet.frames.len() as u16).to_be_bytes());
        input.extend((data.len() as u16).to_be_bytes());
        input.extend(&packet.frames);
        input.extend(data);
    }
    input
}

/// Sends arbitrary packets to a sink.
pub fn sink(input: &[u8]) {
    for eager in [false, true] {
        run_side(sink_side(eager), sink_disk(), packets(input));
    }
}

/// Sends arbitrary packets to a source.
pub fn source(input: &[u8]) {
    for eager in [false, true] {
        run_side(source_side(eager), source_disk(), packets(input));
    }
}

/// Runs a side until it ends; asserts that it ends at the latest when its link is closed.
fn run_side<C: TransferCore<Vec<u8>>>(mut core: C, mut disk: Disk, packets: Vec<Packet<Vec<u8>>>) {
    let mut packets = packets.into_iter();
    let mut closed = false;
    loop {
        run_commands(&mut core, &mut disk);
        if core.outcome().is_some() {
            return;
        }
        match packets.next() {
            Some(packet) => core.handle(Event::Received(packet)),
            None => {
                assert!(!closed, "the side continues after its link was closed");
                closed = true;
                core.handle(Event::Closed("closed".to_owned()));
            }
        }
    }
}

/// Executes the commands of a side until it has none left.
fn run_commands<C: TransferCore<Vec<u8>>>(core: &mut C, disk: &mut Disk) {
    while let Some(command) = core.poll(Duration::ZERO) {
        match command {
            PortCommand::Submit(ticket, operation) => {
                check(&operation);
                let outcome = disk.run(operation);
                core.handle(Event::Done(ticket, outcome));
            }
            PortCommand::Send(packet) => {
                assert!(packet.frames.len() <= MAX_FRAME_BYTES);
                assert!(packet.data.is_none_or(|(bytes, length)| length <= BLOCK && length <= bytes.len()));
            }
        }
    }
    core.reports();
}

/// Asserts that an operation names no path outside of a root and sets no wire-only attribute.
fn check(operation: &Operation<Vec<u8>>) {
    let check_path = |at: &FilePath| {
        let valid = |part: &[u8]| !part.is_empty() && part != b"." && part != b".." && !part.contains(&0);
        assert!(
            at.root == 0 && (at.name.is_empty() || at.name.split(|&byte| byte == b'/').all(valid)),
            "{at:?}"
        );
    };
    let check_attributes = |attributes: &Attributes| {
        let mut names = attributes.xattrs.iter().flatten().map(|(name, _)| name);
        assert!(names.all(|name| !name.starts_with(b"numaio.")), "{attributes:?}");
    };
    match operation {
        Operation::List { directory, .. } => check_path(directory),
        Operation::Stat { at, .. } | Operation::Remove(at) => at.iter().for_each(check_path),
        Operation::Read { pieces, .. } => pieces.iter().for_each(|piece| check_path(&piece.at)),
        Operation::HashFile(hash) => check_path(&hash.at),
        Operation::Write { puts, .. } => puts.iter().for_each(|put| {
            check_path(&put.at);
            put.settle.iter().for_each(|settle| {
                check_path(&settle.name);
                check_attributes(&settle.attributes);
            });
        }),
        Operation::Create(creations) => creations.iter().for_each(|creation| {
            check_path(&creation.at);
            check_attributes(&creation.attributes);
        }),
        Operation::SetAttributes(changes) => changes.iter().for_each(|(at, attributes)| {
            check_path(at);
            check_attributes(attributes);
        }),
        Operation::RemoveSources(removals) => {
            removals
                .iter()
                .flat_map(|it| [Some(&it.at), it.destination.as_ref()])
                .flatten()
                .for_each(check_path);
        }
        Operation::OpenJournal { journal, .. } => check_path(journal),
        Operation::WriteJournal(record) => {
            record.after.iter().flatten().chain([&record.journal]).for_each(check_path)
        }
        Operation::ListMore { .. } | Operation::Sync { .. } => {}
    }
}
