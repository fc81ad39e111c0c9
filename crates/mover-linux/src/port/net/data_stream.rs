//! Data connections, whatever protects them.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};

/// A data connection: one side writes, the other reads.
pub trait DataStream: Read + Write + Send {
    /// Closes the stream in order: written data is delivered and the peer sees the end of the
    /// stream.
    ///
    /// # Errors
    /// I/O errors.
    fn close(&mut self) -> io::Result<()>;

    /// Returns the socket of the connection.
    fn socket(&self) -> &TcpStream;
}

impl fmt::Debug for dyn DataStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lane").field(self.socket()).finish()
    }
}

impl DataStream for TcpStream {
    fn close(&mut self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }

    fn socket(&self) -> &TcpStream {
        self
    }
}
