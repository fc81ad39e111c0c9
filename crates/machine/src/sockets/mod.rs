//! TCP sockets of this machine with their byte counts: which bytes per second they move, by which
//! network interface.
//!
//! [`parse_dump`] decodes what sock_diag(7) lists, a [`SocketWatch`] compares two lists, and
//! [`LocalAddresses`] finds the interface of a socket. UDP and RDMA have no such counts.

mod diag;
mod local_addresses;
mod socket_rates;

pub use diag::{dump_request, parse_dump, AddressFamily, DumpState, SocketBytes, SocketDump, SocketSample};
pub use local_addresses::{InterfaceAddress, LocalAddresses, SocketPath};
pub use socket_rates::{SocketRate, SocketWatch, TrafficRates};

/// Start of the target of a socket's link in /proc/PID/fd, before its inode.
const LINK: &str = "socket:[";

/// Returns the inode of an open file if it is a socket; `target` is the target of its link.
pub fn socket_inode(target: &str) -> Option<u64> {
    target.strip_prefix(LINK)?.strip_suffix(']')?.parse().ok()
}
