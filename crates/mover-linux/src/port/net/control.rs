//! Control channel of a daemon: a TLS connection whose ends know each other by persistent keys. It
//! is opened like data connections (`super::tls`), exchanges a few lines, and then carries two
//! byte streams. Before the handshake, a full daemon sends notices.

use super::data_stream::DataStream;
use super::deadline::DeadlineSocket;
use super::full_notice::FullNotice;
use super::keepalive::{settle, SILENCE};
use super::net_error::NetError;
use super::tls::{client, server, KeyPair, KeyVerifier, PublicKey, Records, Tls};
use crate::port::StreamPair;
use rustls::client::UnbufferedClientConnection;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{channel, Receiver};
use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

/// Time limit for the last bytes and for the peer's end of stream.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection that can be relayed to a local stream.
trait Relayed: DataStream {
    fn relay(self: Box<Self>, local: &UnixStream, silence: Duration) -> io::Result<()>;
}

impl<C: Records> Relayed for Tls<C> {
    fn relay(self: Box<Self>, local: &UnixStream, silence: Duration) -> io::Result<()> {
        (*self).relay(local, silence)
    }
}

/// An open control channel.
pub struct ControlChannel {
    connection: Box<dyn Relayed>,
    peer: PublicKey,
}

impl fmt::Debug for ControlChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control").field("peer", &self.peer).finish_non_exhaustive()
    }
}

/// Failure to open a control channel.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The peer has an untrusted key.
    #[error("the peer has the untrusted key {0}")]
    WrongKey(PublicKey),
    /// Connection failure.
    #[error(transparent)]
    Net(#[from] NetError),
}

impl From<io::Error> for ChannelError {
    fn from(error: io::Error) -> Self {
        Self::Net(error.into())
    }
}

/// A channel to a daemon that may have no slot for it yet.
pub struct OpeningChannel {
    tls: Tls<UnbufferedClientConnection>,
    verifier: Arc<KeyVerifier>,
}

impl fmt::Debug for OpeningChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpeningChannel").finish_non_exhaustive()
    }
}

/// The reply of a daemon to an opening channel.
#[derive(Debug)]
pub enum ChannelReply {
    /// The channel is open.
    Open(ControlChannel),
    /// The daemon has no slot yet. With a position, another reply follows.
    Full(FullNotice, Box<OpeningChannel>),
}

impl OpeningChannel {
    /// Begins to open a channel to a daemon whose key satisfies `accepts`.
    ///
    /// # Errors
    /// The first message is not sent within `limit`.
    pub fn begin(
        socket: &TcpStream,
        own: &KeyPair,
        accepts: impl Fn(PublicKey) -> bool + Send + Sync + 'static,
        limit: Duration,
    ) -> Result<Self, ChannelError> {
        let verifier = KeyVerifier::new(move |der| PublicKey::from_der(der).is_some_and(&accepts));
        let mut tls = Tls::new(client(own, verifier.clone())?, socket)?;
        tls.send_pending(DeadlineSocket::new(socket, limit))?;
        Ok(Self { tls, verifier })
    }

    /// Waits for the next reply of the daemon.
    ///
    /// # Errors
    /// [`ChannelError`] if the key is rejected, or there is no reply within `limit`.
    pub fn reply(mut self, limit: Duration) -> Result<ChannelReply, ChannelError> {
        let socket = self.tls.socket().try_clone()?;
        let timed = DeadlineSocket::new(&socket, limit);
        if let Some(notice) = FullNotice::receive(timed)? {
            return Ok(ChannelReply::Full(notice, Box::new(self)));
        }
        match (self.tls.shake_hands(timed), key_of(&self.verifier)) {
            (Ok(()), Some(peer)) => {
                Ok(ChannelReply::Open(ControlChannel { connection: Box::new(self.tls), peer }))
            }
            (Err(NetError::WrongKey), Some(other)) => Err(ChannelError::WrongKey(other)),
            (Err(error), _) => Err(error.into()),
            (Ok(()), None) => Err(NetError::WrongKey.into()),
        }
    }
}

/// Opens a channel to a daemon whose key satisfies `accepts`, if it has a slot.
///
/// # Errors
/// [`ChannelError`] if the key is rejected, the daemon is full, or the channel is not open within
/// `limit`.
pub fn connect(
    socket: &TcpStream,
    own: &KeyPair,
    accepts: impl Fn(PublicKey) -> bool + Send + Sync + 'static,
    limit: Duration,
) -> Result<ControlChannel, ChannelError> {
    match OpeningChannel::begin(socket, own, accepts, limit)?.reply(limit)? {
        ChannelReply::Open(channel) => Ok(channel),
        ChannelReply::Full(..) => Err(NetError::Refused.into()),
    }
}

