//! TCP state reported by the kernel, and tuning of sending.

use rustix::fd::AsFd;
use rustix::net::sockopt::{set_tcp_congestion, tcp_congestion};
use rustix::net::{socket, AddressFamily, SocketType};
use socket2::{Domain, Socket, Type};
use std::io;
use std::mem::size_of_val;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// Offsets of fields in `struct tcp_info` (include/uapi/linux/tcp.h), in units of four bytes.
const STATE: usize = 0;
const LAST_ACK_RECV: usize = 56 / 4;
const RETRANSMITTED: usize = 100 / 4;
const MIN_RTT: usize = 148 / 4;

/// Returns fields of the kernel's `struct tcp_info` (tcp(7), `TCP_INFO`); none before Linux 4.3,
/// which lacks some.
fn tcp_info<const N: usize>(socket: &TcpStream, fields: [usize; N]) -> Option<[u32; N]> {
    let mut info = [0u32; MIN_RTT + 1];
    let mut length = size_of_val(&info) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, the size of the array, and returns how
    // many.
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

/// Returns the shortest round trip observed; none if the kernel does not report it.
pub fn min_round_trip(socket: &TcpStream) -> Option<Duration> {
    // All bits set means that nothing was measured yet.
    let [micros] = tcp_info(socket, [MIN_RTT]).filter(|[micros]| *micros != u32::MAX)?;
    Some(Duration::from_micros(micros.into()))
}

/// Returns whether the peer owes an acknowledgment for at least `limit`: data was retransmitted, or
/// the peer's closed window was probed more than once. A peer that merely does not read answers
/// probes. Before Linux 6.6, one without memory for received data does not answer and counts as
/// silent.
pub fn is_silent(socket: &TcpStream, limit: Duration) -> bool {
    let Some([state, since]) = tcp_info(socket, [STATE, LAST_ACK_RECV]) else { return false };
    let [_, _, again, asked] = state.to_ne_bytes();
    // Two probes may be unanswered if one was lost.
    (again > 0 || asked > 2) && Duration::from_millis(since.into()) >= limit
}

/// Returns whether a connection has retransmitted data; true if the kernel does not report it.
fn has_retransmitted(socket: &TcpStream) -> bool {
    tcp_info(socket, [RETRANSMITTED]) != Some([0])
}

/// Maximum unsent bytes queued on a connection: what it sends in a few milliseconds.
const UNSENT: libc::c_int = 512 << 10;

/// Makes writers wait while [`UNSENT`] bytes are unsent (tcp(7), `TCP_NOTSENT_LOWAT`). Otherwise
/// the kernel queues about as much as is in flight, and the slowest of several connections would
/// hold data that others could send.
///
/// # Errors
/// I/O errors.
pub fn limit_unsent(socket: &TcpStream) -> io::Result<()> {
    set(socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, &UNSENT.to_ne_bytes())
}

/// Sets a socket option that rustix does not support.
///
/// # Errors
/// I/O errors.
pub fn set(socket: &TcpStream, level: libc::c_int, option: libc::c_int, value: &[u8]) -> io::Result<()> {
    // SAFETY: the kernel reads exactly the bytes of the slice.
    let done = unsafe {
        let length = value.len() as libc::socklen_t;
        libc::setsockopt(socket.as_raw_fd(), level, option, value.as_ptr().cast(), length)
    };
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Prefix of congestion controls that pace sending by timers (draft-ietf-ccwg-bbr).
const PACED: &str = "bbr";
/// Congestion controls without pacing, best first. The kernel may lack them or restrict them
/// (`tcp_allowed_congestion_control` in Documentation/networking/ip-sysctl.rst).
const UNPACED: [&str; 2] = ["cubic", "reno"];

/// Disables pacing for an unconnected or listening socket whose default congestion control paces.
/// Pacing pays on long paths with loss; elsewhere its timers only cost time. Since the kernel keeps
/// pacing a connection once paced, this happens before the path is known, and [`UnpacedPhase`]
/// restores the default.
fn unpace(socket: impl AsFd) {
    if tcp_congestion(&socket).is_ok_and(|name| name.starts_with(PACED)) {
        // If none may be set, the default stays.
        UNPACED.iter().find(|name| set_tcp_congestion(&socket, name).is_ok());
    }
}

/// Returns the machine's default congestion control.
fn default_congestion_control() -> Option<String> {
    tcp_congestion(socket(AddressFamily::INET, SocketType::STREAM, None).ok()?).ok()
}

/// Returns the machine's congestion control if [`unpace`] replaced it on this connection.
fn replaced_congestion_control(socket: &TcpStream) -> Option<String> {
    let is_ours = tcp_congestion(socket).is_ok_and(|name| UNPACED.contains(&name.as_str()));
    is_ours.then(default_congestion_control).flatten().filter(|name| name.starts_with(PACED))
}

/// Restores the machine's congestion control on a connection, so that a measurement of the network
/// uses it.
pub fn restore_congestion_control(socket: &TcpStream) {
    if let Some(name) = replaced_congestion_control(socket) {
        // Every user may set the default.
        set_tcp_congestion(socket, &name).ok();
    }
}

/// Maximum duration of the unpaced phase on a long path: many round trips. A connection that still
/// grows slowly by then may do so forever, when varying delays ended slow start too early (RFC
/// 9406).
const UNPACED_LIMIT: Duration = Duration::from_secs(2);

/// Phase in which a connection on a long path is not paced: until its first loss, for a limited
/// time. Holds its start and the congestion control to restore; none once restored or where nothing
/// was replaced.
#[derive(Debug)]
pub struct UnpacedPhase(Option<(Instant, String)>);

impl UnpacedPhase {
    /// Starts the phase of a connection that begins to send; none on a short path, which stays
    /// unpaced.
    pub fn new(socket: &TcpStream, is_short: bool) -> Self {
        let default_congestion_control = if is_short { None } else { replaced_congestion_control(socket) };
        Self(
            default_congestion_control
                .map(|default_congestion_control| (Instant::now(), default_congestion_control)),
        )
    }

    /// Ends the phase if it is over; called regularly.
    pub fn update(&mut self, socket: &TcpStream) {
        let is_over = |(began, _): &mut (Instant, String)| {
            began.elapsed() >= UNPACED_LIMIT || has_retransmitted(socket)
        };
        if let Some((_, default_congestion_control)) = self.0.take_if(is_over) {
            // Every user may set the default.
            set_tcp_congestion(socket, &default_congestion_control).ok();
        }
    }
}

/// Maximum number of connections that wait to be accepted, as for std's listeners.
const BACKLOG: i32 = 128;

/// Listens for unpaced connections. The unspecified address means IPv4 and IPv6, whatever the
/// system default is (ipv6(7), `IPV6_V6ONLY`), or IPv4 alone where IPv6 is missing.
///
/// # Errors
/// I/O errors.
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

/// Returns whether an error means that IPv6 is missing or disabled, rather than that the port is in
/// use.
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

/// Opens an unpaced connection.
///
/// # Errors
/// I/O errors; [`io::ErrorKind::TimedOut`] after `limit`.
pub fn connect(to: SocketAddr, limit: Duration) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, None)?;
    unpace(&socket);
    socket.connect_timeout(&to.into(), limit)?;
    Ok(socket.into())
}

