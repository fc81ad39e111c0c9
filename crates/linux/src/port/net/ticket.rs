//! Data connections at the port of a daemon. Its process that listens starts another one for each transfer, so a connection
//! begins with a ticket, which tells whose it is, and is handed over unread. A ticket proves nothing, and whoever is on the way
//! sees it: what lets a connection in is the [`super::Credentials`], as everywhere.

use super::deadline::{opening_error, DeadlineSocket};
use super::NetError;
use crate::random;
use rustix::cmsg_space;
use rustix::io::{retry_on_intr, Errno};
use rustix::net::{
    recvmsg, sendmsg, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// What stands in front of a ticket: no handshake of TLS begins so.
const HEAD: &[u8; 8] = b"\x93numaio:";
const BYTES: usize = 16;

/// What the connections of one transfer have in common, and no others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub [u8; BYTES]);

impl Ticket {
    /// One that nobody has yet.
    ///
    /// # Errors
    /// The kernel's, if it has no random numbers.
    pub fn generate() -> io::Result<Self> {
        random::bytes().map(Self)
    }

    /// Says it, first of all.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn send(&self, mut socket: &TcpStream) -> io::Result<()> {
        // What follows is not held back until this is acknowledged.
        socket.set_nodelay(true)?;
        socket.write_all(&[&HEAD[..], &self.0].concat())
    }

    /// The ticket that a connection begins with; none if it begins otherwise, as a control channel does. Then nothing was read.
    ///
    /// # Errors
    /// It says nothing within `limit`, or half a ticket.
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

/// Hands a connection over to another process (unix(7), `SCM_RIGHTS`).
///
/// # Errors
/// The kernel's: the process may be gone.
pub fn hand_over(to: &UnixStream, socket: &TcpStream) -> io::Result<()> {
    let sockets = [socket.as_fd()];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut rights = SendAncillaryBuffer::new(&mut space);
    rights.push(SendAncillaryMessage::ScmRights(&sockets));
    let sent = retry_on_intr(|| sendmsg(to, &[IoSlice::new(&[0])], &mut rights, SendFlags::NOSIGNAL));
    Ok(sent.map(drop)?)
}

/// The next connection that is handed over; none if there are no more.
///
/// # Errors
/// The kernel's.
pub(super) fn take_over(from: &UnixStream) -> io::Result<Option<TcpStream>> {
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
    // There is none if we have too many open files.
    socket.map(|socket| Some(TcpStream::from(socket))).ok_or_else(|| Errno::MFILE.into())
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
    fn a_connection_is_handed_over_behind_its_ticket() {
        let ((mut near, far), ticket) = (pair(), Ticket::generate().expect("a ticket"));
        ticket.send(&near).expect("shown");
        near.write_all(b"rest").expect("sent");
        assert_eq!(Ticket::of(&far, LIMIT).expect("told"), Some(ticket));
        let (to, from) = UnixStream::pair().expect("a pair");
        hand_over(&to, &far).expect("handed over");
        drop((far, to));
        let mut taken = take_over(&from).expect("taken").expect("a connection");
        let mut rest = [0; 4];
        taken.read_exact(&mut rest).expect("came");
        assert_eq!(&rest, b"rest");
        assert!(take_over(&from).expect("an end").is_none());
    }

    #[test]
    fn what_has_no_ticket_is_left_as_it_is() {
        let (mut near, mut far) = pair();
        near.write_all(b"\x16\x03").expect("sent");
        assert_eq!(Ticket::of(&far, LIMIT).expect("told"), None);
        let mut first = [0; 2];
        far.read_exact(&mut first).expect("came");
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