/// Accepts a channel from a client with any key.
///
/// # Errors
/// [`NetError`] if the client has no key or the channel is not open within `limit`.
pub fn accept(socket: &TcpStream, own: &KeyPair, limit: Duration) -> Result<ControlChannel, NetError> {
    let verifier = KeyVerifier::new(|der| PublicKey::from_der(der).is_some());
    let tls = Tls::begin(server(own, verifier.clone())?, DeadlineSocket::new(socket, limit))?;
    let peer = key_of(&verifier).ok_or(NetError::WrongKey)?;
    Ok(ControlChannel { connection: Box::new(tls), peer })
}

fn key_of(verifier: &Arc<KeyVerifier>) -> Option<PublicKey> {
    PublicKey::from_der(verifier.presented_key()?)
}

impl ControlChannel {
    /// Returns the peer's public key; the peer has proven to have the private key.
    pub fn peer(&self) -> PublicKey {
        self.peer
    }

    /// Returns the socket of the channel.
    pub fn socket(&self) -> &TcpStream {
        self.connection.socket()
    }

    /// Reads a line, without its newline.
    ///
    /// # Errors
    /// I/O errors; the line exceeds `most` bytes or is not UTF-8; no data for `limit`.
    pub fn read_line(&mut self, most: usize, limit: Duration) -> io::Result<String> {
        self.connection.socket().set_read_timeout(Some(limit))?;
        let mut line = Vec::new();
        loop {
            let mut byte = [0];
            // The connection buffers decrypted data, so reading single bytes is cheap.
            self.connection.read_exact(&mut byte)?;
            match byte {
                [b'\n'] => return String::from_utf8(line).map_err(io::Error::other),
                [byte] if line.len() < most => line.push(byte),
                _ => return Err(io::Error::other("line too long")),
            }
        }
    }

    /// Writes a line and a newline.
    ///
    /// # Errors
    /// I/O errors.
    pub fn write_line(&mut self, line: &str) -> io::Result<()> {
        self.connection.write_all(format!("{line}\n").as_bytes())
    }

    /// Closes the channel, and reads remaining data of the peer for at most `limit`: closing with
    /// unread data would reset the connection and might lose the last lines (RFC 1122, section
    /// 4.2.2.13).
    pub fn close(mut self, limit: Duration) {
        // A lost peer needs no notice.
        drop(self.connection.close());
        drop(io::copy(&mut DeadlineSocket::new(self.connection.socket(), limit), &mut io::sink()));
    }

    /// Converts the channel to a pair of byte streams.
    ///
    /// # Errors
    /// I/O errors.
    pub fn into_streams(self) -> io::Result<(StreamPair, ChannelRelay)> {
        settle(self.connection.socket())?;
        let socket = self.connection.socket().try_clone()?;
        let (ours, local) = UnixStream::pair()?;
        let (finished_sender, finished) = channel();
        Builder::new().name("control".to_owned()).spawn(move || {
            // Both sides see a lost connection as the end of the streams.
            drop(self.connection.relay(&local, SILENCE));
            drop(local.shutdown(Shutdown::Both));
            drop(finished_sender);
        })?;
        let ends = StreamPair { from: Box::new(ours.try_clone()?), to: Box::new(WriteHalf(ours)) };
        Ok((ends, ChannelRelay { finished, socket }))
    }
}

/// Relay of the byte streams. On drop the last bytes are sent and the connection is closed.
#[derive(Debug)]
pub struct ChannelRelay {
    finished: Receiver<()>,
    socket: TcpStream,
}

impl ChannelRelay {
    /// Closes the connection immediately, without sending the last bytes.
    pub fn abort(&self) {
        drop(self.socket.shutdown(Shutdown::Both));
    }
}

impl Drop for ChannelRelay {
    fn drop(&mut self) {
        // The relay thread drops its sender when done.
        let _ = self.finished.recv_timeout(CLOSE_TIMEOUT);
        drop(self.socket.shutdown(Shutdown::Both));
    }
}

/// Outgoing stream: dropping it signals the end to the peer while the incoming one stays open.
struct WriteHalf(UnixStream);

impl Write for WriteHalf {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for WriteHalf {
    fn drop(&mut self) {
        drop(self.0.shutdown(Shutdown::Write));
    }
}

#[cfg(test)]
mod tests {
    use super::super::full_notice::FullReason;
    use super::super::tests::vanish;
    use super::*;
    use std::net::TcpListener;
    use std::thread;

    const LIMIT: Duration = Duration::from_secs(60);

    /// Returns both ends of a connection and their keys.
    fn sockets() -> (TcpStream, TcpStream, KeyPair, KeyPair) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let caller = TcpStream::connect(listener.local_addr().expect("an address")).expect("a listener");
        let keys = || KeyPair::generate().expect("a key");
        (caller, listener.accept().expect("a caller").0, keys(), keys())
    }

    fn public(keys: &KeyPair) -> PublicKey {
        PublicKey::from_der(keys.public()).expect("a key")
    }

