//! Blocks of large files with and without the rings of a port's threads.

use super::run_alone;
use crate::port_setup::{file, identity, outcomes, setting, Folder};
use numaio_mover::port::{
    Digest, FileWrite, Identity, OpenMode, Operation, Outcome, Part, Port, ReadPiece, BLOCK,
};
use numaio_mover_linux::port::{has_io_uring, FilePort, Pool, Slab};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;

/// Offset from which files may be written directly.
const PAST_FROM: u64 = 256 << 20;
const BLOCKS: usize = 40;

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
    let mut data = pool.take().expect("a buffer");
    data.as_mut().fill(content(number));
    let part = Part { bytes: 0..BLOCK, offset: PAST_FROM + number * BLOCK as u64 };
    let check = vec![(0..BLOCK, digest(data.as_ref()))];
    let put = FileWrite { check, parts: vec![part], ..FileWrite::new(file(), OpenMode::ContinueInPlace) };
    Operation::Write { puts: vec![put], data: Some(data), hash: digest, packed: None }
}

/// Creates the file.
fn begin(port: &mut FilePort) {
    let puts = vec![FileWrite::new(file(), OpenMode::InPlace)];
    port.submit(0, Operation::Write { puts, data: None, hash: digest, packed: None });
    let created = outcomes(port, 1).remove(0);
    assert!(matches!(&created, Outcome::Results(results) if results[..] == [Ok(())]), "{created:?}");
}

fn read(identity: Identity, number: u64) -> Operation<Slab> {
    let offset = PAST_FROM + number * BLOCK as u64;
    let piece = ReadPiece { at: file(), identity, offset, length: BLOCK, as_it_is: false };
    Operation::Read { pieces: vec![piece], hash: digest, pack: None }
}

/// Returns whether a directory's file system supports direct I/O.
fn has_direct(folder: &Folder) -> bool {
    let probe = folder.0.join("probe");
    let mut options = OpenOptions::new();
    options.write(true).create(true).custom_flags(libc::O_DIRECT);
    let opened = options.open(&probe).is_ok();
    drop(fs::remove_file(probe));
    opened
}

/// Counts the rings that this process has open (proc_pid_fd(5)).
fn rings_open() -> usize {
    let links = fs::read_dir("/proc/self/fd").expect("descriptors").flatten();
    links
        .filter(|link| fs::read_link(link.path()).is_ok_and(|to| to.ends_with("anon_inode:[io_uring]")))
        .count()
}

/// Writes and reads blocks of a large file.
fn moves(threads: usize, with_rings: bool) {
    let _alone = run_alone();
    let folder = Folder::new(&format!("ring-{threads}-{with_rings}"));
    fs::write(folder.0.join("file"), "").expect("a file");
    let one = setting(&folder.0, BLOCKS, threads, with_rings);
    let pool = one.pool.clone();
    let (mut port, other) = FilePort::pair(one, setting(&folder.0, BLOCKS, 1, false)).expect("ports");
    begin(&mut port);
    (0..BLOCKS as u64).for_each(|number| port.submit(number, write(&pool, number)));
    for outcome in outcomes(&mut port, BLOCKS) {
        assert!(matches!(&outcome, Outcome::Results(results) if results[..] == [Ok(())]), "{outcome:?}");
    }
    let written = OpenOptions::new().read(true).write(true).open(folder.0.join("file")).expect("the file");
    written.sync_all().expect("durable");
    rustix::fs::fadvise(&written, 0, None, rustix::fs::Advice::DontNeed).expect("forgotten");
    let identity = identity(&mut port);
    (0..BLOCKS as u64).for_each(|number| port.submit(number, read(identity, number)));
    for (number, outcome) in outcomes(&mut port, BLOCKS).into_iter().enumerate() {
        let Outcome::Read { results, data, .. } = outcome else { panic!("{outcome:?}") };
        assert_eq!(results, [Ok(digest(data.as_ref()))], "block {number}");
        assert!(data.as_ref().iter().all(|byte| *byte == content(number as u64)), "block {number}");
    }
    let is_used = with_rings && has_direct(&folder) && has_io_uring();
    assert_eq!(rings_open() > 0, is_used, "of {threads} threads");
    drop((port, other));
    assert_eq!(rings_open(), 0);
}

#[test]
fn blocks_round_trip_with_and_without_rings() {
    moves(1, true);
    moves(3, true);
    moves(3, false);
}

#[test]
fn closing_a_port_waits_for_blocks_in_flight() {
    let _alone = run_alone();
    let folder = Folder::new("ring-closed");
    fs::write(folder.0.join("file"), "").expect("a file");
    let one = setting(&folder.0, BLOCKS, 2, true);
    let pool = one.pool.clone();
    let (mut port, other) = FilePort::pair(one, setting(&folder.0, BLOCKS, 1, false)).expect("ports");
    begin(&mut port);
    (0..BLOCKS as u64).for_each(|number| port.submit(number, write(&pool, number)));
    drop((port, other));
    assert_eq!(rings_open(), 0);
    // All buffers are back in the pool: the kernel uses none.
    let back: Vec<Slab> = (0..BLOCKS).filter_map(|_| pool.take()).collect();
    assert_eq!(back.len(), BLOCKS);
}
