//! Decisions of a balancer: which running programs to move with their memory, and where.
//!
//! A group moves if the predicted gain of all groups within a horizon exceeds the cost of the move
//! by a margin, if the gain persists, and if no other group loses much. Rates are shared max-min
//! fairly over devices, paths and CPUs ([`throughput`]). A group stays for a while after a move,
//! longer if the move did not have the predicted effect ([`history`]).

mod device_rates;
mod history;
mod inputs;
#[cfg(test)]
mod tests;
mod throughput;
mod traffic;

pub use device_rates::{device_rates, DeviceRates};
use history::{History, ObservedEffect, PastMove};
pub use inputs::{BalanceDevice, BalanceGroup, BalanceNode, BalanceOptions, BalanceProblem, GroupDecision};
use numaio_machine::ids::NodeId;
use numaio_schema::BalanceReason;
use throughput::{at_node, device_busy, Position, RatePredictor, BUSY};
pub use traffic::{device_traffic, TrafficInputs};

/// Time of a move that does not depend on its size, in seconds.
const FIXED_S: f64 = 0.02;

/// Time per moved thread in seconds: its affinity is set, and its caches are cold.
const THREAD_S: f64 = 0.002;

/// Free memory that a node keeps after a move, as a share of the moved bytes.
const RESERVE: f64 = 0.25;

/// Part of a slower node's disadvantage that the gain of a move to it must exceed: the other groups
/// that make it worthwhile may end soon.
const SLOWER: f64 = 0.5;

/// Share of the moved group's rate from which another group may be reduced to its level.
const FAIR: f64 = 0.9;

/// Most groups for which pairs of moves are evaluated.
const MOST_PAIRED: usize = 24;

/// Differences of predicted rates that count as equal, as a share.
const EQUAL: f64 = 0.01;

/// A balancer with its memory of past moves.
#[derive(Debug)]
pub struct Balancer {
    options: BalanceOptions,
    history: History,
    round: u64,
}

/// A possible move.
#[derive(Debug, Clone)]
struct Candidate {
    to: NodeId,
    /// Gain of all groups in bytes per second.
    gain: f64,
    /// Gain within the horizon minus the cost, in bytes.
    net: f64,
    predicted: f64,
    cost_s: f64,
    bytes: u64,
    /// The group that loses the largest share, and the share.
    victim: Option<(usize, f64)>,
    /// Share of the device's rate that the group forgoes on a slower node.
    downside: f64,
    /// A second group that makes room, and its node.
    partner: Option<(usize, NodeId)>,
}

impl Balancer {
    /// Creates a balancer without history.
    pub fn new(options: BalanceOptions) -> Self {
        Self { options, history: History::default(), round: 0 }
    }

    /// Decides about every group; `at` is the time in seconds since any fixed moment.
    ///
    /// The caller performs the moves, and reports each one with [`Self::record`].
    pub fn decide(&mut self, problem: &BalanceProblem, at: f64) -> Vec<GroupDecision> {
        self.round += 1;
        self.history.start_round(at, self.round, &self.options);
        let predictor = RatePredictor::new(problem);
        for (index, group) in problem.groups.iter().enumerate() {
            let observed = ObservedEffect {
                rate: group.bytes_per_s,
                others: rate_of_others(problem, index),
                is_elastic: predictor.is_elastic(index),
            };
            self.history.observe(&group.id, observed, self.round, &self.options);
        }
        let mut positions: Vec<Position> =
            problem.groups.iter().map(|group| group.position.clone()).collect();
        let mut decisions: Vec<Option<GroupDecision>> =
            (0..problem.groups.len()).map(|group| self.obstacle(problem, &predictor, group, at)).collect();
        let mut moves = 0;
        loop {
            let best = self.best_moves(problem, &predictor, &positions, &decisions);
            let single = best.into_iter().max_by(|one, other| one.1.net.total_cmp(&other.1.net));
            let pair = || self.best_pair(problem, &predictor, &positions, &decisions);
            let Some((group, candidate)) = single.or_else(pair) else { break };
            let decision = self.admit(problem, group, &candidate, moves);
            let is_move = decision.to.is_some();
            if let Some((partner, to)) = candidate.partner {
                decisions[partner] = Some(GroupDecision {
                    group: partner,
                    to: is_move.then_some(to),
                    best: Some(to),
                    predicted_bytes_per_s: None,
                    reason: decision.reason.clone(),
                });
            }
            for (group, to) in
                candidate.partner.into_iter().chain([(group, candidate.to)]).filter(|_| is_move)
            {
                moves += 1;
                positions[group] = at_node(to);
            }
            decisions[group] = Some(decision);
        }
        let decided = decisions.into_iter().enumerate();
        decided.map(|(group, decision)| self.complete(problem, &predictor, group, decision)).collect()
    }