/// Opens an unpaced connection from a local address, at any port.
///
/// # Errors
/// As [`connect`], and if this host does not have the address.
pub fn connect_from(local: IpAddr, to: SocketAddr, limit: Duration) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, None)?;
    unpace(&socket);
    socket.bind(&SocketAddr::new(local, 0).into())?;
    socket.connect_timeout(&to.into(), limit)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::super::tests::vanish;
    use super::*;
    use std::io::{Read, Write};

    /// Uses a network namespace of its own, since the setting is global.
    #[test]
    fn unspecified_address_accepts_ipv4_despite_bindv6only() {
        let confined = || {
            // SAFETY: only this thread enters a new network namespace, and it exits afterwards.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0
                || std::fs::write("/proc/sys/net/ipv6/bindv6only", "1").is_err()
            {
                return crate::test_support::print_skipped("skipped: network namespace: needs root and IPv6");
            }
            let listener = listen((std::net::Ipv6Addr::UNSPECIFIED, 0).into()).expect("a listener");
            assert!(!socket2::SockRef::from(&listener).only_v6().expect("a setting"));
        };
        std::thread::spawn(confined).join().expect("it holds");
    }

    /// Returns both ends of a connection.
    fn connection() -> (TcpStream, TcpStream) {
        let listener = listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("a port");
        let near = connect(listener.local_addr().expect("an address"), Duration::from_secs(5))
            .expect("a connection");
        (near, listener.accept().expect("a connection").0)
    }

    #[test]
    fn round_trip_on_loopback_is_measured() {
        let (mut near, mut far) = connection();
        near.write_all(b"x").expect("sent");
        far.read_exact(&mut [0]).expect("came");
        let time = min_round_trip(&near).expect("a round trip");
        assert!(time > Duration::ZERO && time < Duration::from_secs(5), "{time:?}");
    }

    /// Sends until the socket buffer is full.
    fn fill(mut socket: &TcpStream) {
        socket.set_nonblocking(true).expect("set");
        while socket.write(&[0; 1 << 16]).is_ok() {}
    }

    #[test]
    fn silent_means_unacknowledged_and_not_merely_unread() {
        let limit = Duration::from_millis(500);
        let ((idle, _still), (sending, other), (full, lost), (waiting, _slow)) =
            (connection(), connection(), connection(), connection());
        fill(&waiting);
        fill(&full);
        vanish(&other);
        vanish(&lost);
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
    fn unpaced_phase_ends_on_long_paths_only() {
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

    /// A listener whose backlog is full drops connection requests, which are retransmitted after a
    /// second (RFC 6298).
    #[test]
    fn retransmission_is_detected() {
        let (near, _far) = connection();
        assert!(!has_retransmitted(&near));
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        listener.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).expect("bound");
        listener.listen(0).expect("listens");
        let to = listener.local_addr().expect("an address");
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
    fn only_pacing_congestion_control_is_replaced() {
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
