use super::Roots;
use numaio_machine::conformance;
use numaio_machine::port::{
    Attributes, Begin, FilePath, Making, Object, Operation, Outcome, Put, Settle, BLOCK,
};
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

#[test]
fn this_kernel_does_to_files_what_a_port_does() {
    let folder = std::env::temp_dir().join(format!("numaio-files-{}", std::process::id()));
    fs::create_dir(&folder).expect("a folder");
    let roots = Roots::open(&[&folder]).expect("a root");
    conformance::files(conformance::Files {
        run: &mut |operation| roots.run(operation, || vec![0; BLOCK]),
        buffer: &|bytes| bytes.to_vec(),
    });
    fs::remove_dir_all(&folder).expect("a folder of ours");
}

/// An empty file and a pipe as new things with this mode, below a root of that name; what became of their modes.
fn new_ones(folder: &Path, mode: u32) -> [u32; 2] {
    let roots = Roots::open(&[folder]).expect("a root");
    let attributes = Attributes { mode: Some(mode), masked: true, ..Attributes::default() };
    let at = |name: &str| FilePath::new(0, name.as_bytes());
    let settle = Settle { size: 0, attributes: attributes.clone(), name: at("file"), sync: false };
    let put = Put {
        at: at("partial"),
        begin: Begin::Fresh,
        check: Vec::new(),
        parts: Vec::new(),
        sparse: false,
        settle: Some(settle),
    };
    let hash = |_: &[u8]| panic!("nothing is hashed");
    let write = Operation::Write { puts: vec![put], data: None, hash, packed: None };
    let make = Operation::Make(vec![Making { at: at("pipe"), object: Object::Fifo, attributes }]);
    for operation in [write, make] {
        let Outcome::Each(done) = roots.run(operation, || vec![0; BLOCK]) else { panic!("results of each") };
        done.into_iter().for_each(|done| done.expect("done"));
    }
    ["file", "pipe"].map(|name| fs::metadata(folder.join(name)).expect("it is there").mode() & 0o7777)
}

#[test]
fn new_things_get_what_a_default_acl_or_the_umask_leaves() {
    let folder = std::env::temp_dir().join(format!("numaio-masked-{}", std::process::id()));
    for name in ["plain", "shared", "masked"] {
        fs::create_dir_all(folder.join(name)).expect("a folder");
    }
    let umask = Roots::open(&[&folder]).expect("a root").umask;
    assert_eq!(new_ones(&folder.join("plain"), 0o677), [0o677 & !umask; 2]);
    let entry = |tag: u8, permissions: u8, id: u32| [[tag, 0, permissions, 0], id.to_le_bytes()].concat();
    let set = |name: &str, entries: &[Vec<u8>]| {
        let acl = [vec![2, 0, 0, 0], entries.concat()].concat();
        rustix::fs::setxattr(folder.join(name), "system.posix_acl_default", &acl, XattrFlags::empty())
    };
    let nobody = u32::MAX;
    let shared = [entry(1, 7, nobody), entry(4, 7, nobody), entry(0x20, 0, nobody)];
    let masked = [
        entry(1, 7, nobody),
        entry(2, 7, 12_345),
        entry(4, 7, nobody),
        entry(0x10, 5, nobody),
        entry(0x20, 4, nobody),
    ];
    match set("shared", &shared).and_then(|()| set("masked", &masked)) {
        Ok(()) => {
            assert_eq!(new_ones(&folder.join("shared"), 0o667), [0o660; 2]);
            assert_eq!(new_ones(&folder.join("masked"), 0o677), [0o654; 2]);
        }
        Err(Errno::NOTSUP) => crate::tests::tell("skipped: the file system has no ACLs"),
        Err(errno) => panic!("{errno}"),
    }
    fs::remove_dir_all(&folder).expect("removed");
}
