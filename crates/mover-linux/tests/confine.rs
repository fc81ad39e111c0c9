//! Confinement by Landlock, also of root. A process of its own, since confinement is irrevocable;
//! within it each test runs on its own thread, which Landlock confines with its children.

use numaio_mover_linux::confine::{confine, ConfinementStatus};
use numaio_mover_linux::files::{Base, Rights};
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("numaio-confine-{name}-{}", std::process::id()));
        fs::create_dir_all(path.join("root/d")).expect("directories");
        fs::create_dir_all(path.join("outside")).expect("directories");
        fs::write(path.join("root/file"), "inside").expect("a file");
        fs::write(path.join("outside/file"), "outside").expect("a file");
        Self(path)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs `check` on a thread confined to a root; prints a message if the kernel does not support it.
fn confined(folder: &Folder, rights: Rights, check: impl FnOnce() + Send) {
    let confined = || {
        let root = Base::below(&folder.at("root")).expect("a root");
        match confine(&[(root.directory().expect("a directory"), rights)]).expect("confined") {
            ConfinementStatus::Unsupported => {
                // Bypasses the capture of the test harness, so that skips are visible and counted.
                let _ = writeln!(io::stderr(), "skipped: this kernel has no Landlock");
            }
            how => {
                assert_eq!(
                    how == ConfinementStatus::Full,
                    version() >= 6,
                    "{how:?} by version {}",
                    version()
                );
                check();
            }
        }
    };
    std::thread::scope(|scope| scope.spawn(confined).join()).expect("no panic");
}

/// Returns the Landlock ABI version (landlock_create_ruleset(2), LANDLOCK_CREATE_RULESET_VERSION).
fn version() -> i64 {
    // SAFETY: without attributes the call only returns a number.
    unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0, 1) }
}

fn denied<T>(done: io::Result<T>) -> bool {
    done.err()
        .is_some_and(|error| matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::CrossesDevices))
}

#[test]
fn reading_is_limited_to_the_root() {
    let folder = Folder::new("read");
    confined(&folder, Rights::Read, || {
        assert_eq!(fs::read_to_string(folder.at("root/file")).expect("inside"), "inside");
        assert_eq!(fs::read_dir(folder.at("root")).expect("inside").count(), 2);
        assert!(denied(fs::read(folder.at("outside/file"))));
        assert!(denied(fs::read_dir(folder.at("outside"))));
        assert!(denied(fs::read("/etc/shadow")) && denied(fs::read_dir("/")));
        assert!(
            denied(fs::write(folder.at("root/new"), "")) && denied(fs::write(folder.at("root/file"), ""))
        );
        assert!(denied(fs::remove_file(folder.at("root/file"))));
        assert!(denied(fs::create_dir(folder.at("root/new"))));
        // Files that describe the machine.
        assert!(fs::read_to_string("/proc/self/status").is_ok() && fs::read_dir("/sys").is_ok());
        assert_eq!(numaio_mover_linux::accounts::user_id(b"root"), Some(0));
        // Child threads are confined, too.
        let path = folder.at("outside/file");
        assert!(denied(std::thread::spawn(move || fs::read(path)).join().expect("a thread")));
    });
    assert_eq!(fs::read_to_string(folder.at("outside/file")).expect("a file"), "outside");
}

#[test]
fn writing_is_limited_to_the_root() {
    let folder = Folder::new("write");
    confined(&folder, Rights::Write, || {
        fs::write(folder.at("root/d/new"), "new").expect("inside");
        fs::rename(folder.at("root/d/new"), folder.at("root/moved")).expect("inside");
        fs::create_dir(folder.at("root/made")).expect("inside");
        fs::remove_file(folder.at("root/file")).expect("inside");
        assert!(denied(fs::write(folder.at("outside/new"), "")));
        assert!(denied(fs::remove_file(folder.at("outside/file"))));
        assert!(denied(fs::rename(folder.at("root/moved"), folder.at("outside/moved"))));
        assert!(denied(fs::hard_link(folder.at("outside/file"), folder.at("root/linked"))));
        // A link out of the root cannot be followed.
        std::os::unix::fs::symlink(folder.at("outside/file"), folder.at("root/link")).expect("inside");
        assert!(denied(fs::read(folder.at("root/link"))));
        assert!(denied(fs::write(Path::new("/tmp/numaio-unwritable"), "")));
        assert!(denied(std::process::Command::new("/bin/true").status()));
    });
    assert_eq!(fs::read_dir(folder.at("outside")).expect("a folder").count(), 1);
}

#[test]
fn outgoing_connections_are_denied() {
    let folder = Folder::new("connect");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("an address");
    drop(TcpStream::connect(at).expect("unconfined"));
    confined(&folder, Rights::Read, || {
        let connected = TcpStream::connect(at);
        // Landlock restricts connections since Linux 6.7.
        assert!(connected.is_ok() || denied(connected), "another error");
        assert!(TcpListener::bind("127.0.0.1:0").is_ok(), "listening is permitted");
    });
}