    /// Records a performed move of a group, with the bytes that were moved.
    pub fn record(&mut self, problem: &BalanceProblem, decision: &GroupDecision, at: f64, moved_bytes: u64) {
        let Some(group) = problem.groups.get(decision.group) else { return };
        let devices = group.devices.keys().filter_map(|index| problem.devices.get(*index));
        self.history.record(PastMove {
            group: &group.id,
            devices: devices.map(|device| device.name.as_str()).collect(),
            at,
            round: self.round,
            others: rate_of_others(problem, decision.group),
            rates: (group.bytes_per_s, decision.predicted_bytes_per_s.unwrap_or(group.bytes_per_s)),
            bytes: moved_bytes,
            cost_s: move_cost_s(&self.options, group, group.bytes_on.values().sum::<u64>().min(moved_bytes)),
        });
    }

    /// Returns a decision for a group that stays regardless of other nodes.
    fn obstacle(
        &mut self,
        problem: &BalanceProblem,
        predictor: &RatePredictor<'_>,
        group: usize,
        at: f64,
    ) -> Option<GroupDecision> {
        let index = group;
        let group = &problem.groups[index];
        let min_bytes_per_s = self.options.min_bytes_per_s;
        let reason = if let Some(obstacle) = &group.obstacle {
            Some(obstacle.clone())
        } else if group.devices.is_empty() {
            Some(BalanceReason::NoDevice)
        } else if group.bytes_per_s < min_bytes_per_s {
            Some(BalanceReason::LowRate { min_bytes_per_s })
        } else if let Some(node) = unmodeled(problem, group) {
            Some(BalanceReason::NoModel { node })
        } else if let Some(reason) = self.recent_move(problem, group, at) {
            Some(reason)
        } else {
            // A program that limits itself may still make room for others on a busy device.
            let is_limited = predictor.is_elastic(index) || is_busy(problem, group);
            (!is_limited).then(|| not_limited(problem, group))
        }?;
        // A gain must persist through rounds without obstacles, except that rates settle.
        if reason != BalanceReason::Settling {
            self.history.confirm(&group.id, None);
        }
        Some(GroupDecision { group: index, to: None, best: None, predicted_bytes_per_s: None, reason })
    }

    /// Returns why a group must stay because of its last move, or of one on its devices.
    fn recent_move(&self, problem: &BalanceProblem, group: &BalanceGroup, at: f64) -> Option<BalanceReason> {
        self.history.cool_down(&group.id, at, &self.options).or_else(|| {
            let names = group.devices.keys().filter_map(|device| problem.devices.get(*device));
            let mut names = names.map(|device| device.name.as_str());
            let is_settling = names.any(|name| self.history.is_settling(name, self.round, &self.options));
            is_settling.then_some(BalanceReason::Settling)
        })
    }

    /// Returns the best acceptable move of each undecided group.
    fn best_moves(
        &self,
        problem: &BalanceProblem,
        predictor: &RatePredictor<'_>,
        positions: &[Position],
        decisions: &[Option<GroupDecision>],
    ) -> Vec<(usize, Candidate)> {
        let base = predictor.predict(positions);
        let undecided = (0..problem.groups.len()).filter(|group| decisions[*group].is_none());
        let best = undecided.filter_map(|group| {
            let mut candidates = self.candidates(problem, predictor, positions, &base, group);
            candidates.retain(|candidate| self.refusal(problem, group, candidate).is_none());
            Some((group, self.preferred(problem, group, candidates)?))
        });
        best.collect()
    }

    /// Returns the candidate with the highest net gain. Of nearly equal ones, the one of the last
    /// round, then a device's own node, then its faster one, then the one that moves fewest bytes.
    fn preferred(
        &self,
        problem: &BalanceProblem,
        group: usize,
        candidates: Vec<Candidate>,
    ) -> Option<Candidate> {
        let highest = candidates.iter().map(|candidate| candidate.net).fold(f64::NEG_INFINITY, f64::max);
        let group = &problem.groups[group];
        let last = self.history.candidate(&group.id);
        let is_local = |node: NodeId| {
            let mut devices = group.devices.keys().filter_map(|index| problem.devices.get(*index));
            devices.any(|device| device.node == node)
        };
        let equal = candidates.into_iter().filter(|candidate| candidate.net >= highest * (1.0 - EQUAL));
        equal.min_by_key(|candidate| {
            // A faster node of the device may serve more once others leave.
            let downside = (candidate.downside * 100.0).round() as u64;
            (Some(candidate.to) != last, !is_local(candidate.to), downside, candidate.bytes, candidate.to)
        })
    }

