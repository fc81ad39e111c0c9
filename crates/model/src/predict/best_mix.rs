//! Distribution of streams over nodes with the highest predicted bandwidth.

use super::curve;
use super::error::{PredictError, MAX_DISTRIBUTED_STREAMS};
use super::mix::predict;
use numaio_schema::{Capacities, MixPrediction, NodeCapacity, NodeStreams, Sharing};

/// Bandwidths within this relative difference are equal.
const SAME: f64 = 1e-9;

/// Distributes streams so that the second predictor predicts the highest bandwidth. Ties favor the
/// fewest nodes, then the device's own node, then the nodes with the highest bandwidth alone.
///
/// Exact: dynamic programming over nodes, number of nodes and number of streams.
///
/// # Errors
/// [`PredictError`] if there are no streams or more than [`MAX_DISTRIBUTED_STREAMS`].
pub fn best_mix(capacities: &Capacities, streams: u32) -> Result<MixPrediction, PredictError> {
    if streams == 0 {
        return Err(PredictError::NoStreams);
    }
    if streams > MAX_DISTRIBUTED_STREAMS {
        return Err(PredictError::TooMany { streams, most: MAX_DISTRIBUTED_STREAMS });
    }
    let nodes = in_order(capacities, streams);
    let alone = |node: &NodeCapacity, streams: u32| curve::at(node, streams).bytes_per_s;
    let single = nodes.iter().copied().reduce(|best, node| {
        if alone(node, streams) > alone(best, streams) * (1.0 + SAME) {
            node
        } else {
            best
        }
    });
    let Some(single) = single else {
        return Err(PredictError::NothingMeasured { direction: capacities.direction });
    };
    let single = predict(capacities, &[NodeStreams { node: single.node, streams }])?;
    // A device that time-shares its streams gives a mix no more than its best node.
    if matches!(capacities.sharing, Sharing::Time { .. }) {
        return Ok(single);
    }
    let table = Table::new(&nodes, streams as usize);
    let cap = capacities.cap.bytes_per_s.min(capacities.link_bytes_per_s.unwrap_or(f64::INFINITY));
    let most = table.by_nodes().fold(0.0, f64::max).min(cap).max(single.limits.bytes_per_s);
    let number = match single.limits.bytes_per_s >= most * (1.0 - SAME) {
        true => return Ok(single),
        false => table.by_nodes().position(|sum| sum.min(cap) >= most * (1.0 - SAME)),
    };
    let mix = number.map(|number| table.distribution(&nodes, number)).unwrap_or_default();
    predict(capacities, &mix)
}

/// Sorts the device's own node first, then by the bandwidth of streams alone.
fn in_order(capacities: &Capacities, streams: u32) -> Vec<&NodeCapacity> {
    let mut nodes: Vec<&NodeCapacity> = capacities.nodes.iter().collect();
    let alone = |node: &NodeCapacity| curve::at(node, streams).bytes_per_s;
    nodes.sort_by(|a, b| {
        let own = |node: &NodeCapacity| Some(node.node) == capacities.node;
        own(b).cmp(&own(a)).then(alone(b).total_cmp(&alone(a))).then(a.node.cmp(&b.node))
    });
    nodes
}

/// Highest path bandwidth of the first nodes, by number of nodes used and number of streams.
struct Table {
    streams: usize,
    width: usize,
    /// By number of nodes used, then number of streams; negative where impossible.
    sums: Vec<f64>,
    /// By node, then like `sums`: streams of that node in the best distribution.
    choices: Vec<Vec<u16>>,
}

impl Table {
    fn new(nodes: &[&NodeCapacity], streams: usize) -> Self {
        let (used, width) = (nodes.len().min(streams), streams + 1);
        let mut sums = vec![f64::NEG_INFINITY; (used + 1) * width];
        sums[0] = 0.0;
        let mut table = Self { streams, width, sums, choices: Vec::new() };
        for node in nodes {
            let alone: Vec<f64> =
                (0..=streams).map(|streams| curve::at(node, streams as u32).bytes_per_s).collect();
            table.add(&alone, used);
        }
        table
    }

    /// Adds a node; `alone` is its bandwidth by number of streams.
    fn add(&mut self, alone: &[f64], used: usize) {
        let mut choice = vec![0; self.sums.len()];
        // From the most nodes down, so that this node counts once.
        for number in (1..=used).rev() {
            for streams in 1..=self.streams {
                let place = number * self.width + streams;
                for (own, rate) in alone.iter().enumerate().take(streams + 1).skip(1) {
                    let sum = self.sums[(number - 1) * self.width + streams - own] + rate;
                    if sum > self.sums[place] {
                        self.sums[place] = sum;
                        choice[place] = own as u16;
                    }
                }
            }
        }
        self.choices.push(choice);
    }

    /// Returns the highest bandwidth of all streams, by number of nodes used from 0.
    fn by_nodes(&self) -> impl Iterator<Item = f64> + '_ {
        self.sums.chunks(self.width).map(|of_number| of_number[self.streams])
    }

    fn distribution(&self, nodes: &[&NodeCapacity], mut number: usize) -> Vec<NodeStreams> {
        let mut left = self.streams;
        let mut found = Vec::new();
        for (node, choice) in nodes.iter().zip(&self.choices).rev() {
            let own = usize::from(choice[number * self.width + left]);
            if own > 0 {
                found.push(NodeStreams { node: node.node, streams: own as u32 });
                left -= own;
                number -= 1;
            }
        }
        found
    }
}
