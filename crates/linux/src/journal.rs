//! The journal of systemd, by its native protocol, which carries named fields
//! (<https://systemd.io/JOURNAL_NATIVE_PROTOCOL/>).

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

/// The socket of systemd-journald.
const SOCKET: &str = "/run/systemd/journal/socket";

/// A connection to the journal.
#[derive(Debug)]
pub struct Journal(UnixDatagram);

impl Journal {
    /// Connects to the journal of this system.
    ///
    /// # Errors
    /// systemd-journald does not run, or permission is missing.
    pub fn open() -> io::Result<Self> {
        Self::connect(Path::new(SOCKET))
    }

    /// Connects to a journal's socket.
    ///
    /// # Errors
    /// That of connect(2).
    pub fn connect(path: &Path) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.connect(path)?;
        // A full queue loses a line rather than stop its writer.
        socket.set_nonblocking(true)?;
        Ok(Self(socket))
    }

    /// Sends one entry. Names consist of upper-case letters, digits and `_`, and begin with a
    /// letter.
    ///
    /// # Errors
    /// The entry is too long, or the journal does not take it now.
    pub fn send(&self, fields: &[(String, String)]) -> io::Result<()> {
        self.0.send(&entry(fields)).map(drop)
    }
}

/// Encodes an entry. The length of a value precedes it, because it may have several lines.
fn entry(fields: &[(String, String)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in fields {
        bytes.extend(name.as_bytes());
        bytes.push(b'\n');
        bytes.extend((value.len() as u64).to_le_bytes());
        bytes.extend(value.as_bytes());
        bytes.push(b'\n');
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_may_have_several_lines() {
        let fields = [("A".to_owned(), "1\nB=2".to_owned()), ("C_D".to_owned(), String::new())];
        let expected = [b"A\n\x05\0\0\0\0\0\0\0".as_slice(), b"1\nB=2\n", b"C_D\n", &[0; 8], b"\n"].concat();
        assert_eq!(entry(&fields), expected);
    }

    #[test]
    fn entries_that_do_not_fit_are_errors() {
        let path = std::env::temp_dir().join(format!("numaio-journal-{}", std::process::id()));
        let receiver = UnixDatagram::bind(&path).expect("a socket");
        let journal = Journal::connect(&path).expect("connected");
        std::fs::remove_file(&path).expect("removed");
        let fields = |length| [("MESSAGE".to_owned(), "x".repeat(length))];
        journal.send(&fields(3)).expect("sent");
        let mut buffer = [0; 64];
        let length = receiver.recv(&mut buffer).expect("received");
        assert_eq!(buffer[..length], entry(&fields(3)));
        assert!(journal.send(&fields(16 << 20)).is_err());
        // The receiver reads nothing more.
        assert!((0..10_000).any(|_| journal.send(&fields(1000)).is_err()));
        assert!(Journal::connect(&path).is_err());
    }
}
