//! Sharing of a device by streams of several nodes, by each [`SharingRule`].

use crate::sharing::{share, CapacityUse};
use crate::spec::SharingRule;

/// Streams of one node.
#[derive(Debug, Clone, Copy)]
pub(super) struct NodeDemand {
    /// Position of the node in the machine.
    pub position: usize,
    /// Number of streams.
    pub streams: f64,
    /// Rate of the path in bytes per second.
    pub path: f64,
    /// Maximum rate of one stream.
    pub stream: f64,
}

impl NodeDemand {
    /// Returns the rate without other nodes or a device limit.
    fn own(&self) -> f64 {
        self.path.min(self.stream * self.streams)
    }
}

/// Requests of a stream.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    /// Bytes of a request.
    pub bytes: f64,
    /// Requests in flight per stream.
    pub depth: f64,
}

/// Returns the bytes per second of each node.
pub(super) fn rule_rates(rule: &SharingRule, cap: f64, nodes: &[NodeDemand], request: Request) -> Vec<f64> {
    let ones = vec![1.0; nodes.len()];
    let streams: Vec<f64> = nodes.iter().map(|node| node.streams).collect();
    let own: Vec<f64> = nodes.iter().map(NodeDemand::own).collect();
    let at = |figures: &[f64]| -> Vec<f64> {
        nodes.iter().map(|node| figures.get(node.position).copied().unwrap_or(1.0)).collect()
    };
    match rule {
        SharingRule::Bytes => budget(&own, &ones, &[(cap, ones.clone())]),
        SharingRule::BytesByStreams => budget(&own, &streams, &[(cap, ones.clone())]),
        SharingRule::TimeByStreams { factor } => time(nodes, &streams, *factor, cap),
        SharingRule::TimeByNodes { factor, weights } => time(nodes, &at(weights), *factor, cap),
        SharingRule::Requests { factor } => {
            let seconds: Vec<f64> = nodes.iter().map(|node| 1.0 / (node.path * factor)).collect();
            budget(&own, &streams, &[(cap, ones.clone()), (1.0, seconds)])
        }
        SharingRule::SharedLink { nodes: behind, bytes_per_s } => {
            let crosses = |node: &NodeDemand| f64::from(u8::from(behind.contains(&node.position)));
            let link: Vec<f64> = nodes.iter().map(crosses).collect();
            budget(&own, &ones, &[(cap, ones.clone()), (*bytes_per_s, link)])
        }
        SharingRule::InFlight { requests, latency_s } => {
            let held = in_flight(nodes, *requests, &at(latency_s), request);
            let least: Vec<f64> = own.iter().zip(held).map(|(own, held)| own.min(held)).collect();
            budget(&least, &streams, &[(cap, ones.clone())])
        }
        SharingRule::Cores { cores, core_bytes_per_s } => {
            let core = at(core_bytes_per_s);
            let own: Vec<f64> =
                own.iter().zip(&core).zip(&streams).map(|((own, core), n)| own.min(core * n)).collect();
            let cost: Vec<f64> = core.iter().map(|core| 1.0 / core).collect();
            budget(&own, &streams, &[(cap, ones.clone()), (*cores, cost)])
        }
        SharingRule::Copies { bytes_per_s, copies } => {
            budget(&own, &streams, &[(cap, ones.clone()), (*bytes_per_s, at(copies))])
        }
        SharingRule::Both { rules } => {
            combine(rules, cap, nodes, request, |rates| rates.iter().copied().fold(f64::INFINITY, f64::min))
        }
        SharingRule::Blend { share, rules } => combine(rules, cap, nodes, request, |rates| {
            rates.iter().zip([*share, 1.0 - share]).map(|(rate, share)| rate * share).sum()
        }),
    }
}

fn combine(
    rules: &[SharingRule],
    cap: f64,
    nodes: &[NodeDemand],
    request: Request,
    join: impl Fn(&[f64]) -> f64,
) -> Vec<f64> {
    let of_rules: Vec<Vec<f64>> = rules.iter().map(|rule| rule_rates(rule, cap, nodes, request)).collect();
    (0..nodes.len()).map(|node| join(&of_rules.iter().map(|rates| rates[node]).collect::<Vec<_>>())).collect()
}

