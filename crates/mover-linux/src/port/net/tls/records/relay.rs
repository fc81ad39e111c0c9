//! Relay of a bidirectional connection: one thread copies bytes between it and a local stream, so
//! that the user has two plain streams, like those of a program started by ssh.

use super::{to_io_error, Records, Step, Tls, PIECE};
use crate::port::net::tcp_tuning::is_silent;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Number of checks within the silence limit.
const CHECKS: u32 = 6;

/// Bytes waiting to be written.
#[derive(Default)]
struct WriteBuffer {
    bytes: Vec<u8>,
    written: usize,
}

impl WriteBuffer {
    fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    fn add(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Writes until the destination would block.
    fn write(&mut self, mut to: impl Write) -> io::Result<()> {
        while self.written < self.bytes.len() {
            match unless_blocked(to.write(&self.bytes[self.written..]))? {
                Some(0) => return Err(ErrorKind::WriteZero.into()),
                Some(count) => self.written += count,
                None => return Ok(()),
            }
        }
        self.bytes.clear();
        self.written = 0;
        Ok(())
    }
}

/// Returns the result; none if the operation would block.
fn unless_blocked(done: io::Result<usize>) -> io::Result<Option<usize>> {
    match done {
        Ok(count) => Ok(Some(count)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
        Err(error) => Err(error),
    }
}

/// State of both directions. Each holds the result of one read and reads again once that is
/// written, so that neither side can make the other one buffer more.
#[derive(Default)]
struct Flow {
    /// Records to the peer.
    up: WriteBuffer,
    /// Data to the local stream.
    down: WriteBuffer,
    /// Whether the local stream has ended, and whether the peer was notified.
    up_ended: bool,
    up_shut: bool,
    /// Whether the local stream was notified of the peer's end.
    down_shut: bool,
    /// Data last read from the local stream.
    buffer: Vec<u8>,
}

impl<C: Records> Tls<C> {
    /// Relays bytes until both directions have ended in order.
    ///
    /// # Errors
    /// The connection was lost or violates TLS; the peer was silent for `silence`; the local stream
    /// is closed.
    pub fn relay(mut self, local: &UnixStream, silence: Duration) -> io::Result<()> {
        self.socket.set_nonblocking(true)?;
        local.set_nonblocking(true)?;
        let mut flow = Flow { buffer: vec![0; PIECE], ..Flow::default() };
        self.decrypt(&mut flow)?;
        let (check_interval, mut checked) = (silence / CHECKS, Instant::now());
        loop {
            flow.up.write(&self.socket)?;
            flow.down.write(local)?;
            if self.ended && flow.down.is_empty() && !flow.down_shut {
                flow.down_shut = true;
                local.shutdown(Shutdown::Write)?;
            }
            if flow.up_ended && flow.up.is_empty() && !flow.up_shut {
                flow.up_shut = true;
                self.socket.shutdown(Shutdown::Write)?;
            }
            if flow.up_shut && flow.down_shut {
                return Ok(());
            }
            self.wait(&flow, local, check_interval)?;
            if checked.elapsed() >= check_interval {
                checked = Instant::now();
                if is_silent(&self.socket, silence) {
                    return Err(ErrorKind::TimedOut.into());
                }
            }
            if flow.down.is_empty() && !self.ended && self.filled()? {
                self.decrypt(&mut flow)?;
            }
            if flow.up.is_empty() && !flow.up_ended {
                self.encrypt_next(&mut flow, local)?;
            }
        }
    }

    /// Waits until progress is possible or a check is due. Unneeded descriptors are left out: their
    /// hang-up would be reported endlessly.
    fn wait(&self, flow: &Flow, local: &UnixStream, most: Duration) -> io::Result<()> {
        let flags = |read: bool, write: bool| {
            let (mut flags, none) = (PollFlags::empty(), PollFlags::empty());
            flags |= if read { PollFlags::IN } else { none };
            flags | if write { PollFlags::OUT } else { none }
        };
        let of_socket = flags(flow.down.is_empty() && !self.ended, !flow.up.is_empty());
        let of_local = flags(flow.up.is_empty() && !flow.up_ended, !flow.down.is_empty());
        let mut waited: Vec<PollFd<'_>> = Vec::new();
        waited.extend((!of_socket.is_empty()).then(|| PollFd::new(&self.socket, of_socket)));
        waited.extend((!of_local.is_empty()).then(|| PollFd::new(local, of_local)));
        let most = Timespec::try_from(most).map_err(io::Error::other)?;
        match poll(&mut waited, Some(&most)) {
            Err(rustix::io::Errno::INTR) | Ok(_) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads available bytes; false if there are none.
    fn filled(&mut self) -> io::Result<bool> {
        let filled = self.incoming.fill(&self.socket).map(|()| 1);
        Ok(unless_blocked(filled)?.is_some())
    }

    /// Decrypts all complete records.
    fn decrypt(&mut self, flow: &mut Flow) -> io::Result<()> {
        loop {
            match self.step(&mut []).map_err(to_io_error)? {
                Step::Send(length) => flow.up.add(&self.outgoing[..length]),
                Step::Continue | Step::Data(_) => {}
                Step::NeedInput => break,
            }
            if self.ended {
                break;
            }
        }
        self.plain.take_all(|rest| flow.down.add(rest));
        Ok(())
    }

    /// Encrypts available data of the local stream, or its end.
    fn encrypt_next(&mut self, flow: &mut Flow, local: &UnixStream) -> io::Result<()> {
        let mut from = local;
        let Some(count) = unless_blocked(from.read(&mut flow.buffer))? else { return Ok(()) };
        flow.up_ended = count == 0;
        let length = self.encrypt(&flow.buffer[..count]).map_err(to_io_error)?;
        flow.up.add(&self.outgoing[..length]);
        Ok(())
    }
}