    /// Returns the best acceptable pair of moves: a group moves to the node of a second one, which
    /// makes room. Neither move alone would gain.
    fn best_pair(
        &self,
        problem: &BalanceProblem,
        predictor: &RatePredictor<'_>,
        positions: &[Position],
        decisions: &[Option<GroupDecision>],
    ) -> Option<(usize, Candidate)> {
        let groups: Vec<usize> =
            (0..problem.groups.len()).filter(|group| decisions[*group].is_none()).collect();
        if groups.len() > MOST_PAIRED {
            return None;
        }
        let base = predictor.predict(positions);
        let mut best: Option<(usize, Candidate)> = None;
        for group in groups.iter().copied() {
            for partner in groups.iter().copied().filter(|partner| *partner != group) {
                let Some(to) = problem.groups[partner].home() else { continue };
                if positions[partner] != at_node(to) || positions[group] == at_node(to) {
                    continue;
                }
                let others = problem.nodes.iter().map(|node| node.node).filter(|node| *node != to);
                for other in others.filter(|node| problem.groups[partner].allowed.contains(*node)) {
                    let candidate = self.evaluate(
                        problem,
                        predictor,
                        positions,
                        &base,
                        (group, to),
                        Some((partner, other)),
                    );
                    let is_better = best.as_ref().is_none_or(|(_, best)| candidate.net > best.net);
                    if is_better
                        && problem.groups[group].allowed.contains(to)
                        && self.refusal(problem, group, &candidate).is_none()
                    {
                        best = Some((group, candidate));
                    }
                }
            }
        }
        best
    }

    /// Evaluates the moves of a group to each allowed node.
    fn candidates(
        &self,
        problem: &BalanceProblem,
        predictor: &RatePredictor<'_>,
        positions: &[Position],
        base: &[f64],
        group: usize,
    ) -> Vec<Candidate> {
        let moved = &problem.groups[group];
        let present = &positions[group];
        let nodes = problem.nodes.iter().map(|node| node.node);
        let nodes = nodes.filter(|node| moved.allowed.contains(*node) && *present != at_node(*node));
        nodes.map(|to| self.evaluate(problem, predictor, positions, base, (group, to), None)).collect()
    }

    /// Evaluates the move of a group, and of a partner.
    fn evaluate(
        &self,
        problem: &BalanceProblem,
        predictor: &RatePredictor<'_>,
        positions: &[Position],
        base: &[f64],
        (group, to): (usize, NodeId),
        partner: Option<(usize, NodeId)>,
    ) -> Candidate {
        let mut positions = positions.to_vec();
        let downside = predictor.disadvantage(group, &positions[group], to);
        positions[group] = at_node(to);
        let moved = &problem.groups[group];
        let mut bytes = moved.bytes_to_move(to);
        let mut cost_s = move_cost_s(&self.options, moved, bytes);
        let mut cost_bytes = cost_s * moved.bytes_per_s;
        if let Some((partner, to)) = partner {
            positions[partner] = at_node(to);
            let moved = &problem.groups[partner];
            let of_partner = moved.bytes_to_move(to);
            let partner_s = move_cost_s(&self.options, moved, of_partner);
            bytes = bytes.saturating_add(of_partner);
            cost_s += partner_s;
            cost_bytes += partner_s * moved.bytes_per_s;
        }
        let after = predictor.predict(&positions);
        let gain = after.iter().sum::<f64>() - base.iter().sum::<f64>();
        let net = gain * (self.options.horizon_s - cost_s).max(0.0) - cost_bytes;
        // Taking from a group that then still has more than the moved one is fair.
        let fair = after[group] * FAIR;
        let others = base.iter().zip(&after).enumerate().filter(|(other, _)| *other != group);
        let losses = others
            .filter(|(_, (before, after))| after < before && **after < fair)
            .map(|(other, (before, after))| (other, 1.0 - after / before));
        let victim = losses.max_by(|one, other| one.1.total_cmp(&other.1));
        Candidate { to, gain, net, predicted: after[group], cost_s, bytes, victim, downside, partner }
    }

    /// Returns why a possible move is not worth it.
    fn refusal(
        &self,
        problem: &BalanceProblem,
        group: usize,
        candidate: &Candidate,
    ) -> Option<BalanceReason> {
        let options = &self.options;
        let rate = problem.groups[group].bytes_per_s;
        let gain = candidate.gain / rate.max(f64::MIN_POSITIVE);
        let least = options.margin + SLOWER * candidate.downside;
        if gain < least {
            return Some(BalanceReason::SmallGain { gain, min_gain: least });
        }
        if candidate.net <= 0.0 || candidate.cost_s >= options.horizon_s {
            return Some(BalanceReason::HighCost { cost_s: candidate.cost_s, horizon_s: options.horizon_s });
        }
        if let Some((other, loss)) = candidate.victim.filter(|(_, loss)| *loss > options.harm) {
            return Some(BalanceReason::HarmsOther { other: problem.groups[other].id.clone(), loss });
        }
        let node = problem.nodes.iter().find(|node| node.node == candidate.to)?;
        let needed = candidate.bytes as f64 * (1.0 + RESERVE);
        let is_full = node.free_bytes < needed as u64;
        is_full.then_some(BalanceReason::TargetFull { node: node.node, free_bytes: node.free_bytes })
    }

