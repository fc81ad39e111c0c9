//! A socket with a deadline, which a peer cannot extend by sending single bytes.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// A socket with a deadline.
#[derive(Debug, Clone, Copy)]
pub struct DeadlineSocket<'a> {
    pub socket: &'a TcpStream,
    deadline: Instant,
}

impl<'a> DeadlineSocket<'a> {
    /// Sets a deadline of `limit` from now.
    pub fn new(socket: &'a TcpStream, limit: Duration) -> Self {
        Self { socket, deadline: Instant::now() + limit }
    }

    /// Sets the timeout of the next call.
    ///
    /// # Errors
    /// The deadline has passed; I/O errors.
    fn arm(&self) -> io::Result<()> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        self.socket.set_read_timeout(Some(left))?;
        self.socket.set_write_timeout(Some(left))
    }

    /// Reads without consuming.
    ///
    /// # Errors
    /// As for reading.
    pub fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.arm()?;
        self.socket.peek(buffer)
    }
}

impl Read for DeadlineSocket<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.arm()?;
        let mut socket = self.socket;
        socket.read(buffer)
    }
}

impl Write for DeadlineSocket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.arm()?;
        let mut socket = self.socket;
        socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
