//! Connections that are not in yet: those of which it is not known what they are, and data connections whose session has not
//! asked for them. A session's own connections come together, so there is more room here than there are sessions.

use super::config::Limits;
use numaio_linux::port::net::{Ticket, MAX_STREAMS};
use std::collections::BTreeMap;
use std::net::{IpAddr, TcpStream};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Connections that may wait here for each that may be in.
const PENDING_PER_SESSION: usize = 8;
/// So many may wait at the least: all of one session.
const MIN_PENDING: usize = 2 * MAX_STREAMS;

/// Who waits, and who is waited for.
#[derive(Default)]
pub struct PendingConnections {
    state: Mutex<PendingState>,
    claimed: Condvar,
}

#[derive(Default)]
struct PendingState {
    /// How many of each network are here.
    waiting: BTreeMap<IpAddr, usize>,
    /// Sessions that take data connections.
    sessions: BTreeMap<Ticket, Sender<TcpStream>>,
}

/// A place here; it is free again when this is dropped.
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
    /// One for a connection of a network, if there is one.
    pub fn take(
        pending: &Arc<PendingConnections>,
        network: IpAddr,
        limits: &Limits,
    ) -> Result<Self, &'static str> {
        let mut state = pending.state();
        if state.waiting.values().sum::<usize>() >= MIN_PENDING.max(PENDING_PER_SESSION * limits.connections)
        {
            return Err("refused: too many connections wait");
        }
        let same = state.waiting.entry(network).or_default();
        if *same >= MIN_PENDING.max(PENDING_PER_SESSION * limits.per_address) {
            return Err("refused: too many connections of its address wait");
        }
        *same += 1;
        Ok(Self { pending: pending.clone(), network })
    }

    /// Waits until a session asks for what has its ticket; false if none does in time.
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

/// What has a session's ticket comes here.
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

    /// Asks for what has a ticket; none if another session does already.
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
    const LIMITS: Limits = Limits { connections: 1, per_address: 1, opening: LIMIT };

    fn network(last: u8) -> IpAddr {
        Ipv4Addr::new(192, 0, 2, last).into()
    }

    fn socket() -> TcpStream {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection")
    }

    #[test]
    fn a_session_gets_what_has_its_ticket_before_and_after_it_asks() {
        let pending = Arc::new(PendingConnections::default());
        let (ours, other) = (Ticket([1; 16]), Ticket([2; 16]));
        let slot = |pending| PendingSlot::take(pending, network(1), &LIMITS).expect("a place");
        let early = thread::spawn({
            let slot = slot(&pending);
            move || slot.wait(ours, socket(), LIMIT)
        });
        let stranger = slot(&pending).wait(other, socket(), Duration::from_millis(10));
        assert!(!stranger, "nobody asked for it");
        let claim = pending.claim(ours).expect("nobody else did");
        assert!(pending.claim(ours).is_none());
        assert!(early.join().expect("it ended"));
        assert!(slot(&pending).wait(ours, socket(), LIMIT));
        assert_eq!(claim.connections.iter().take(2).count(), 2);
        drop(claim);
        assert!(!slot(&pending).wait(ours, socket(), Duration::from_millis(10)), "the session is over");
        assert!(pending.claim(ours).is_some());
    }

    #[test]
    fn there_are_no_more_than_there_may_be() {
        let pending = Arc::new(PendingConnections::default());
        let take = |last| PendingSlot::take(&pending, network(last), &LIMITS);
        let places: Vec<_> = (0..MIN_PENDING - 1).filter_map(|_| take(1).ok()).collect();
        assert_eq!(places.len(), MIN_PENDING - 1);
        let last = take(2).expect("there is one place");
        assert!(take(3).is_err(), "all places are taken");
        drop(last);
        let last = take(1).expect("there is one place again");
        let larger = Limits { connections: 64, ..LIMITS };
        assert!(PendingSlot::take(&pending, network(1), &larger).is_err(), "all of this address are taken");
        assert!(PendingSlot::take(&pending, network(2), &larger).is_ok());
        drop((last, places));
        assert!(pending.state().waiting.is_empty());
    }
}
