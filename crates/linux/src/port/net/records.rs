//! The records of TLS over a socket, by the interface of rustls that leaves buffers to its user: its other one reads 4 KiB
//! at a time.

mod relay;

use super::deadline::{opening_error, DeadlineSocket};
use super::kernel_tls::{prepare, KernelTls};
use super::tls::tls_error;
use super::{DataStream, NetError, StreamDirection};
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, UnbufferedStatus};
use rustls::{Error, ExtractedSecrets, SupportedCipherSuite};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};

/// Bytes that come are read into a buffer of so many: some records of 16 KiB.
const INCOMING: usize = 128 << 10;
/// Bytes that are encrypted at once.
const PIECE: usize = 7 * RECORD;
/// Most bytes of data in one record (RFC 8446, section 5.1).
pub(super) const RECORD: usize = 16 << 10;
/// A buffer for a piece as records, for a message of the handshake, or for news of another key.
const OUTGOING: usize = PIECE + 8 * 256 + RECORD;

/// What both sides of rustls do alike.
pub trait Records: Send + 'static {
    type Data;

    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data>;

    fn is_handshaking(&self) -> bool;

    fn suite(&self) -> Option<SupportedCipherSuite>;

    /// The keys of both directions, for whoever goes on with them.
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

/// A connection whose handshake is over.
pub struct Tls<C> {
    connection: C,
    socket: TcpStream,
    incoming: Window,
    plain: PlaintextBuffer,
    outgoing: Vec<u8>,
    /// Whether the other side said that nothing follows.
    ended: bool,
    /// Whether the kernel is to take it over.
    by_kernel: bool,
}

/// Data that was decrypted and not taken yet, and how much of it was.
#[derive(Default)]
pub(super) struct PlaintextBuffer {
    pub bytes: Vec<u8>,
    pub taken: usize,
}

impl PlaintextBuffer {
    /// Takes as much as fits; none if all was taken.
    pub fn take(&mut self, into: &mut [u8]) -> Option<usize> {
        if self.taken == self.bytes.len() {
            self.take_all(|_| {});
            return None;
        }
        let count = into.len().min(self.bytes.len() - self.taken);
        into[..count].copy_from_slice(&self.bytes[self.taken..self.taken + count]);
        self.taken += count;
        Some(count)
    }

    /// Takes all that is left.
    fn take_all(&mut self, take: impl FnOnce(&[u8])) {
        take(&self.bytes[self.taken..]);
        self.bytes.clear();
        self.taken = 0;
    }
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

    /// How many bytes the record that came in part lacks: of its head (RFC 8446, section 5.1) if that is not whole yet.
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

/// What rustls found in what came.
enum Step {
    /// Something that it keeps to itself.
    Continue,
    /// So many bytes of data.
    Data(usize),
    /// So many bytes of the outgoing buffer are to be sent.
    Send(usize),
    /// Nothing whole: more must come.
    NeedInput,
}

impl<C: Records> Tls<C> {
    /// Carries the handshake out.
    ///
    /// # Errors
    /// [`NetError`] if it fails, or takes too long.
    pub fn begin(connection: C, mut timed: DeadlineSocket<'_>) -> Result<Self, NetError> {
        // What goes out in several records is not held back until the first is acknowledged (tcp(7), TCP_NODELAY).
        timed.socket.set_nodelay(true)?;
        let incoming = Window { bytes: vec![0; INCOMING], start: 0, end: 0 };
        let mut tls = Self {
            connection,
            socket: timed.socket.try_clone()?,
            incoming,
            plain: PlaintextBuffer::default(),
            outgoing: vec![0; OUTGOING],
            ended: false,
            by_kernel: false,
        };
        loop {
            match tls.step(&mut [])? {
                Step::Send(length) => timed.write_all(&tls.outgoing[..length]).map_err(opening_error)?,
                Step::NeedInput if !tls.connection.is_handshaking() => return Ok(tls),
                Step::NeedInput => tls.incoming.fill(timed).map_err(opening_error)?,
                Step::Continue | Step::Data(_) => {}
            }
        }
    }

    /// The same, which the kernel is to take over when it is used one way.
    #[must_use]
    pub fn by_kernel(self, by_kernel: bool) -> Self {
        Self { by_kernel, ..self }
    }

    /// Decrypts what came until nothing of it is left, and reads the rest of the last record for that, and no byte more.
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

    /// Lets rustls look at what came. Data goes to `into`, as much as fits, and the rest is kept.
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

    /// Encrypts, and gives how many bytes of the buffer are to be sent; nothing of `data` says that nothing follows.
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

/// Once a connection is open, what is wrong with it is told as the kernel tells of others.
fn to_io_error(error: NetError) -> io::Error {
    match error {
        NetError::Failed(error) => error,
        other => io::Error::new(ErrorKind::InvalidData, other),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tls::{client, server, KeyPair, KeyVerifier};
    use super::*;
    use std::net::TcpListener;
    use std::thread;
    use std::time::Duration;

    const LIMIT: Duration = Duration::from_secs(20);

    /// Who calls, and who is called.
    fn pair() -> (Tls<UnbufferedClientConnection>, Tls<UnbufferedServerConnection>) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let to = listener.local_addr().expect("an address");
        let caller = thread::spawn(move || {
            let socket = TcpStream::connect(to).expect("connected");
            let client =
                client(&KeyPair::generate().expect("a key"), KeyVerifier::new(|_| true)).expect("a client");
            Tls::begin(client, DeadlineSocket::new(&socket, LIMIT)).expect("let in")
        });
        let (socket, _) = listener.accept().expect("a connection");
        let server =
            server(&KeyPair::generate().expect("a key"), KeyVerifier::new(|_| true)).expect("a server");
        let called = Tls::begin(server, DeadlineSocket::new(&socket, LIMIT)).expect("a caller");
        (caller.join().expect("no panic"), called)
    }

    /// So that the kernel could go on with the next record.
    #[test]
    fn who_drains_a_connection_leaves_no_part_of_a_record() {
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
