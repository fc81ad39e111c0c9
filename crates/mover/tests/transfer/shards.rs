//! Shards of a tree: together they are the tree, and no two have the same file.

use crate::sides::{found, sink, source_options};
use numaio_mover::drive::TransferCore;
use numaio_mover::port::{
    Fault, FaultKind, FileInfo, FileKind, FileStat, JournalState, Listing, NameMatching, OpenedJournal,
    Operation, Outcome,
};
use numaio_mover::report::TransferOutcome;
use numaio_mover::shard::Shard;
use numaio_mover::simulator::run;
use numaio_mover::source::{Source, SourceOptions};
use std::collections::{BTreeMap, BTreeSet};

const DIRECTORIES: usize = 5;
const FILES: usize = 200;
const COUNT: u32 = 4;

/// Returns a file, or one of two links to one, or a directory.
fn object(name: &str) -> FileInfo {
    let number = name.rsplit('-').next().and_then(|digits| digits.parse::<u64>().ok()).unwrap_or(0);
    let (kind, links) = match name {
        "" => (FileKind::Directory, 2),
        _ if !name.contains('/') => (FileKind::Directory, 2),
        _ if name.contains("link") => (FileKind::File, 2),
        _ => (FileKind::File, 1),
    };
    let file = found(kind);
    // Links with equal numbers in two directories are one file.
    let metadata = FileStat { inode: 1 + number, links, ..file.metadata };
    FileInfo { metadata, ..file }
}

/// Lists the tree: directories with files, and files with one name in each of two directories.
fn list(directory: &str) -> Vec<String> {
    match directory {
        "" => (0..DIRECTORIES).map(|number| format!("directory-{number}")).collect(),
        "directory-3" | "directory-4" => (0..FILES).map(|number| format!("link-{number}")).collect(),
        _ => (0..FILES).map(|number| format!("file-{number}")).collect(),
    }
}

/// Reads the source, in which one listed file has vanished.
fn at_source(operation: Operation<Vec<u8>>) -> Outcome<Vec<u8>> {
    match operation {
        Operation::List { directory, .. } => {
            let below = String::from_utf8_lossy(&directory.name).into_owned();
            let slash = if below.is_empty() { "" } else { "/" };
            let found = list(&below).into_iter().map(|name| {
                let vanished = Fault::new(FaultKind::NotFound, "vanished");
                let object = object(&format!("{below}{slash}{name}"));
                let is_there = below != "directory-0" || name != "file-0";
                (name.into_bytes().into(), if is_there { Ok(object) } else { Err(vanished) })
            });
            Outcome::Listed(Ok(Listing { found: found.collect(), more: None, names: NameMatching::Exact }))
        }
        Operation::Stat { at, .. } => {
            Outcome::Stat(at.iter().map(|at| Ok(Some(object(&String::from_utf8_lossy(&at.name))))).collect())
        }
        other => panic!("{other:?}"),
    }
}

/// Runs a shard to a destination with equal files; returns the announced names, and the number of
/// failures.
fn announced(shard: Option<Shard>) -> (BTreeSet<String>, u64) {
    let mut source = Source::new(SourceOptions { shard, ..source_options(false, false) }).expect("a policy");
    let mut sink = sink(false);
    let mut names = BTreeSet::new();
    let at_sink = |operation: Operation<Vec<u8>>| match operation {
        Operation::Stat { at, .. } => {
            let name = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
            names.extend(at.iter().map(|at| name(&at.name)));
            Outcome::Stat(at.iter().map(|at| Ok(Some(object(&name(&at.name))))).collect())
        }
        Operation::OpenJournal { .. } => {
            Outcome::OpenedJournal(Ok(OpenedJournal { state: JournalState::Absent, has_others: false }))
        }
        Operation::Create(all) => Outcome::Results(vec![Ok(()); all.len()]),
        Operation::SetAttributes(all) => Outcome::Results(vec![Ok(()); all.len()]),
        other => panic!("{other:?}"),
    };
    run((&mut source, &mut sink), at_source, at_sink);
    assert_eq!(sink.outcome(), Some(&TransferOutcome::Done));
    (names, sink.totals().failed)
}

#[test]
fn shards_are_disjoint_and_complete() {
    let (all, failed) = announced(None);
    assert_eq!((all.len(), failed), (1 + DIRECTORIES + DIRECTORIES * FILES - 1, 1));
    let is_directory = |name: &&String| !name.contains('/');
    let mut shards: BTreeMap<String, u32> = BTreeMap::new();
    let mut failures = 0;
    for number in 1..=COUNT {
        let (names, failed) = announced(Some(Shard::new(number, COUNT).expect("a shard")));
        failures += failed;
        assert_eq!(names.iter().filter(is_directory).count(), 1 + DIRECTORIES, "all directories");
        for name in names.iter().filter(|name| !is_directory(name)) {
            assert_eq!(shards.insert(name.clone(), number), None, "{name} is in two shards");
        }
        assert!(names.len() > all.len() / 8, "shard {number} has only {} names", names.len());
    }
    assert_eq!(failures, 1, "one shard reports the file that vanished");
    assert!(all.iter().filter(|name| !is_directory(name)).eq(shards.keys()), "a file is in no shard");
    for number in 0..FILES {
        let of = |directory| shards[&format!("directory-{directory}/link-{number}")];
        assert_eq!(of(3), of(4), "the links of a file are in different shards");
    }
}
