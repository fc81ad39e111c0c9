//! A sink accepts exactly the entries that a source with the same options sends.

use crate::sides::{sink_options, source_options};
use numaio_mover::drive::TransferCore;
use numaio_mover::entry::{Entry, Kind, Object};
use numaio_mover::filter::{Action, Filter, Pattern};
use numaio_mover::name::Name;
use numaio_mover::port::{Event, Packet};
use numaio_mover::report::{Report, TransferOutcome};
use numaio_mover::simulator::{
    run_operations, Chance, Disk, Inode, Kind as SpecialKind, Object as DiskObject,
};
use numaio_mover::sink::{RequestedEntries, Sink, SinkOptions};
use numaio_mover::source::{Origin, Source, SourceOptions};
use numaio_mover::wire::{Decoder, Frame, StreamItem};
use std::collections::BTreeSet;

/// The journal of these sinks.
const JOURNAL: &[u8] = b".numaio-journal";

const SEEDS: u64 = 1_500;

/// Few names, so that rules, lists and trees overlap.
const PARTS: [&str; 4] = ["a", "b", "a.b", "c"];
const PATTERNS: [&str; 12] =
    ["a", "b/", "/a", "/a/b", "*", "a.*", "b/**", "**/c", "/a/***", "c/", "/b/*/a", "a/b"];

fn name(chance: &mut Chance) -> String {
    let part = |chance: &mut Chance| PARTS[chance.below(4) as usize];
    (0..=chance.below(4)).map(|_| part(chance)).collect::<Vec<_>>().join("/")
}

fn is_directory(disk: &Disk, name: &[u8]) -> bool {
    matches!(disk.tree().get(name), Some((_, Inode { object: DiskObject::Directory(_), .. })))
}

/// Generates directories, files with hard links, symlinks and pipes.
fn tree(chance: &mut Chance) -> Disk {
    let (mut disk, mut files) = (Disk::default(), Vec::<Vec<u8>>::new());
    for _ in 0..4 + chance.below(20) {
        let name = name(chance).into_bytes();
        let above = name.iter().rposition(|&byte| byte == b'/').map_or(&b""[..], |slash| &name[..slash]);
        if disk.tree().contains_key(&name) || !is_directory(&disk, above) {
            continue;
        }
        let object = match chance.below(8) {
            0..4 => DiskObject::Directory(Default::default()),
            4 => DiskObject::Special(SpecialKind::Symlink(b"a".as_slice().into())),
            5 => DiskObject::Special(SpecialKind::Fifo),
            6 if !files.is_empty() => {
                disk.link(&files[chance.below(files.len() as u64) as usize], &name);
                continue;
            }
            _ => DiskObject::File(b"content".to_vec(), [0].into()),
        };
        if let DiskObject::File(..) = object {
            files.push(name.clone());
        }
        let mtime = crate::sides::found(numaio_mover::port::FileKind::File).metadata.mtime;
        disk.put(&name, Inode { object, mode: 0o755, user: 0, group: 0, mtime, xattrs: Vec::new() });
    }
    disk
}

fn rules(chance: &mut Chance) -> Filter {
    let mut filter = Filter::default();
    for _ in 0..chance.below(4).saturating_sub(1) {
        let pattern = PATTERNS[chance.below(PATTERNS.len() as u64) as usize];
        let action = if chance.once_in(3) { Action::Include } else { Action::Exclude };
        filter.add(action, Pattern::new(pattern.as_bytes()).expect("a pattern"));
    }
    filter
}

/// Generates options that a user may give: some sources, or a list of names below one.
fn random_options(chance: &mut Chance) -> SourceOptions {
    let listed = chance.once_in(2);
    let only = |chance: &mut Chance| match (chance.below(5), listed) {
        (0, _) => None,
        (_, true) => Some(name(chance)),
        (_, false) => Some(PARTS[chance.below(4) as usize].to_owned()),
    };
    let origin = |chance: &mut Chance| {
        let only = only(chance).map(|only| Name::new(only.into_bytes()).expect("a name"));
        Origin { root: 0, only, enter: true, with_parents: listed }
    };
    let origins = (0..=chance.below(3)).map(|_| origin(chance)).collect();
    let (recursive, filter) = (chance.once_in(2), rules(chance));
    let links = !chance.once_in(4);
    SourceOptions { origins, recursive, listed, filter, links, ..source_options(false, true) }
}