    /// Decides whether a worthwhile move happens now.
    fn admit(
        &mut self,
        problem: &BalanceProblem,
        group: usize,
        candidate: &Candidate,
        moves: usize,
    ) -> GroupDecision {
        let id = &problem.groups[group].id;
        let rounds = self.history.confirm(id, Some(candidate.to));
        let (needed, move_bytes) = (self.options.confirm_rounds, candidate.bytes);
        let most_bytes = self.options.most_move_bytes;
        let (to, reason) = if move_bytes > most_bytes {
            (None, BalanceReason::TooMuchMemory { move_bytes, max_bytes: most_bytes })
        } else if rounds < needed {
            (None, BalanceReason::Unconfirmed { rounds, needed })
        } else if !self.history.may_move(move_bytes) {
            (None, BalanceReason::ByteLimit { move_bytes })
        } else if moves >= self.options.moves_per_round {
            (None, BalanceReason::Settling)
        } else {
            let gain_bytes_per_s = candidate.gain;
            (
                Some(candidate.to),
                BalanceReason::Gain { gain_bytes_per_s, move_bytes, cost_s: candidate.cost_s },
            )
        };
        GroupDecision {
            group,
            to,
            best: Some(candidate.to),
            predicted_bytes_per_s: Some(candidate.predicted),
            reason,
        }
    }

    /// Returns the decision of a group; one without a worthwhile move gets the reason of its most
    /// promising node.
    fn complete(
        &mut self,
        problem: &BalanceProblem,
        predictor: &RatePredictor<'_>,
        group: usize,
        decision: Option<GroupDecision>,
    ) -> GroupDecision {
        if let Some(decision) = decision {
            return decision;
        }
        self.history.confirm(&problem.groups[group].id, None);
        let positions: Vec<Position> = problem.groups.iter().map(|group| group.position.clone()).collect();
        let base = predictor.predict(&positions);
        let candidates = self.candidates(problem, predictor, &positions, &base, group);
        let best = candidates
            .into_iter()
            .filter(|candidate| candidate.gain > EQUAL * problem.groups[group].bytes_per_s)
            .max_by(|one, other| one.net.total_cmp(&other.net));
        let refused = best.as_ref().and_then(|candidate| self.refusal(problem, group, candidate));
        let limits_itself =
            (!predictor.is_elastic(group)).then(|| not_limited(problem, &problem.groups[group]));
        let reason = limits_itself.or(refused).unwrap_or(BalanceReason::BestNode);
        GroupDecision {
            group,
            to: None,
            best: best.as_ref().map(|candidate| candidate.to),
            predicted_bytes_per_s: best.map(|candidate| candidate.predicted),
            reason,
        }
    }
}

/// Returns the time of a move and its aftermath in seconds.
fn move_cost_s(options: &BalanceOptions, group: &BalanceGroup, bytes: u64) -> f64 {
    bytes as f64 / options.move_bytes_per_s + FIXED_S + THREAD_S * f64::from(group.threads)
}

/// Returns the reason of a group that does not use what its devices have left.
fn not_limited(problem: &BalanceProblem, group: &BalanceGroup) -> BalanceReason {
    let busy = group.devices.keys().map(|device| device_busy(problem, *device));
    BalanceReason::NotLimited { device_busy: busy.fold(0.0, f64::max).min(1.0) }
}

/// Returns whether one of a group's devices has no time left.
fn is_busy(problem: &BalanceProblem, group: &BalanceGroup) -> bool {
    group.devices.keys().any(|device| device_busy(problem, *device) >= BUSY)
}

/// Returns the other groups that use a device of a group.
fn others_on_devices(problem: &BalanceProblem, group: usize) -> impl Iterator<Item = &BalanceGroup> {
    let devices = &problem.groups[group].devices;
    let others = problem.groups.iter().enumerate().filter(move |(other, _)| *other != group);
    others
        .map(|(_, other)| other)
        .filter(|other| other.devices.keys().any(|device| devices.contains_key(device)))
}

/// Returns the rate of the other groups that use a device of a group, in bytes per second.
fn rate_of_others(problem: &BalanceProblem, group: usize) -> f64 {
    others_on_devices(problem, group).map(|other| other.bytes_per_s).sum()
}

/// Returns the node of a device without rates of nodes.
fn unmodeled(problem: &BalanceProblem, group: &BalanceGroup) -> Option<NodeId> {
    let devices = group.devices.keys().filter_map(|index| problem.devices.get(*index));
    devices.into_iter().find(|device| device.by_node.is_empty()).map(|device| device.node)
}
