//! Data connections at the port of a daemon. The listening process starts a session process for
//! each transfer, so a connection begins with a ticket that identifies its session, and is passed
//! on with the rest unread. A ticket is not a secret: connections are authenticated by
//! [`super::Credentials`].

use super::deadline::DeadlineSocket;
use super::net_error::{opening_error, NetError};
use numaio_linux::random;
use rustix::cmsg_space;
use rustix::io::{retry_on_intr, Errno};
use rustix::net::{
    recvmsg, sendmsg, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Prefix of a ticket, which no TLS handshake begins with.
const HEAD: &[u8; 8] = b"\x93numaio:";
const BYTES: usize = 16;

/// Identifies the connections of one transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub [u8; BYTES]);

impl Ticket {
    /// Generates a random ticket.
    ///
    /// # Errors
    /// I/O error if the kernel provides no random numbers.
    pub fn generate() -> io::Result<Self> {
        random::bytes().map(Self)
    }

    /// Sends the ticket, before anything else.
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn send(&self, mut socket: &TcpStream) -> io::Result<()> {
        // Following data need not wait for the acknowledgment of the ticket.
        socket.set_nodelay(true)?;
        socket.write_all(&[&HEAD[..], &self.0].concat())
    }

    /// Reads the ticket of a connection; none, with nothing read, if it starts otherwise, like a
    /// control channel.
    ///
    /// # Errors
    /// [`NetError`] if nothing arrives within `limit`, or the ticket is incomplete.
    pub fn of(socket: &TcpStream, limit: Duration) -> Result<Option<Self>, NetError> {
        let mut timed = DeadlineSocket::new(socket, limit);
        let mut first = [0];
        match timed.peek(&mut first).map_err(opening_error)? {
            0 => return Err(NetError::Refused),
            _ if first[0] != HEAD[0] => return Ok(None),
            _ => {}
        }
        let (mut head, mut ticket) = ([0; HEAD.len()], [0; BYTES]);
        timed.read_exact(&mut head).map_err(opening_error)?;
        if head != *HEAD {
            return Err(NetError::Protocol("it has no ticket".to_owned()));
        }
        timed.read_exact(&mut ticket).map_err(opening_error)?;
        Ok(Some(Self(ticket)))
    }
}

/// Passes a connection to another process (unix(7), `SCM_RIGHTS`).
///
/// # Errors
/// I/O errors: the process may have exited.
pub fn hand_over(to: &UnixStream, socket: &impl AsFd) -> io::Result<()> {
    let sockets = [socket.as_fd()];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut rights = SendAncillaryBuffer::new(&mut space);
    rights.push(SendAncillaryMessage::ScmRights(&sockets));
    let sent = retry_on_intr(|| sendmsg(to, &[IoSlice::new(&[0])], &mut rights, SendFlags::NOSIGNAL));
    Ok(sent.map(drop)?)
}

/// Receives the next connection passed by another process; none at the end.
///
/// # Errors
/// I/O errors.
pub(super) fn take_over(from: &UnixStream) -> io::Result<Option<TcpStream>> {
    Ok(receive_socket(from)?.map(TcpStream::from))
}

/// Receives the next socket passed by another process by [`hand_over`]; none at the end.
///
/// # Errors
/// I/O errors.
pub fn receive_socket(from: &UnixStream) -> io::Result<Option<OwnedFd>> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut rights = RecvAncillaryBuffer::new(&mut space);
    let got = retry_on_intr(|| {
        recvmsg(from, &mut [IoSliceMut::new(&mut byte)], &mut rights, RecvFlags::CMSG_CLOEXEC)
    })?;
    if got.bytes == 0 {
        return Ok(None);
    }
    let socket = rights.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut sockets) => sockets.next(),
        _ => None,
    });
    // The descriptor is missing if too many files are open.
    socket.map(Some).ok_or_else(|| Errno::MFILE.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpListener};

    const LIMIT: Duration = Duration::from_secs(20);

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let near = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
        (near, listener.accept().expect("a connection").0)
    }

    #[test]
    fn connection_is_handed_over_after_its_ticket() {
        let ((mut near, far), ticket) = (pair(), Ticket::generate().expect("a ticket"));
        ticket.send(&near).expect("shown");
        near.write_all(b"rest").expect("sent");
        assert_eq!(Ticket::of(&far, LIMIT).expect("a ticket"), Some(ticket));
        let (to, from) = UnixStream::pair().expect("a pair");
        hand_over(&to, &far).expect("handed over");
        drop((far, to));
        let mut taken = take_over(&from).expect("taken").expect("a connection");
        let mut rest = [0; 4];
        taken.read_exact(&mut rest).expect("received");
        assert_eq!(&rest, b"rest");
        assert!(take_over(&from).expect("an end").is_none());
    }

    #[test]
    fn connection_without_ticket_stays_unread() {
        let (mut near, mut far) = pair();
        near.write_all(b"\x16\x03").expect("sent");
        assert_eq!(Ticket::of(&far, LIMIT).expect("readable"), None);
        let mut first = [0; 2];
        far.read_exact(&mut first).expect("received");
        assert_eq!(&first, b"\x16\x03");
        for wrong in [&b"\x93numaio\x0a0123456789abcdef"[..], b"\x93numaio:0123456789abcde", b"\x93", b""] {
            let (mut near, far) = pair();
            near.write_all(wrong).expect("sent");
            drop(near);
            assert!(Ticket::of(&far, LIMIT).is_err(), "{wrong:?}");
        }
        let (_near, far) = pair();
        assert!(matches!(Ticket::of(&far, Duration::from_millis(20)), Err(NetError::TimedOut)));
    }
}
