//! Words for the service manager (sd_notify(3)): a datagram to the socket that it names.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Tells the service manager, if there is one that listens.
pub fn notify(words: &str) {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let address = match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        _ => SocketAddr::from_pathname(&name),
    };
    // It does without.
    drop(address.and_then(|address| UnixDatagram::unbound()?.send_to_addr(words.as_bytes(), &address)));
}
