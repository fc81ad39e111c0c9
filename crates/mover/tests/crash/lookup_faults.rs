//! Lookups and listings that fail: an error that proves nothing must not count as an absent object.

use crate::trees;
use crate::world::{LookupCall, LookupFault, Options, World};
use numaio_mover::port::FaultKind;
use numaio_mover::simulator::{Chance, Disk, Kind, Object};
use numaio_mover::sink::{ProtectedPaths, RemovalLimits};
use numaio_mover::wire::Side;
use std::collections::BTreeMap;

/// All kinds of faults but [`FaultKind::NotFound`], which proves that the object is absent.
const DOUBTFUL: [FaultKind; 15] = [
    FaultKind::Other,
    FaultKind::Permission,
    FaultKind::NoSpace,
    FaultKind::Quota,
    FaultKind::ReadOnly,
    FaultKind::NameTooLong,
    FaultKind::Link,
    FaultKind::Exists,
    FaultKind::Changed,
    FaultKind::Mismatch,
    FaultKind::Unsupported,
    FaultKind::Attribute,
    FaultKind::NotKept,
    FaultKind::Device,
    FaultKind::Cancelled,
];

/// A directory of the sink that is the source directory of the user.
const GUEST: &[u8] = b"guest";

fn put(disk: &mut Disk, name: &str) {
    let mut chance = Chance::new(name.len() as u64);
    let object = match name.strip_suffix('/') {
        Some(_) => Object::Directory(BTreeMap::new()),
        None if name.ends_with("link") => Object::Special(Kind::Symlink(b"elsewhere".to_vec().into())),
        None => trees::file(&mut chance, 10 + name.len() as u64, false),
    };
    disk.put(name.trim_end_matches('/').as_bytes(), trees::inode(&mut chance, object));
}

/// Returns a source, and a sink with a copy of it and other entries.
fn disks(many: usize) -> (Disk, Disk) {
    let mut source = Disk::default();
    for name in ["file", "link", "d/", "d/file", "d/e/", "d/e/file", "empty/"] {
        put(&mut source, name);
    }
    (0..many).for_each(|index| put(&mut source, &format!("d/{index}")));
    let mut world = World::new(source, Disk::default(), 1);
    assert!(world.run(&Options::plain(), None).done);
    for name in
        ["old", "d/old", "extra/", "extra/file", "extra/deep/", "extra/deep/file", "guest/", "guest/file"]
    {
        put(&mut world.sink, name);
    }
    (world.source, world.sink)
}

/// Runs a copy that deletes, with each call failing in turn by each kind of fault.
fn fail_each_call(
    (source, sink): &(Disk, Disk),
    side: Side,
    call: LookupCall,
    removal_limits: RemovalLimits,
) {
    let options = Options { delete: true, ..Options::plain() };
    let guest = sink.tree()[GUEST].0;
    for why in DOUBTFUL {
        for number in 0.. {
            let mut world = World::new(source.clone(), sink.clone(), number);
            world.lookup_fault = Some(LookupFault { side, call, number, why });
            world.protected = ProtectedPaths { sources: vec![(1, guest)], ..ProtectedPaths::default() };
            (world.removal_limits, world.in_order) = (removal_limits, true);
            let ended = world.run(&options, None);
            let case = format!("{side:?} {call:?} {number} {why:?} {removal_limits:?}");
            let left = world.sink.tree();
            for (name, (_, inode)) in source.tree().into_iter().skip(1) {
                let copy = left.get(&name).map(|(_, inode)| &inode.object);
                let is_kept = match &inode.object {
                    Object::Directory(_) => matches!(copy, Some(Object::Directory(_))),
                    object => copy == Some(object),
                };
                assert!(is_kept, "{case}: {} was removed", name.escape_ascii());
            }
            assert!(left.contains_key(&b"guest/file"[..]), "{case}: the source directory was removed");
            if world.lookups <= number {
                // No call failed.
                let extra = ["old", "d/old", "extra"].map(|name| left.contains_key(name.as_bytes()));
                assert_eq!(extra, [false; 3], "{case}");
                break;
            }
            assert!(side == Side::Sink || !ended.failures.is_empty(), "{case}: not reported");
        }
    }
}

fn fail_each_call_in_all_modes(disks: &(Disk, Disk), call: LookupCall) {
    for (only, ignore_errors) in [(false, false), (true, false), (false, true)] {
        let removal_limits = RemovalLimits { only, ignore_errors, ..RemovalLimits::default() };
        fail_each_call(disks, Side::Source, call, removal_limits);
        fail_each_call(disks, Side::Sink, call, removal_limits);
    }
}

#[test]
fn failed_lookups_remove_nothing_that_the_source_has() {
    fail_each_call_in_all_modes(&disks(0), LookupCall::Object);
}

#[test]
fn failed_listings_remove_nothing_that_the_source_has() {
    fail_each_call_in_all_modes(&disks(0), LookupCall::Listing);
}

/// The first part of a large directory is listed before another one fails.
#[test]
fn partially_failed_listings_remove_nothing_that_the_source_has() {
    let disks = disks(520);
    for side in [Side::Source, Side::Sink] {
        fail_each_call(&disks, side, LookupCall::Listing, RemovalLimits::default());
    }
}

/// A directory that vanished does not protect other extra entries.
#[test]
fn absent_directories_are_removed() {
    let (source, sink) = disks(0);
    let removed = (0..).map_while(|number| {
        let mut world = World::new(source.clone(), sink.clone(), number);
        let why = FaultKind::NotFound;
        world.lookup_fault = Some(LookupFault { side: Side::Source, call: LookupCall::Listing, number, why });
        let ended = world.run(&Options { delete: true, ..Options::plain() }, None);
        let is_reached = world.lookups > number;
        let is_reported = ended.failures.iter().any(|failure| failure.contains("reason: Changed"));
        assert_eq!(is_reported, is_reached, "{:?}", ended.failures);
        is_reached.then(|| !world.sink.tree().contains_key(&b"old"[..]))
    });
    let removed: Vec<bool> = removed.collect();
    assert!(removed.len() > 3 && removed.iter().all(|removed| *removed), "{removed:?}");
}
