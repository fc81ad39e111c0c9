//! TLS records over a socket, by rustls' unbuffered interface: its buffered one reads 4 KiB at a
//! time.

mod relay;

use super::plaintext::{PlaintextBuffer, RECORD};
use crate::port::net::data_stream::DataStream;
use crate::port::net::deadline::DeadlineSocket;
use crate::port::net::net_error::{opening_error, tls_error, NetError};
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, UnbufferedStatus};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};

/// Size of the receive buffer: several records of 16 KiB.
const INCOMING: usize = 128 << 10;
/// Bytes encrypted per call.
const PIECE: usize = 7 * RECORD;
/// Size of the send buffer: a piece as records, or a handshake message or key update.
const OUTGOING: usize = PIECE + 8 * 256 + RECORD;

/// Common interface of rustls' client and server connections.
pub trait Records: Send + 'static {
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

/// A TLS connection after its handshake.
pub struct Tls<C> {
    connection: C,
    socket: TcpStream,
    incoming: Window,
    plain: PlaintextBuffer,
    outgoing: Vec<u8>,
    /// Whether the peer has closed its stream.
    ended: bool,
}

/// Received bytes that are not yet decrypted.
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

/// Result of processing received bytes.
enum Step {
    /// Internal state changed; process again.
    Continue,
    /// Number of bytes of data.
    Data(usize),
    /// Number of bytes of the outgoing buffer to send.
    Send(usize),
    /// No complete record: more bytes are needed.
    NeedInput,
}

impl<C: Records> Tls<C> {
    /// Performs the handshake.
    ///
    /// # Errors
    /// [`NetError`] if it fails or times out.
    pub fn begin(connection: C, timed: DeadlineSocket<'_>) -> Result<Self, NetError> {
        let mut tls = Self::new(connection, timed.socket)?;
        tls.shake_hands(timed)?;
        Ok(tls)
    }

    /// A connection before its handshake.
    ///
    /// # Errors
    /// I/O errors.
    pub fn new(connection: C, socket: &TcpStream) -> io::Result<Self> {
        // Several records are sent without waiting for the first acknowledgment (tcp(7),
        // TCP_NODELAY).
        socket.set_nodelay(true)?;
        Ok(Self {
            connection,
            socket: socket.try_clone()?,
            incoming: Window { bytes: vec![0; INCOMING], start: 0, end: 0 },
            plain: PlaintextBuffer::default(),
            outgoing: vec![0; OUTGOING],
            ended: false,
        })
    }

    /// Sends what can be sent before the next bytes of the peer.
    ///
    /// # Errors
    /// [`NetError`] if that fails or times out.
    pub fn send_pending(&mut self, mut timed: DeadlineSocket<'_>) -> Result<(), NetError> {
        loop {
            match self.step(&mut [])? {
                Step::Send(length) => timed.write_all(&self.outgoing[..length]).map_err(opening_error)?,
                Step::NeedInput => return Ok(()),
                Step::Continue | Step::Data(_) => {}
            }
        }
    }

    /// Performs the rest of the handshake.
    ///
    /// # Errors
    /// [`NetError`] if it fails or times out.
    pub fn shake_hands(&mut self, timed: DeadlineSocket<'_>) -> Result<(), NetError> {
        loop {
            self.send_pending(timed)?;
            if !self.connection.is_handshaking() {
                return Ok(());
            }
            self.incoming.fill(timed).map_err(opening_error)?;
        }
    }

    /// Processes received bytes. Data is copied to `into` as far as it fits, and buffered
    /// otherwise.
    fn step(&mut self, into: &mut [u8]) -> Result<Step, NetError> {
        let status = self.connection.process(self.incoming.filled());
        let mut discard = status.discard;
        let step = match status.state.map_err(tls_error)? {
            ConnectionState::ReadTraffic(mut traffic) => {
                let mut used = 0;
                while let Some(record) = traffic.next_record() {
                    let record = record.map_err(tls_error)?;
                    discard += record.discard;
                    let fits = record.payload.len().min(into.len() - used);
                    into[used..used + fits].copy_from_slice(&record.payload[..fits]);
                    used += fits;
                    self.plain.bytes.extend_from_slice(&record.payload[fits..]);
                }
                Step::Data(used)
            }
            ConnectionState::EncodeTlsData(mut message) => {
                let length = message.encode(&mut self.outgoing);
                Step::Send(length.map_err(|error| NetError::Protocol(error.to_string()))?)
            }
            ConnectionState::TransmitTlsData(sent) => {
                // It was sent when it was encoded.
                sent.done();
                Step::Continue
            }
            ConnectionState::PeerClosed | ConnectionState::Closed => {
                self.ended = true;
                Step::Continue
            }
            ConnectionState::BlockedHandshake | ConnectionState::WriteTraffic(_) => Step::NeedInput,
            other => return Err(NetError::Protocol(format!("{other:?}"))),
        };
        self.incoming.discard(discard);
        Ok(step)
    }

    /// Encrypts data and returns the number of bytes to send; empty `data` closes the stream.
    fn encrypt(&mut self, data: &[u8]) -> Result<usize, NetError> {
        let status = self.connection.process(&mut []);
        match status.state.map_err(tls_error)? {
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
            if let Some(count) = self.plain.take(buffer) {
                return Ok(count);
            }
            if self.ended || buffer.is_empty() {
                return Ok(0);
            }
            match self.step(buffer).map_err(to_io_error)? {
                Step::Data(used) if used > 0 => return Ok(used),
                Step::Data(_) | Step::Continue => {}
                Step::Send(length) => self.socket.write_all(&self.outgoing[..length])?,
                Step::NeedInput => self.incoming.fill(&self.socket)?,
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
        let length = self.encrypt(piece).map_err(to_io_error)?;
        self.socket.write_all(&self.outgoing[..length])?;
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<C: Records> DataStream for Tls<C> {
    fn close(&mut self) -> io::Result<()> {
        let length = self.encrypt(&[]).map_err(to_io_error)?;
        self.socket.write_all(&self.outgoing[..length])?;
        self.socket.shutdown(Shutdown::Write)
    }

    fn socket(&self) -> &TcpStream {
        &self.socket
    }
}

/// Converts an error of an open connection.
fn to_io_error(error: NetError) -> io::Error {
    match error {
        NetError::Failed(error) => error,
        other => io::Error::new(ErrorKind::InvalidData, other),
    }
}
