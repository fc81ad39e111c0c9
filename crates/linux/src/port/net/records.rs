//! The records of TLS over a socket, by the interface of rustls that leaves buffers to its user: its other one reads 4 KiB
//! at a time.

mod carry;

use super::timed::{why, Timed};
use super::tls::refused;
use super::{Lane, NetError};
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, UnbufferedStatus};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};

/// Bytes that come are read into a buffer of so many: some records of 16 KiB.
const INCOMING: usize = 128 << 10;
/// Bytes that are encrypted at once.
const PIECE: usize = 7 * RECORD;
/// Most bytes of data in one record (RFC 8446, section 5.1).
const RECORD: usize = 16 << 10;
/// A buffer for a piece as records, for a message of the handshake, or for news of another key.
const OUTGOING: usize = PIECE + 8 * 256 + RECORD;

/// What both sides of rustls do alike.
pub trait Records: Send {
    type Data;

    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data>;

    fn is_handshaking(&self) -> bool;
}

impl Records for UnbufferedClientConnection {
    type Data = ClientConnectionData;

    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(incoming)
    }

    fn is_handshaking(&self) -> bool {
        (**self).is_handshaking()
    }
}

impl Records for UnbufferedServerConnection {
    type Data = ServerConnectionData;

    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(incoming)
    }

    fn is_handshaking(&self) -> bool {
        (**self).is_handshaking()
    }
}

/// A connection whose handshake is over.
pub struct Tls<C> {
    connection: C,
    socket: TcpStream,
    incoming: Window,
    /// Data that was decrypted and not taken yet, and how much of it was.
    plain: (Vec<u8>, usize),
    outgoing: Vec<u8>,
    /// Whether the other side said that nothing follows.
    ended: bool,
}

/// Bytes that came and were not decrypted yet.
struct Window {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Window {
    fn filled(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.end]
    }

    fn discard(&mut self, count: usize) {
        self.start = (self.start + count).min(self.end);
    }

    fn fill(&mut self, mut from: impl Read) -> io::Result<()> {
        self.bytes.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        let count = from.read(&mut self.bytes[self.end..])?;
        self.end += count;
        match count {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

/// What rustls found in what came.
enum Now {
    /// Something that it keeps to itself.
    Again,
    /// So many bytes of data.
    Data(usize),
    /// So many bytes of the outgoing buffer are to be sent.
    Send(usize),
    /// Nothing whole: more must come.
    Idle,
}

impl<C: Records> Tls<C> {
    /// Carries the handshake out.
    ///
    /// # Errors
    /// [`NetError`] if it fails, or takes too long.
    pub fn begin(connection: C, mut timed: Timed<'_>) -> Result<Self, NetError> {
        // What goes out in several records is not held back until the first is acknowledged (tcp(7), TCP_NODELAY).
        timed.socket.set_nodelay(true)?;
        let incoming = Window { bytes: vec![0; INCOMING], start: 0, end: 0 };
        let mut tls = Self {
            connection,
            socket: timed.socket.try_clone()?,
            incoming,
            plain: (Vec::new(), 0),
            outgoing: vec![0; OUTGOING],
            ended: false,
        };
        loop {
            match tls.step(&mut [])? {
                Now::Send(length) => timed.write_all(&tls.outgoing[..length]).map_err(why)?,
                Now::Idle if !tls.connection.is_handshaking() => return Ok(tls),
                Now::Idle => tls.incoming.fill(timed).map_err(why)?,
                Now::Again | Now::Data(_) => {}
            }
        }
    }

    /// Lets rustls look at what came. Data goes to `into`, as much as fits, and the rest is kept.
    fn step(&mut self, into: &mut [u8]) -> Result<Now, NetError> {
        let status = self.connection.process(self.incoming.filled());
        let mut discard = status.discard;
        let now = match status.state.map_err(refused)? {
            ConnectionState::ReadTraffic(mut traffic) => {
                let mut used = 0;
                while let Some(record) = traffic.next_record() {
                    let record = record.map_err(refused)?;
                    discard += record.discard;
                    let fits = record.payload.len().min(into.len() - used);
                    into[used..used + fits].copy_from_slice(&record.payload[..fits]);
                    used += fits;
                    self.plain.0.extend_from_slice(&record.payload[fits..]);
                }
                Now::Data(used)
            }
            ConnectionState::EncodeTlsData(mut message) => {
                let length = message.encode(&mut self.outgoing);
                Now::Send(length.map_err(|error| NetError::Protocol(error.to_string()))?)
            }
            ConnectionState::TransmitTlsData(sent) => {
                // It was sent when it was encoded.
                sent.done();
                Now::Again
            }
            ConnectionState::PeerClosed | ConnectionState::Closed => {
                self.ended = true;
                Now::Again
            }
            ConnectionState::BlockedHandshake | ConnectionState::WriteTraffic(_) => Now::Idle,
            other => return Err(NetError::Protocol(format!("{other:?}"))),
        };
        self.incoming.discard(discard);
        Ok(now)
    }

    /// Encrypts, and gives how many bytes of the buffer are to be sent; nothing of `data` says that nothing follows.
    fn encrypt(&mut self, data: &[u8]) -> Result<usize, NetError> {
        let status = self.connection.process(&mut []);
        match status.state.map_err(refused)? {
            ConnectionState::WriteTraffic(mut traffic) => match data {
                [] => traffic.queue_close_notify(&mut self.outgoing),
                data => traffic.encrypt(data, &mut self.outgoing),
            }
            .map_err(|error| NetError::Protocol(error.to_string())),
            other => Err(NetError::Protocol(format!("{other:?}"))),
        }
    }
}

impl<C: Records> Read for Tls<C> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let (plain, taken) = &mut self.plain;
            if *taken < plain.len() {
                let count = buffer.len().min(plain.len() - *taken);
                buffer[..count].copy_from_slice(&plain[*taken..*taken + count]);
                *taken += count;
                return Ok(count);
            }
            plain.clear();
            *taken = 0;
            if self.ended || buffer.is_empty() {
                return Ok(0);
            }
            match self.step(buffer).map_err(kernels)? {
                Now::Data(used) if used > 0 => return Ok(used),
                Now::Data(_) | Now::Again => {}
                Now::Send(length) => self.socket.write_all(&self.outgoing[..length])?,
                Now::Idle => self.incoming.fill(&self.socket)?,
            }
        }
    }
}

impl<C: Records> Write for Tls<C> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = &bytes[..bytes.len().min(PIECE)];
        if piece.is_empty() {
            return Ok(0);
        }
        let length = self.encrypt(piece).map_err(kernels)?;
        self.socket.write_all(&self.outgoing[..length])?;
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<C: Records> Lane for Tls<C> {
    fn close(&mut self) -> io::Result<()> {
        let length = self.encrypt(&[]).map_err(kernels)?;
        self.socket.write_all(&self.outgoing[..length])?;
        self.socket.shutdown(Shutdown::Write)
    }

    fn socket(&self) -> &TcpStream {
        &self.socket
    }
}

/// Once a connection is open, what is wrong with it is told as the kernel tells of others.
fn kernels(error: NetError) -> io::Error {
    match error {
        NetError::Failed(error) => error,
        other => io::Error::new(ErrorKind::InvalidData, other),
    }
}
