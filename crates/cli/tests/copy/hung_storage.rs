//! Storage that stops responding: a FUSE server that receives requests and does not answer them.

use crate::support::limits::read_line;
use crate::support::{kill, skipped, until, CommandOutput, Home, Limited};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Serves files of 1 MiB whose names are `file` and a number (include/uapi/linux/fuse.h), and never
/// answers a read, or with the argument `open` the opening of the root directory.
const SERVER: &str = "
import ctypes, os, struct, sys
path, hung = sys.argv[1], sys.argv[2]
device = os.open('/dev/fuse', os.O_RDWR)
libc = ctypes.CDLL(None, use_errno=True)
options = f'fd={device},rootmode=40000,user_id=0,group_id=0'.encode()
if libc.mount(b'numaio', path.encode(), b'fuse', 6, options):
    sys.exit('cannot mount: ' + os.strerror(ctypes.get_errno()))
def attributes(node):
    mode, size = (0o40755, 0) if node == 1 else (0o100644, 1 << 20)
    return struct.pack('=QQQQQQIIIIIIIIII', node, size, 0, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)
HUNG = {'read': 15, 'open': 27}[hung]
while True:
    request = os.read(device, 1 << 20)
    length, opcode, unique, node = struct.unpack_from('=IIQQ', request)
    error, body = 0, b''
    if opcode == HUNG:
        print('hung', flush=True)
        continue
    if opcode in (2, 36, 42):
        continue
    if opcode == 26:
        body = struct.pack('=IIIIII', 7, 12, 0, 0, 0, 1 << 16)
        print('mounted', flush=True)
    elif opcode == 1:
        name = request[40:].rstrip(b'\\0')
        if name.startswith(b'file'):
            found = 2 + int(name[4:] or 0)
            body = struct.pack('=QQQQII', found, 0, 0, 0, 0, 0) + attributes(found)
        else:
            error = -2
    elif opcode == 3:
        body = struct.pack('=QII', 0, 0, 0) + attributes(node)
    elif opcode in (14, 27):
        body = bytes(16)
    elif opcode not in (18, 25, 29):
        error = -38
    os.write(device, struct.pack('=IiQ', 16 + len(body), error, unique) + body)
";

/// A mounted server; killing it fails its requests.
pub struct HungVolume {
    server: Child,
    path: PathBuf,
    log: PathBuf,
}

impl HungVolume {
    /// `None`, after reporting why, where FUSE cannot be mounted.
    pub fn mount(home: &Home, hung: &str) -> Option<Self> {
        let (path, log) = (home.0.join("hung"), home.0.join("hung.log"));
        fs::create_dir(&path).expect("a folder");
        home.file("server.py", SERVER);
        let mut command = Command::new("python3");
        command.args([&home.path("server.py"), &home.path("hung"), hung]).stdin(Stdio::null());
        command.stdout(fs::File::create(&log).expect("a log")).stderr(Stdio::null());
        let mut server = command.spawn().expect("python3");
        let text = || fs::read_to_string(&log).unwrap_or_default();
        // The kernel sends the first request when it mounts.
        let has_exited = std::cell::RefCell::new(&mut server);
        until(
            || text().contains("mounted") || has_exited.borrow_mut().try_wait().expect("a child").is_some(),
            || "the FUSE server does not start",
        );
        if server.try_wait().expect("a child").is_some() {
            skipped("FUSE: cannot be mounted");
            return None;
        }
        Some(Self { server, path, log })
    }

    /// Returns whether a request waits for its answer.
    pub fn is_hung(&self) -> bool {
        fs::read_to_string(&self.log).is_ok_and(|text| text.contains("hung"))
    }
}

impl Drop for HungVolume {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.limited_status();
        let _ = Command::new("umount").args(["-l".as_ref(), self.path.as_os_str()]).limited_status();
    }
}

fn start(home: &Home, args: &[&str]) -> Child {
    let mut command = home.numaio(&[&["copy"], args].concat());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("numaio")
}

#[test]
fn second_signal_ends_a_copy_that_waits_for_hung_storage() {
    for (hung, args) in [("read", ["hung/file", "to"]), ("open", ["hung/", "to"])] {
        let home = Home::new();
        let Some(volume) = HungVolume::mount(&home, hung) else { return };
        let options: &[&str] = if hung == "open" { &["-r"] } else { &[] };
        let mut child = start(&home, &[options, &args].concat());
        until(|| volume.is_hung(), || "no request hangs");
        kill("-INT", child.id());
        // Both signals would be one request within half a second.
        std::thread::sleep(std::time::Duration::from_millis(700));
        assert!(child.try_wait().expect("a child").is_none(), "the first signal stops cleanly");
        kill("-TERM", child.id());
        let output = child.limited_output().expect("an end");
        assert_eq!(output.status.signal(), Some(15), "{hung}: {output:?}");
        let output = CommandOutput::of(output);
        assert!(
            output.err.contains("cannot exit yet: ") && output.err.contains("run the same command again")
        );
        // Its thread still waits. Then the storage responds, and the process exits.
        let words = output.err.split(' ').collect::<Vec<_>>();
        let at = words.iter().position(|word| *word == "process").expect("a process");
        let stat = format!("/proc/{}/stat", words[at + 1]);
        assert!(fs::exists(&stat).expect("a path"), "{}", output.err);
        drop(volume);
        until(|| !fs::exists(&stat).expect("a path"), || "the process did not exit");
        let job = home.run(&["jobs", "show", "1"]).ok();
        assert!(job.contains("its process no longer exists"), "{job}");
    }
}

#[test]
fn slow_stop_is_reported() {
    let home = Home::new();
    let Some(volume) = HungVolume::mount(&home, "read") else { return };
    let mut child = start(&home, &["hung/file", "to"]);
    until(|| volume.is_hung(), || "no request hangs");
    kill("-TERM", child.id());
    let line = read_line(child.stderr.take().expect("a pipe"));
    assert!(line.contains("a second interrupt ends numaio"), "{line}");
    // The storage fails, so that the copy stops cleanly.
    drop(volume);
    assert_eq!(child.limited_status().expect("an end").code(), Some(130));
}
