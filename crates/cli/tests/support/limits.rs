//! Waiting with a time limit, so that a test fails instead of hanging.

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Maximum duration of any single wait of a test.
pub const LIMIT: Duration = Duration::from_secs(300);
const PAUSE: Duration = Duration::from_millis(2);

/// Runs `read` on a thread and returns its result; panics at the limit.
fn limited<T: Send + 'static>(operation: &str, read: impl FnOnce() -> T + Send + 'static) -> T {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || drop(send.send(read())));
    receive.recv_timeout(LIMIT).unwrap_or_else(|_| panic!("{operation} took longer than {LIMIT:?}"))
}

/// Reads a pipe of a process to its end.
pub fn read_all(mut pipe: impl Read + Send + 'static) -> String {
    limited("the output of a process", move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).expect("the output of a process");
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Reads the first line of a pipe, without its newline, and closes the pipe.
pub fn read_line(pipe: impl Read + Send + 'static) -> String {
    limited("a line of output", move || {
        let mut line = String::new();
        BufReader::new(pipe).read_line(&mut line).expect("a line of output");
        line.trim_end_matches('\n').to_owned()
    })
}

/// Variants with a time limit of the methods of `Command` and `Child` that may block.
pub trait Limited {
    /// Waits for the end of the process, which is killed at the limit.
    fn limited_status(&mut self) -> io::Result<ExitStatus>;

    /// Collects the output of the process, which is killed at the limit.
    ///
    /// A `Command` gets pipes for both streams.
    fn limited_output(&mut self) -> io::Result<Output>;
}

impl Limited for Child {
    fn limited_status(&mut self) -> io::Result<ExitStatus> {
        drop(self.stdin.take());
        let start = Instant::now();
        loop {
            if let Some(status) = self.try_wait()? {
                return Ok(status);
            }
            if start.elapsed() > LIMIT {
                let _ = self.kill();
                panic!("process {} ran longer than {LIMIT:?}", self.id());
            }
            thread::sleep(PAUSE);
        }
    }

    fn limited_output(&mut self) -> io::Result<Output> {
        drop(self.stdin.take());
        let stdout = self.stdout.take().map(collect);
        let stderr = self.stderr.take().map(collect);
        let deadline = Instant::now() + LIMIT;
        let mut bytes = |stream: Option<mpsc::Receiver<Vec<u8>>>| {
            let Some(stream) = stream else { return Vec::new() };
            let left = deadline.saturating_duration_since(Instant::now());
            stream.recv_timeout(left).unwrap_or_else(|_| {
                let _ = self.kill();
                panic!("the output of process {} did not end within {LIMIT:?}", self.id())
            })
        };
        let (stdout, stderr) = (bytes(stdout), bytes(stderr));
        Ok(Output { status: self.limited_status()?, stdout, stderr })
    }
}

impl Limited for Command {
    fn limited_status(&mut self) -> io::Result<ExitStatus> {
        self.spawn()?.limited_status()
    }

    fn limited_output(&mut self) -> io::Result<Output> {
        self.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?.limited_output()
    }
}

/// Reads a stream to its end on a thread.
fn collect(mut stream: impl Read + Send + 'static) -> mpsc::Receiver<Vec<u8>> {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        let _ = send.send(bytes);
    });
    receive
}

/// Accepts a connection from process `peer` or its child, and closes those of others, because any
/// program may connect to the port.
pub fn accept_from(listener: &TcpListener, peer: u32) -> TcpStream {
    listener.set_nonblocking(true).expect("a listener");
    let start = Instant::now();
    loop {
        match listener.accept() {
            Ok((socket, from)) if owns_port(peer, from.port()) => {
                socket.set_nonblocking(false).expect("a socket");
                socket.set_read_timeout(Some(LIMIT)).expect("a read timeout");
                return socket;
            }
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{error}"),
        }
        assert!(start.elapsed() < LIMIT, "process {peer} did not connect within {LIMIT:?}");
        thread::sleep(PAUSE);
    }
}

/// Returns whether a process or its child has a TCP socket with this local port
/// (proc_pid_net(5)).
fn owns_port(pid: u32, port: u16) -> bool {
    let table = fs::read_to_string("/proc/net/tcp").expect("/proc/net/tcp");
    let local = format!(":{port:04X}");
    let inodes: Vec<String> = table
        .lines()
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let found = fields.get(1)?.ends_with(&local);
            found.then(|| format!("socket:[{}]", fields.get(9).copied().unwrap_or_default()))
        })
        .collect();
    let processes = super::with_children(pid).into_iter();
    let links = processes.flat_map(|pid| fs::read_dir(format!("/proc/{pid}/fd"))).flatten().flatten();
    let mut links = links.filter_map(|entry| fs::read_link(entry.path()).ok());
    links.any(|link| inodes.iter().any(|inode| link.as_os_str() == inode.as_str()))
}
