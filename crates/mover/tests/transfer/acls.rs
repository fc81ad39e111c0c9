//! ACLs with named users and groups, between machines with different account IDs.

use crate::sides::{sink_options, source_options};
use numaio_mover::accounts::{Account, AccountLookup};
use numaio_mover::drive::TransferCore;
use numaio_mover::port::{Details, Event, FilePath, Operation, Outcome, Packet, Stamp};
use numaio_mover::report::{Report, TransferOutcome};
use numaio_mover::simulator::{run, run_operations, Disk, Inode, Object, PRESERVE_ALL};
use numaio_mover::sink::{Sink, SinkOptions};
use numaio_mover::source::{Source, SourceOptions};
use std::collections::{BTreeMap, BTreeSet};

const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";

/// At the source, ada is user 7, bob is user 8, and staff is group 7.
const SOURCE_ACCOUNTS: AccountLookup = AccountLookup {
    name: |account, id| match (account, id) {
        (Account::User, 7) => Some(b"ada".to_vec()),
        (Account::User, 8) => Some(b"bob".to_vec()),
        (Account::Group, 7) => Some(b"staff".to_vec()),
        _ => None,
    },
    id: |_, _| None,
};
/// At the sink, bob has the ID that ada has at the source, and ada has another one.
const SINK_ACCOUNTS: AccountLookup = AccountLookup {
    name: |_, _| None,
    id: |account, name| match (account, name) {
        (Account::User, b"ada") => Some(1_000),
        (Account::User, b"bob") => Some(7),
        (Account::Group, b"staff") => Some(50),
        _ => None,
    },
};

fn acl(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let entry = |(tag, permissions, id): &(u16, u16, u32)| {
        [&tag.to_le_bytes()[..], &permissions.to_le_bytes(), &id.to_le_bytes()].concat()
    };
    [vec![2, 0, 0, 0], entries.iter().flat_map(entry).collect()].concat()
}

fn acl_with_ids([ada, bob, staff]: [u32; 3]) -> Vec<u8> {
    let no_id = u32::MAX;
    let mut users = [(2, 7, ada), (2, 4, bob)];
    users.sort_by_key(|user| user.2);
    let others = [(4, 5, no_id), (8, 6, staff), (16, 7, no_id), (32, 0, no_id)];
    acl(&[&[(1, 7, no_id)], &users[..], &others].concat())
}

/// Attribute names and values of several objects.
type AttributeLists = Vec<Vec<(String, Vec<u8>)>>;

/// A directory with both ACLs, a file with one, and a file with a wire-only attribute.
fn tree() -> Disk {
    let mut disk = Disk::default();
    let value = acl_with_ids([7, 8, 7]);
    let attribute = |name: &str, value: &[u8]| (name.as_bytes().into(), value.into());
    let object = |object, xattrs| Inode {
        object,
        mode: 0o755,
        user: 7,
        group: 7,
        mtime: Stamp { seconds: 5, nanoseconds: 6 },
        xattrs,
    };
    let file = || Object::File(vec![1], BTreeSet::from([0]));
    let both = vec![attribute(ACCESS, &value), attribute(DEFAULT, &value)];
    disk.put(b"d", object(Object::Directory(BTreeMap::new()), both));
    disk.put(b"d/f", object(file(), vec![attribute(ACCESS, &value), attribute("user.x", b"x")]));
    disk.put(b"own", object(file(), vec![attribute("numaio.posix_acl_access", &value)]));
    disk
}

/// Returns the extended attributes of the objects in the tree.
fn attributes(disk: &mut Disk) -> AttributeLists {
    let at = ["d", "d/f", "own"].map(|name| FilePath::new(0, name.as_bytes())).into();
    let details = Details { xattrs: true, ..Details::default() };
    let Outcome::Stat(found) = disk.run(Operation::Stat { at, details, links: Vec::new() }) else {
        panic!("expected a lookup")
    };
    let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    let found = found.into_iter().map(|found| found.expect("a lookup").expect("an object").xattrs);
    found.map(|all| all.iter().map(|(name, value)| (text(name), value.to_vec())).collect()).collect()
}

fn expected_attributes(value: &[u8]) -> AttributeLists {
    let attribute = |name: &str, value: &[u8]| (name.to_owned(), value.to_vec());
    vec![
        vec![attribute(ACCESS, value), attribute(DEFAULT, value)],
        vec![attribute(ACCESS, value), attribute("user.x", b"x")],
        Vec::new(),
    ]
}

fn source(accounts: Option<AccountLookup>, acls: bool, eager: bool) -> Source<Vec<u8>> {
    Source::new(SourceOptions { accounts, acls, ..source_options(false, eager) }).expect("a policy")
}

