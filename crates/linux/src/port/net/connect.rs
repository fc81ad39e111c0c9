//! The side that connects.

use super::timed::why;
use super::{Lane, Lock, NetError};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

/// How often one connection is tried: strangers at the door may have had it closed.
const TRIES: u32 = 5;
/// The pause after the first try; each further one is twice as long.
const PAUSE: Duration = Duration::from_millis(40);

/// Connects so many times to a door, all at once, and gives all of them or none. The door has shown that it is the right one, and
/// what it asks of us is under way.
///
/// # Errors
/// [`NetError`] of the first that does not come so far within `limit`.
pub fn connect(
    lock: &Lock,
    to: SocketAddr,
    lanes: usize,
    limit: Duration,
) -> Result<Vec<Box<dyn Lane>>, NetError> {
    let deadline = Instant::now() + limit;
    let left = || deadline.saturating_duration_since(Instant::now());
    let one = |index: usize| {
        let mut tries = 0;
        loop {
            tries += 1;
            match socket(to, limit).and_then(|socket| lock.call(socket, index as u16, left())) {
                Err(NetError::Refused) if tries < TRIES => {
                    thread::sleep(PAUSE.min(left()) * (1 << (tries - 1)))
                }
                called => return called,
            }
        }
    };
    thread::scope(|scope| {
        let one = &one;
        let calls: Vec<_> = (0..lanes).map(|index| scope.spawn(move || one(index))).collect();
        let gone = || NetError::Few(0, lanes);
        calls.into_iter().map(|call| call.join().unwrap_or_else(|_| Err(gone()))).collect()
    })
}

fn socket(to: SocketAddr, limit: Duration) -> Result<TcpStream, NetError> {
    TcpStream::connect_timeout(&to, limit).map_err(|error| match why(error) {
        NetError::Failed(error) => NetError::Unreachable(to, error),
        other => other,
    })
}