/// Shares budgets max-min fairly: nodes grow in proportion to their weights, up to their own rates.
/// Each budget has a cost per byte of each node.
fn budget(own: &[f64], weights: &[f64], budgets: &[(f64, Vec<f64>)]) -> Vec<f64> {
    let capacities: Vec<f64> = budgets.iter().map(|(budget, _)| *budget).chain(own.iter().copied()).collect();
    let flow = |node: usize| -> Vec<CapacityUse> {
        let shared = budgets.iter().enumerate().map(|(capacity, (_, cost))| (capacity, cost[node]));
        let uses = shared.chain([(budgets.len() + node, 1.0)]);
        uses.map(|(capacity, cost)| CapacityUse { capacity, weight: cost * weights[node] }).collect()
    };
    let flows: Vec<Vec<CapacityUse>> = (0..own.len()).map(flow).collect();
    share(&capacities, &flows).into_iter().zip(weights).map(|(rate, weight)| rate * weight).collect()
}

/// Shares the device's time by weights. Time that a node cannot use goes to the others.
fn time(nodes: &[NodeDemand], weights: &[f64], factor: f64, cap: f64) -> Vec<f64> {
    let fast: Vec<f64> = nodes.iter().map(|node| node.path * factor).collect();
    let wanted: Vec<f64> = nodes.iter().zip(&fast).map(|(node, fast)| node.own() / fast).collect();
    let shares = budget(&wanted, weights, &[(1.0, vec![1.0; nodes.len()])]);
    let rates: Vec<f64> = shares.iter().zip(&fast).map(|(share, fast)| share * fast).collect();
    let sum: f64 = rates.iter().sum();
    rates.into_iter().map(|rate| rate * (cap / sum).min(1.0)).collect()
}

