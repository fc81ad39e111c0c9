//! TCP sockets with their byte counts by sock_diag(7), and who holds them.

use numaio_machine::sockets::{
    dump_request, parse_dump, socket_inode, AddressFamily, DumpState, InterfaceAddress, SocketDump,
};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::{retry_on_intr, Errno};
use rustix::net::sockopt::{set_socket_timeout, Timeout};
use rustix::net::{netlink, AddressFamily as Family, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::collections::BTreeSet;
use std::ffi::CStr;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// Maximum number of sockets to list; each has about 400 bytes of messages.
const MAX_SOCKETS: usize = 1 << 18;

/// Size of a datagram: the kernel fills as much as one receive call takes, up to 32 KiB.
const DATAGRAM: usize = 32 << 10;

/// Time after which a dump fails; the kernel answers at once.
const PATIENCE: Duration = Duration::from_secs(2);

/// Maximum number of open files to read of a process.
const MAX_OPEN_FILES: usize = 1 << 16;

/// Why sockets cannot be listed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SocketDiagError {
    /// The kernel has no support for it.
    #[error("the kernel lists no TCP sockets: module tcp_diag is missing")]
    Missing,
    /// Another error of the kernel.
    #[error("cannot list TCP sockets: {0}")]
    Failed(String),
}

/// Lists the connected TCP sockets of this network namespace with their byte counts.
///
/// The kernel loads module `tcp_diag` at the first request.
///
/// # Errors
/// The kernel lacks the module, or fails.
pub fn tcp_sockets() -> Result<SocketDump, SocketDiagError> {
    let mut dump = SocketDump::default();
    for family in [AddressFamily::V4, AddressFamily::V6] {
        list(family, &mut dump).map_err(|errno| match errno {
            Errno::NOENT | Errno::PROTONOSUPPORT | Errno::AFNOSUPPORT => SocketDiagError::Missing,
            errno => SocketDiagError::Failed(io::Error::from(errno).to_string()),
        })?;
    }
    Ok(dump)
}

/// Appends the sockets of a family. A socket of its own ends a dump that is left out early.
fn list(family: AddressFamily, dump: &mut SocketDump) -> Result<(), Errno> {
    let socket = rustix::net::socket_with(
        Family::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        Some(netlink::SOCK_DIAG),
    )?;
    set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
    retry_on_intr(|| rustix::net::send(socket.as_fd(), &dump_request(family), SendFlags::empty()))?;
    let mut buffer = vec![0; DATAGRAM];
    loop {
        let count = receive(&socket, &mut buffer)?;
        match parse_dump(buffer.get(..count).unwrap_or_default(), &mut dump.sockets) {
            DumpState::Complete => return Ok(()),
            DumpState::Failed(errno) => return Err(Errno::from_raw_os_error(errno)),
            DumpState::Incomplete if dump.sockets.len() > MAX_SOCKETS => {
                dump.is_truncated = true;
                return Ok(());
            }
            DumpState::Incomplete => {}
        }
    }
}

fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> Result<usize, Errno> {
    let (count, _) =
        retry_on_intr(|| rustix::net::recv(socket.as_fd(), &mut buffer[..], RecvFlags::empty()))?;
    Ok(count)
}

/// Returns the inodes of a process's sockets.
///
/// # Errors
/// The process ended, or permission is missing.
pub fn socket_inodes(pid: u32) -> io::Result<BTreeSet<u64>> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd"))?;
    let mut inodes = BTreeSet::new();
    for entry in entries.flatten().take(MAX_OPEN_FILES) {
        match fs::read_link(entry.path()) {
            Ok(target) => inodes.extend(target.to_str().and_then(socket_inode)),
            Err(why) if why.kind() == io::ErrorKind::PermissionDenied => return Err(why),
            // It was closed meanwhile.
            Err(_) => {}
        }
    }
    Ok(inodes)
}

/// Returns the addresses of this namespace's network interfaces (getifaddrs(3)).
///
/// # Errors
/// The kernel's error.
pub fn interface_addresses() -> io::Result<Vec<InterfaceAddress>> {
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: the call writes the head of a list, which is freed below.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut found = Vec::new();
    let mut next = first;
    // SAFETY: the list is valid until it is freed; its end is null.
    while let Some(entry) = unsafe { next.as_ref() } {
        // SAFETY: a name is a C string; an address is null, or has the length of its family.
        let (name, address) = unsafe { (CStr::from_ptr(entry.ifa_name), address_of(entry.ifa_addr)) };
        found.extend(
            name.to_str()
                .ok()
                .zip(address)
                .map(|(name, address)| InterfaceAddress { interface: name.to_owned(), address }),
        );
        next = entry.ifa_next;
    }
    // SAFETY: the list is from getifaddrs, and not used any more.
    unsafe { libc::freeifaddrs(first) };
    Ok(found)
}

