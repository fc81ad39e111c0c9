//! Random machines with one shared device, to test predictions for unknown devices.
//!
//! A seed determines everything. Rates differ within a level of nodes, directions have different
//! rates, runs are noisy, and some devices stall in bursts.

use crate::noise::Random;
use crate::shapes;
use crate::spec::{DeviceSpec, IoRates, IoSpec, SharingRule, Spec};
use numaio_machine::devices::DeviceKind;
use numaio_machine::ids::NodeId;
use numaio_machine::workload::Direction;

/// Name of the device of [`random`].
pub const NAME: &str = "nvme0n1";
/// Names of the rules of [`random`], in the order of seeds.
pub const RULES: [&str; 11] = [
    "bytes by nodes",
    "bytes by streams",
    "time by streams",
    "time by nodes",
    "time by weighted nodes",
    "requests in turn",
    "shared link",
    "requests in flight",
    "cores",
    "copies",
    "mixture of two rules",
];

/// A machine with a device whose rates are random.
#[derive(Debug, Clone, PartialEq)]
pub struct RandomDevice {
    /// The machine; its only device is [`NAME`], on the last node.
    pub spec: Spec,
    /// The sharing rule, one of [`RULES`].
    pub rule: &'static str,
    /// Levels of the nodes' rates by direction, write first: nodes of one level are similar.
    pub levels: [Vec<Vec<NodeId>>; 2],
}

/// Returns the device of a seed. Its machine has 2, 4, 6 or 8 nodes of eight CPUs.
pub fn random(seed: u64) -> RandomDevice {
    let random = &mut Random::of_run(seed, 0x5eed);
    let rule = (seed % RULES.len() as u64) as usize;
    // A link of two remote nodes needs more than two nodes.
    let sizes: &[u32] = if RULES[rule] == "shared link" { &[4, 6, 8] } else { &[2, 4, 6, 8] };
    let nodes = sizes[below(random, sizes.len())];
    let mut spec = shapes::uniform(nodes, 8);
    spec.name = format!("device-{seed}");
    let (write, write_levels) = rates(random, nodes as usize, rule);
    let (read, read_levels) = rates(random, nodes as usize, rule);
    spec.devices.push(DeviceSpec {
        node: Some(NodeId(nodes - 1)),
        names: vec![NAME.to_owned()],
        model: "Simulated drive".to_owned(),
        io: Some(IoSpec { write, read }),
        ..shapes::device(DeviceKind::Nvme, shapes::pci(0, 0x31, 0, 0), 16.0, 16)
    });
    spec.noise.seed = seed;
    spec.noise.sample = 0.02;
    spec.noise.run = within(random, 0.002, 0.012);
    if random.unit() < 0.25 {
        (spec.noise.glitch_probability, spec.noise.glitch_factor) = (0.03, 0.9);
    }
    RandomDevice { spec, rule: RULES[rule], levels: [write_levels, read_levels] }
}

impl RandomDevice {
    /// Returns the levels of a direction.
    pub fn levels(&self, direction: Direction) -> &[Vec<NodeId>] {
        match direction {
            Direction::Write => &self.levels[0],
            Direction::Read => &self.levels[1],
        }
    }
}

fn within(random: &mut Random, least: f64, most: f64) -> f64 {
    least + (most - least) * random.unit()
}

fn below(random: &mut Random, end: usize) -> usize {
    (random.next() % end as u64) as usize
}