/// Little's law with a queue before the device: the requests in service are at most a number, and
/// all streams wait equally long. The wait is found by bisection.
fn in_flight(nodes: &[NodeDemand], most: f64, latency_s: &[f64], request: Request) -> Vec<f64> {
    let rates = |wait: f64| -> Vec<f64> {
        let own = |(node, latency): (&NodeDemand, &f64)| node.streams * request.depth / (wait + latency);
        nodes.iter().zip(latency_s).map(own).collect()
    };
    let in_service =
        |wait: f64| rates(wait).iter().zip(latency_s).map(|(rate, latency)| rate * latency).sum::<f64>();
    let (mut low, mut high) = (0.0, 0.0);
    if in_service(0.0) > most {
        high = latency_s.iter().copied().fold(0.0, f64::max);
        while in_service(high) > most {
            high *= 2.0;
        }
    }
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if in_service(middle) > most {
            low = middle;
        } else {
            high = middle;
        }
    }
    rates(high).into_iter().map(|rate| rate * request.bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: Request = Request { bytes: 1.0, depth: 1.0 };

    fn nodes(parts: &[(f64, f64)]) -> Vec<NodeDemand> {
        let node = |(position, (streams, path)): (usize, &(f64, f64))| NodeDemand {
            position,
            streams: *streams,
            path: *path,
            stream: f64::INFINITY,
        };
        parts.iter().enumerate().map(node).collect()
    }

    fn rates(rule: SharingRule, cap: f64, parts: &[(f64, f64)]) -> Vec<f64> {
        let rates = rule_rates(&rule, cap, &nodes(parts), REQUEST);
        rates.into_iter().map(|rate| (rate * 1e6).round() / 1e6).collect()
    }

    #[test]
    fn bytes_are_shared_by_nodes_or_by_streams() {
        let parts = [(1.0, 9.0), (3.0, 9.0)];
        assert_eq!(rates(SharingRule::Bytes, 8.0, &parts), [4.0, 4.0]);
        assert_eq!(rates(SharingRule::BytesByStreams, 8.0, &parts), [2.0, 6.0]);
    }

    /// The example of Li et al. (ICPP 2013): Equation 1 with two streams on each of two nodes.
    #[test]
    fn time_by_streams_is_equation_1() {
        let rule = || SharingRule::TimeByStreams { factor: 1.0 };
        assert_eq!(rates(rule(), 99.0, &[(2.0, 21.998), (2.0, 18.036)]), [10.999, 9.018]);
        assert_eq!(rates(rule(), 99.0, &[(1.0, 8.0), (3.0, 4.0)]), [2.0, 3.0]);
        assert_eq!(rates(rule(), 99.0, &[(3.0, 8.0)]), [8.0]);
    }

    #[test]
    fn time_by_nodes_follows_weights() {
        let rule = |weights: &[f64]| SharingRule::TimeByNodes { factor: 1.0, weights: weights.to_vec() };
        assert_eq!(rates(rule(&[]), 99.0, &[(1.0, 8.0), (3.0, 4.0)]), [4.0, 2.0]);
        assert_eq!(rates(rule(&[3.0, 1.0]), 99.0, &[(1.0, 8.0), (3.0, 4.0)]), [6.0, 1.0]);
    }

    /// One request of each in turn: 1/8 + 1/4 of a second for two bytes.
    #[test]
    fn requests_in_turn_get_equal_bytes() {
        let found = rates(SharingRule::Requests { factor: 1.0 }, 99.0, &[(1.0, 8.0), (1.0, 4.0)]);
        assert_eq!(found, [2.666667, 2.666667]);
    }

    #[test]
    fn a_link_limits_only_the_nodes_behind_it() {
        let rule = SharingRule::SharedLink { nodes: vec![1, 2], bytes_per_s: 6.0 };
        assert_eq!(rates(rule, 20.0, &[(1.0, 9.0), (1.0, 5.0), (1.0, 5.0)]), [9.0, 3.0, 3.0]);
    }

    /// Four slots: two streams of latencies 1 and 3 need two of them. With four streams each, the
    /// wait w solves 4/(w+1) + 12/(w+3) = 4: w = sqrt(3).
    #[test]
    fn slots_of_slow_requests_are_held_longer() {
        let rule = || SharingRule::InFlight { requests: 4.0, latency_s: vec![1.0, 3.0] };
        assert_eq!(rates(rule(), 99.0, &[(1.0, 99.0), (1.0, 99.0)]), [1.0, 0.333333]);
        let wait = 3f64.sqrt();
        let wanted = [4.0 / (wait + 1.0), 4.0 / (wait + 3.0)].map(|rate| (rate * 1e6).round() / 1e6);
        assert_eq!(rates(rule(), 99.0, &[(4.0, 99.0), (4.0, 99.0)]), wanted);
    }

    #[test]
    fn cores_and_copies_limit_the_host() {
        let cores = SharingRule::Cores { cores: 2.0, core_bytes_per_s: vec![4.0, 2.0] };
        assert_eq!(rates(cores.clone(), 99.0, &[(1.0, 99.0), (1.0, 99.0)]), [4.0, 2.0]);
        // Four streams at a rate r: 2 r / 4 + 2 r / 2 = 2 cores.
        assert_eq!(rates(cores, 99.0, &[(2.0, 99.0), (2.0, 99.0)]), [2.666667, 2.666667]);
        let copies = SharingRule::Copies { bytes_per_s: 12.0, copies: vec![1.0, 2.0] };
        assert_eq!(rates(copies, 99.0, &[(1.0, 99.0), (1.0, 99.0)]), [4.0, 4.0]);
    }

    #[test]
    fn combined_rules_bind_together_or_in_turn() {
        let rules = vec![SharingRule::Bytes, SharingRule::TimeByStreams { factor: 1.0 }];
        let parts = [(1.0, 8.0), (1.0, 4.0)];
        assert_eq!(rates(SharingRule::Both { rules: rules.clone() }, 9.0, &parts), [4.0, 2.0]);
        let blend = SharingRule::Blend { share: 0.5, rules };
        assert_eq!(rates(blend, 8.0, &parts), [4.0, 3.0]);
    }
}
