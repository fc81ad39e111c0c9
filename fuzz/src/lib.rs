//! Fuzz targets for every parser of untrusted input.
//!
//! A target takes arbitrary bytes, and panics if numaio handles them incorrectly. `tools/fuzz`
//! lists the targets, `tools/fuzz TARGET SECONDS` runs one with libFuzzer, and `cargo test` runs
//! each for a short time.

mod control_messages;
mod counters;
mod data_streams;
mod decode;
mod displayed_text;
mod fleet;
mod fleet_store;
mod guests;
mod netlink;
mod packets;
mod peers;
mod simulated_transfer;
mod socket_diag;
mod stored_files;
mod test_world;
mod text_files;

pub use simulated_transfer::simulated_transfer;

use numaio_machine::set::CpuSet;
use numaio_machine::tape::Tape;
use numaio_machine::{process, programs, units};
use numaio_mover::compression;
use numaio_mover::filter::{Action, Filter};
use numaio_mover::journal::JournalReader;
use numaio_mover::name::Name;
use numaio_mover::wire::{Decoder, StreamItem, TransferId};
use numaio_schema as schema;
use std::collections::BTreeSet;

/// A target: its name, and the function that takes the input.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 23] = [
    ("stream", stream),
    ("sink", peers::sink),
    ("source", peers::source),
    ("compressed", compressed),
    ("journal", journal),
    ("filters", filters),
    ("tape", tape),
    ("documents", documents),
    ("host-report", host_report),
    ("text-values", text_values),
    ("counters", counters::counters),
    ("control-messages", control_messages::control_messages),
    ("paths", control_messages::paths),
    ("serve-config", stored_files::serve_config),
    ("stored-files", stored_files::stored_files),
    ("text-files", text_files::text_files),
    ("packets", packets::packets),
    ("data-streams", data_streams::data_streams),
    ("netlink", netlink::netlink),
    ("socket-diag", socket_diag::socket_diag),
    ("fleet-run", fleet::fleet),
    ("fleet-store", fleet_store::fleet_store),
    ("guests", guests::guests),
];

/// Returns the seeds of a target.
pub fn seeds(target: &str) -> Vec<Vec<u8>> {
    let [to_sink, to_source, stream] = simulated_transfer();
    match target {
        "sink" => vec![to_sink],
        "source" => vec![to_source],
        "stream" => vec![stream],
        "fleet-run" => fleet::seeds(),
        "fleet-store" => fleet_store::seeds(),
        "compressed" => vec![compressed_seed()],
        "filters" => vec![b"/a/**/b[!c-e]?*\na/x/bf1\n*.o\nd/e.o".to_vec()],
        "text-values" => {
            vec![b"0-3,7,9-11".to_vec(), b"7f00 bind:0 anon=3 dirty=3 N0=3 kernelpagesize_kB=4".to_vec()]
        }
        "documents" => document_seeds(),
        "host-report" => {
            vec![include_bytes!("../../crates/schema/tests/fixtures/host-report-1.json").to_vec()]
        }
        "counters" => counters::seeds(),
        "control-messages" => control_messages::seeds(),
        "paths" => control_messages::path_seeds(),
        "serve-config" => stored_files::config_seeds(),
        "stored-files" => stored_files::seeds(),
        "text-files" => text_files::seeds(),
        "packets" => packets::seeds(),
        "data-streams" => data_streams::seeds(),
        "netlink" => netlink::seeds(),
        "socket-diag" => socket_diag::seeds(),
        "guests" => guests::seeds(),
        _ => vec![Vec::new(), b"{}".to_vec()],
    }
}

/// Decodes a connection in pieces; the first byte is their length.
///
/// Everything has one encoding, so encoding what was decoded must restore the bytes.
fn stream(input: &[u8]) {
    let Some((&piece, bytes)) = input.split_first() else { return };
    let (mut decoder, mut encoded) = (Decoder::new(), Vec::new());
    let mut pieces = bytes.chunks(usize::from(piece).max(1)).peekable();
    let mut rest: &[u8] = &[];
    loop {
        match decoder.pull() {
            Ok(Some(StreamItem::Header(hello))) => hello.encode(&mut encoded),
            Ok(Some(StreamItem::Frame(frame))) => frame.encode(&mut encoded),
            Ok(Some(StreamItem::Data(data))) => encoded.extend_from_slice(data),
            Ok(None) => {
                if rest.is_empty() {
                    rest = match pieces.next() {
                        Some(piece) => piece,
                        None => break,
                    };
                }
                let taken = decoder.push(rest);
                assert!(taken > 0, "the decoder accepts no more bytes");
                rest = &rest[taken..];
            }
            Err(_) => break,
        }
    }
    assert!(bytes.starts_with(&encoded));
}

