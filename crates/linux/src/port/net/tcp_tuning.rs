//! What the kernel knows of the way of a connection, and how it is to send on it.

use rustix::fd::AsFd;
use rustix::net::sockopt::{set_tcp_congestion, tcp_congestion};
use rustix::net::{socket, AddressFamily, SocketType};
use socket2::{Domain, Socket, Type};
use std::io;
use std::mem::size_of_val;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// Where fields of `struct tcp_info` are (include/uapi/linux/tcp.h), in numbers of four bytes.
const STATE: usize = 0;
const LAST_ACK_RECV: usize = 56 / 4;
const RETRANSMITTED: usize = 100 / 4;
const MIN_RTT: usize = 148 / 4;

/// What the kernel tells of a connection in some of these fields (tcp(7), `TCP_INFO`); none before Linux 4.3, which knows not all of them.
fn tcp_info<const N: usize>(socket: &TcpStream, fields: [usize; N]) -> Option<[u32; N]> {
    let mut info = [0u32; MIN_RTT + 1];
    let mut length = size_of_val(&info) as libc::socklen_t;
    // SAFETY: the kernel writes `length` bytes at the most, all of which are in the array, and tells how many it wrote.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    let is_complete = done == 0 && length as usize == size_of_val(&info);
    is_complete.then(|| fields.map(|field| info[field]))
}

/// The shortest round trip that was seen; none if the kernel does not tell.
pub fn min_round_trip(socket: &TcpStream) -> Option<Duration> {
    // Nothing was measured yet if all bits are set.
    let [micros] = tcp_info(socket, [MIN_RTT]).filter(|[micros]| *micros != u32::MAX)?;
    Some(Duration::from_micros(micros.into()))
}

/// Whether the other side has not answered for so long, and should have: something had to be sent again, or it was asked more than
/// once whether it has room again. One that only does not read answers that it has none; before Linux 6.6 one whose kernel has no
/// memory for what comes does not answer, and is taken for silent.
pub fn is_silent(socket: &TcpStream, limit: Duration) -> bool {
    let Some([state, since]) = tcp_info(socket, [STATE, LAST_ACK_RECV]) else { return false };
    let [_, _, again, asked] = state.to_ne_bytes();
    // Two questions may wait for their answer, if one was lost.
    (again > 0 || asked > 2) && Duration::from_millis(since.into()) >= limit
}

/// Whether a connection had to send something again; true if the kernel does not tell.
fn has_retransmitted(socket: &TcpStream) -> bool {
    tcp_info(socket, [RETRANSMITTED]) != Some([0])
}

/// Bytes that wait at a connection to be sent for the first time, at the most: what it sends in a few milliseconds.
const UNSENT: libc::c_int = 512 << 10;

/// Has whoever writes wait as long as so much is not sent yet (tcp(7), `TCP_NOTSENT_LOWAT`). Else the kernel keeps about as much as
/// there is under way, and of several connections the slowest would hold what others could send.
///
/// # Errors
/// The kernel's.
pub fn limit_unsent(socket: &TcpStream) -> io::Result<()> {
    set(socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, &UNSENT.to_ne_bytes())
}