/// Returns the address of a socket address; `None` for other families.
///
/// # Safety
/// The pointer is null, or points to a socket address of the length of its family.
unsafe fn address_of(address: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: the caller guarantees that it is null or valid.
    let family = i32::from(unsafe { address.as_ref() }?.sa_family);
    match family {
        libc::AF_INET => {
            // SAFETY: the family states the type; the pointer may be aligned to less.
            let v4 = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: the family states the type; the pointer may be aligned to less.
            let v6 = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(Ipv6Addr::from(v6.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::print_skipped;
    use numaio_machine::sockets::SocketWatch;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    const BYTES: usize = 1_000_000;

    fn inode_of(stream: &TcpStream) -> u64 {
        let link = fs::read_link(format!("/proc/self/fd/{}", stream.as_raw_fd())).expect("a link");
        link.to_str().and_then(socket_inode).expect("a socket")
    }

    /// Sends bytes from one end of a connection to the other.
    fn transfer(from: &mut TcpStream, to: &mut TcpStream) {
        let (sent, mut received) = (vec![7u8; BYTES], vec![0u8; BYTES]);
        std::thread::scope(|scope| {
            scope.spawn(|| from.write_all(&sent).expect("sent"));
            to.read_exact(&mut received).expect("received");
        });
    }

    fn counts_bytes(address: &str) {
        let Ok(listener) = TcpListener::bind(address) else {
            return print_skipped(&format!("skipped: no address {address}"));
        };
        let mut near = TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
        let (mut far, _) = listener.accept().expect("accepted");
        let mut watch = SocketWatch::default();
        let before = match tcp_sockets() {
            Ok(before) => before,
            Err(error) => return print_skipped(&format!("skipped: {error}")),
        };
        watch.observe(&before, Duration::ZERO);
        transfer(&mut near, &mut far);
        let own = socket_inodes(std::process::id()).expect("own files");
        let (near_inode, far_inode) = (inode_of(&near), inode_of(&far));
        assert!(own.contains(&near_inode) && own.contains(&far_inode));
        let rates = watch.observe(&tcp_sockets().expect("again"), Duration::from_secs(1)).expect("two lists");
        let of = |inode| rates.iter().find(|socket| socket.inode == inode).expect("it moved data");
        let (near, far) = (of(near_inode), of(far_inode));
        // All bytes arrived; more may have been sent again.
        assert_eq!((far.rates.received, near.rates.received), (BYTES as f64, 0.0));
        assert!(near.rates.sent >= BYTES as f64 && far.rates.sent == 0.0, "{near:?} {far:?}");
        let loopback = near.local;
        let addresses = interface_addresses().expect("addresses");
        assert!(addresses.iter().any(|it| it.interface == "lo" && it.address == loopback), "{addresses:?}");
    }

    #[test]
    fn counts_the_bytes_of_a_connection_over_ipv4() {
        counts_bytes("127.0.0.1:0");
    }

    #[test]
    fn counts_the_bytes_of_a_connection_over_ipv6() {
        counts_bytes("[::1]:0");
    }

    #[test]
    fn ended_connections_are_left_out() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
        let near = TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
        let inode = inode_of(&near);
        let Ok(before) = tcp_sockets() else { return print_skipped("skipped: no tcp_diag") };
        assert!(before.sockets.iter().any(|socket| socket.inode == inode));
        drop((near, listener));
        assert!(!tcp_sockets().expect("again").sockets.iter().any(|socket| socket.inode == inode));
    }

    /// Prints the CPU time of a list of many sockets; run with `--ignored --nocapture`.
    #[test]
    #[ignore = "a measurement"]
    fn cost_of_ten_thousand_sockets() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
        let address = listener.local_addr().expect("an address");
        let mut streams = Vec::new();
        while streams.len() < 10_000 {
            let Ok(stream) = TcpStream::connect(address) else { break };
            streams.push(stream);
            streams.push(listener.accept().expect("accepted").0);
        }
        for _ in 0..5 {
            let started = (std::time::Instant::now(), crate::process::cpu_time_s());
            let found = tcp_sockets().expect("sockets").sockets.len();
            let (elapsed, cpu) = (started.0.elapsed(), crate::process::cpu_time_s() - started.1);
            print_skipped(&format!("{found} sockets: {elapsed:?}, {cpu:.4} s of CPU time"));
        }
        let started = std::time::Instant::now();
        let own = socket_inodes(std::process::id()).expect("own files").len();
        print_skipped(&format!("{own} inodes of one process: {:?}", started.elapsed()));
    }
}
