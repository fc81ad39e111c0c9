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
const EACH: usize = 8;
/// So many may wait at the least: all of one session.
const LEAST: usize = 2 * MAX_STREAMS;

/// Who waits, and who is waited for.
#[derive(Default)]
pub struct Lobby {
    state: Mutex<State>,
    asked: Condvar,
}

#[derive(Default)]
struct State {
    /// How many of each network are here.
    waiting: BTreeMap<IpAddr, usize>,
    /// Sessions that take data connections.
    sessions: BTreeMap<Ticket, Sender<TcpStream>>,
}

/// A place here; it is free again when this is dropped.
pub struct Place {
    lobby: Arc<Lobby>,
    network: IpAddr,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.lobby.state();
        if let Some(count) = state.waiting.get_mut(&self.network) {
            *count -= 1;
            if *count == 0 {
                state.waiting.remove(&self.network);
            }
        }
    }
}

impl Place {
    /// One for a connection of a network, if there is one.
    pub fn take(lobby: &Arc<Lobby>, network: IpAddr, limits: &Limits) -> Result<Self, &'static str> {
        let mut state = lobby.state();
        if state.waiting.values().sum::<usize>() >= LEAST.max(EACH * limits.connections) {
            return Err("refused: too many connections wait");
        }
        let same = state.waiting.entry(network).or_default();
        if *same >= LEAST.max(EACH * limits.per_address) {
            return Err("refused: too many connections of its address wait");
        }
        *same += 1;
        Ok(Self { lobby: lobby.clone(), network })
    }

    /// Waits until a session asks for what has its ticket; false if none does in time.
    pub fn wait(self, ticket: Ticket, socket: TcpStream, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        let mut state = self.lobby.state();
        loop {
            if let Some(session) = state.sessions.get(&ticket) {
                return session.send(socket).is_ok();
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.lobby.asked.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// What has a session's ticket comes here.
pub struct Claim {
    lobby: Arc<Lobby>,
    ticket: Ticket,
    pub came: Receiver<TcpStream>,
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.lobby.state().sessions.remove(&self.ticket);
    }
}

impl Lobby {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for what has a ticket; none if another session does already.
    pub fn claim(self: &Arc<Self>, ticket: Ticket) -> Option<Claim> {
        let mut state = self.state();
        if state.sessions.contains_key(&ticket) {
            return None;
        }
        let (sender, came) = channel();
        state.sessions.insert(ticket, sender);
        self.asked.notify_all();
        drop(state);
        Some(Claim { lobby: self.clone(), ticket, came })
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
        let lobby = Arc::new(Lobby::default());
        let (ours, other) = (Ticket([1; 16]), Ticket([2; 16]));
        let place = |lobby| Place::take(lobby, network(1), &LIMITS).expect("a place");
        let early = thread::spawn({
            let place = place(&lobby);
            move || place.wait(ours, socket(), LIMIT)
        });
        let stranger = place(&lobby).wait(other, socket(), Duration::from_millis(10));
        assert!(!stranger, "nobody asked for it");
        let claim = lobby.claim(ours).expect("nobody else did");
        assert!(lobby.claim(ours).is_none());
        assert!(early.join().expect("it ended"));
        assert!(place(&lobby).wait(ours, socket(), LIMIT));
        assert_eq!(claim.came.iter().take(2).count(), 2);
        drop(claim);
        assert!(!place(&lobby).wait(ours, socket(), Duration::from_millis(10)), "the session is over");
        assert!(lobby.claim(ours).is_some());
    }

    #[test]
    fn there_are_no_more_than_there_may_be() {
        let lobby = Arc::new(Lobby::default());
        let take = |last| Place::take(&lobby, network(last), &LIMITS);
        let places: Vec<_> = (0..LEAST - 1).filter_map(|_| take(1).ok()).collect();
        assert_eq!(places.len(), LEAST - 1);
        let last = take(2).expect("there is one place");
        assert!(take(3).is_err(), "all places are taken");
        drop(last);
        let last = take(1).expect("there is one place again");
        let larger = Limits { connections: 64, ..LIMITS };
        assert!(Place::take(&lobby, network(1), &larger).is_err(), "all of this address are taken");
        assert!(Place::take(&lobby, network(2), &larger).is_ok());
        drop((last, places));
        assert!(lobby.state().waiting.is_empty());
    }
}
