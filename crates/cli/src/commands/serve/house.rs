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

    /// Who is in, once `full` tells no reason to refuse one more, or for a moment.
    fn once_free<E>(&self, full: impl Fn(&Guests) -> Option<E>) -> Result<MutexGuard<'_, Guests>, E> {
        let deadline = Instant::now() + MOMENT;
        let mut guests = self.guests();
        loop {
            let Some(why) = full(&guests) else { return Ok(guests) };
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(why);
            }
            guests = self.left.wait_timeout(guests, left).unwrap_or_else(PoisonError::into_inner).0;
        }
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
        let full = |guests: &Guests| {
            if guests.all.len() >= config.limits.connections {
                return Some("refused: limits.connections are open");
            }
            let same = guests.all.values().filter(|guest| guest.network == network).count();
            (same >= config.limits.per_address).then_some("refused: limits.per_address are open")
        };
        let mut guests = house.once_free(full)?;
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
        let full = |guests: &Guests| {
            let same = guests.all.values().filter(|guest| guest.user.as_deref() == Some(user)).count();
            (same >= most).then(|| format!("{user} has {most} sessions already, and may have no more"))
        };
        let mut guests = self.house.once_free(full)?;
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

    const ALICE: &str = "
        key = \"/k\"
        [limits]
        connections = 2
        [root.r]
        path = \"/r\"
        read = \"*\"
        [user.alice]
        keys = \"ed25519:d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a\"
        sessions = 1
    ";

    #[test]
    fn whoever_comes_as_another_leaves_gets_the_place() {
        let config = Config::parse(ALICE).expect("a file without faults");
        let (house, address) = (Arc::new(House::default()), IpAddr::from([192, 0, 2, 7]));
        let take = || Seat::take(&house, address, &config);
        let (first, second) = (take().expect("a place"), take().expect("a place"));
        first.is_user("alice", &config).expect("a session");
        assert!(second
            .is_user("alice", &config)
            .expect_err("another one")
            .contains("has 1 sessions already"));
        assert_eq!(take().err(), Some("refused: limits.connections are open"));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(MOMENT / 10);
                drop(first);
            });
            second.is_user("alice", &config).expect("the first one has left");
        });
        let _third = take().expect("a place");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(MOMENT / 10);
                drop(second);
            });
            take().expect("the second one has left");
        });
    }

    #[test]
    fn a_network_of_ipv6_counts_as_one_caller() {
        let network = |text: &str| network(text.parse().expect("an address")).to_string();
        assert_eq!(network("192.0.2.7"), "192.0.2.7");
        assert_eq!(network("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
    }
}
