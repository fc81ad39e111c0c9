//! Sockets without deadlines, and detection of peers that no longer answer.

use rustix::net::sockopt;
use std::io;
use std::net::TcpStream;
use std::time::Duration;

/// Idle time before the first keepalive probe.
const IDLE: Duration = Duration::from_secs(10);
/// Interval of keepalive probes.
const PROBE_EACH: Duration = Duration::from_secs(5);
/// Unanswered probes before the connection is lost: 30 s in total.
const PROBES: u32 = 4;
/// Time without acknowledgment after which a peer that owes one is considered lost.
pub const SILENCE: Duration = Duration::from_secs(30);

/// Prepares an authenticated connection for data, without deadlines. Readers detect a half-open
/// connection, as after a power failure of the peer, within [`IDLE`] and [`PROBES`] times
/// [`PROBE_EACH`] (tcp(7), `SO_KEEPALIVE`). The kernel sends no probes while data is
/// unacknowledged, so writers check [`super::tcp_tuning::is_silent`] themselves. `TCP_USER_TIMEOUT`
/// is not set, since it would also end a connection whose reader waits for its disk.
pub fn settle(socket: &TcpStream) -> io::Result<()> {
    socket.set_read_timeout(None)?;
    socket.set_write_timeout(None)?;
    socket.set_nodelay(true)?;
    let set = || -> rustix::io::Result<()> {
        sockopt::set_tcp_keepidle(socket, IDLE)?;
        sockopt::set_tcp_keepintvl(socket, PROBE_EACH)?;
        sockopt::set_tcp_keepcnt(socket, PROBES)?;
        sockopt::set_socket_keepalive(socket, true)
    };
    Ok(set()?)
}
