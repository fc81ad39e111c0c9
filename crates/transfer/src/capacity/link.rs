//! The connection of a transfer to the daemon that lends capacity to it.

use super::messages::{CapacityOffer, CapacityReply, CapacityRequest, PeerMessage, MAX_REPLY_BYTES};
use crate::json_lines::{is_timeout, send, LineReader};
use numaio_schema::{CapacityState, LentCapacity};
use std::io;
use std::mem::discriminant;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How often the progress is reported.
pub const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);
/// Value of the rate if there is no limit.
const NO_LIMIT: u64 = u64::MAX;

/// The capacity that a transfer may use at the moment.
#[derive(Debug)]
pub struct CurrentRate {
    /// Bytes/s; 0 while it is suspended, [`NO_LIMIT`] without a limit.
    rate: AtomicU64,
    /// Maximum number of reads and writes in progress, [`NO_LIMIT`] without a limit.
    operations: AtomicU64,
    /// Bytes of data so far.
    moved: AtomicU64,
    /// The events since the last call, the last of each kind.
    news: Mutex<Vec<LinkNews>>,
    /// Messages for the other host.
    for_peer: Mutex<Vec<PeerMessage>>,
    /// The last offer to it.
    offer: Mutex<Option<CapacityOffer>>,
    /// Number of the present turn of the two hosts; 0 before the first one.
    turn: AtomicU64,
    /// The socket to the daemon; `None` after it was closed.
    daemon: Mutex<Option<UnixStream>>,
}

/// An event on the connection to the daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkNews {
    /// The daemon lends this.
    Lent(LentCapacity),
    /// The other host's daemon lends this.
    PeerLent(LentCapacity),
    /// The daemon has exited or closed the connection. The transfer continues without limits.
    Closed,
}

impl CurrentRate {
    /// No limits.
    fn unlimited(daemon: Option<UnixStream>) -> Self {
        Self {
            rate: NO_LIMIT.into(),
            operations: NO_LIMIT.into(),
            moved: 0.into(),
            news: Mutex::default(),
            for_peer: Mutex::default(),
            offer: Mutex::default(),
            turn: 0.into(),
            daemon: Mutex::new(daemon),
        }
    }

    /// A rate without limits, for messages of another host's daemon to a host without one.
    pub fn of_peer() -> Arc<Self> {
        Arc::new(Self::unlimited(None))
    }

