//! Who is in: connections that are open, of which address and of which user, and the processes that serve them.

use super::config::{Config, Limits};
use super::log;
use super::session_ipc::AdmissionReply;
use crate::args::Common;
use numaio_linux::process::ProcessHandle;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a session that is asked to end may take before it is killed.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long one who comes waits for a place: a caller may hear that its session has ended before we do, and come again.
const SLOT_WAIT: Duration = Duration::from_secs(2);

/// What one caller has at least: an address of IPv4, a network of 64 bits of IPv6.
pub fn client_network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(six) => {
            let [a, b, c, d, ..] = six.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
        four => four,
    }
}

/// Who is in.
pub struct SessionTable {
    sessions: Mutex<Sessions>,
    changed: Condvar,
    /// How long one who comes waits for a place.
    slot_wait: Duration,
}

impl Default for SessionTable {
    fn default() -> Self {
        Self { sessions: Mutex::default(), changed: Condvar::new(), slot_wait: SLOT_WAIT }
    }
}

#[derive(Default)]
struct Sessions {
    next: u64,
    all: BTreeMap<u64, Session>,
    /// Networks of those who wait for a place: each is a thread and a socket, too.
    waiting: Vec<IpAddr>,
    /// Whether nobody is let in any more.
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
    /// Once it is known.
    user: Option<String>,
    /// Once it was started.
    running: Option<ProcessHandle>,
}

impl SessionTable {
    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a moment until `full` tells no reason to refuse one more; not while the daemon ends.
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

    /// Lets nobody in any more, those who wait included.
    fn close(&self) {
        self.sessions().closing = true;
        self.changed.notify_all();
    }

    /// Lets nobody in any more, waits until all have left, asks those to leave that stay too long, and then kills.
    pub fn shut_down(&self, common: &Common, patience: Duration) {
        self.close();
        if self.is_empty_within(patience) {
            return;
        }
        log(common, "sessions that still run are ended");
        self.each(|running| drop(running.interrupt()));
        if !self.is_empty_within(EXIT_TIMEOUT) {
            self.each(|running| drop(running.kill()));
            self.is_empty_within(EXIT_TIMEOUT);
        }
    }

    fn each(&self, tell: impl Fn(&ProcessHandle)) {
        self.sessions().all.values().filter_map(|session| session.running.as_ref()).for_each(tell);
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

/// The place of one connection; it is free again when this is dropped.
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
    /// A place for a caller, if there is one, or soon will be.
    pub fn take(table: &Arc<SessionTable>, address: IpAddr, config: &Config) -> Result<Self, &'static str> {
        let network = client_network(address);
        let full = |sessions: &Sessions| {
            if sessions.closing {
                return Some("refused: the daemon ends");
            }
            if sessions.all.len() >= config.limits.connections {
                return Some("refused: limits.connections are open");
            }
            let same = sessions.all.values().filter(|session| session.network == network).count();
            (same >= config.limits.per_address).then_some("refused: limits.per_address are open")
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

    /// Whether a user may have one more session.
    pub fn admit_user(&self, user: &str, config: &Config) -> AdmissionReply {
        let Some(most) = config.users.get(user).map(|user| user.sessions) else {
            return Err(format!("{user} is no user any more"));
        };
        let full = |sessions: &Sessions| {
            if sessions.closing {
                return Some("the daemon ends".to_owned());
            }
            let same = sessions.all.values().filter(|session| session.user.as_deref() == Some(user)).count();
            (same >= most).then(|| format!("{user} has {most} sessions already, and may have no more"))
        };
        let (mut sessions, free) = self.table.wait_until_free(self.table.sessions(), full);
        free?;
        if let Some(session) = sessions.all.get_mut(&self.number) {
            session.user = Some(user.to_owned());
        }
        Ok(())
    }

    /// The process that serves it.
    pub fn set_process(&self, running: ProcessHandle) {
        if let Some(session) = self.table.sessions().all.get_mut(&self.number) {
            session.running = Some(running);
        }
    }
}

#[cfg(test)]
mod tests;
