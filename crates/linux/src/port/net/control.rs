//! The control channel of a daemon: a TLS connection whose two ends know each other by keys that are kept. It is opened
//! as data connections are ([`super::tls`]), says some lines, and then carries two streams.

use super::deadline::DeadlineSocket;
use super::key::PublicKey;
use super::records::{Records, Tls};
use super::tls::{client, server, KeyPair, KeyVerifier};
use super::{settle, DataStream, NetError, SILENCE};
use crate::port::StreamPair;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{channel, Receiver};
use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

/// How long the last bytes may take, and the other side to say that it has ended too.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// What comes after the lines.
trait Relayed: DataStream {
    fn relay(self: Box<Self>, local: &UnixStream, silence: Duration) -> io::Result<()>;
}

impl<C: Records> Relayed for Tls<C> {
    fn relay(self: Box<Self>, local: &UnixStream, silence: Duration) -> io::Result<()> {
        (*self).relay(local, silence)
    }
}

/// An open channel.
pub struct ControlChannel {
    connection: Box<dyn Relayed>,
    peer: PublicKey,
}

impl fmt::Debug for ControlChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control").field("peer", &self.peer).finish_non_exhaustive()
    }
}

/// Why there is no channel.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The other side has this key, which is not taken.
    #[error("whoever is there has the key {0}")]
    WrongKey(PublicKey),
    /// Another reason.
    #[error(transparent)]
    Net(#[from] NetError),
}

impl From<io::Error> for ChannelError {
    fn from(error: io::Error) -> Self {
        Self::Net(error.into())
    }
}

/// Opens a channel to a daemon of whose key `accepts` says that it is the right one.
///
/// # Errors
/// [`ChannelError`] if it has another one, or does not open it within `limit`.
pub fn connect(
    socket: &TcpStream,
    own: &KeyPair,
    accepts: impl Fn(PublicKey) -> bool + Send + Sync + 'static,
    limit: Duration,
) -> Result<ControlChannel, ChannelError> {
    let verifier = KeyVerifier::new(move |der| PublicKey::from_der(der).is_some_and(&accepts));
    let opened = client(own, verifier.clone())
        .and_then(|client| Tls::begin(client, DeadlineSocket::new(socket, limit)));
    match (opened, key_of(&verifier)) {
        (Ok(tls), Some(peer)) => Ok(ControlChannel { connection: Box::new(tls), peer }),
        (Err(NetError::WrongKey), Some(other)) => Err(ChannelError::WrongKey(other)),
        (Err(error), _) => Err(error.into()),
        (Ok(_), None) => Err(NetError::WrongKey.into()),
    }
}

/// Opens a channel to whoever calls, and tells its key, which is its own.
///
/// # Errors
/// [`NetError`] if it has none, or does not open the channel within `limit`.
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
    /// The key of the other side, which has shown that it has the private half.
    pub fn peer(&self) -> PublicKey {
        self.peer
    }

    /// Waits for a line, which is given without its end.
    ///
    /// # Errors
    /// The kernel's; the line is longer than `most` bytes, or no UTF-8; nothing came for `limit`.
    pub fn read_line(&mut self, most: usize, limit: Duration) -> io::Result<String> {
        self.connection.socket().set_read_timeout(Some(limit))?;
        let mut line = Vec::new();
        loop {
            let mut byte = [0];
            // What was decrypted is kept by the connection, so a byte at a time costs little.
            self.connection.read_exact(&mut byte)?;
            match byte {
                [b'\n'] => return String::from_utf8(line).map_err(io::Error::other),
                [byte] if line.len() < most => line.push(byte),
                _ => return Err(io::Error::other("a line is too long")),
            }
        }
    }

    /// Says a line, whose end is added.
    ///
    /// # Errors
    /// The kernel's.
    pub fn write_line(&mut self, line: &str) -> io::Result<()> {
        self.connection.write_all(format!("{line}\n").as_bytes())
    }

    /// Says that nothing follows. What the other side says before it hears so is read for at most `limit`: a connection that is
    /// closed before is reset, and then the last lines may be lost (RFC 1122, section 4.2.2.13).
    pub fn close(mut self, limit: Duration) {
        // Who is gone needs not be told.
        drop(self.connection.close());
        drop(io::copy(&mut DeadlineSocket::new(self.connection.socket(), limit), &mut io::sink()));
    }

    /// From now on it is two streams.
    ///
    /// # Errors
    /// The kernel's.
    pub fn into_streams(self) -> io::Result<(StreamPair, ChannelRelay)> {
        settle(self.connection.socket())?;
        let socket = self.connection.socket().try_clone()?;
        let (ours, local) = UnixStream::pair()?;
        let (finished_sender, finished) = channel();
        Builder::new().name("control".to_owned()).spawn(move || {
            // A cut is seen by both as an end of the streams.
            drop(self.connection.relay(&local, SILENCE));
            drop(local.shutdown(Shutdown::Both));
            drop(finished_sender);
        })?;
        let ends = StreamPair { from: Box::new(ours.try_clone()?), to: Box::new(WriteHalf(ours)) };
        Ok((ends, ChannelRelay { finished, socket }))
    }
}

