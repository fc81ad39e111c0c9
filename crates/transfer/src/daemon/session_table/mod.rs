//! Open sessions with their client addresses, users and processes.

use super::capacity_queue::{CapacityQueue, REPORT_INTERVAL};
use super::config::{Config, Limits};
use super::log::Log;
use numaio_linux::process::ProcessHandle;
use numaio_mover_linux::port::net::{FullNotice, FullReason};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long an interrupted session may take to exit before it is killed.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a new connection waits for a slot before its client is informed: a client may see its
/// session end before the daemon does.
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
    /// How long a new connection waits for a slot before its client is informed.
    slot_wait: Duration,
    /// Which of the sessions may transfer.
    pub queue: Arc<CapacityQueue>,
}

#[derive(Default)]
struct Sessions {
    next: u64,
    all: BTreeMap<u64, Session>,
    /// Connections that wait for a slot, by number, with their networks; each of these also uses a
    /// thread and a socket.
    waiting: BTreeMap<u64, IpAddr>,
    /// Whether the daemon is shutting down and accepts no connections.
    closing: bool,
}

impl Sessions {
    fn may_wait(&self, network: IpAddr, limits: &Limits) -> bool {
        let same = self.waiting.values().filter(|other| **other == network).count();
        !self.closing && self.waiting.len() < limits.connections && same < limits.per_address
    }

    /// Returns why a connection has to wait, or to be refused.
    ///
    /// Earlier connections have the first claim to free slots, unless their network is full.
    fn full(&self, number: u64, network: IpAddr, limits: &Limits) -> Option<FullReason> {
        if self.closing {
            return Some(FullReason::ShuttingDown);
        }
        let of = |network| self.all.values().filter(|session| session.network == network).count();
        let earlier = || self.waiting.range(..number).map(|(_, network)| *network);
        let claims = earlier().filter(|network| of(*network) < limits.per_address).count();
        if self.all.len() + claims >= limits.connections {
            return Some(FullReason::Connections);
        }
        let same = of(network) + earlier().filter(|other| *other == network).count();
        (same >= limits.per_address).then_some(FullReason::PerAddress)
    }

    /// Returns the place of a waiting connection, from 1.
    fn position(&self, number: u64) -> u32 {
        self.waiting.range(..=number).count() as u32
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
    pub unauthenticated: u64,
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
                None => counts.unauthenticated += 1,
            }
        }
        // Sessions in the queue have no user yet.
        counts.unauthenticated = counts.unauthenticated.saturating_sub(queued);
        counts
    }

    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a connection has a slot, and calls `inform` regularly with its place.
    fn wait_until_free<'h>(
        &'h self,
        mut sessions: MutexGuard<'h, Sessions>,
        (number, network, limits): (u64, IpAddr, &Limits),
        inform: &mut impl FnMut(FullNotice) -> io::Result<()>,
    ) -> (MutexGuard<'h, Sessions>, Result<(), SlotError>) {
        let mut inform_at = Instant::now() + self.slot_wait;
        loop {
            let Some(reason) = sessions.full(number, network, limits) else { return (sessions, Ok(())) };
            if reason == FullReason::ShuttingDown {
                return (sessions, Err(SlotError::Full(reason)));
            }
            let left = inform_at.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let position = Some(sessions.position(number));
                drop(sessions);
                let informed = inform(FullNotice { reason, position });
                sessions = self.sessions();
                if informed.is_err() {
                    return (sessions, Err(SlotError::Disconnected));
                }
                inform_at = Instant::now() + REPORT_INTERVAL;
                continue;
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

/// Why a connection got no slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SlotError {
    /// There is none, and no place to wait.
    #[error("refused: {0}")]
    Full(FullReason),
    /// The client disconnected while it waited.
    #[error("the client disconnected while it waited for a slot")]
    Disconnected,
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
    ///
    /// `inform` sends a client its place, or that it is refused. It fails if the client has
    /// disconnected.
    pub fn take(
        table: &Arc<SessionTable>,
        address: IpAddr,
        config: &Config,
        mut inform: impl FnMut(FullNotice) -> io::Result<()>,
    ) -> Result<Self, SlotError> {
        let (network, limits) = (client_network(address), &config.limits);
        let mut sessions = table.sessions();
        sessions.next += 1;
        let number = sessions.next;
        let mut taken = Ok(());
        if let Some(reason) = sessions.full(number, network, limits) {
            taken = Err(SlotError::Full(reason));
            if sessions.may_wait(network, limits) {
                sessions.waiting.insert(number, network);
                (sessions, taken) = table.wait_until_free(sessions, (number, network, limits), &mut inform);
                sessions.waiting.remove(&number);
            }
        }
        if taken.is_ok() {
            sessions.all.insert(number, Session { network, user: None, running: None });
        }
        drop(sessions);
        table.changed.notify_all();
        if let Err(SlotError::Full(reason)) = taken {
            // Fails if the client has disconnected.
            let _ = inform(FullNotice { reason, position: None });
        }
        taken.map(|()| Self { table: table.clone(), number })
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
