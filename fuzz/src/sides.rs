//! A side of a transfer whose peer says whatever it likes.

use crate::pair::{sink_disk, sink_side, source_disk, source_side};
use numaio_machine::port::{Attributes, Event, FilePath, Operation, Packet, BLOCK, MAX_FRAME_BYTES};
use numaio_mover::drive::{PortCommand, TransferCore};
use numaio_sim::mover::Disk;
use std::time::Duration;

/// Packets as an input holds them: bytes of frames and of data, each in two bytes, then both.
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

/// An input that holds packets.
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

/// A sink that hears anything.
pub fn sink(input: &[u8]) {
    [false, true].into_iter().for_each(|unasked| converse(sink_side(unasked), sink_disk(), packets(input)));
}

/// A source that hears anything.
pub fn source(input: &[u8]) {
    [false, true]
        .into_iter()
        .for_each(|unasked| converse(source_side(unasked), source_disk(), packets(input)));
}

/// Runs a side until it ends, or nothing more happens; then the link is closed, upon which it must end.
fn converse<C: TransferCore<Vec<u8>>>(mut core: C, mut disk: Disk, packets: Vec<Packet<Vec<u8>>>) {
    let mut packets = packets.into_iter();
    let mut closed = false;
    loop {
        work(&mut core, &mut disk);
        if core.outcome().is_some() {
            return;
        }
        match packets.next() {
            Some(packet) => core.handle(Event::Received(packet)),
            None => {
                assert!(!closed, "a side whose link is closed ends");
                closed = true;
                core.handle(Event::Closed("closed".to_owned()));
            }
        }
    }
}

/// Does what the side wants until it wants nothing more.
fn work<C: TransferCore<Vec<u8>>>(core: &mut C, disk: &mut Disk) {
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

/// Nothing outside a root is ever named, and no attribute set that is only ever said, whatever the peer says.
fn check(operation: &Operation<Vec<u8>>) {
    let good = |at: &FilePath| {
        let good = |part: &[u8]| !part.is_empty() && part != b"." && part != b".." && !part.contains(&0);
        assert!(
            at.root == 0 && (at.name.is_empty() || at.name.split(|&byte| byte == b'/').all(good)),
            "{at:?}"
        );
    };
    let kept = |attributes: &Attributes| {
        let mut names = attributes.xattrs.iter().flatten().map(|(name, _)| name);
        assert!(names.all(|name| !name.starts_with(b"numaio.")), "{attributes:?}");
    };
    match operation {
        Operation::List { directory, .. } => good(directory),
        Operation::Stat { at, .. } | Operation::Remove(at) => at.iter().for_each(good),
        Operation::Read { pieces, .. } => pieces.iter().for_each(|piece| good(&piece.at)),
        Operation::HashFile(summing) => good(&summing.at),
        Operation::Write { puts, .. } => puts.iter().for_each(|put| {
            good(&put.at);
            put.settle.iter().for_each(|settle| {
                good(&settle.name);
                kept(&settle.attributes);
            });
        }),
        Operation::Create(all) => all.iter().for_each(|making| {
            good(&making.at);
            kept(&making.attributes);
        }),
        Operation::SetAttributes(all) => all.iter().for_each(|(at, attributes)| {
            good(at);
            kept(attributes);
        }),
        Operation::OpenJournal { journal, .. } => good(journal),
        Operation::WriteJournal(record) => {
            record.after.iter().flatten().chain([&record.journal]).for_each(good)
        }
        Operation::ListMore { .. } | Operation::Sync { .. } => {}
    }
}
