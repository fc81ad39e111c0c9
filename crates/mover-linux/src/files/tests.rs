use super::path::Resolver;
use super::Roots;
use numaio_mover::conformance;
use numaio_mover::journal::Journal;
use numaio_mover::port::{
    Attributes, FaultKind, FileCompletion, FilePath, FileWrite, JournalState, NewObject, Object, OpenMode,
    Operation, Outcome, BLOCK,
};
use numaio_mover::sink::{journal_name, shard_journal_name, AbandonedShard};
use numaio_mover::wire::TransferId;
use rustix::fs::{FlockOperation, Mode, OFlags, XattrFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{chown, MetadataExt, PermissionsExt};
use std::path::Path;

#[test]
fn files_conform_to_the_port() {
    let folder = std::env::temp_dir().join(format!("numaio-files-{}", std::process::id()));
    fs::create_dir(&folder).expect("a folder");
    let roots = Roots::open(&[&folder]).expect("a root");
    conformance::files(conformance::Files {
        run: &mut |operation| roots.run(operation, || Some(vec![0; BLOCK])),
        buffer: &|bytes| bytes.to_vec(),
    });
    fs::remove_dir_all(&folder).expect("a folder of ours");
}

/// Creates an empty file and a pipe with a mode below a root, and returns their resulting modes.
fn new_ones(folder: &Path, mode: u32) -> [u32; 2] {
    let roots = Roots::open(&[folder]).expect("a root");
    let attributes = Attributes { mode: Some(mode), masked: true, ..Attributes::default() };
    let at = |name: &str| FilePath::new(0, name.as_bytes());
    let settle = FileCompletion { size: 0, attributes: attributes.clone(), name: at("file"), sync: false };
    let put = FileWrite {
        at: at("partial"),
        begin: OpenMode::Fresh,
        held: Vec::new(),
        check: Vec::new(),
        parts: Vec::new(),
        sparse: false,
        settle: Some(settle),
    };
    let hash = |_: &[u8]| panic!("nothing is hashed");
    let write = Operation::Write { puts: vec![put], data: None, hash, packed: None };
    let make = Operation::Create(vec![NewObject { at: at("pipe"), object: Object::Fifo, attributes }]);
    for operation in [write, make] {
        let Outcome::Results(done) = roots.run(operation, || Some(vec![0; BLOCK])) else {
            panic!("results of each")
        };
        done.into_iter().for_each(|done| done.expect("done"));
    }
    ["file", "pipe"].map(|name| fs::metadata(folder.join(name)).expect("an entry").mode() & 0o7777)
}

#[test]
fn default_acl_or_umask_limits_new_modes() {
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
    let no_id = u32::MAX;
    let shared = [entry(1, 7, no_id), entry(4, 7, no_id), entry(0x20, 0, no_id)];
    let masked = [
        entry(1, 7, no_id),
        entry(2, 7, 12_345),
        entry(4, 7, no_id),
        entry(0x10, 5, no_id),
        entry(0x20, 4, no_id),
    ];
    match set("shared", &shared).and_then(|()| set("masked", &masked)) {
        Ok(()) => {
            assert_eq!(new_ones(&folder.join("shared"), 0o667), [0o660; 2]);
            assert_eq!(new_ones(&folder.join("masked"), 0o677), [0o654; 2]);
        }
        Err(Errno::NOTSUP) => {
            crate::test_support::print_skipped("skipped: ACLs: not supported by the file system")
        }
        Err(errno) => panic!("{errno}"),
    }
    fs::remove_dir_all(&folder).expect("removed");
}

/// Sets extended attributes of a file, and returns the resulting ones and the fault.
fn set_xattrs(folder: &Path, names: &[&str]) -> (Vec<String>, Option<FaultKind>) {
    let roots = Roots::open(&[folder]).expect("a root");
    let xattrs = names.iter().map(|name| (name.as_bytes().into(), (*b"x").into())).collect();
    let attributes = Attributes { xattrs: Some(xattrs), ..Attributes::default() };
    let set_attributes = Operation::SetAttributes(vec![(FilePath::new(0, *b"file"), attributes)]);
    let Outcome::Results(done) = roots.run(set_attributes, || Some(vec![0; BLOCK])) else {
        panic!("results of each")
    };
    let mut names = [0; 4096];
    let length = rustix::fs::listxattr(folder.join("file"), &mut names).expect("names");
    let text = String::from_utf8_lossy(&names[..length]).into_owned();
    let there = text.split_terminator('\0').filter(|name| *name != "security.selinux").map(str::to_owned);
    (there.collect(), done.into_iter().find_map(|done| done.err().map(|fault| fault.why)))
}

#[test]
fn unpreserved_xattrs_are_never_set() {
    let folder = std::env::temp_dir().join(format!("numaio-xattrs-{}", std::process::id()));
    fs::create_dir(&folder).expect("a folder");
    fs::write(folder.join("file"), "").expect("a file");
    if rustix::fs::setxattr(folder.join("file"), "user.y", b"y", XattrFlags::empty()) == Err(Errno::NOTSUP) {
        crate::test_support::print_skipped("skipped: extended attributes: not supported by the file system");
    } else {
        let own = vec!["user.y".to_owned()];
        for name in ["system.nfs4_acl", "trusted.SGI_ACL_FILE", "other.x"] {
            let set = set_xattrs(&folder, &["user.x", name]);
            assert_eq!(set, (own.clone(), Some(FaultKind::Attribute)), "{name}");
        }
        assert_eq!(set_xattrs(&folder, &["user.x"]), (vec!["user.x".to_owned()], None));
        // The kernel, its security module or the lack of privileges may refuse a label.
        let (there, fault) = set_xattrs(&folder, &["user.x", "security.numaio"]);
        match fault {
            None => assert_eq!(there, ["user.x", "security.numaio"]),
            Some(why) => assert_eq!((why, there), (FaultKind::NotKept, vec!["user.x".to_owned()])),
        }
        let after = set_xattrs(&folder, &["user.z"]).0;
        assert_eq!(after.contains(&"security.numaio".to_owned()), fault.is_none(), "labels are not removed");
    }
    fs::remove_dir_all(&folder).expect("removed");
}

/// A file server holds a lease on files of its clients and releases it on request (fcntl(2),
/// `F_SETLEASE`).
#[test]
fn open_waits_for_a_lease() {
    // include/uapi/asm-generic/fcntl.h
    const F_SETSIG: libc::c_int = 10;
    let folder = std::env::temp_dir().join(format!("numaio-lease-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("file"), "content").expect("a file");
    let held = fs::File::options().read(true).write(true).open(folder.join("file")).expect("a file");
    let lease = |kind: libc::c_int| {
        // SAFETY: these calls take numbers only; SIGCHLD has no effect unless waited for.
        unsafe {
            libc::fcntl(held.as_raw_fd(), F_SETSIG, libc::SIGCHLD);
            libc::fcntl(held.as_raw_fd(), libc::F_SETLEASE, kind)
        }
    };
    if lease(libc::F_WRLCK) != 0 {
        fs::remove_dir_all(&folder).expect("removed");
        return crate::test_support::print_skipped("skipped: leases: not supported by the file system");
    }
    let roots = Roots::open(&[&folder]).expect("a root");
    let at = FilePath::new(0, *b"file");
    let opened = std::thread::scope(|scope| {
        let opening = scope.spawn(|| {
            let mut resolver = Resolver::new(&roots.roots, false);
            let place = resolver.resolve(&at).expect("a place");
            place.open(OFlags::RDONLY, Mode::empty())
        });
        // By then the open has requested the lease; otherwise it need not wait and the test checks
        // nothing.
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert_eq!(lease(libc::F_UNLCK), 0);
        opening.join().expect("it ended")
    });
    fs::remove_dir_all(&folder).expect("removed");
    opened.expect("open");
}

/// Only root may set attributes of read-only files (xattr(7)).
#[test]
fn xattrs_of_read_only_files_are_set_without_root() {
    const OTHER_USER: u32 = 65_534;
    let folder = std::env::temp_dir().join(format!("numaio-read-only-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("file");
    fs::write(&file, "content").expect("a file");
    let is_set = rustix::fs::setxattr(&file, "user.k", b"old", XattrFlags::empty()).is_ok();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).expect("a mode");
    let is_given =
        [&folder, &file].iter().all(|path| chown(path, Some(OTHER_USER), Some(OTHER_USER)).is_ok());
    if !is_set || !is_given {
        fs::remove_dir_all(&folder).expect("removed");
        return crate::test_support::print_skipped(
            "skipped: extended attributes of another user: needs root and a file system with extended attributes",
        );
    }
    let set_attributes = || {
        // SAFETY: a system call that takes numbers; only this thread, which exits afterwards,
        // changes its user.
        assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, OTHER_USER, OTHER_USER, OTHER_USER) }, 0);
        let roots = Roots::open(&[&folder]).expect("a root");
        let xattrs = Some(vec![(b"user.k".as_slice().into(), b"new".as_slice().into())]);
        let attributes = Attributes { mode: Some(0o444), xattrs, ..Attributes::default() };
        let set_attributes = Operation::SetAttributes(vec![(FilePath::new(0, *b"file"), attributes)]);
        let Outcome::Results(done) = roots.run(set_attributes, || Some(vec![0; BLOCK])) else {
            panic!("results of each")
        };
        done.into_iter().for_each(|done| done.expect("done"));
    };
    std::thread::scope(|scope| scope.spawn(set_attributes).join().expect("it is set"));
    let mut value = [0; 8];
    let length = rustix::fs::getxattr(&file, "user.k", &mut value).expect("an attribute");
    let mode = fs::metadata(&file).expect("a file").mode() & 0o7777;
    fs::remove_dir_all(&folder).expect("removed");
    assert_eq!((&value[..length], mode), (&b"new"[..], 0o444));
}

/// A set-group-id program runs with its group, which must be the intended one.
#[test]
fn set_group_id_is_dropped_if_the_group_cannot_be_set() {
    // SAFETY: a system call without arguments.
    let (other_user, own) = (65_534, unsafe { libc::getegid() });
    let folder = std::env::temp_dir().join(format!("numaio-group-{}", std::process::id()));
    fs::create_dir_all(folder.join("folder")).expect("folders");
    fs::write(folder.join("file"), "").expect("a file");
    fs::write(folder.join("own"), "").expect("a file");
    let names = ["folder", "file", "own"];
    let given = |name: &&str| chown(folder.join(name), Some(other_user), Some(own)).is_ok();
    if own == 4_000_005 || !names.iter().all(given) {
        fs::remove_dir_all(&folder).expect("removed");
        return crate::test_support::print_skipped("skipped: files of another user: needs root");
    }
    let set_attributes = || {
        // SAFETY: a system call that takes numbers; only this thread, which exits afterwards,
        // changes its user.
        assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, other_user, other_user, other_user) }, 0);
        let roots = Roots::open(&[&folder]).expect("a root");
        let set_xattrs = names.map(|name| {
            let group = Some(if name == "own" { own } else { 4_000_005 });
            let attributes = Attributes { mode: Some(0o6755), group, ..Attributes::default() };
            (FilePath::new(0, name.as_bytes()), attributes)
        });
        let Outcome::Results(done) =
            roots.run(Operation::SetAttributes(set_xattrs.into()), || Some(vec![0; BLOCK]))
        else {
            panic!("results of each")
        };
        done.into_iter().for_each(|done| done.expect("a group that cannot be set is ignored"));
    };
    std::thread::scope(|scope| scope.spawn(set_attributes).join().expect("they are set"));
    let modes = names.map(|name| fs::metadata(folder.join(name)).expect("a mode").mode() & 0o7777);
    fs::remove_dir_all(&folder).expect("removed");
    assert_eq!(modes, [0o6755, 0o4755, 0o6755]);
}