/// Rates of one direction, and the nodes of each level.
fn rates(random: &mut Random, nodes: usize, rule: usize) -> (IoRates, Vec<Vec<NodeId>>) {
    let levels: Vec<f64> = (0..2 + below(random, 3)).map(|_| within(random, 1e9, 5e9)).collect();
    let spread = within(random, 0.0, 0.1);
    let mut members = vec![Vec::new(); levels.len()];
    let mut paths = Vec::new();
    for node in 0..nodes {
        let level = below(random, levels.len());
        members[level].push(NodeId(node as u32));
        paths.push(levels[level] * within(random, 1.0 - spread, 1.0 + spread));
    }
    members.retain(|nodes| !nodes.is_empty());
    let best = paths.iter().copied().fold(0.0, f64::max);
    let stream = (random.unit() < 0.5).then(|| best * within(random, 0.2, 0.8));
    let stalls = (random.unit() < 0.3).then(|| within(random, 0.01, 0.05));
    // A cap far above the paths leaves the device to its rule.
    let cap = best * within(random, 0.8, 2.5);
    let (sharing, cap) = match RULES[rule] {
        "mixture of two rules" => {
            let [first, second] = [below_rule(random), below_rule(random)];
            let rules = vec![named(random, &paths, first), named(random, &paths, second)];
            match random.unit() < 0.5 {
                true => (SharingRule::Both { rules }, cap),
                false => (SharingRule::Blend { share: within(random, 0.3, 0.7), rules }, cap),
            }
        }
        _ => (named(random, &paths, rule), cap),
    };
    (IoRates { nodes: paths, cap, stream, sharing, stalls, copied: false }, members)
}

/// Returns the index of a single rule, not a mixture.
fn below_rule(random: &mut Random) -> usize {
    below(random, RULES.len() - 1)
}

fn named(random: &mut Random, paths: &[f64], rule: usize) -> SharingRule {
    let nodes = paths.len();
    let best = paths.iter().copied().fold(0.0, f64::max);
    // Time that switching costs makes the factor smaller; a path slower than the engine, greater.
    let factor = within(random, 0.92, 1.5);
    match RULES[rule] {
        "bytes by streams" => SharingRule::BytesByStreams,
        "time by streams" => SharingRule::TimeByStreams { factor },
        "time by nodes" => SharingRule::TimeByNodes { factor, weights: Vec::new() },
        "time by weighted nodes" => {
            let weights = (0..nodes).map(|_| within(random, 0.7, 1.5)).collect();
            SharingRule::TimeByNodes { factor, weights }
        }
        "requests in turn" => SharingRule::Requests { factor },
        "shared link" => {
            let first = below(random, nodes - 1);
            let second = (first + 1 + below(random, (nodes - 2).max(1))) % (nodes - 1).max(1);
            let behind = if first == second { vec![first] } else { vec![first, second] };
            let most = behind.iter().map(|node| paths[*node]).fold(0.0, f64::max);
            SharingRule::SharedLink { nodes: behind, bytes_per_s: most * within(random, 1.0, 1.7) }
        }
        "requests in flight" => {
            // A stream of 16 requests of 128 KiB alone reaches a part of its path.
            let part = within(random, 0.3, 1.2);
            let bytes = 16.0 * f64::from(128u32 << 10);
            let latency = |path: &f64| bytes / (path * part);
            let latency_s = paths.iter().map(latency).collect();
            SharingRule::InFlight { requests: 16.0 * within(random, 1.0, 4.0), latency_s }
        }
        "cores" => {
            let part = within(random, 0.4, 0.9);
            let core_bytes_per_s = paths.iter().map(|path| path * part).collect();
            SharingRule::Cores { cores: within(random, 1.2, 4.0), core_bytes_per_s }
        }
        "copies" => {
            let remote = within(random, 1.2, 2.0);
            let of = |node: usize| if node + 1 == nodes { 1.0 } else { remote };
            let copies = (0..nodes).map(|node| of(node) * within(random, 0.95, 1.05)).collect();
            SharingRule::Copies { bytes_per_s: best * remote * within(random, 1.0, 2.0), copies }
        }
        _ => SharingRule::Bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_is_a_valid_machine_and_the_same_each_time() {
        for seed in 0..220 {
            let device = random(seed);
            assert_eq!(device, random(seed));
            assert_eq!(device.rule, RULES[(seed % 11) as usize]);
            device.spec.check().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            for direction in [Direction::Write, Direction::Read] {
                let nodes: usize = device.levels(direction).iter().map(Vec::len).sum();
                assert_eq!(nodes, device.spec.nodes.len());
            }
        }
        assert_ne!(random(1).spec, random(12).spec);
    }
}
