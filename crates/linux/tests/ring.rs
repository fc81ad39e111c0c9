//! Blocks of large files go through rings of a port's threads, and are the same without them.

use numaio_linux::files::Roots;
use numaio_linux::port::{has_rings, Crew, FilePort, Pool, Setting, Slab};
use numaio_machine::port::{
    Begin, Details, Digest, Event, FilePath, Identity, Operation, Outcome, Part, Port, Put, ReadPiece, BLOCK,
};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// From here on files are written past the page cache.
const PAST_FROM: u64 = 256 << 20;
const BLOCKS: u64 = 40;

/// Tests look at the descriptors of this process, and so run one after the other.
static ALONE: Mutex<()> = Mutex::new(());

/// A folder on the file system of the sources.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let here = std::env::current_dir().expect("a directory");
        let folder = here.join(format!("{name}-{}.tmp", std::process::id()));
        fs::create_dir(&folder).expect("a folder");
        Self(folder)
    }

    /// Whether its file system has files past the page cache.
    fn has_direct(&self) -> bool {
        let mut options = OpenOptions::new();
        options.write(true).create(true).custom_flags(libc::O_DIRECT);
        let opened = options.open(self.0.join("probe")).is_ok();
        drop(fs::remove_file(self.0.join("probe")));
        opened
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).expect("removed");
    }
}

fn setting(folder: &Path, threads: usize, rings: bool) -> (Setting, Arc<Pool>) {
    let pool = Pool::new(BLOCKS as usize);
    let setting = Setting {
        roots: Roots::open(&[folder]).expect("a root"),
        crews: vec![Crew { threads, cpus: None, pool: pool.clone() }],
        most_threads: threads,
        rings,
        pool: pool.clone(),
        share: |_, _| None,
        sparing: false,
        network: Vec::new(),
    };
    (setting, pool)
}

fn file() -> FilePath {
    FilePath::new(0, &b"file"[..])
}

fn digest(bytes: &[u8]) -> Digest {
    let mut digest = Digest::default();
    bytes.chunks(4096).zip(1u32..).for_each(|(page, number)| {
        digest.0[0] ^= page[0].wrapping_add(number as u8);
        digest.0[1] ^= page[page.len() - 1].wrapping_mul(number as u8 | 1);
    });
    digest
}

fn content(number: u64) -> u8 {
    number as u8 * 3 + 1
}

fn write(pool: &Arc<Pool>, number: u64) -> Operation<Slab> {
    let mut data = pool.take();
    data.as_mut().fill(content(number));
    let part = Part { bytes: 0..BLOCK, offset: PAST_FROM + number * BLOCK as u64 };
    let check = vec![(0..BLOCK, digest(data.as_ref()))];
    let put = Put { at: file(), begin: Begin::Further, check, parts: vec![part], settle: None };
    Operation::Write { puts: vec![put], data: Some(data), hash: digest, packed: None }
}

fn read(identity: Identity, number: u64) -> Operation<Slab> {
    let offset = PAST_FROM + number * BLOCK as u64;
    let piece = ReadPiece { at: file(), identity, offset, length: BLOCK };
    Operation::Read { pieces: vec![piece], hash: digest, pack: None }
}

/// All that was submitted, by its ticket.
fn outcomes(port: &mut FilePort, count: u64) -> Vec<Outcome<Slab>> {
    let mut events = Vec::new();
    while events.len() < count as usize {
        port.wait(Duration::from_millis(100), &mut events);
    }
    let mut done: Vec<(u64, Outcome<Slab>)> = events
        .into_iter()
        .map(|event| match event {
            Event::Done(ticket, outcome) => (ticket, outcome),
            other => panic!("{other:?}"),
        })
        .collect();
    done.sort_by_key(|(ticket, _)| *ticket);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}

fn identity(port: &mut FilePort) -> Identity {
    port.submit(0, Operation::Look { at: vec![file()], details: Details::default() });
    match outcomes(port, 1).remove(0) {
        Outcome::Looked(mut found) => found.remove(0).expect("looked at").expect("a file").seen.identity(),
        other => panic!("{other:?}"),
    }
}

/// Rings that this process has open (proc_pid_fd(5)).
fn rings_open() -> usize {
    let links = fs::read_dir("/proc/self/fd").expect("descriptors").flatten();
    links
        .filter(|link| fs::read_link(link.path()).is_ok_and(|to| to.ends_with("anon_inode:[io_uring]")))
        .count()
}

/// Writes and reads blocks of a large file.
fn moves(threads: usize, with_rings: bool) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Folder::new(&format!("ring-{threads}-{with_rings}"));
    fs::write(folder.0.join("file"), "").expect("a file");
    let (one, pool) = setting(&folder.0, threads, with_rings);
    let (mut port, other) = FilePort::pair(one, setting(&folder.0, 1, false).0).expect("ports");
    (0..BLOCKS).for_each(|number| port.submit(number, write(&pool, number)));
    for outcome in outcomes(&mut port, BLOCKS) {
        assert!(matches!(&outcome, Outcome::Each(results) if results[..] == [Ok(())]), "{outcome:?}");
    }
    let written = OpenOptions::new().read(true).write(true).open(folder.0.join("file")).expect("the file");
    written.sync_all().expect("durable");
    rustix::fs::fadvise(&written, 0, None, rustix::fs::Advice::DontNeed).expect("forgotten");
    let identity = identity(&mut port);
    (0..BLOCKS).for_each(|number| port.submit(number, read(identity, number)));
    for (number, outcome) in outcomes(&mut port, BLOCKS).into_iter().enumerate() {
        let Outcome::Read { results, data, .. } = outcome else { panic!("{outcome:?}") };
        assert_eq!(results, [Ok(digest(data.as_ref()))], "block {number}");
        assert!(data.as_ref().iter().all(|byte| *byte == content(number as u64)), "block {number}");
    }
    let is_used = with_rings && folder.has_direct() && has_rings();
    assert_eq!(rings_open() > 0, is_used, "of {threads} threads");
    drop((port, other));
    assert_eq!(rings_open(), 0);
}

#[test]
fn blocks_are_the_same_with_rings_and_without() {
    moves(1, true);
    moves(3, true);
    moves(3, false);
}

#[test]
fn a_port_that_is_closed_waits_for_what_is_on_its_way() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Folder::new("ring-closed");
    fs::write(folder.0.join("file"), "").expect("a file");
    let (one, pool) = setting(&folder.0, 2, true);
    let (mut port, other) = FilePort::pair(one, setting(&folder.0, 1, false).0).expect("ports");
    (0..BLOCKS).for_each(|number| port.submit(number, write(&pool, number)));
    drop((port, other));
    assert_eq!(rings_open(), 0);
    // All buffers are given back: none is the kernel's any more.
    let back: Vec<Slab> = (0..BLOCKS).map(|_| pool.take()).collect();
    assert_eq!(back.len(), BLOCKS as usize);
}
