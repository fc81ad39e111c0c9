//! Accepted connections that are not yet assigned: unidentified ones, and data connections waiting
//! for their session. A session opens its connections together, so more may be pending than there
//! are sessions.

use super::config::Limits;
use numaio_mover_linux::port::net::{Ticket, MAX_STREAMS};
use std::collections::BTreeMap;
use std::net::{IpAddr, TcpStream};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Pending connections allowed for each allowed session.
const PENDING_PER_SESSION: usize = 8;
/// Minimum number of allowed pending connections: all of one session.
const MIN_PENDING: usize = 2 * MAX_STREAMS;

/// Returns the maximum number of pending connections, or of those of one network, for a number of
/// allowed sessions.
pub const fn max_pending(sessions: usize) -> usize {
    let all = PENDING_PER_SESSION * sessions;
    if all > MIN_PENDING {
        all
    } else {
        MIN_PENDING
    }
}

/// Pending connections, and the sessions that wait for theirs.
#[derive(Default)]
pub struct PendingConnections {
    state: Mutex<PendingState>,
    claimed: Condvar,
}

#[derive(Default)]
struct PendingState {
    /// Number of pending connections of each network.
    waiting: BTreeMap<IpAddr, usize>,
    /// Sessions that accept data connections.
    sessions: BTreeMap<Ticket, Sender<TcpStream>>,
}

/// A slot for one pending connection, which is free again once this is dropped.
pub struct PendingSlot {
    pending: Arc<PendingConnections>,
    network: IpAddr,
}

impl Drop for PendingSlot {
    fn drop(&mut self) {
        let mut state = self.pending.state();
        if let Some(count) = state.waiting.get_mut(&self.network) {
            *count -= 1;
            if *count == 0 {
                state.waiting.remove(&self.network);
            }
        }
    }
}

impl PendingSlot {
    /// Takes a slot for a connection from a network, unless all are in use.
    pub fn take(
        pending: &Arc<PendingConnections>,
        network: IpAddr,
        limits: &Limits,
    ) -> Result<Self, &'static str> {
        let mut state = pending.state();
        if state.waiting.values().sum::<usize>() >= max_pending(limits.connections) {
            return Err("refused: too many pending connections");
        }
        let same = state.waiting.entry(network).or_default();
        if *same >= max_pending(limits.per_address) {
            return Err("refused: too many pending connections from its address");
        }
        *same += 1;
        Ok(Self { pending: pending.clone(), network })
    }

    /// Waits until a session claims the ticket and passes it the connection; false after `limit`.
    pub fn wait(self, ticket: Ticket, socket: TcpStream, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        let mut state = self.pending.state();
        loop {
            if let Some(session) = state.sessions.get(&ticket) {
                return session.send(socket).is_ok();
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.pending.claimed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// A session's claim to all data connections with its ticket.
pub struct TicketClaim {
    pending: Arc<PendingConnections>,
    ticket: Ticket,
    pub connections: Receiver<TcpStream>,
}

impl Drop for TicketClaim {
    fn drop(&mut self) {
        self.pending.state().sessions.remove(&self.ticket);
    }
}

impl PendingConnections {
    fn state(&self) -> MutexGuard<'_, PendingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims a ticket; `None` if another session has claimed it.
    pub fn claim(self: &Arc<Self>, ticket: Ticket) -> Option<TicketClaim> {
        let mut state = self.state();
        if state.sessions.contains_key(&ticket) {
            return None;
        }
        let (sender, connections) = channel();
        state.sessions.insert(ticket, sender);
        self.claimed.notify_all();
        drop(state);
        Some(TicketClaim { pending: self.clone(), ticket, connections })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpListener};
    use std::thread;

    const LIMIT: Duration = Duration::from_secs(20);
    const LIMITS: Limits = Limits {
        connections: 1,
        per_address: 1,
        login_grace: LIMIT,
        time_slice: LIMIT,
        preemption_wait: LIMIT,
    };

    fn network(last: u8) -> IpAddr {
        Ipv4Addr::new(192, 0, 2, last).into()
    }

    fn socket() -> TcpStream {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection")
    }

    #[test]
    fn session_receives_connections_that_arrive_before_and_after_its_claim() {
        let pending = Arc::new(PendingConnections::default());
        let (ours, other) = (Ticket([1; 16]), Ticket([2; 16]));
        let slot = |pending| PendingSlot::take(pending, network(1), &LIMITS).expect("a place");
        let early = thread::spawn({
            let slot = slot(&pending);
            move || slot.wait(ours, socket(), LIMIT)
        });
        let unclaimed = slot(&pending).wait(other, socket(), Duration::from_millis(10));
        assert!(!unclaimed, "no session has claimed it");
        let claim = pending.claim(ours).expect("an unclaimed ticket");
        assert!(pending.claim(ours).is_none());
        assert!(early.join().expect("the thread finishes"));
        assert!(slot(&pending).wait(ours, socket(), LIMIT));
        assert_eq!(claim.connections.iter().take(2).count(), 2);
        drop(claim);
        assert!(!slot(&pending).wait(ours, socket(), Duration::from_millis(10)), "the session has finished");
        assert!(pending.claim(ours).is_some());
    }

    #[test]
    fn limits_total_and_per_network_connections() {
        let pending = Arc::new(PendingConnections::default());
        let take = |last| PendingSlot::take(&pending, network(last), &LIMITS);
        let places: Vec<_> = (0..MIN_PENDING - 1).filter_map(|_| take(1).ok()).collect();
        assert_eq!(places.len(), MIN_PENDING - 1);
        let last = take(2).expect("one slot is free");
        assert!(take(3).is_err(), "all slots are in use");
        drop(last);
        let last = take(1).expect("one slot is free again");
        let larger = Limits { connections: 64, ..LIMITS };
        assert!(
            PendingSlot::take(&pending, network(1), &larger).is_err(),
            "the address has used all its slots"
        );
        assert!(PendingSlot::take(&pending, network(2), &larger).is_ok());
        drop((last, places));
        assert!(pending.state().waiting.is_empty());
    }
}
