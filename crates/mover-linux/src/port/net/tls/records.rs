//! TLS records over a socket, by rustls' unbuffered interface: its buffered one reads 4 KiB at a
//! time.

mod relay;

use super::kernel_tls::{prepare, KernelTls};
use super::plaintext::{PlaintextBuffer, RECORD};
use crate::port::net::data_stream::{DataStream, StreamDirection};
use crate::port::net::deadline::DeadlineSocket;
use crate::port::net::net_error::{opening_error, tls_error, NetError};
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, UnbufferedStatus};
use rustls::{Error, ExtractedSecrets, SupportedCipherSuite};
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

    fn suite(&self) -> Option<SupportedCipherSuite>;

    /// Returns the keys of both directions, to continue the connection elsewhere.
    fn into_secrets(self) -> Result<ExtractedSecrets, Error>;
}

impl Records for UnbufferedClientConnection {
    type Data = ClientConnectionData;

    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(incoming)
    }

    fn is_handshaking(&self) -> bool {
        (**self).is_handshaking()
    }

    fn suite(&self) -> Option<SupportedCipherSuite> {
        self.negotiated_cipher_suite()
    }

    fn into_secrets(self) -> Result<ExtractedSecrets, Error> {
        self.dangerous_into_kernel_connection().map(|(secrets, _)| secrets)
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

    fn suite(&self) -> Option<SupportedCipherSuite> {
        self.negotiated_cipher_suite()
    }

    fn into_secrets(self) -> Result<ExtractedSecrets, Error> {
        self.dangerous_into_kernel_connection().map(|(secrets, _)| secrets)
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
    /// Whether to move the connection to the kernel.
    by_kernel: bool,
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

    /// Returns how many bytes the partially received record lacks; those of its header (RFC 8446,
    /// section 5.1) if that is incomplete.
    fn missing(&mut self) -> usize {
        const HEAD: usize = 5;
        match *self.filled() {
            [] => 0,
            [_, _, _, high, low, ref rest @ ..] => {
                usize::from(u16::from_be_bytes([high, low])).saturating_sub(rest.len())
            }
            ref part => HEAD - part.len(),
        }
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
            by_kernel: false,
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

    /// Selects kernel TLS, used once the connection is restricted to one direction.
    #[must_use]
    pub fn by_kernel(self, by_kernel: bool) -> Self {
        Self { by_kernel, ..self }
    }

    /// Decrypts all received bytes, reading exactly the rest of the last record.
    fn drain(&mut self) -> io::Result<()> {
        while !self.ended {
            match self.step(&mut []).map_err(to_io_error)? {
                Step::Send(length) => self.socket.write_all(&self.outgoing[..length])?,
                Step::NeedInput => match self.incoming.missing() {
                    0 => break,
                    missing => self.incoming.fill((&self.socket).take(missing as u64))?,
                },
                Step::Data(_) | Step::Continue => {}
            }
        }
        Ok(())
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

    fn into_one_way(mut self: Box<Self>, way: StreamDirection) -> io::Result<Box<dyn DataStream>> {
        let suite = self.connection.suite().filter(|_| self.by_kernel);
        let Some(suite) = suite.and_then(|suite| suite.tls13()) else { return Ok(self) };
        if !prepare(&self.socket, suite.common.suite) {
            return Ok(self);
        }
        if way == StreamDirection::Incoming {
            self.drain()?;
            if self.ended {
                return Ok(self);
            }
        }
        let most = suite.common.confidentiality_limit;
        let secrets = self.connection.into_secrets().map_err(io::Error::other)?;
        Ok(Box::new(KernelTls::new(self.socket, secrets, way, (self.plain, most))?))
    }
}

/// Converts an error of an open connection.
fn to_io_error(error: NetError) -> io::Error {
    match error {
        NetError::Failed(error) => error,
        other => io::Error::new(ErrorKind::InvalidData, other),
    }
}

#[cfg(test)]
mod tests {
    use super::super::handshake::{client, server, KeyVerifier};
    use super::super::key_pair::KeyPair;
    use super::*;
    use std::net::TcpListener;
    use std::thread;
    use std::time::Duration;

    const LIMIT: Duration = Duration::from_secs(20);

    /// Returns a connected client and server.
    fn pair() -> (Tls<UnbufferedClientConnection>, Tls<UnbufferedServerConnection>) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let to = listener.local_addr().expect("an address");
        let caller = thread::spawn(move || {
            let socket = TcpStream::connect(to).expect("connected");
            let client =
                client(&KeyPair::generate().expect("a key"), KeyVerifier::new(|_| true)).expect("a client");
            Tls::begin(client, DeadlineSocket::new(&socket, LIMIT)).expect("authenticated")
        });
        let (socket, _) = listener.accept().expect("a connection");
        let server =
            server(&KeyPair::generate().expect("a key"), KeyVerifier::new(|_| true)).expect("a server");
        let called = Tls::begin(server, DeadlineSocket::new(&socket, LIMIT)).expect("a caller");
        (caller.join().expect("no panic"), called)
    }

    /// The kernel must be able to continue at the next record.
    #[test]
    fn drain_leaves_no_partial_record() {
        let (mut caller, mut called) = pair();
        let sent: Vec<u8> = (0..3_000_000).map(|at: usize| (at * 7 + at / 251) as u8).collect();
        thread::scope(|scope| {
            scope.spawn(|| {
                sent.chunks(50_001).for_each(|part| caller.write_all(part).expect("sent"));
                caller.close().expect("closed");
            });
            let (mut got, mut most) = (Vec::new(), 0);
            while !called.ended {
                let before = got.len();
                got.resize(before + 70_000, 0);
                let count = called.read(&mut got[before..]).expect("data");
                got.truncate(before + count);
                most = most.max(called.incoming.filled().len());
                called.drain().expect("drained");
                assert!(called.incoming.filled().is_empty(), "{} bytes", called.incoming.filled().len());
            }
            called.read_to_end(&mut got).expect("what was drained");
            assert!(got == sent, "{} of {} bytes", got.len(), sent.len());
            assert!(most > 0, "there was nothing to drain");
        });
    }
}