    /// Takes the messages for the other host.
    pub fn take_for_peer(&self) -> Vec<PeerMessage> {
        std::mem::take(&mut *self.for_peer.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds a message for the other host.
    pub fn send_to_peer(&self, message: PeerMessage) {
        if let PeerMessage::Offer(offer) = message {
            self.turn.store(offer.turn, Ordering::Relaxed);
            *self.offer.lock().unwrap_or_else(PoisonError::into_inner) = Some(offer);
        }
        self.for_peer.lock().unwrap_or_else(PoisonError::into_inner).push(message);
    }

    /// Returns the last offer to the other host.
    pub fn offer(&self) -> Option<CapacityOffer> {
        *self.offer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports to the other host what the daemon has changed.
    pub fn report_to_peer(&self) {
        for news in self.take_news() {
            if let LinkNews::Lent(lent) = news {
                self.send_to_peer(PeerMessage::Lent(lent));
            }
        }
    }

    /// Processes a message of the other host.
    pub fn received(&self, message: PeerMessage) {
        match message {
            PeerMessage::Lent(lent) => self.report(LinkNews::PeerLent(lent)),
            message => {
                let is_lost = !self.request(&CapacityRequest::FromPeer(message.clone()));
                if let PeerMessage::Offer(CapacityOffer { turn, .. }) = message {
                    self.turn.store(turn, Ordering::Relaxed);
                    if is_lost {
                        self.offer_everything();
                    }
                }
            }
        }
    }

    /// Offers the other host everything, because the daemon of this host has exited: otherwise its
    /// last offer would limit the transfer to the end.
    fn offer_everything(&self) {
        let turn = self.turn.load(Ordering::Relaxed);
        self.send_to_peer(PeerMessage::Offer(CapacityOffer { turn, rate: None }));
    }

    /// Sends a request to the daemon; returns false if it has exited.
    pub fn request(&self, request: &CapacityRequest) -> bool {
        let mut daemon = self.daemon.lock().unwrap_or_else(PoisonError::into_inner);
        if daemon.as_ref().is_some_and(|daemon| send(daemon, request).is_err()) {
            *daemon = None;
        }
        daemon.is_some()
    }

    /// Returns the rate in bytes/s, 0 while the transfer is suspended; `None` without a limit.
    pub fn bytes_per_second(&self) -> Option<u64> {
        Some(self.rate.load(Ordering::Relaxed)).filter(|rate| *rate != NO_LIMIT)
    }

    /// Returns the maximum number of reads and writes in progress; `None` without a limit.
    pub fn operation_limit(&self) -> Option<usize> {
        Some(self.operations.load(Ordering::Relaxed))
            .filter(|limit| *limit != NO_LIMIT)
            .map(|limit| limit as usize)
    }

    /// Counts bytes of data that were read or written.
    pub fn count(&self, bytes: u64) {
        self.moved.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns the news since the last call, the last of each kind.
    pub fn take_news(&self) -> Vec<LinkNews> {
        std::mem::take(&mut *self.news.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn set(&self, lent: LentCapacity) {
        let rate = match lent.state {
            CapacityState::Transferring if lent.is_limited => lent.rate.unwrap_or(NO_LIMIT),
            CapacityState::Transferring => NO_LIMIT,
            CapacityState::Waiting | CapacityState::Active | CapacityState::Suspended => 0,
        };
        self.rate.store(rate, Ordering::Relaxed);
        self.operations.store(lent.operation_limit().map_or(NO_LIMIT, u64::from), Ordering::Relaxed);
        self.report(LinkNews::Lent(lent));
    }

    fn release(&self) {
        self.rate.store(NO_LIMIT, Ordering::Relaxed);
        self.operations.store(NO_LIMIT, Ordering::Relaxed);
        *self.daemon.lock().unwrap_or_else(PoisonError::into_inner) = None;
        if self.turn.load(Ordering::Relaxed) > 0 {
            self.offer_everything();
        }
        self.report(LinkNews::Closed);
    }

    fn report(&self, news: LinkNews) {
        let mut all = self.news.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|old| discriminant(old) != discriminant(&news));
        all.push(news);
    }
}

/// A connection to a daemon; closed when it is dropped, which gives back the capacity.
#[derive(Debug)]
pub struct CapacityLink {
    socket: UnixStream,
    current: Arc<CurrentRate>,
}

impl Drop for CapacityLink {
    fn drop(&mut self) {
        // Fails if the daemon has exited.
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

impl CapacityLink {
    /// Receives messages of a daemon that has `lent` something, in a thread.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(replies: LineReader<UnixStream>, lent: Option<LentCapacity>) -> io::Result<Self> {
        let socket = replies.socket().try_clone()?;
        let current = Arc::new(CurrentRate::unlimited(Some(replies.socket().try_clone()?)));
        lent.into_iter().for_each(|lent| current.set(lent));
        let rate = current.clone();
        thread::Builder::new().name("capacity".to_owned()).spawn(move || {
            // A daemon that has exited, or that sends nonsense, limits nothing.
            let _ = receive_all(replies, &rate);
            rate.release();
        })?;
        Ok(Self { socket, current })
    }

    /// Returns the rate that the daemon sets.
    pub fn current(&self) -> Arc<CurrentRate> {
        self.current.clone()
    }
}

/// Receives messages until the daemon closes the connection, and reports the progress.
fn receive_all(mut replies: LineReader<UnixStream>, current: &CurrentRate) -> io::Result<()> {
    let mut next_report = Instant::now() + PROGRESS_INTERVAL;
    loop {
        let left = next_report.saturating_duration_since(Instant::now());
        if left.is_zero() {
            current.request(&CapacityRequest::Progress(current.moved.load(Ordering::Relaxed)));
            next_report += PROGRESS_INTERVAL;
            continue;
        }
        let reply = replies.receive::<CapacityReply>(MAX_REPLY_BYTES, Some(left));
        match reply.map(|reply| reply.map(CapacityReply::sanitized)) {
            Ok(Some(CapacityReply::Lent(lent))) => current.set(lent),
            Ok(Some(CapacityReply::ForPeer(message))) => current.send_to_peer(message),
            Ok(Some(
                CapacityReply::Refused(_) | CapacityReply::Order { .. } | CapacityReply::Transfers(_),
            )) => {}
            Ok(None) => return Ok(()),
            Err(error) if is_timeout(&error) => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lent(state: CapacityState, rate: Option<u64>, is_limited: bool) -> LentCapacity {
        LentCapacity { state, rate, is_limited, ..LentCapacity::default() }
    }

    fn until(condition: impl Fn() -> bool) {
        while !condition() {
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn the_daemon_sets_the_rate_until_it_exits() {
        let (ours, theirs) = UnixStream::pair().expect("sockets");
        let link = CapacityLink::start(
            LineReader::new(ours),
            Some(lent(CapacityState::Transferring, Some(7), true)),
        )
        .expect("a link");
        let current = link.current();
        assert_eq!(current.bytes_per_second(), Some(7));
        for (state, rate, is_limited, expected) in [
            (CapacityState::Suspended, None, false, Some(0)),
            (CapacityState::Transferring, Some(9), false, None),
            (CapacityState::Transferring, Some(9), true, Some(9)),
        ] {
            send(&theirs, &CapacityReply::Lent(lent(state, rate, is_limited))).expect("sent");
            until(|| current.bytes_per_second() == expected);
        }
        assert!(matches!(current.take_news()[..], [LinkNews::Lent(_)]));
        drop(theirs);
        until(|| current.bytes_per_second().is_none());
        until(|| current.take_news() == [LinkNews::Closed]);
    }

    #[test]
    fn a_host_without_its_daemon_offers_everything() {
        let (ours, theirs) = UnixStream::pair().expect("sockets");
        let link = CapacityLink::start(LineReader::new(ours), None).expect("a link");
        let current = link.current();
        let offer = |turn, rate| PeerMessage::Offer(CapacityOffer { turn, rate });
        send(&theirs, &CapacityReply::ForPeer(offer(1, Some(5)))).expect("sent");
        until(|| current.offer().is_some());
        assert_eq!(current.take_for_peer(), [offer(1, Some(5))]);
        drop(theirs);
        until(|| current.take_news() == [LinkNews::Closed]);
        assert_eq!(current.take_for_peer(), [offer(1, None)]);
        current.received(offer(2, Some(9)));
        assert_eq!(current.take_for_peer(), [offer(2, None)]);
    }

    #[test]
    fn progress_is_reported() {
        let (ours, theirs) = UnixStream::pair().expect("sockets");
        let link = CapacityLink::start(LineReader::new(ours), None).expect("a link");
        link.current().count(11);
        let report = LineReader::new(&theirs).receive::<CapacityRequest>(MAX_REPLY_BYTES, None);
        assert_eq!(report.expect("a message"), Some(CapacityRequest::Progress(11)));
        drop(link);
        assert!(LineReader::new(&theirs)
            .receive::<CapacityRequest>(MAX_REPLY_BYTES, None)
            .expect("closed")
            .is_none());
    }
}
