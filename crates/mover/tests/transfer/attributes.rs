//! Attributes that only some users may set.

use crate::sides::{sink, sink_for_user, source};
use numaio_mover::drive::TransferCore;
use numaio_mover::port::{Details, FilePath, Operation, Outcome, Stamp};
use numaio_mover::simulator::{run, Disk, Inode, Object};
use numaio_mover::sink::{PreserveOptions, WriterIdentity};
use std::collections::{BTreeMap, BTreeSet};

const NAMES: [&str; 4] = ["security.capability", "trusted.overlay.opaque", "trusted.x", "user.x"];

/// Copies twice as a user that preserves xattrs, or as a user that does not. Returns the attributes
/// of a file and a directory, and the number of changed and unchanged entries (with the root) of
/// the second run.
fn kept(user: Option<u32>) -> (Vec<Vec<String>>, u64, u64) {
    let (mut from, mut to) = (Disk::default(), Disk::default());
    let file = Object::File(vec![1], BTreeSet::from([0]));
    for (name, object) in [("d", Object::Directory(BTreeMap::new())), ("f", file)] {
        let xattrs = NAMES.map(|name| (name.as_bytes().into(), b"x"[..].into())).into();
        let mtime = Stamp { seconds: 5, nanoseconds: 6 };
        from.put(name.as_bytes(), Inode { object, mode: 0o755, user: 1, group: 0, mtime, xattrs });
    }
    let keep = PreserveOptions { xattrs: true, ..PreserveOptions::default() };
    let mut again = || {
        let own = |user| WriterIdentity { user, ..WriterIdentity::default() };
        let sink = user.map_or_else(|| sink(false), |user| sink_for_user(false, keep, own(user)));
        let (mut source, mut sink) = (source(false, false), sink);
        run((&mut source, &mut sink), |operation| from.run(operation), |operation| to.run(operation));
        (sink.totals().moved, sink.totals().unchanged)
    };
    again();
    let (moved, unchanged) = again();
    let at = ["d", "f"].map(|name| FilePath::new(0, name.as_bytes())).into();
    let details = Details { xattrs: true, ..Details::default() };
    let Outcome::Stat(found) = to.run(Operation::Stat { at, details, links: Vec::new() }) else {
        panic!("expected a lookup")
    };
    let found = found.into_iter().map(|found| found.expect("a lookup").expect("an object").xattrs);
    let names =
        found.map(|all| all.iter().map(|(name, _)| String::from_utf8_lossy(name).into_owned()).collect());
    (names.collect(), moved, unchanged)
}

#[test]
fn xattrs_of_root_are_skipped_by_other_users() {
    let of = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(kept(Some(0)), (vec![of(&NAMES); 2], 0, 3));
    assert_eq!(kept(None), (vec![of(&[]); 2], 0, 3));
    assert_eq!(kept(Some(1_000)), (vec![of(&["user.x"]); 2], 0, 3));
}

/// Copies objects with these owners, groups and modes twice; returns their modes, and the number of
/// entries of the second run.
fn modes(objects: &[(u32, u32, u32, Object)], own: &WriterIdentity) -> (Vec<u32>, u64) {
    let (mut from, mut to) = (Disk::default(), Disk::default());
    let names: Vec<String> = (0..objects.len()).map(|index| index.to_string()).collect();
    for ((user, group, mode, object), name) in objects.iter().cloned().zip(&names) {
        let mtime = Stamp { seconds: 5, nanoseconds: 6 };
        from.put(name.as_bytes(), Inode { object, mode, user, group, mtime, xattrs: Vec::new() });
    }
    let keep = PreserveOptions {
        modes: true,
        users: own.user == 0,
        groups: true,
        xattrs: false,
        ..PreserveOptions::default()
    };
    let moved = [(); 2].map(|()| {
        let (mut source, mut sink) = (source(false, false), sink_for_user(false, keep, own.clone()));
        run((&mut source, &mut sink), |operation| from.run(operation), |operation| to.run(operation));
        sink.totals().moved
    });
    let at = names.iter().map(|name| FilePath::new(0, name.as_bytes())).collect();
    let Outcome::Stat(found) = to.run(Operation::Stat { at, details: Details::default(), links: Vec::new() })
    else {
        panic!("expected a lookup")
    };
    let found = found.into_iter().map(|found| found.expect("a lookup").expect("an object").metadata.mode);
    (found.collect(), moved[1])
}

#[test]
fn set_id_bits_are_preserved_only_for_the_writing_user_and_its_groups() {
    let file = Object::File(vec![1], BTreeSet::from([0]));
    let objects = [
        (1_000, 5, 0o6755, file.clone()),
        (0, 5, 0o6755, file.clone()),
        (1_000, 0, 0o6755, file.clone()),
        (0, 0, 0o7755, file),
        (0, 0, 0o2775, Object::Directory(BTreeMap::new())),
    ];
    let ada = WriterIdentity { user: 1_000, groups: vec![5], for_others: false };
    let kept = vec![0o6755, 0o2755, 0o4755, 0o1755, 0o2775];
    assert_eq!(modes(&objects, &ada), (kept, 0), "a second run changes nothing");
    let all = objects.iter().map(|(_, _, mode, _)| *mode).collect();
    assert_eq!(modes(&objects, &WriterIdentity::default()), (all, 0));
    // A daemon that writes for others, and directories that have such bits already.
    let daemon = WriterIdentity { for_others: true, ..ada };
    assert_eq!(modes(&objects, &daemon), (vec![0o755, 0o755, 0o755, 0o1755, 0o775], 0));
}
