//! Notifications to the service manager (sd_notify(3)): datagrams to the socket in `NOTIFY_SOCKET`.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Notifies the service manager, if one listens.
pub fn notify(words: &str) {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let address = match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        _ => SocketAddr::from_pathname(&name),
    };
    // The daemon works without a service manager.
    drop(address.and_then(|address| UnixDatagram::unbound()?.send_to_addr(words.as_bytes(), &address)));
}
