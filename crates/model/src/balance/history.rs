//! The memory of a balancer on groups and moves: cool-down, hysteresis, effects and byte limits.

use super::inputs::BalanceOptions;
use numaio_machine::ids::NodeId;
use numaio_schema::BalanceReason;
use std::collections::BTreeMap;

/// Share of the predicted gain below which a move was ineffective.
const REALIZED: f64 = 0.25;

/// Factor of the cool-down after each ineffective move.
const BACK_OFF: f64 = 4.0;

/// Longest extension of a cool-down by ineffective moves.
const LONGEST: f64 = 64.0;

/// Most of a group's time that moves take: a cool-down is at least the cost of the move over it.
const MOVING_SHARE: f64 = 0.02;

/// Rounds for which a group that disappeared is remembered.
const FORGET_ROUNDS: u64 = 100;

/// The past of all groups.
#[derive(Debug, Default)]
pub(super) struct History {
    groups: BTreeMap<String, GroupHistory>,
    /// Round of the last move that affects each device.
    devices: BTreeMap<String, u64>,
    /// Bytes that may be moved now; negative after a large move.
    tokens: f64,
    /// Time of the last refill.
    refilled_at: Option<f64>,
}

/// The past of one group.
#[derive(Debug, Default)]
struct GroupHistory {
    seen_in: u64,
    last_move: Option<LastMove>,
    /// The node that promised most in the last round, and in how many rounds any did.
    candidate: Option<(NodeId, u32)>,
    /// Ineffective moves in a row.
    ineffective: u32,
    /// Share of the predicted gain of the last ineffective move.
    realized: f64,
}

/// A move and its expected effect.
#[derive(Debug, Clone, Copy)]
struct LastMove {
    at: f64,
    cost_s: f64,
    round: u64,
    before: f64,
    /// Rate of other groups on its devices before.
    others: f64,
    predicted: f64,
    is_checked: bool,
}

/// The decision on a group in a round.
#[derive(Debug, Clone, Copy)]
pub(super) struct ObservedEffect {
    pub rate: f64,
    /// Rate of other groups on its devices.
    pub others: f64,
    /// Whether it would use more.
    pub is_elastic: bool,
}

/// A move to remember.
pub(super) struct PastMove<'a> {
    pub group: &'a str,
    pub devices: Vec<&'a str>,
    pub at: f64,
    pub round: u64,
    /// Rate of the group before, and its predicted one.
    pub rates: (f64, f64),
    /// Rate of other groups on its devices.
    pub others: f64,
    pub bytes: u64,
    /// Time of the move and its aftermath in seconds.
    pub cost_s: f64,
}

impl History {
    /// Starts a round: refills the byte limit, and forgets groups that ended.
    pub fn start_round(&mut self, at: f64, round: u64, options: &BalanceOptions) {
        let elapsed = self.refilled_at.map_or(f64::INFINITY, |before| (at - before).max(0.0));
        let most = options.limit_bytes_per_s * options.horizon_s;
        self.tokens = (self.tokens + elapsed * options.limit_bytes_per_s).min(most);
        self.refilled_at = Some(at);
        self.groups.retain(|_, group| group.seen_in + FORGET_ROUNDS >= round);
        self.devices.retain(|_, moved_in| *moved_in + FORGET_ROUNDS >= round);
    }

    /// Records that a group exists, and compares its rate with its last move's prediction after the
    /// rates have settled. A move is not to blame if the program wants less, or if others take what
    /// it lacks.
    pub fn observe(&mut self, id: &str, observed: ObservedEffect, round: u64, options: &BalanceOptions) {
        let group = self.groups.entry(id.to_owned()).or_default();
        group.seen_in = round;
        let Some(last) = group.last_move.as_mut().filter(|last| !last.is_checked) else { return };
        if round <= last.round + options.settle_rounds + 1 {
            return;
        }
        last.is_checked = true;
        let expected = last.predicted - last.before;
        let realized = if expected > 0.0 { (observed.rate - last.before) / expected } else { 1.0 };
        let is_taken = observed.others - last.others > (1.0 - realized) * expected * 0.5;
        let is_ineffective = realized < REALIZED && observed.is_elastic && !is_taken;
        group.ineffective = if is_ineffective { group.ineffective + 1 } else { 0 };
        group.realized = realized;
    }

    /// Returns why a group must stay for now because of its last move.
    pub fn cool_down(&self, id: &str, at: f64, options: &BalanceOptions) -> Option<BalanceReason> {
        let group = self.groups.get(id)?;
        let last = group.last_move?;
        let exponent = i32::try_from(group.ineffective).unwrap_or(i32::MAX);
        let least = options.cool_down_s.max(last.cost_s / MOVING_SHARE);
        let duration = least * BACK_OFF.powi(exponent).min(LONGEST);
        let left_s = last.at + duration - at;
        if left_s <= 0.0 {
            return None;
        }
        Some(match group.ineffective {
            0 => BalanceReason::CoolDown { remaining_s: left_s },
            _ => BalanceReason::Ineffective { realized: group.realized, remaining_s: left_s },
        })
    }

    /// Returns whether rates of a device still change after a move.
    pub fn is_settling(&self, device: &str, round: u64, options: &BalanceOptions) -> bool {
        self.devices.get(device).is_some_and(|moved_in| round <= *moved_in + options.settle_rounds)
    }

    /// Counts the rounds in which any node promised a gain; `None` ends the count.
    ///
    /// Moves of other groups change the best node, but not that the present one is wrong.
    pub fn confirm(&mut self, id: &str, to: Option<NodeId>) -> u32 {
        let Some(group) = self.groups.get_mut(id) else { return 0 };
        let rounds = group.candidate.map_or(0, |(_, rounds)| rounds);
        group.candidate = to.map(|to| (to, rounds.saturating_add(1)));
        group.candidate.map_or(0, |(_, rounds)| rounds)
    }

    /// Returns the node that promised a gain in the last round.
    pub fn candidate(&self, id: &str) -> Option<NodeId> {
        self.groups.get(id)?.candidate.map(|(node, _)| node)
    }

    /// Returns whether bytes may be moved now. A move may overdraw the limit, and the next ones
    /// wait until it is paid.
    pub fn may_move(&self, bytes: u64) -> bool {
        bytes == 0 || self.tokens >= (bytes as f64).min(1.0)
    }

    /// Records a move.
    pub fn record(&mut self, past: PastMove<'_>) {
        self.tokens -= past.bytes as f64;
        for device in past.devices {
            self.devices.insert(device.to_owned(), past.round);
        }
        let group = self.groups.entry(past.group.to_owned()).or_default();
        group.seen_in = past.round;
        group.candidate = None;
        let (before, predicted) = past.rates;
        let PastMove { at, cost_s, round, others, .. } = past;
        group.last_move = Some(LastMove { at, cost_s, round, before, others, predicted, is_checked: false });
    }
}
