//! Queries to the monitor of a guest over its Unix socket, with limits of time and size.

use numaio_machine::guests::MONITOR_COMMANDS;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Time for all replies. A monitor that another client uses sends no greeting.
const LIMIT: Duration = Duration::from_secs(2);
/// Maximum size of all replies; that of a guest with 4,096 virtual CPUs has about 1 MB.
const MAX_REPLY_BYTES: u64 = 8 << 20;

/// Queries the threads of a guest; returns the lines of the monitor.
///
/// The query changes nothing, and the connection is closed, so that others can connect.
///
/// # Errors
/// I/O errors; `TimedOut` or `WouldBlock` if the monitor does not reply, as while another client
/// is connected.
pub fn query_threads(path: &str) -> io::Result<String> {
    let deadline = Instant::now() + LIMIT;
    let stream = connect(path)?;
    let mut lines = BufReader::new((&stream).take(MAX_REPLY_BYTES));
    let mut text = String::new();
    // The greeting precedes all commands.
    read_line(&stream, &mut lines, deadline, &mut text)?;
    for command in MONITOR_COMMANDS {
        (&stream).write_all(format!("{command}\n").as_bytes())?;
        // Events can arrive before the reply.
        loop {
            let start = text.len();
            read_line(&stream, &mut lines, deadline, &mut text)?;
            let line = &text[start..];
            if line.contains("\"return\"") || line.contains("\"error\"") {
                break;
            }
        }
    }
    Ok(text)
}

/// Connects without waiting: a full queue of connections is an error.
fn connect(path: &str) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(LIMIT))?;
    Ok(stream)
}

fn read_line(
    stream: &UnixStream,
    lines: &mut impl BufRead,
    deadline: Instant,
    text: &mut String,
) -> io::Result<()> {
    let mut line = Vec::new();
    while line.last() != Some(&b'\n') {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let block = lines.fill_buf()?;
        if block.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let end = block.iter().position(|byte| *byte == b'\n').map_or(block.len(), |index| index + 1);
        line.extend_from_slice(&block[..end]);
        lines.consume(end);
    }
    text.push_str(&String::from_utf8_lossy(&line));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaio_machine::guests::{parse_threads, ThreadRole};
    use std::os::unix::net::UnixListener;
    use std::thread;

    fn socket(name: &str) -> (String, UnixListener) {
        let path = std::env::temp_dir().join(format!("numaio-monitor-{name}-{}", std::process::id()));
        drop(std::fs::remove_file(&path));
        let listener = UnixListener::bind(&path).expect("a socket");
        (path.to_string_lossy().into_owned(), listener)
    }

    #[test]
    fn skips_events_and_ends_after_the_last_reply() {
        let (path, listener) = socket("events");
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            stream.write_all(b"{\"QMP\": {}}\n").expect("sent");
            let mut lines = BufReader::new(stream.try_clone().expect("a descriptor"));
            for reply in [
                "{\"event\": \"RESUME\"}\n{\"return\": {}}\n",
                "{\"return\": [{\"thread-id\": 7, \"cpu-index\": 0}]}\n",
                "{\"return\": []}\n",
            ] {
                lines.read_line(&mut String::new()).expect("a command");
                stream.write_all(reply.as_bytes()).expect("sent");
            }
        });
        let text = query_threads(&path).expect("replies");
        server.join().expect("the server");
        drop(std::fs::remove_file(&path));
        assert_eq!(parse_threads(&text).role(7), Some(ThreadRole::Vcpu { number: 0 }));
    }

    #[test]
    fn an_endless_or_silent_monitor_is_an_error() {
        let (path, listener) = socket("endless");
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            while stream.write_all(&[b'x'; 1 << 16]).is_ok() {}
        });
        assert!(query_threads(&path).is_err());
        server.join().expect("the server");
        drop(std::fs::remove_file(&path));
        let (path, listener) = socket("silent");
        assert!(query_threads(&path).is_err(), "no greeting");
        drop((listener, std::fs::remove_file(&path)));
        assert!(query_threads("/nonexistent/socket").is_err());
        assert!(query_threads(&"x".repeat(200)).is_err());
    }
}
