//! The expected state of the sink, computed independently of the mover.

use super::world::Options;
use numaio_mover::hash::HashKind;
use numaio_mover::port::Digest;
use numaio_mover::simulator::{Disk, Inode, Object};
use std::collections::BTreeMap;

type Tree = BTreeMap<Vec<u8>, (u64, Inode)>;

/// Returns whether a name is a journal or partial file.
fn is_mover_file(name: &[u8]) -> bool {
    name.rsplit(|&byte| byte == b'/').next().is_some_and(|last| last.starts_with(b".numaio-"))
}

fn escaped(name: &[u8]) -> String {
    name.escape_ascii().to_string()
}

/// Checks that the sink has the tree of the source with all attributes and, unless extra entries
/// are removed, its earlier contents, and nothing else.
pub fn same(
    source: &Disk,
    sink: &Disk,
    before: &Tree,
    options: &Options,
    parts_may_be_left: bool,
    seed: u64,
) {
    let (wanted, there) = (source.tree(), sink.tree());
    let mut numbers: BTreeMap<u64, u64> = BTreeMap::new();
    for (name, (number, inode)) in &wanted {
        let at = format!("seed {seed}: {:?}", escaped(name));
        let Some((sink_number, found)) = there.get(name) else { panic!("{at} is missing") };
        same_object(inode, found, (name.is_empty(), sink.refuses.xattrs), &at);
        let is_file = !matches!(inode.object, Object::Directory(_));
        let known = *numbers.entry(*number).or_insert(*sink_number);
        let is_linked = known == *sink_number || sink.refuses.links;
        assert!(!is_file || is_linked, "{at}: its hard links are different files");
    }
    let mut back: BTreeMap<u64, u64> = BTreeMap::new();
    for (number, sink_number) in &numbers {
        assert_eq!(
            *back.entry(*sink_number).or_insert(*number),
            *number,
            "seed {seed}: two files became one"
        );
    }
    for name in there.keys().filter(|name| !wanted.contains_key(*name)) {
        let at = format!("seed {seed}: {:?}", escaped(name));
        assert!(parts_may_be_left && is_mover_file(name) || !is_mover_file(name), "{at} is left over");
        assert!(is_mover_file(name) || !options.delete && before.contains_key(name), "{at} should not exist");
    }
    let kept = before.keys().filter(|name| !options.delete && !wanted.contains_key(*name));
    for name in kept {
        assert!(there.contains_key(name), "seed {seed}: {:?} was removed", escaped(name));
    }
}

/// Checks that the manifest, if requested, lists the regular files of the source as the sink has
/// them.
pub fn manifest_is_right(
    source: &Disk,
    sink: &Disk,
    options: &Options,
    manifest: &BTreeMap<Vec<u8>, Digest>,
    seed: u64,
) {
    let there = sink.tree();
    let held = |name: &Vec<u8>| match there.get(name).map(|(_, inode)| &inode.object) {
        Some(Object::File(content, _)) => Some(HashKind::Blake3.function()(content)),
        _ => None,
    };
    let names = source.tree().into_keys().filter(|_| options.manifest);
    let expected: BTreeMap<_, _> = names.filter_map(|name| Some((name.clone(), held(&name)?))).collect();
    assert_eq!(*manifest, expected, "seed {seed}");
}

fn same_object(wanted: &Inode, found: &Inode, (is_root, refuses_xattrs): (bool, bool), at: &str) {
    let attributes = |inode: &Inode| (inode.user, inode.group, inode.mtime);
    assert!(
        is_root || attributes(wanted) == attributes(found),
        "{at}: {:?} {:?}",
        attributes(wanted),
        attributes(found)
    );
    match (&wanted.object, &found.object) {
        (Object::File(content, pages), Object::File(other, others)) => {
            assert!(content == other, "{at}: the content differs");
            assert!(others.len() <= pages.len(), "{at}: holes were filled");
        }
        (Object::Directory(_), Object::Directory(_)) => {}
        (Object::Special(one), Object::Special(other)) => assert_eq!(one, other, "{at}"),
        (one, other) => panic!("{at}: {one:?} became {other:?}"),
    }
    let is_link = matches!(&wanted.object, Object::Special(numaio_mover::simulator::Kind::Symlink(_)));
    if !is_link {
        assert_eq!(wanted.mode, found.mode, "{at}");
        let has_same_xattrs = wanted.xattrs == found.xattrs || refuses_xattrs && !wanted.xattrs.is_empty();
        assert!(has_same_xattrs, "{at}: {:?} {:?}", wanted.xattrs, found.xattrs);
    }
}

/// Checks that each file with a final name is complete: from the source or from before.
pub fn finished_are_right(source: &Disk, sink: &Disk, before: &Tree, seed: u64) {
    let wanted = source.tree();
    for (name, (_, found)) in sink.tree().iter().filter(|(name, _)| !is_mover_file(name)) {
        let at = format!("seed {seed}: {:?}", escaped(name));
        let Object::File(content, _) = &found.object else { continue };
        let is = |tree: &Tree| match tree.get(name).map(|(_, inode)| &inode.object) {
            Some(Object::File(other, _)) => other == content,
            _ => false,
        };
        assert!(is(&wanted) || is(before), "{at} is neither the new nor the old file");
    }
}

/// Checks that all missing entries were reported as problems; returns their number.
pub fn missing_are_reported(source: &Disk, sink: &Disk, failures: &[String], seed: u64) -> usize {
    let there = sink.tree();
    let missing: Vec<Vec<u8>> = source.tree().into_keys().filter(|name| !there.contains_key(name)).collect();
    for name in &missing {
        let escaped =
            numaio_mover::name::Name::new(name.clone()).map(|name| format!("{name:?}")).unwrap_or_default();
        let reported = failures.iter().any(|failure| failure.contains(&escaped));
        assert!(reported, "seed {seed}: {escaped} is missing and not reported: {failures:?}");
    }
    missing.len()
}
