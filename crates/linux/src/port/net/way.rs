//! What the kernel knows of the way of a connection.

use std::io;
use std::mem::size_of_val;
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// Where `tcpi_min_rtt` is in `struct tcp_info` (include/uapi/linux/tcp.h), in numbers of four bytes.
const MIN_RTT: usize = 148 / 4;

/// The shortest round trip that was seen (tcp(7), `TCP_INFO`); none before Linux 4.3.
pub fn least_round_trip(socket: &TcpStream) -> Option<Duration> {
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
    let is_told = done == 0 && length as usize == size_of_val(&info);
    // Nothing was measured yet if all bits are set.
    let micros = info.get(MIN_RTT).filter(|micros| is_told && **micros != u32::MAX)?;
    Some(Duration::from_micros((*micros).into()))
}

/// Bytes that wait at a connection to be sent for the first time, at the most: what it sends in a few milliseconds.
const UNSENT: libc::c_int = 512 << 10;

/// Has whoever writes wait as long as so much is not sent yet (tcp(7), `TCP_NOTSENT_LOWAT`). Else the kernel keeps about as much as
/// there is under way, and of several connections the slowest would hold what others could send.
///
/// # Errors
/// The kernel's.
pub fn keep_little_unsent(socket: &TcpStream) -> io::Result<()> {
    let unsent = UNSENT;
    // SAFETY: the kernel reads as many bytes as the number has.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_NOTSENT_LOWAT,
            (&raw const unsent).cast(),
            size_of_val(&unsent) as libc::socklen_t,
        )
    };
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    #[test]
    fn a_round_trip_within_a_machine_is_known() {
        let door = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut near = TcpStream::connect(door.local_addr().expect("an address")).expect("a connection");
        let (mut far, _) = door.accept().expect("a connection");
        near.write_all(b"x").expect("sent");
        far.read_exact(&mut [0]).expect("came");
        let time = least_round_trip(&near).expect("a round trip");
        assert!(time > Duration::ZERO && time < Duration::from_secs(5), "{time:?}");
    }
}