    /// Returns both ends of an open channel.
    fn channel() -> (ControlChannel, ControlChannel) {
        let (caller, daemon, own, theirs) = sockets();
        let (key, known) = (public(&own), public(&theirs));
        let opened = thread::spawn(move || accept(&daemon, &theirs, LIMIT).expect("a caller"));
        let called = connect(&caller, &own, move |came| came == known, LIMIT).expect("a daemon");
        let answered = opened.join().expect("a channel");
        assert_eq!((called.peer(), answered.peer()), (known, key));
        (called, answered)
    }

    #[test]
    fn lines_are_followed_by_concurrent_streams_in_both_directions() {
        let (mut near, mut far) = channel();
        near.write_line("hello").expect("sent");
        // Data directly after a line is not lost.
        near.write_line("first of the stream").expect("sent");
        assert_eq!(far.read_line(64, LIMIT).expect("a line"), "hello");
        far.write_line("welcome").expect("sent");
        assert_eq!(near.read_line(64, LIMIT).expect("a line"), "welcome");
        let sent: Vec<u8> = (0..5_000_000).map(|at: u32| (at * 7 + at / 251) as u8).collect();
        let ends = [near.into_streams().expect("streams"), far.into_streams().expect("streams")];
        let [got, other] = ends.map(|(StreamPair { mut from, mut to }, carrier)| {
            let sent = sent.clone();
            let writing = thread::spawn(move || to.write_all(&sent).expect("sent"));
            thread::spawn(move || {
                let mut got = Vec::new();
                from.read_to_end(&mut got).expect("an end in order");
                writing.join().expect("sent");
                drop(carrier);
                got
            })
        });
        assert!(got.join().expect("read") == sent);
        let other = other.join().expect("read");
        assert!(other.strip_prefix(b"first of the stream\n").is_some_and(|rest| rest == sent));
    }

    #[test]
    fn lost_peer_ends_the_streams() {
        let (near, far) = channel();
        let socket = near.connection.socket().try_clone().expect("a socket");
        let (StreamPair { mut from, to: _to }, _carrier) = far.into_streams().expect("streams");
        socket.shutdown(Shutdown::Both).expect("cut");
        let mut got = Vec::new();
        drop(from.read_to_end(&mut got));
        assert!(got.is_empty());
    }

    #[test]
    fn silent_peer_is_detected_while_sending() {
        let (near, far) = channel();
        vanish(far.connection.socket());
        let (mut ours, local) = UnixStream::pair().expect("streams");
        ours.write_all(b"words").expect("sent");
        let (finished_sender, result) = std::sync::mpsc::channel();
        thread::spawn(move || {
            finished_sender.send(near.connection.relay(&local, Duration::from_millis(500)))
        });
        // The kernel itself gives up after 15 minutes.
        let why = result.recv_timeout(LIMIT).expect("noticed").expect_err("the peer is silent");
        assert_eq!(why.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn untrusted_daemon_key_is_reported() {
        let (caller, daemon, own, theirs) = sockets();
        let key = public(&theirs);
        thread::spawn(move || drop(accept(&daemon, &theirs, LIMIT)));
        let refused = connect(&caller, &own, |_| false, LIMIT).expect_err("another key");
        assert!(matches!(refused, ChannelError::WrongKey(other) if other == key), "{refused}");
    }

    #[test]
    fn notices_of_a_full_daemon_precede_the_handshake() {
        let (caller, daemon, own, theirs) = sockets();
        let known = public(&theirs);
        let notices = [2, 1].map(|at| FullNotice { reason: FullReason::Connections, position: Some(at) });
        let opened = thread::spawn(move || {
            notices.iter().for_each(|notice| notice.send(&daemon).expect("sent"));
            accept(&daemon, &theirs, LIMIT).expect("a caller")
        });
        let mut opening =
            OpeningChannel::begin(&caller, &own, move |came| came == known, LIMIT).expect("started");
        for expected in notices {
            let reply = opening.reply(LIMIT).expect("a reply");
            let ChannelReply::Full(notice, again) = reply else { panic!("the daemon is full: {reply:?}") };
            assert_eq!(notice, expected);
            opening = *again;
        }
        assert!(matches!(opening.reply(LIMIT).expect("a reply"), ChannelReply::Open(_)));
        opened.join().expect("a channel");
    }

    #[test]
    fn line_length_encoding_and_time_are_limited() {
        let (mut near, mut far) = channel();
        near.write_line(&"x".repeat(65)).expect("sent");
        assert!(far.read_line(64, LIMIT).is_err());
        let (mut near, mut far) = channel();
        near.connection.write_all(b"\xff\xfe\n").expect("sent");
        assert!(far.read_line(64, LIMIT).is_err());
        let (_near, mut far) = channel();
        assert!(far.read_line(64, Duration::from_millis(20)).is_err(), "nothing came");
    }
}