/// Sets an option that rustix does not know.
///
/// # Errors
/// The kernel's.
pub fn set(socket: &TcpStream, level: libc::c_int, option: libc::c_int, value: &[u8]) -> io::Result<()> {
    // SAFETY: the kernel reads as many bytes as there are.
    let done = unsafe {
        let length = value.len() as libc::socklen_t;
        libc::setsockopt(socket.as_raw_fd(), level, option, value.as_ptr().cast(), length)
    };
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// How the name of what paces begins: it sends by timers, as fast as it takes the way to be (draft-ietf-ccwg-bbr).
const PACED: &str = "bbr";
/// What does not pace, the best first. The kernel may not have it, or not for everybody (`tcp_allowed_congestion_control` of
/// Documentation/networking/ip-sysctl.rst).
const UNPACED: [&str; 2] = ["cubic", "reno"];

/// Has a socket that is not connected yet, or what comes to one that listens, send without a pause, where the machine's congestion
/// control would pace it. That pays on a long way that loses packets; else the timers only take time. The kernel goes on to
/// pace what it once did, so that this has to be said before the way is known, and [`UnpacedPhase`] ends it.
fn unpace(socket: impl AsFd) {
    if tcp_congestion(&socket).is_ok_and(|name| name.starts_with(PACED)) {
        // Where none may be taken it stays as it is.
        UNPACED.iter().find(|name| set_tcp_congestion(&socket, name).is_ok());
    }
}

/// What the machine has for those who ask for nothing.
fn default_congestion_control() -> Option<String> {
    tcp_congestion(socket(AddressFamily::INET, SocketType::STREAM, None).ok()?).ok()
}

/// The machine's congestion control, if [`unpace`] took it from this connection.
fn replaced_congestion_control(socket: &TcpStream) -> Option<String> {
    let is_ours = tcp_congestion(socket).is_ok_and(|name| UNPACED.contains(&name.as_str()));
    is_ours.then(default_congestion_control).flatten().filter(|name| name.starts_with(PACED))
}

/// How long the beginning of a connection on a long way takes at the most: many round trips. What then still grows slowly may do so
/// for ever, as delays that changed have ended the doubling too early (RFC 9406).
const UNPACED_LIMIT: Duration = Duration::from_secs(2);

/// The time in which a connection on a long way is not paced: until it loses something, and not for long. When it began, and what it
/// gets back; none once it has it, and where nothing was taken.
#[derive(Debug)]
pub struct UnpacedPhase(Option<(Instant, String)>);

impl UnpacedPhase {
    /// That of a connection which begins to send now; none on a short way, where it stays as it is.
    pub fn new(socket: &TcpStream, is_short: bool) -> Self {
        let default_congestion_control = if is_short { None } else { replaced_congestion_control(socket) };
        Self(
            default_congestion_control
                .map(|default_congestion_control| (Instant::now(), default_congestion_control)),
        )
    }

    /// To be called now and then: ends it if it is time.
    pub fn update(&mut self, socket: &TcpStream) {
        let is_over = |(began, _): &mut (Instant, String)| {
            began.elapsed() >= UNPACED_LIMIT || has_retransmitted(socket)
        };
        if let Some((_, default_congestion_control)) = self.0.take_if(is_over) {
            // Everybody may have what is usual.
            set_tcp_congestion(socket, &default_congestion_control).ok();
        }
    }
}

/// Connections that wait to be accepted, at the most: as many as of std's listeners.
const BACKLOG: i32 = 128;

/// Listens for connections that are not paced. All addresses are those of IPv4 and IPv6, whatever the machine's setting is
/// (ipv6(7), `IPV6_V6ONLY`), and those of IPv4 where there is no IPv6.
///
/// # Errors
/// The kernel's.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = match bind(address) {
        Err(error) if address.ip().is_unspecified() && has_no_ipv6(&error) => {
            bind((Ipv4Addr::UNSPECIFIED, address.port()).into())
        }
        bind => bind,
    }?;
    unpace(&listener);
    Ok(listener)
}

