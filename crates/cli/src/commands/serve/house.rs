//! Who is in: connections that are open, of which address and of which user, and the processes that serve them.

use super::config::Config;
use super::desk::Verdict;
use super::log;
use crate::args::Common;
use numaio_linux::process::Running;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a session that is asked to end may take before it is killed.
const LAST: Duration = Duration::from_secs(10);

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
#[derive(Default)]
pub struct House {
    guests: Mutex<Guests>,
    left: Condvar,
}

#[derive(Default)]
struct Guests {
    next: u64,
    all: BTreeMap<u64, Guest>,
}

struct Guest {
    network: IpAddr,
    /// Once it is known.
    user: Option<String>,
    /// Once it was started.
    running: Option<Running>,
}

impl House {
    fn guests(&self) -> MutexGuard<'_, Guests> {
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until all have left, asks those to leave that stay too long, and then kills.
    pub fn empty(&self, common: &Common, patience: Duration) {
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

    fn each(&self, tell: impl Fn(&Running)) {
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
    /// A place for a caller, if there is one.
    pub fn take(house: &Arc<House>, address: IpAddr, config: &Config) -> Result<Self, &'static str> {
        let network = network(address);
        let mut guests = house.guests();
        if guests.all.len() >= config.limits.connections {
            return Err("refused: limits.connections are open");
        }
        let same = guests.all.values().filter(|guest| guest.network == network);
        if same.count() >= config.limits.per_address {
            return Err("refused: limits.per_address are open");
        }
        guests.next += 1;
        let number = guests.next;
        guests.all.insert(number, Guest { network, user: None, running: None });
        Ok(Self { house: house.clone(), number })
    }

    /// Whether a user may have one more session.
    pub fn is_user(&self, user: &str, config: &Config) -> Verdict {
        let Some(most) = config.users.get(user).map(|user| user.sessions) else {
            return Err(format!("{user} is no user any more"));
        };
        let mut guests = self.house.guests();
        let same = guests.all.values().filter(|guest| guest.user.as_deref() == Some(user));
        if same.count() >= most {
            return Err(format!("{user} has {most} sessions already, and may have no more"));
        }
        if let Some(guest) = guests.all.get_mut(&self.number) {
            guest.user = Some(user.to_owned());
        }
        Ok(())
    }

    /// The process that serves it.
    pub fn runs(&self, running: Running) {
        if let Some(guest) = self.house.guests().all.get_mut(&self.number) {
            guest.running = Some(running);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_of_ipv6_counts_as_one_caller() {
        let network = |text: &str| network(text.parse().expect("an address")).to_string();
        assert_eq!(network("192.0.2.7"), "192.0.2.7");
        assert_eq!(network("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
    }
}
