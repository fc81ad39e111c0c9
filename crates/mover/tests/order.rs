//! In which order files are read.

mod sides;

use numaio_machine::port::{Details, Operation, Outcome, Stamp};
use numaio_sim::mover::{Disk, Inode, Object};
use sides::{run, sink, source};
use std::collections::BTreeSet;

/// Copies a hundred files; gives inode and address of each in the order in which they were read.
fn order(by_address: bool) -> Vec<(u64, u64)> {
    let (mut source, mut sink, mut from, mut to) =
        (source(by_address), sink(), Disk::default(), Disk::default());
    for number in 0..100 {
        let content = vec![number; 300];
        let object = Object::File(content, BTreeSet::from([0]));
        let mtime = Stamp { seconds: 5, nanoseconds: 6 };
        let inode = Inode { object, mode: 0o640, user: 1, group: 2, mtime, xattrs: Vec::new() };
        from.put(format!("{number}").as_bytes(), inode);
    }
    let mut read = Vec::new();
    let at_source = |operation| {
        if let Operation::Read { pieces, .. } = &operation {
            read.extend(pieces.iter().map(|piece| piece.at.clone()));
        }
        from.run(operation)
    };
    run((&mut source, &mut sink), at_source, |operation| to.run(operation));
    let details = Details { address: true, ..Details::default() };
    let Outcome::Looked(found) = from.run(Operation::Look { at: read, details }) else { panic!("a look") };
    let found = found.into_iter().map(|found| found.expect("a file").expect("a file"));
    found.map(|found| (found.seen.inode, found.address.expect("an address"))).collect()
}

#[test]
fn files_are_read_as_they_lie_on_a_disk_with_a_head_and_by_inode_elsewhere() {
    let on_disk = order(true);
    assert_eq!(on_disk.len(), 100);
    assert!(on_disk.is_sorted_by_key(|(_, address)| *address), "{on_disk:?}");
    assert!(!on_disk.is_sorted(), "the addresses of this test are those of inodes");
    let elsewhere = order(false);
    assert!(elsewhere.len() == 100 && elsewhere.is_sorted(), "{elsewhere:?}");
}