/// Returns the entries that a source sends of a tree, and all of its packets.
fn entries_sent(options: SourceOptions, from: &Disk) -> (Vec<Entry>, Vec<Packet<Vec<u8>>>) {
    let mut from = from.clone();
    let mut source = Source::new(options).expect("a policy");
    let sent = run_operations(&mut source, |operation| from.run(operation));
    let (mut decoder, mut entries) = (Decoder::new(), Vec::new());
    for packet in &sent {
        let data = packet.data.as_ref().map_or(&[][..], |(bytes, length)| &bytes[..*length]);
        let all = [&packet.frames[..], data].concat();
        let mut bytes = &all[..];
        loop {
            bytes = &bytes[decoder.push(bytes)..];
            match decoder.pull().expect("a valid stream") {
                Some(StreamItem::Frame(Frame::Batch(batch))) => entries.extend(batch.into_parts().1),
                Some(_) => {}
                None if bytes.is_empty() => break,
                None => {}
            }
        }
    }
    (entries, sent)
}

/// Returns the name of an entry, and whether it is a directory.
fn kind(entry: &Entry) -> (Name, bool) {
    let is_directory = matches!(&entry.object, Object::New(inode) if inode.kind == Kind::Directory);
    (entry.name.clone(), is_directory)
}

#[test]
fn accepts_exactly_the_entries_of_an_honest_source() {
    let (mut taken, mut rejected) = (0, 0);
    for seed in 0..SEEDS {
        let mut chance = Chance::new(seed);
        let (from, options) = (tree(&mut chance), random_options(&mut chance));
        let SourceOptions { origins, recursive, listed, filter, .. } = &options;
        let mut requested = RequestedEntries::new(origins, *recursive, *listed);
        let (honest, _) = entries_sent(options.clone(), &from);
        let known: BTreeSet<_> = honest.iter().map(kind).collect();
        for entry in &honest {
            assert!(requested.accepts(entry, filter), "{seed}: {entry:?} of {options:?}");
        }
        // All entries of the tree, sent by a source without filter rules.
        let (all, _) = entries_sent(SourceOptions { links: true, ..source_options(false, true) }, &from);
        for entry in &all {
            let first = |first: &Name| known.contains(&(first.clone(), false));
            let has_first = !matches!(&entry.object, Object::HardLink(to) if !first(to));
            let wanted = known.contains(&kind(entry)) && has_first;
            assert_eq!(requested.accepts(entry, filter), wanted, "{seed}: {entry:?} of {options:?}");
            *(if wanted { &mut taken } else { &mut rejected }) += 1;
        }
    }
    assert!(taken > SEEDS && rejected > SEEDS, "{taken} and {rejected}");
}

#[test]
fn sink_aborts_at_the_first_entry_that_was_not_requested() {
    let (mut done, mut ended) = (0, 0);
    for seed in 0..SEEDS / 3 {
        let mut chance = Chance::new(seed);
        let (from, mut to) = (tree(&mut chance), Disk::default());
        let (mine, theirs) = (random_options(&mut chance), random_options(&mut chance));
        let is_honest = chance.once_in(2);
        let (entries, sent) = entries_sent(if is_honest { mine.clone() } else { theirs }, &from);
        let mut requested = RequestedEntries::new(&mine.origins, mine.recursive, mine.listed);
        let other = entries.iter().find(|entry| !requested.accepts(entry, &mine.filter));
        assert!(!is_honest || other.is_none(), "{seed}");
        let options = sink_options(true);
        let requested = Some(RequestedEntries::new(&mine.origins, mine.recursive, mine.listed));
        let mut sink = Sink::new(SinkOptions { requested, filter: mine.filter.clone(), ..options });
        for packet in sent {
            sink.handle(Event::Received(packet));
            run_operations(&mut sink, |operation| to.run(operation));
        }
        let last = sink.reports().into_iter().rev().find_map(|report| match report {
            Report::Problem(problem) => Some(problem.text.as_str().to_owned()),
            _ => None,
        });
        match other {
            None => {
                assert_eq!(sink.outcome(), Some(&TransferOutcome::Done), "{seed}: {last:?}");
                done += 1;
            }
            Some(other) => {
                let text = format!("the source sent an entry that was not requested: {}", other.name);
                assert_eq!((sink.outcome(), last), (Some(&TransferOutcome::Failed), Some(text)), "{seed}");
                let may_be = entries.iter().take_while(|entry| *entry != other);
                let may_be: BTreeSet<&[u8]> = may_be.map(|entry| entry.name.as_bytes()).collect();
                let mut made = to.tree().into_keys().skip(1).filter(|name| name != JOURNAL);
                let strange = made.find(|name| !may_be.contains(&name[..]));
                assert_eq!(strange, None, "{seed}");
                ended += 1;
            }
        }
    }
    assert!(done > 100 && ended > 100, "{done} and {ended}");
}
