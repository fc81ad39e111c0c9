//! Connections of local programs, with limits that hold for a user with many user ids, too:
//! user namespaces give each user 65,536 subordinate ones (subuid(5)).

use std::collections::BTreeMap;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of connections.
pub const MAX_CONNECTIONS: usize = 1_024;
/// Maximum number of connections of one user, waiting ones included.
pub const MAX_CONNECTIONS_PER_USER: usize = 64;
/// Connections that only users without another one get.
const RESERVED_CONNECTIONS: usize = MAX_CONNECTIONS / 4;

/// All connections of local programs.
#[derive(Debug, Default)]
pub struct LocalConnections(Mutex<Connections>);

#[derive(Debug, Default)]
struct Connections {
    next: u64,
    /// By number, so that the oldest is the first.
    all: BTreeMap<u64, Connection>,
}

#[derive(Debug)]
struct Connection {
    user: u32,
    /// Its socket until it has sent a request.
    silent: Option<Arc<UnixStream>>,
}

impl Connections {
    /// Ends the oldest connection without a request; returns whether there was one. A program sends
    /// its request as soon as it has connected.
    fn end_silent(&mut self) -> bool {
        let oldest =
            self.all.iter().find_map(|(number, connection)| Some((*number, connection.silent.clone()?)));
        let Some((number, socket)) = oldest else { return false };
        self.all.remove(&number);
        // Wakes the thread that waits for the request; fails if the program has disconnected.
        let _ = socket.shutdown(Shutdown::Both);
        true
    }
}

/// A connection of a user, which counts until this is dropped.
#[derive(Debug)]
pub struct LocalConnection {
    connections: Arc<LocalConnections>,
    number: u64,
    /// The connection.
    pub socket: Arc<UnixStream>,
}

impl Drop for LocalConnection {
    fn drop(&mut self) {
        self.connections.state().all.remove(&self.number);
    }
}

impl LocalConnection {
    /// Keeps the connection from being ended in favor of another one: it has sent its request.
    pub fn request_received(&self) {
        if let Some(connection) = self.connections.state().all.get_mut(&self.number) {
            connection.silent = None;
        }
    }
}

impl LocalConnections {
    fn state(&self) -> MutexGuard<'_, Connections> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a connection of a user, if necessary in place of a silent one.
    ///
    /// # Errors
    /// The reason for the refusal.
    pub fn admit(self: &Arc<Self>, user: u32, socket: UnixStream) -> Result<LocalConnection, &'static str> {
        let mut state = self.state();
        let own = state.all.values().filter(|connection| connection.user == user).count();
        if own >= MAX_CONNECTIONS_PER_USER {
            return Err("refused: too many connections of the user");
        }
        let limit = if own == 0 { MAX_CONNECTIONS } else { MAX_CONNECTIONS - RESERVED_CONNECTIONS };
        if state.all.len() >= limit && !state.end_silent() {
            return Err("refused: too many connections");
        }
        let (number, socket) = (state.next, Arc::new(socket));
        state.next += 1;
        state.all.insert(number, Connection { user, silent: Some(socket.clone()) });
        drop(state);
        Ok(LocalConnection { connections: self.clone(), number, socket })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    /// Connections with the programs' ends of their sockets.
    #[derive(Default)]
    struct Programs {
        connections: Arc<LocalConnections>,
        open: Vec<(LocalConnection, UnixStream)>,
    }

    impl Programs {
        fn connect(&mut self, user: u32) -> Result<(), &'static str> {
            let (ours, theirs) = UnixStream::pair().expect("sockets");
            self.open.push((self.connections.admit(user, ours)?, theirs));
            Ok(())
        }

        /// Connects as each of these users as often as is admitted; returns the number.
        fn fill(&mut self, users: std::ops::Range<u32>, are_silent: bool) -> usize {
            let before = self.open.len();
            for user in users {
                while self.open.len() < before + MAX_CONNECTIONS && self.connect(user).is_ok() {
                    if !are_silent {
                        self.open[self.open.len() - 1].0.request_received();
                    }
                }
            }
            self.open.len() - before
        }
    }

    #[test]
    fn users_with_connections_leave_the_reserved_ones_to_others() {
        let mut programs = Programs::default();
        assert_eq!(programs.fill(0..1, false), MAX_CONNECTIONS_PER_USER);
        let shared = MAX_CONNECTIONS - RESERVED_CONNECTIONS;
        let by_17_users = programs.fill(1..17, false) + MAX_CONNECTIONS_PER_USER;
        // Those who found no shared connection have one each.
        assert!((shared..shared + 17).contains(&by_17_users), "{by_17_users}");
        assert_eq!(programs.connect(16), Err("refused: too many connections"));
        assert_eq!(programs.connect(100), Ok(()));
        // Closed connections are free again.
        programs.open.truncate(shared - 1);
        assert_eq!(programs.connect(100), Ok(()));
    }

    #[test]
    fn the_oldest_silent_connection_makes_room_for_others() {
        let mut programs = Programs::default();
        programs.connect(0).expect("admitted");
        programs.open[0].0.request_received();
        // Every user id has one connection, so that the reserved ones are used up, too.
        (1..MAX_CONNECTIONS as u32).for_each(|user| programs.connect(user).expect("admitted"));
        programs.connect(5_000).expect("admitted in place of a silent one");
        let is_closed = |(_, theirs): &mut (LocalConnection, UnixStream)| {
            theirs.set_nonblocking(true).expect("a mode");
            theirs.read(&mut [0]).is_ok_and(|bytes| bytes == 0)
        };
        let closed: Vec<usize> = programs
            .open
            .iter_mut()
            .map(is_closed)
            .enumerate()
            .filter(|(_, closed)| *closed)
            .map(|(at, _)| at)
            .collect();
        assert_eq!(closed, [1]);
        assert_eq!(programs.connections.state().all.len(), MAX_CONNECTIONS);
        // Its thread ends later, and frees no other connection.
        programs.open.remove(1);
        assert_eq!(programs.connections.state().all.len(), MAX_CONNECTIONS);
        // Programs that wait for their turn keep their connections.
        programs.open.iter().for_each(|(connection, _)| connection.request_received());
        assert_eq!(programs.connect(5_001), Err("refused: too many connections"));
    }
}
