//! Opening the journal, which precedes all other work.

use super::resume_log::MAX_JOURNAL;
use crate::drive::PeerState;
use crate::port::{FilePath, Operation, Ticket};
use std::time::Duration;

/// Interval for retrying to open a journal that an earlier attempt of the same command still
/// holds...
const RETRY_INTERVAL: Duration = Duration::from_millis(500);
/// ...and the time after which the sink continues without one: a dead peer may be noticed late.
const RETRY_TIMEOUT: Duration = Duration::from_secs(45);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Opening(Ticket),
    /// An earlier attempt holds the journal; the time of the next try, once known.
    Waiting(Option<Duration>),
    Ready,
}

/// The state of opening the journal.
///
/// Invariant: at most one attempt is in flight, and none after the state is ready.
#[derive(Debug)]
pub(super) struct JournalOpening {
    journal: FilePath,
    state: State,
    /// When to stop retrying to open a journal that another process holds.
    deadline: Option<Duration>,
}

impl JournalOpening {
    /// Submits the first attempt, unless there is no journal. A dry run leaves it to the run that
    /// resumes from it.
    pub fn new<B: AsRef<[u8]>>(has_none: bool, journal: &FilePath, peer: &mut PeerState<B>) -> Self {
        let state = match has_none {
            true => State::Ready,
            false => State::Opening(peer.submit(open(journal))),
        };
        Self { journal: journal.clone(), state, deadline: None }
    }

    /// Returns whether other work may start.
    pub fn is_ready(&self) -> bool {
        self.state == State::Ready
    }

    /// Returns whether an attempt is in flight.
    pub fn is_in_flight(&self) -> bool {
        matches!(self.state, State::Opening(_))
    }

    /// Handles a completed operation; returns whether it was an attempt.
    pub fn completed(&mut self, ticket: Ticket) -> bool {
        let is_attempt = self.state == State::Opening(ticket);
        if is_attempt {
            self.state = State::Ready;
        }
        is_attempt
    }

    /// Waits for the next try.
    pub fn wait(&mut self) {
        self.state = State::Waiting(None);
    }

    /// Tries again when it is time. Returns `true` after the deadline: then the sink continues
    /// without a journal.
    pub fn retry<B: AsRef<[u8]>>(&mut self, now: Duration, peer: &mut PeerState<B>) -> bool {
        let State::Waiting(at) = &mut self.state else { return false };
        let until = *self.deadline.get_or_insert(now + RETRY_TIMEOUT);
        if now >= until {
            self.state = State::Ready;
            return true;
        }
        if now >= *at.get_or_insert(now + RETRY_INTERVAL) {
            self.state = State::Opening(peer.submit(open(&self.journal)));
        }
        false
    }

    /// Returns the time of the next try, if one is planned.
    pub fn wake(&self) -> Option<Duration> {
        match self.state {
            State::Waiting(at) => at,
            State::Opening(_) | State::Ready => None,
        }
    }
}

fn open<B>(journal: &FilePath) -> Operation<B> {
    Operation::OpenJournal { journal: journal.clone(), most: MAX_JOURNAL }
}