/// A transfer waits for a journal in use, but another user may never release it.
#[test]
fn another_users_journal_is_not_a_journal_in_use() {
    let folder = std::env::temp_dir().join(format!("numaio-journal-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let open = |name: &str| {
        let roots = Roots::open(&[&folder]).expect("a root");
        let journal = FilePath::new(0, name.as_bytes());
        match roots.run(Operation::OpenJournal { journal, most: 100 }, || Some(vec![0; BLOCK])) {
            Outcome::OpenedJournal(opened) => opened.map(|opened| opened.state).map_err(|fault| fault.why),
            other => panic!("{other:?}"),
        }
    };
    let ours = fs::File::create(folder.join("ours")).expect("a file");
    assert_eq!(open("ours"), Ok(JournalState::Content(Vec::new())));
    rustix::fs::flock(&ours, FlockOperation::LockExclusive).expect("unlocked");
    assert_eq!(open("ours"), Ok(JournalState::Locked));
    assert_eq!(open("absent"), Ok(JournalState::Absent));
    std::os::unix::net::UnixListener::bind(folder.join("socket")).expect("a socket");
    assert!(open("socket").is_err());
    rustix::fs::mkfifoat(rustix::fs::CWD, folder.join("pipe"), Mode::RUSR | Mode::WUSR).expect("a pipe");
    assert_eq!(open("pipe"), Err(FaultKind::Exists));
    fs::write(folder.join("theirs"), "").expect("a file");
    match chown(folder.join("theirs"), Some(65_534), None) {
        Ok(()) => assert_eq!(open("theirs"), Err(FaultKind::Exists)),
        Err(_) => crate::test_support::print_skipped("skipped: journal of another user: needs root"),
    }
    fs::remove_dir_all(&folder).expect("removed");
}

/// Each shard resumes its own files: while one runs, others must not rename its journal.
#[test]
fn shards_leave_the_journals_of_other_shards() {
    let folder = std::env::temp_dir().join(format!("numaio-shards-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let journal = |number| shard_journal_name([&b"src"[..]], number);
    let path = |number| folder.join(OsStr::from_bytes(&journal(number)));
    let open = |name: Vec<u8>| {
        let roots = Roots::open(&[&folder]).expect("a root");
        let operation = Operation::OpenJournal { journal: FilePath::new(0, name), most: 100 };
        match roots.run(operation, || Some(vec![0; BLOCK])) {
            Outcome::OpenedJournal(opened) => opened.expect("a journal").state,
            other => panic!("{other:?}"),
        }
    };
    let id = TransferId([3; 16]);
    fs::write(path(1), Journal::new(id).take_pending()).expect("a file");
    fs::write(path(2), "damaged").expect("a file");
    let running = fs::File::create(path(4)).expect("a file");
    rustix::fs::flock(&running, FlockOperation::LockExclusive).expect("unlocked");
    let roots = Roots::open(&[&folder]).expect("a root");
    let found = roots.other_shards(&journal(1)).expect("shards");
    let abandoned = |number, transfer| AbandonedShard { journal: journal(number).into(), transfer };
    assert_eq!(found.running, [4]);
    assert!(found.abandoned.contains(&abandoned(1, Some(id))), "{found:?}");
    assert!(found.abandoned.contains(&abandoned(2, None)) && found.abandoned.len() == 2, "{found:?}");
    assert_eq!(
        roots.other_shards(&shard_journal_name([&b"other"[..]], 1)).expect("shards"),
        Default::default()
    );
    assert_eq!(open(journal(3)), JournalState::Absent);
    assert!(path(1).exists() && path(2).exists(), "another shard has taken a journal");
    assert!(matches!(open(journal_name([&b"src"[..]])), JournalState::Content(_)));
    assert!(!path(1).exists() && path(2).exists(), "a run of all files continues the first one");
    fs::remove_dir_all(&folder).expect("removed");
}
