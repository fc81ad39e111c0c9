//! Targets for a fuzzer: each takes any bytes, and panics if numaio does with them what it must not.
//!
//! ARCHITECTURE.md lists them. `tools/fuzz TARGET SECONDS` runs one with libFuzzer; `cargo test` runs all of them for a short time.

mod control;
mod ground;
mod kept;
mod lanes;
mod link;
mod pair;
mod sides;
mod words;

pub use pair::conversation;

use numaio_machine::set::CpuSet;
use numaio_machine::tape::Tape;
use numaio_machine::{process, units};
use numaio_mover::compression;
use numaio_mover::filter::{Action, Filter};
use numaio_mover::journal::JournalReader;
use numaio_mover::name::Name;
use numaio_mover::wire::{Decoder, StreamItem, TransferId};
use numaio_schema as schema;

/// A target: its name, and what takes the bytes.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 16] = [
    ("stream", stream),
    ("sink", sides::sink),
    ("source", sides::source),
    ("packed", packed),
    ("journal", journal),
    ("rules", rules),
    ("tape", tape),
    ("documents", documents),
    ("kernel", kernel),
    ("calls", control::calls),
    ("paths", control::paths),
    ("serve-config", kept::serve_config),
    ("kept", kept::kept),
    ("link", link::link),
    ("lanes", lanes::lanes),
    ("netlink", link::netlink),
];

/// What a target begins with.
pub fn seeds(target: &str) -> Vec<Vec<u8>> {
    let [to_sink, to_source, stream] = conversation();
    match target {
        "sink" => vec![to_sink],
        "source" => vec![to_source],
        "stream" => vec![stream],
        "packed" => vec![packed_seed()],
        "rules" => vec![b"/a/**/b[!c-e]?*\na/x/bf1\n*.o\nd/e.o".to_vec()],
        "kernel" => {
            vec![b"0-3,7,9-11".to_vec(), b"7f00 bind:0 anon=3 dirty=3 N0=3 kernelpagesize_kB=4".to_vec()]
        }
        "documents" => [
            &include_bytes!("../../crates/schema/tests/fixtures/model-1.json")[..],
            include_bytes!("../../crates/schema/tests/fixtures/diagnosis-1.json"),
        ]
        .map(<[u8]>::to_vec)
        .to_vec(),
        "calls" => control::seeds(),
        "paths" => control::path_seeds(),
        "serve-config" => kept::config_seeds(),
        "kept" => kept::seeds(),
        "link" => link::seeds(),
        "lanes" => lanes::seeds(),
        "netlink" => link::netlink_seeds(),
        _ => vec![Vec::new(), b"{}".to_vec()],
    }
}

/// Bytes of a connection, in pieces of a length that the first byte tells. Everything has one encoding, so that what
/// was read must be what is written of it.
fn stream(input: &[u8]) {
    let Some((&piece, bytes)) = input.split_first() else { return };
    let (mut decoder, mut again) = (Decoder::new(), Vec::new());
    let mut pieces = bytes.chunks(usize::from(piece).max(1)).peekable();
    let mut rest: &[u8] = &[];
    loop {
        match decoder.pull() {
            Ok(Some(StreamItem::Header(hello))) => hello.encode(&mut again),
            Ok(Some(StreamItem::Frame(frame))) => frame.encode(&mut again),
            Ok(Some(StreamItem::Data(data))) => again.extend_from_slice(data),
            Ok(None) => {
                if rest.is_empty() {
                    rest = match pieces.next() {
                        Some(piece) => piece,
                        None => break,
                    };
                }
                let taken = decoder.push(rest);
                assert!(taken > 0, "there is room when more is needed");
                rest = &rest[taken..];
            }
            Err(_) => break,
        }
    }
    // The versions of a hello are those of its writer.
    let same = again.iter().zip(bytes).enumerate().filter(|(at, _)| !(8..12).contains(at));
    assert!(again.len() <= bytes.len() && same.into_iter().all(|(_, (one, other))| one == other));
}

/// A block that was packed, which says in two bytes what it was long. What it holds can be packed and unpacked again.
fn packed(input: &[u8]) {
    let Some((length, bytes)) = input.split_first_chunk() else { return };
    let mut plain = vec![0; usize::from(u16::from_be_bytes(*length))];
    let is_packed = compression::decompress(bytes, &mut plain).is_ok();
    if !is_packed {
        plain = bytes.to_vec();
    }
    let (mut again, mut other) = (vec![0; plain.len()], vec![0; plain.len()]);
    if let Some(length) = compression::compress(&plain, &mut again) {
        assert!(length < plain.len() && compression::decompress(&again[..length], &mut other).is_ok());
        assert!(other == plain, "it is what it was");
    }
}

/// What the target `packed` begins with.
fn packed_seed() -> Vec<u8> {
    let plain: Vec<u8> = (0..3_000u16).map(|index| (index / 7) as u8).collect();
    let mut into = vec![0; plain.len()];
    let length = compression::compress(&plain, &mut into).expect("it becomes smaller");
    [&(plain.len() as u16).to_be_bytes()[..], &into[..length]].concat()
}

/// Bytes of a journal that was left.
fn journal(input: &[u8]) {
    let mut replay = JournalReader::new(TransferId([7; 16]));
    let half = input.len() / 2;
    if replay.push(&input[..half]).is_ok() && replay.push(&input[half..]).is_ok() {
        if let Ok((mut journal, used)) = replay.finish() {
            assert!(used <= input.len() as u64);
            let compact = journal.compact();
            let mut again = JournalReader::new(TransferId([7; 16]));
            again.push(&compact).expect("what it writes can be read");
            again.finish().expect("what it writes is whole");
        }
    }
}

/// A line of names for each line of patterns, by turns.
fn rules(input: &[u8]) {
    let mut filter = Filter::default();
    let lines: Vec<&[u8]> = input.split(|&byte| byte == b'\n').take(20).collect();
    for (index, line) in lines.iter().enumerate().filter(|(index, _)| index % 2 == 0) {
        let action = if index % 4 == 0 { Action::Exclude } else { Action::Include };
        if let Ok(pattern) = numaio_mover::filter::Pattern::new(line) {
            filter.add(action, pattern);
        }
    }
    for line in lines.iter().skip(1).step_by(2) {
        if let Ok(name) = Name::new(*line) {
            assert!(filter.includes(&name, true) || !filter.includes(&name, true));
            filter.includes_with_parents(&name, false);
        }
    }
}

/// A tape, as any file may be named as one.
fn tape(input: &[u8]) {
    drop(Tape::parse_bytes(input));
}

/// Stored documents.
fn documents(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let read: [fn(&str); 8] = [
        |text| drop(schema::Model::from_json(text)),
        |text| drop(schema::Record::from_json(text)),
        |text| drop(schema::IoRecord::from_json(text)),
        |text| drop(schema::Plan::from_json(text)),
        |text| drop(schema::PlanProblem::from_json(text)),
        |text| drop(schema::PlacementPlan::from_json(text)),
        |text| drop(schema::Receipt::from_json(text)),
        |text| drop(schema::Diagnosis::from_json(text)),
    ];
    read.iter().for_each(|read| read(text));
}

/// Files of the kernel, and what people type.
fn kernel(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(set) = CpuSet::parse_list(text) {
        assert_eq!(CpuSet::parse_list(&set.to_string()), Ok(set), "a set can be read as it is written");
    }
    drop(CpuSet::parse_mask(text));
    drop(units::parse_size(text));
    drop(process::parse_numa_maps(text));
    drop(process::parse_stat(text));
}