/// Decompresses a block, and compresses the result again; the first two bytes are its plain length.
fn compressed(input: &[u8]) {
    let Some((length, bytes)) = input.split_first_chunk() else { return };
    let mut plain = vec![0; usize::from(u16::from_be_bytes(*length))];
    let is_compressed = compression::decompress(bytes, &mut plain).is_ok();
    if !is_compressed {
        plain = bytes.to_vec();
    }
    let (mut packed, mut unpacked) = (vec![0; plain.len()], vec![0; plain.len()]);
    if let Some(length) = compression::compress(&plain, &mut packed) {
        assert!(length < plain.len() && compression::decompress(&packed[..length], &mut unpacked).is_ok());
        assert!(unpacked == plain, "a round trip changed the block");
    }
}

/// Returns the seed of the target `compressed`.
fn compressed_seed() -> Vec<u8> {
    let plain: Vec<u8> = (0..3_000u16).map(|index| (index / 7) as u8).collect();
    let mut into = vec![0; plain.len()];
    let length = compression::compress(&plain, &mut into).expect("a compressible block");
    [&(plain.len() as u16).to_be_bytes()[..], &into[..length]].concat()
}

/// Reads a journal that an interrupted transfer left.
fn journal(input: &[u8]) {
    let mut replay = JournalReader::new(TransferId([7; 16]));
    let half = input.len() / 2;
    if replay.push(&input[..half]).is_ok() && replay.push(&input[half..]).is_ok() {
        if let Ok((mut journal, used)) = replay.finish() {
            assert!(used <= input.len() as u64);
            let compact = journal.compact();
            let mut second = JournalReader::new(TransferId([7; 16]));
            second.push(&compact).expect("a readable journal");
            second.finish().expect("a complete journal");
        }
    }
}

/// Matches names against patterns; lines are patterns and names in turn.
fn filters(input: &[u8]) {
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

/// Parses a tape; the user can name any file as a tape.
fn tape(input: &[u8]) {
    drop(Tape::parse_bytes(input));
}

/// Parses stored documents.
fn documents(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Err(error) = schema::Document::from_json(text) {
        let shown = numaio_machine::printable::printable(&error.to_string());
        assert!(!shown.is_empty() && displayed_text::is_displayable(&shown));
    }
    // Kinds that are read for themselves.
    let read: [fn(&str); 10] = [
        |text| drop(schema::Diagnosis::from_json(text)),
        |text| drop(schema::GuestPlan::from_json(text)),
        |text| drop(schema::FleetStatus::from_json(text)),
        |text| drop(schema::FleetSummary::from_json(text)),
        |text| drop(schema::BaselineComparison::from_json(text)),
        |text| drop(schema::TransferRecord::from_json(text)),
        |text| drop(schema::TransferTotals::from_json(text)),
        |text| drop(schema::DaemonState::from_json(text)),
        |text| drop(schema::TopSnapshot::from_json(text)),
        |text| drop(schema::TopRecording::parse(text)),
    ];
    read.iter().for_each(|read| read(text));
}

/// Returns a document of each kind and version.
fn document_seeds() -> Vec<Vec<u8>> {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/schema/tests/fixtures");
    let mut paths: Vec<_> =
        std::fs::read_dir(directory).expect("fixtures").flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).expect("a document")).collect()
}

/// Reads the report of a host of a fleet with the documents in it. A report that is written again
/// reads as the same.
fn host_report(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let report = match schema::HostReport::from_json(text) {
        Ok(report) => report,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    for document in &report.documents {
        drop(schema::Document::from_json(&document.to_string()));
    }
    let written = serde_json::to_string(&report).expect("JSON");
    let read = schema::HostReport::from_json(&written).expect("a report that was written");
    assert_eq!(read, report, "a written report reads as another");
}

/// Parses sets and sizes, which users type, and files of the kernel.
fn text_values(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(set) = CpuSet::parse_list(text) {
        assert_eq!(CpuSet::parse_list(&set.to_string()), Ok(set), "a printed set parses to another");
    }
    drop(CpuSet::parse_mask(text));
    drop(units::parse_size(text));
    drop(process::parse_numa_maps(text));
    drop((programs::parse_program_memory(text), programs::parse_status(text), programs::parse_io(text)));
    drop((programs::parse_io_stat(text), programs::locked_mappings(text)));
    drop(programs::movable_ranges(text, text, &BTreeSet::new(), false));
    drop(process::parse_stat(text));
}
