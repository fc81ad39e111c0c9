//! A connection whose two ends speak and listen at once: its bytes are carried to and from a local stream, by one thread
//! that waits for both. So whoever uses it has two plain streams, as those of a program that ssh started.

use super::{to_io_error, Records, Step, Tls, PIECE};
use crate::port::net::is_silent;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// How often it looks within the time in which silence is noticed.
const CHECKS: u32 = 6;

/// Bytes that are to be written when there is room for them.
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

    /// Writes as much as there is room for.
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

/// What was done; none if that is not possible now.
fn unless_blocked(done: io::Result<usize>) -> io::Result<Option<usize>> {
    match done {
        Ok(count) => Ok(Some(count)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
        Err(error) => Err(error),
    }
}

/// How far both directions are. Each holds what one reading gave, and reads on when that is written: so neither side can make
/// the other one keep more.
#[derive(Default)]
struct Flow {
    /// To the other side, as records.
    up: WriteBuffer,
    /// To the local stream.
    down: WriteBuffer,
    /// Whether the local stream has ended, and whether the other side was told so.
    up_ended: bool,
    up_shut: bool,
    /// Whether the local stream was told that the other side has ended.
    down_shut: bool,
    /// What the local stream gave last.
    buffer: Vec<u8>,
}

impl<C: Records> Tls<C> {
    /// Carries bytes until both directions have ended in order.
    ///
    /// # Errors
    /// The connection was cut, or what came is no TLS; the other side did not answer for `silence`; the local stream is gone.
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

    /// Until something can be done, or it is time to look. What nobody waits for is left out: its end would be told without end.
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

    /// Reads what came; false if nothing did.
    fn filled(&mut self) -> io::Result<bool> {
        let filled = self.incoming.fill(&self.socket).map(|()| 1);
        Ok(unless_blocked(filled)?.is_some())
    }

    /// Decrypts all records that are whole.
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

    /// Encrypts what the local stream has, or its end.
    fn encrypt_next(&mut self, flow: &mut Flow, local: &UnixStream) -> io::Result<()> {
        let mut from = local;
        let Some(count) = unless_blocked(from.read(&mut flow.buffer))? else { return Ok(()) };
        flow.up_ended = count == 0;
        let length = self.encrypt(&flow.buffer[..count]).map_err(to_io_error)?;
        flow.up.add(&self.outgoing[..length]);
        Ok(())
    }
}
