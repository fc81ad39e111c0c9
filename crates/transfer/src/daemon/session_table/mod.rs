//! Open sessions with their client addresses, users and processes.

use super::capacity_queue::CapacityQueue;
use super::config::{Config, Limits};
use super::log::Log;
use numaio_linux::process::ProcessHandle;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long an interrupted session may take to exit before it is killed.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a new connection waits for a slot: a client may see its session end before the daemon
/// does.
pub const SLOT_WAIT: Duration = Duration::from_secs(2);

/// Returns the smallest network assigned to one client: an IPv4 address, or a /64 network of IPv6.
/// Each program of this host has all of 127.0.0.0/8.
pub fn client_network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(four) if four.is_loopback() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(six) => {
            let [a, b, c, d, ..] = six.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
        four => four,
    }
}

/// All open sessions of a daemon.
pub struct SessionTable {
    sessions: Mutex<Sessions>,
    changed: Condvar,
    /// How long a new connection waits for a slot.
    slot_wait: Duration,
    /// Which of the sessions may transfer.
    pub queue: Arc<CapacityQueue>,
}

#[derive(Default)]
struct Sessions {
    next: u64,
    all: BTreeMap<u64, Session>,
    /// Networks of connections that wait for a slot; each of these also uses a thread and a socket.
    waiting: Vec<IpAddr>,
    /// Whether the daemon is shutting down and accepts no connections.
    closing: bool,
}

impl Sessions {
    fn may_wait(&self, network: IpAddr, limits: &Limits) -> bool {
        let same = self.waiting.iter().filter(|other| **other == network).count();
        !self.closing && self.waiting.len() < limits.connections && same < limits.per_address
    }

    fn stop_waiting(&mut self, network: IpAddr) {
        if let Some(at) = self.waiting.iter().position(|other| *other == network) {
            self.waiting.swap_remove(at);
        }
    }
}

struct Session {
    network: IpAddr,
    /// Set once the session has authenticated its user.
    user: Option<String>,
    /// Set once the process is running.
    running: Option<ProcessHandle>,
}

/// Numbers of open sessions and of waiting connections.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionCounts {
    /// Sessions by admitted user.
    pub active: BTreeMap<String, u64>,
    /// Sessions whose user has not been admitted.
    pub opening: u64,
    /// Connections that wait for a slot, and sessions in the queue.
    pub waiting: u64,
}

impl SessionTable {
    /// A table for sessions in a queue.
    pub fn new(queue: Arc<CapacityQueue>) -> Self {
        Self { sessions: Mutex::default(), changed: Condvar::new(), slot_wait: SLOT_WAIT, queue }
    }

    /// Returns the present counts.
    pub fn counts(&self) -> SessionCounts {
        let queued = self.queue.waiting();
        let sessions = self.sessions();
        let waiting = sessions.waiting.len() as u64 + queued;
        let mut counts = SessionCounts { waiting, ..SessionCounts::default() };
        for session in sessions.all.values() {
            match &session.user {
                Some(user) => *counts.active.entry(user.clone()).or_default() += 1,
                None => counts.opening += 1,
            }
        }
        // Sessions in the queue have no user yet.
        counts.opening = counts.opening.saturating_sub(queued);
        counts
    }

    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits up to `slot_wait` until `full` returns no reason to refuse; does not wait during a
    /// shutdown.
    fn wait_until_free<'h, E>(
        &'h self,
        mut sessions: MutexGuard<'h, Sessions>,
        full: impl Fn(&Sessions) -> Option<E>,
    ) -> (MutexGuard<'h, Sessions>, Result<(), E>) {
        let deadline = Instant::now() + self.slot_wait;
        loop {
            let Some(why) = full(&sessions) else { return (sessions, Ok(())) };
            let left = deadline.saturating_duration_since(Instant::now());
            if sessions.closing || left.is_zero() {
                return (sessions, Err(why));
            }
            sessions = self.changed.wait_timeout(sessions, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Stops accepting connections, waiting ones included.
    fn close(&self) {
        self.sessions().closing = true;
        self.changed.notify_all();
        self.queue.close();
    }

    /// Stops accepting connections, waits for all sessions, then interrupts and finally kills the
    /// rest.
    pub fn shut_down(&self, log: &Log, patience: Duration) {
        self.close();
        if self.is_empty_within(patience) {
            return;
        }
        log.warning("interrupting the sessions that still run");
        self.each(|running| drop(running.interrupt()));
        if !self.is_empty_within(EXIT_TIMEOUT) {
            self.each(|running| drop(running.kill()));
            self.is_empty_within(EXIT_TIMEOUT);
        }
    }

    fn each(&self, signal: impl Fn(&ProcessHandle)) {
        self.sessions().all.values().filter_map(|session| session.running.as_ref()).for_each(signal);
    }

    fn is_empty_within(&self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        let mut sessions = self.sessions();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if sessions.all.is_empty() || left.is_zero() {
                return sessions.all.is_empty();
            }
            sessions = self.changed.wait_timeout(sessions, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// A slot for one session, which is free again once this is dropped.
pub struct SessionSlot {
    table: Arc<SessionTable>,
    number: u64,
}

impl Drop for SessionSlot {
    fn drop(&mut self) {
        self.table.sessions().all.remove(&self.number);
        self.table.changed.notify_all();
    }
}

impl SessionSlot {
    /// Takes a slot for a client, waiting for one if necessary.
    pub fn take(table: &Arc<SessionTable>, address: IpAddr, config: &Config) -> Result<Self, &'static str> {
        let network = client_network(address);
        let full = |sessions: &Sessions| {
            if sessions.closing {
                return Some("refused: the daemon is shutting down");
            }
            if sessions.all.len() >= config.limits.connections {
                return Some("refused: limits.connections reached");
            }
            let same = sessions.all.values().filter(|session| session.network == network).count();
            (same >= config.limits.per_address).then_some("refused: limits.per_address reached")
        };
        let mut sessions = table.sessions();
        if let Some(why) = full(&sessions) {
            if !sessions.may_wait(network, &config.limits) {
                return Err(why);
            }
            sessions.waiting.push(network);
            let free;
            (sessions, free) = table.wait_until_free(sessions, full);
            sessions.stop_waiting(network);
            free?;
        }
        sessions.next += 1;
        let number = sessions.next;
        sessions.all.insert(number, Session { network, user: None, running: None });
        drop(sessions);
        Ok(Self { table: table.clone(), number })
    }

    /// Assigns the user to this session, once it is admitted.
    pub fn set_user(&self, user: &str) {
        if let Some(session) = self.table.sessions().all.get_mut(&self.number) {
            session.user = Some(user.to_owned());
        }
    }

    /// Sets the process that serves the session.
    pub fn set_process(&self, running: ProcessHandle) {
        if let Some(session) = self.table.sessions().all.get_mut(&self.number) {
            session.running = Some(running);
        }
    }
}

#[cfg(test)]
mod tests;
