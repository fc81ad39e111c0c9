//! Behavior in sandboxes: rejected system calls are reported or replaced, never ignored.

use crate::port_setup::{file, identity, outcomes, setting, Folder};
use crate::seccomp::{confine, confined, refused, step, NUMBER};
use numaio_machine::set::CpuSet;
use numaio_mover::port::{
    Digest, FaultKind, FilePath, FileWrite, Hash, OpenMode, Operation, Outcome, Port, ReadPiece, BLOCK,
};
use numaio_mover_linux::port::FilePort;
use std::io;

/// Offset of the lower half of the third argument (little-endian).
const THIRD_ARGUMENT: u32 = 32;

/// Makes opening with O_CREAT fail on this thread and its children.
fn refuse_to_make(errno: i32) -> io::Result<()> {
    confine(vec![
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, NUMBER, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, libc::SYS_openat as u32, 0, 3),
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, THIRD_ARGUMENT, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, libc::O_CREAT as u32, 0, 1),
        step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | errno as u32, 0, 0),
        step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0),
    ])
}

#[test]
fn unpinnable_cpus_are_detected_in_advance() {
    assert!(numaio_mover_linux::port::can_pin(&CpuSet::parse_list("0-8191").expect("a list")).is_ok());
    let absent = numaio_mover_linux::port::can_pin(&CpuSet::parse_list("8191").expect("a list"));
    assert_eq!(absent.map_err(|error| error.raw_os_error()), Err(Some(libc::EINVAL)));
    refused(&[libc::SYS_sched_setaffinity], libc::EPERM, |errno| {
        let result = numaio_mover_linux::port::can_pin(&CpuSet::parse_list("0-8191").expect("a list"));
        assert_eq!(result.map_err(|error| error.raw_os_error()), Err(Some(errno)));
    });
}

#[test]
fn without_io_uring_large_blocks_are_still_read() {
    const FORBIDDEN: [&[libc::c_long]; 2] = [&[libc::SYS_io_uring_setup], &[libc::SYS_io_uring_enter]];
    for forbidden in FORBIDDEN {
        refused(forbidden, libc::EPERM, |_| {
            assert!(!numaio_mover_linux::port::has_io_uring());
            let folder = Folder::new("sandbox");
            let whole = std::fs::File::create(folder.0.join("file")).expect("a file");
            // Uncached files of this size are read directly.
            whole.set_len(64 << 20).expect("a large file");
            let setting = || setting(&folder.0, 4, 1, true);
            let (mut port, _other) = FilePort::pair(setting(), setting()).expect("ports");
            let identity = identity(&mut port);
            let piece = ReadPiece { at: file(), identity, offset: 32 << 20, length: BLOCK, as_it_is: false };
            let hash = |bytes: &[u8]| Digest([bytes.iter().fold(1, |all, byte| all | byte); 32]);
            port.submit(1, Operation::Read { pieces: vec![piece], hash, pack: None });
            let read = outcomes(&mut port, 1).remove(0);
            assert!(
                matches!(&read, Outcome::Read { results, .. } if results[..] == [Ok(Digest([1; 32]))]),
                "{read:?}"
            );
        });
    }
}

/// Simulates `fs.protected_regular`, which protects other users' files in /tmp (proc_sys_fs(5)).
#[test]
fn existing_file_is_written_in_place_without_o_creat() {
    let folder = Folder::new("protected");
    std::fs::write(folder.0.join("file"), "content").expect("a file");
    std::os::unix::fs::symlink("new", folder.0.join("link")).expect("a link");
    let begin = |name: &str, port: &mut FilePort| {
        let put = FileWrite::new(FilePath::new(0, name.as_bytes()), OpenMode::InPlace);
        let hash: Hash = |_| unreachable!("nothing is hashed");
        port.submit(1, Operation::Write { puts: vec![put], data: None, hash, packed: None });
        match outcomes(port, 1).remove(0) {
            Outcome::Results(mut done) => done.remove(0).map_err(|fault| fault.why),
            other => unreachable!("{other:?}"),
        }
    };
    let check = move || {
        let setting = || setting(&folder.0, 4, 1, false);
        let (mut port, _other) = FilePort::pair(setting(), setting()).expect("ports");
        assert_eq!(begin("new", &mut port), Err(FaultKind::Permission), "the filter is active");
        assert!(begin("link", &mut port).is_err(), "a link is not followed");
        assert_eq!(begin("file", &mut port), Ok(()));
        assert_eq!(std::fs::metadata(folder.0.join("file")).expect("a file").len(), 0);
    };
    confined(|| refuse_to_make(libc::EACCES), check);
}