/// What carries the streams. When this is dropped the last bytes are sent, and the connection is closed.
#[derive(Debug)]
pub struct ChannelRelay {
    finished: Receiver<()>,
    socket: TcpStream,
}

impl ChannelRelay {
    /// Closes the connection at once: nobody waits for the last bytes.
    pub fn abort(&self) {
        drop(self.socket.shutdown(Shutdown::Both));
    }
}

impl Drop for ChannelRelay {
    fn drop(&mut self) {
        // The thread says that it is done by dropping its end.
        let _ = self.finished.recv_timeout(CLOSE_TIMEOUT);
        drop(self.socket.shutdown(Shutdown::Both));
    }
}

/// The stream to the other side: its end is told when it is dropped, though the one from there is still open.
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
    use super::super::tests::vanish;
    use super::*;
    use std::net::TcpListener;
    use std::thread;

    const LIMIT: Duration = Duration::from_secs(60);

    /// A daemon's end and a caller's end of a connection, with the keys of both.
    fn sockets() -> (TcpStream, TcpStream, KeyPair, KeyPair) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let caller = TcpStream::connect(listener.local_addr().expect("an address")).expect("a listener");
        let keys = || KeyPair::generate().expect("a key");
        (caller, listener.accept().expect("a caller").0, keys(), keys())
    }

    fn public(keys: &KeyPair) -> PublicKey {
        PublicKey::from_der(keys.public()).expect("a key")
    }

    /// An open channel, as both ends have it.
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
    fn lines_are_heard_and_then_streams_flow_both_ways_at_once() {
        let (mut near, mut far) = channel();
        near.write_line("hello").expect("said");
        // What follows a line at once is not lost.
        near.write_line("first of the stream").expect("said");
        assert_eq!(far.read_line(64, LIMIT).expect("a line"), "hello");
        far.write_line("welcome").expect("said");
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
    fn whoever_is_gone_is_seen_to_be() {
        let (near, far) = channel();
        let socket = near.connection.socket().try_clone().expect("a socket");
        let (StreamPair { mut from, to: _to }, _carrier) = far.into_streams().expect("streams");
        socket.shutdown(Shutdown::Both).expect("cut");
        let mut got = Vec::new();
        drop(from.read_to_end(&mut got));
        assert!(got.is_empty());
    }

    #[test]
    fn whoever_vanishes_while_something_is_sent_is_noticed() {
        let (near, far) = channel();
        vanish(far.connection.socket());
        let (mut ours, local) = UnixStream::pair().expect("streams");
        ours.write_all(b"words").expect("said");
        let (finished_sender, heard) = std::sync::mpsc::channel();
        thread::spawn(move || {
            finished_sender.send(near.connection.relay(&local, Duration::from_millis(500)))
        });
        // The kernel itself gives up after a quarter of an hour.
        let why = heard.recv_timeout(LIMIT).expect("noticed").expect_err("nobody is there");
        assert_eq!(why.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn a_daemon_with_another_key_is_told_by_it() {
        let (caller, daemon, own, theirs) = sockets();
        let key = public(&theirs);
        thread::spawn(move || drop(accept(&daemon, &theirs, LIMIT)));
        let refused = connect(&caller, &own, |_| false, LIMIT).expect_err("another key");
        assert!(matches!(refused, ChannelError::WrongKey(other) if other == key), "{refused}");
    }

    #[test]
    fn lines_have_limits() {
        let (mut near, mut far) = channel();
        near.write_line(&"x".repeat(65)).expect("said");
        assert!(far.read_line(64, LIMIT).is_err());
        let (mut near, mut far) = channel();
        near.connection.write_all(b"\xff\xfe\n").expect("said");
        assert!(far.read_line(64, LIMIT).is_err());
        let (_near, mut far) = channel();
        assert!(far.read_line(64, Duration::from_millis(20)).is_err(), "nothing came");
    }
}
