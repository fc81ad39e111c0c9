//! Helpers of the tests of this crate.

use numaio_mover_linux::files::Roots;
use numaio_mover_linux::port::{FilePort, Pool, Setting, StreamPair};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// Returns a port with one thread and without directories, which is linked over a socket.
pub fn port(socket: UnixStream, pool: Arc<Pool>) -> FilePort {
    let setting = Setting::new(Roots::open(&[]).expect("nothing to open"), 1, pool);
    let from = Box::new(socket.try_clone().expect("a socket"));
    FilePort::over(setting, StreamPair { from, to: Box::new(socket) }).expect("a port")
}