fn sink(accounts: Option<AccountLookup>, acls: bool, eager: bool) -> Sink<Vec<u8>> {
    Sink::new(SinkOptions { preserve: PRESERVE_ALL, accounts, acls, ..sink_options(eager) })
}

/// Copies twice; returns the attributes after the first run and the number of entries of the
/// second.
fn copy_twice(accounts: [Option<AccountLookup>; 2], acls: bool, eager: bool) -> (AttributeLists, u64) {
    let (mut from, mut to) = (tree(), Disk::default());
    let mut again = |eager| {
        let (mut source, mut sink) = (source(accounts[0], acls, eager), sink(accounts[1], acls, eager));
        run((&mut source, &mut sink), |operation| from.run(operation), |operation| to.run(operation));
        assert_eq!(
            (source.outcome(), sink.outcome()),
            (Some(&TransferOutcome::Done), Some(&TransferOutcome::Done))
        );
        sink.totals().moved
    };
    assert_eq!(again(eager), 3);
    let second = again(false);
    (attributes(&mut to), second)
}

#[test]
fn maps_acl_entries_by_name() {
    for eager in [false, true] {
        let by_name = copy_twice([Some(SOURCE_ACCOUNTS), Some(SINK_ACCOUNTS)], true, eager);
        assert_eq!(by_name, (expected_attributes(&acl_with_ids([1_000, 7, 50])), 0));
    }
}

#[test]
fn keeps_numeric_ids_if_names_are_not_supported_or_disabled() {
    let numbers = expected_attributes(&acl_with_ids([7, 8, 7]));
    assert_eq!(copy_twice([Some(SOURCE_ACCOUNTS), Some(SINK_ACCOUNTS)], false, false), (numbers.clone(), 0));
    assert_eq!(copy_twice([None, None], true, false), (numbers, 0));
}

fn directory_exists(disk: &mut Disk) -> bool {
    let at = vec![FilePath::new(0, *b"d")];
    let Outcome::Stat(found) =
        disk.run(Operation::Stat { at, details: Details::default(), links: Vec::new() })
    else {
        panic!("expected a lookup")
    };
    matches!(found[..], [Ok(Some(_))])
}

/// Returns the packets that a source sends until it waits for answers.
fn sent(source: &mut Source<Vec<u8>>) -> Vec<Packet<Vec<u8>>> {
    let mut from = tree();
    run_operations(source, |operation| from.run(operation))
}

#[test]
fn rejects_unsupported_and_malformed_acls_with_names() {
    let is_rejected = |packets: Vec<Packet<Vec<u8>>>, acls| {
        let (mut sink, mut to) = (sink(Some(SINK_ACCOUNTS), acls, false), Disk::default());
        packets.into_iter().for_each(|packet| sink.handle(Event::Received(packet)));
        run_operations(&mut sink, |operation| to.run(operation));
        let reports = sink.reports();
        let text = reports.iter().map(|report| format!("{report:?}")).collect::<String>();
        (
            sink.outcome() == Some(&TransferOutcome::Failed),
            text.contains("Protocol"),
            directory_exists(&mut to),
        )
    };
    let named = || sent(&mut source(Some(SOURCE_ACCOUNTS), true, false));
    assert_eq!(is_rejected(named(), true), (false, false, true));
    assert_eq!(is_rejected(named(), false), (true, true, false));
    // Corrupts the first name in the ACL; the names of the owners precede it.
    let broken = named().into_iter().map(|mut packet| {
        let find = |from: usize, what: &[u8]| {
            let at = packet.frames[from..].windows(what.len()).position(|part| part == what)?;
            Some(from + at)
        };
        if let Some(at) = find(0, b"numaio.posix_acl_access").and_then(|acl| find(acl, b"\x03ada")) {
            packet.frames[at + 2] = 0;
        }
        packet
    });
    assert_eq!(is_rejected(broken.collect(), true), (true, true, false));
}

#[test]
fn acl_that_is_too_long_with_names_is_reported_and_not_copied_with_ids() {
    let mut from = Disk::default();
    let value = acl(&vec![(2, 7, 7); 8_000]);
    let xattrs = vec![(ACCESS.as_bytes().into(), value.into())];
    let object = Object::File(vec![1], BTreeSet::from([0]));
    from.put(b"f", Inode { object, mode: 0o755, user: 7, group: 7, mtime: Stamp::default(), xattrs });
    let mut to = Disk::default();
    let (mut source, mut sink) =
        (source(Some(SOURCE_ACCOUNTS), true, false), sink(Some(SINK_ACCOUNTS), true, false));
    run((&mut source, &mut sink), |operation| from.run(operation), |operation| to.run(operation));
    let is_reported = |report: &Report| format!("{report:?}").contains("bytes, 65536 at most");
    assert!(sink.reports().iter().any(is_reported) && sink.totals().failed == 1);
}
