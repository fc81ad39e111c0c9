//! The side that connects.

use super::timed::why;
use super::{Lane, Lock, NetError};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

/// Connects so many times to a door, all at once. All of them are let in, or none is given.
///
/// # Errors
/// [`NetError`] of the first that is not let in within `limit`.
pub fn connect(
    lock: &Lock,
    to: SocketAddr,
    lanes: usize,
    limit: Duration,
) -> Result<Vec<Box<dyn Lane>>, NetError> {
    let deadline = Instant::now() + limit;
    let one = |index: usize| {
        let socket = TcpStream::connect_timeout(&to, limit).map_err(|error| match why(error) {
            NetError::Failed(error) => NetError::Unreachable(to, error),
            other => other,
        })?;
        socket.set_nodelay(true)?;
        lock.call(socket, index as u16, deadline.saturating_duration_since(Instant::now()))
    };
    thread::scope(|scope| {
        let one = &one;
        let calls: Vec<_> = (0..lanes).map(|index| scope.spawn(move || one(index))).collect();
        let gone = || NetError::Few(0, lanes);
        calls.into_iter().map(|call| call.join().unwrap_or_else(|_| Err(gone()))).collect()
    })
}