/// Whether a machine has no IPv6, or none that is switched on; else somebody has the port.
fn has_no_ipv6(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL | libc::EPROTONOSUPPORT))
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    if address.is_ipv6() && address.ip().is_unspecified() {
        socket.set_only_v6(false)?;
    }
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// A connection that is not paced.
///
/// # Errors
/// The kernel's; [`io::ErrorKind::TimedOut`] if it takes longer than `limit`.
pub fn connect(to: SocketAddr, limit: Duration) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, None)?;
    unpace(&socket);
    socket.connect_timeout(&to.into(), limit)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::super::tests::vanish;
    use super::*;
    use std::io::{Read, Write};

    /// In a network of its own, as the setting is that of a machine.
    #[test]
    fn all_addresses_are_those_of_ipv4_too_whatever_the_machine_thinks_of_it() {
        let confined = || {
            // SAFETY: only this thread gets a network of its own, and it ends at once.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0
                || std::fs::write("/proc/sys/net/ipv6/bindv6only", "1").is_err()
            {
                return crate::test_support::print_skipped("skipped: a network of its own, as it needs root and IPv6");
            }
            let listener = listen((std::net::Ipv6Addr::UNSPECIFIED, 0).into()).expect("a listener");
            assert!(!socket2::SockRef::from(&listener).only_v6().expect("a setting"));
        };
        std::thread::spawn(confined).join().expect("it holds");
    }

    /// One end of a connection as ours are, and the other.
    fn connection() -> (TcpStream, TcpStream) {
        let door = listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("a port");
        let near =
            connect(door.local_addr().expect("an address"), Duration::from_secs(5)).expect("a connection");
        (near, door.accept().expect("a connection").0)
    }

    #[test]
    fn a_round_trip_within_a_machine_is_known() {
        let (mut near, mut far) = connection();
        near.write_all(b"x").expect("sent");
        far.read_exact(&mut [0]).expect("came");
        let time = min_round_trip(&near).expect("a round trip");
        assert!(time > Duration::ZERO && time < Duration::from_secs(5), "{time:?}");
    }

    /// Sends until there is no room any more.
    fn fill(mut socket: &TcpStream) {
        socket.set_nonblocking(true).expect("set");
        while socket.write(&[0; 1 << 16]).is_ok() {}
    }

    #[test]
    fn who_does_not_answer_any_more_is_silent_and_who_does_not_read_is_not() {
        let limit = Duration::from_millis(500);
        let ((idle, _still), (sending, other), (full, gone), (waiting, _slow)) =
            (connection(), connection(), connection(), connection());
        fill(&waiting);
        fill(&full);
        vanish(&other);
        vanish(&gone);
        (&sending).write_all(b"x").expect("sent");
        let until = Instant::now() + Duration::from_secs(30);
        while !is_silent(&sending, limit) || !is_silent(&full, limit) {
            assert!(Instant::now() < until, "it is not noticed");
            assert!(!is_silent(&idle, limit) && !is_silent(&waiting, limit));
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(!is_silent(&idle, limit) && !is_silent(&waiting, limit));
    }

    #[test]
    fn a_beginning_ends_in_time_and_only_on_long_ways() {
        let (near, far) = connection();
        for end in [near, far] {
            let name = tcp_congestion(&end).expect("a name");
            assert!(!name.starts_with(PACED), "{name}");
            for mut young in [UnpacedPhase::new(&end, false), UnpacedPhase::new(&end, true)] {
                young.update(&end);
                assert_eq!(tcp_congestion(&end).ok().as_ref(), Some(&name));
            }
            let long_ago = Instant::now().checked_sub(UNPACED_LIMIT).expect("a time");
            let mut old = UnpacedPhase(
                replaced_congestion_control(&end)
                    .map(|default_congestion_control| (long_ago, default_congestion_control)),
            );
            old.update(&end);
            assert!(old.0.is_none(), "it is over");
            assert_eq!(tcp_congestion(&end).ok(), default_congestion_control());
        }
    }

    /// What comes to a listener that takes none is lost, so that who connects has to try again, after a second (RFC 6298).
    #[test]
    fn what_was_sent_again_is_known() {
        let (near, _far) = connection();
        assert!(!has_retransmitted(&near));
        let door = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        door.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).expect("bound");
        door.listen(0).expect("listens");
        let to = door.local_addr().expect("an address");
        let many: Vec<TcpStream> = std::iter::repeat_with(|| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
            socket.set_nonblocking(true).expect("set");
            socket.connect(&to).ok();
            socket.into()
        })
        .take(8)
        .collect();
        let until = Instant::now() + Duration::from_secs(30);
        while !many.iter().any(has_retransmitted) {
            assert!(Instant::now() < until, "nothing is sent again");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    #[test]
    fn only_what_paces_is_changed() {
        let paced = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
        // Not every kernel has it.
        if set_tcp_congestion(&paced, PACED).is_ok() {
            unpace(&paced);
            assert!(UNPACED.contains(&tcp_congestion(&paced).expect("a name").as_str()));
        }
        let other = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
        set_tcp_congestion(&other, "reno").expect("everybody may have it");
        unpace(&other);
        assert_eq!(tcp_congestion(&other).expect("a name"), "reno");
    }
}
