//! Growth of the number of threads that wait for storage.

use super::run_alone;
use numaio_mover::port::{Event, FilePath, FileWrite, Identity, OpenMode, Operation, Port, ReadPiece, Stamp};
use numaio_mover_linux::files::Roots;
use numaio_mover_linux::port::{FilePort, Pool, Setting, Slab};
use std::fs;
use std::path::Path;
use std::time::Duration;

const WRITES: u64 = 60;

fn setting(folder: &Path, most_threads: usize) -> Setting {
    let roots = Roots::open(&[folder]).expect("a root");
    Setting { most_threads, rings: true, may_pause: false, ..Setting::new(roots, 1, Pool::new(8)) }
}

/// Returns an operation that takes long without CPU time, like a call to remote storage.
fn slow(number: u64) -> Operation<Slab> {
    let put = FileWrite {
        at: FilePath::new(0, format!("file-{number}").as_bytes()),
        begin: OpenMode::Fresh,
        held: Vec::new(),
        check: vec![(0..0, Default::default())],
        parts: Vec::new(),
        sparse: false,
        settle: None,
    };
    let hash = |_: &[u8]| {
        std::thread::sleep(Duration::from_millis(100));
        Default::default()
    };
    Operation::Write { puts: vec![put], data: None, hash, packed: None }
}

/// Counts threads of ports in this process.
fn threads() -> usize {
    let tasks = fs::read_dir("/proc/self/task").expect("threads").flatten();
    let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).ok();
    tasks.filter_map(name).filter(|name| name.starts_with("files ")).count()
}

#[test]
fn threads_waiting_for_storage_multiply() {
    let _alone = run_alone();
    let folder = std::env::temp_dir().join(format!("numaio-growth-{}", std::process::id()));
    fs::create_dir(&folder).expect("a folder");
    let (mut port, other) = FilePort::pair(setting(&folder, 4), setting(&folder, 1)).expect("ports");
    (0..WRITES).for_each(|number| port.submit(number, slow(number)));
    let (mut events, mut most) = (Vec::new(), 0);
    while events.iter().filter(|event| matches!(event, Event::Done(..))).count() < WRITES as usize {
        port.wait(Duration::from_millis(100), &mut events);
        most = most.max(threads());
    }
    assert_eq!(most, 5, "four threads of the growing port and one of the other");
    drop((port, other));
    assert_eq!(fs::read_dir(&folder).expect("the folder").count(), WRITES as usize);
    fs::remove_dir_all(&folder).expect("a folder of ours");
}

/// As happens where the link is slower than the storage.
#[test]
fn threads_waiting_for_buffers_do_not_multiply() {
    let _alone = run_alone();
    let folder = std::env::temp_dir().join(format!("numaio-short-{}", std::process::id()));
    fs::create_dir(&folder).expect("a folder");
    let short = setting(&folder, 4);
    let pool = short.pool.clone();
    let held: Vec<Slab> = std::iter::from_fn(|| pool.take_free()).collect();
    let (mut port, other) = FilePort::pair(short, setting(&folder, 1)).expect("ports");
    for number in 0..WRITES {
        let identity = Identity { inode: 0, size: 0, mtime: Stamp::default() };
        let piece =
            ReadPiece { at: FilePath::new(0, *b"none"), identity, offset: 0, length: 0, as_it_is: false };
        port.submit(
            number,
            Operation::Read { pieces: vec![piece], hash: |_| Default::default(), pack: None },
        );
    }
    let mut events = Vec::new();
    (0..20).for_each(|_| port.wait(Duration::from_millis(100), &mut events));
    assert_eq!((threads(), events.len()), (2, 0), "one thread per port and no event");
    drop((held, port, other));
    fs::remove_dir_all(&folder).expect("a folder of ours");
}
