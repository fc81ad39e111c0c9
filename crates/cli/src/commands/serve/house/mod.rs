//! Who is in: connections that are open, of which address and of which user, and the processes that serve them.

use super::config::{Config, Limits};
use super::desk::Verdict;
use super::log;
use crate::args::Common;
use numaio_linux::process::ProcessHandle;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a session that is asked to end may take before it is killed.
const LAST: Duration = Duration::from_secs(10);
/// How long one who comes waits for a place: a caller may hear that its session has ended before we do, and come again.
const MOMENT: Duration = Duration::from_secs(2);

/// What one caller has at least: an address of IPv4, a network of 64 bits of IPv6.
pub fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(six) => {
            let [a, b, c, d, ..] = six.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
        four => four,
    }
}

/// Who is in.
pub struct House {
    guests: Mutex<Guests>,
    left: Condvar,
    /// How long one who comes waits for a place.
    moment: Duration,
}

impl Default for House {
    fn default() -> Self {
        Self { guests: Mutex::default(), left: Condvar::new(), moment: MOMENT }
    }
}

#[derive(Default)]
struct Guests {
    next: u64,
    all: BTreeMap<u64, Guest>,
    /// Networks of those who wait for a place: each is a thread and a socket, too.
    waiting: Vec<IpAddr>,
    /// Whether nobody is let in any more.
    closing: bool,
}

impl Guests {
    fn may_wait(&self, network: IpAddr, limits: &Limits) -> bool {
        let same = self.waiting.iter().filter(|other| **other == network).count();
        !self.closing && self.waiting.len() < limits.connections && same < limits.per_address
    }

    fn waits_no_more(&mut self, network: IpAddr) {
        if let Some(at) = self.waiting.iter().position(|other| *other == network) {
            self.waiting.swap_remove(at);
        }
    }
}

struct Guest {
    network: IpAddr,
    /// Once it is known.
    user: Option<String>,
    /// Once it was started.
    running: Option<ProcessHandle>,
}

impl House {
    fn guests(&self) -> MutexGuard<'_, Guests> {
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a moment until `full` tells no reason to refuse one more; not while the daemon ends.
    fn once_free<'h, E>(
        &'h self,
        mut guests: MutexGuard<'h, Guests>,
        full: impl Fn(&Guests) -> Option<E>,
    ) -> (MutexGuard<'h, Guests>, Result<(), E>) {
        let deadline = Instant::now() + self.moment;
        loop {
            let Some(why) = full(&guests) else { return (guests, Ok(())) };
            let left = deadline.saturating_duration_since(Instant::now());
            if guests.closing || left.is_zero() {
                return (guests, Err(why));
            }
            guests = self.left.wait_timeout(guests, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Lets nobody in any more, those who wait included.
    fn close(&self) {
        self.guests().closing = true;
        self.left.notify_all();
    }

    /// Lets nobody in any more, waits until all have left, asks those to leave that stay too long, and then kills.
    pub fn empty(&self, common: &Common, patience: Duration) {
        self.close();
        if self.is_empty_within(patience) {
            return;
        }
        log(common, "sessions that still run are ended");
        self.each(|running| drop(running.interrupt()));
        if !self.is_empty_within(LAST) {
            self.each(|running| drop(running.kill()));
            self.is_empty_within(LAST);
        }
    }

    fn each(&self, tell: impl Fn(&ProcessHandle)) {
        self.guests().all.values().filter_map(|guest| guest.running.as_ref()).for_each(tell);
    }

    fn is_empty_within(&self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        let mut guests = self.guests();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if guests.all.is_empty() || left.is_zero() {
                return guests.all.is_empty();
            }
            guests = self.left.wait_timeout(guests, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// The place of one connection; it is free again when this is dropped.
pub struct Seat {
    house: Arc<House>,
    number: u64,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.house.guests().all.remove(&self.number);
        self.house.left.notify_all();
    }
}

impl Seat {
    /// A place for a caller, if there is one, or soon will be.
    pub fn take(house: &Arc<House>, address: IpAddr, config: &Config) -> Result<Self, &'static str> {
        let network = network(address);
        let full = |guests: &Guests| {
            if guests.closing {
                return Some("refused: the daemon ends");
            }
            if guests.all.len() >= config.limits.connections {
                return Some("refused: limits.connections are open");
            }
            let same = guests.all.values().filter(|guest| guest.network == network).count();
            (same >= config.limits.per_address).then_some("refused: limits.per_address are open")
        };
        let mut guests = house.guests();
        if let Some(why) = full(&guests) {
            if !guests.may_wait(network, &config.limits) {
                return Err(why);
            }
            guests.waiting.push(network);
            let free;
            (guests, free) = house.once_free(guests, full);
            guests.waits_no_more(network);
            free?;
        }
        guests.next += 1;
        let number = guests.next;
        guests.all.insert(number, Guest { network, user: None, running: None });
        drop(guests);
        Ok(Self { house: house.clone(), number })
    }

    /// Whether a user may have one more session.
    pub fn is_user(&self, user: &str, config: &Config) -> Verdict {
        let Some(most) = config.users.get(user).map(|user| user.sessions) else {
            return Err(format!("{user} is no user any more"));
        };
        let full = |guests: &Guests| {
            if guests.closing {
                return Some("the daemon ends".to_owned());
            }
            let same = guests.all.values().filter(|guest| guest.user.as_deref() == Some(user)).count();
            (same >= most).then(|| format!("{user} has {most} sessions already, and may have no more"))
        };
        let (mut guests, free) = self.house.once_free(self.house.guests(), full);
        free?;
        if let Some(guest) = guests.all.get_mut(&self.number) {
            guest.user = Some(user.to_owned());
        }
        Ok(())
    }

    /// The process that serves it.
    pub fn runs(&self, running: ProcessHandle) {
        if let Some(guest) = self.house.guests().all.get_mut(&self.number) {
            guest.running = Some(running);
        }
    }
}

#[cfg(test)]
mod tests;
