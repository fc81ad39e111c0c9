//! Distribution of streams over nodes with the highest predicted bandwidth.

use super::capacities::DeviceFit;
use super::curve;
use super::error::{PredictError, MAX_DISTRIBUTED_STREAMS};
use super::family::Point;
use super::mix::{lower_end, predict};
use super::mix_inputs::merged;
use numaio_schema::{MixPrediction, NodeCapacity, NodeStreams};

/// Lower ends within this relative difference are equal.
const SAME: f64 = 1e-9;
/// Relative difference of nodes alone below which they are equal, if their intervals overlap.
const SAME_NODES: f64 = 0.02;
/// Share of the lower end that spreading streams over equal nodes may cost.
const SPREAD: f64 = 0.01;
/// Most distributions that are all compared: five nodes and six streams have 210.
const MOST_EXHAUSTIVE: u64 = 500;
/// Approximate number of points that represent the sharing models in the search.
const SEARCH_POINTS: usize = 200;
/// Starts from which the search moves streams, besides the greedy ones.
const MOST_STARTS: usize = 6;
/// Evaluations of one node's rate by one point: limits the search on large machines.
const MOST_EVALUATIONS: usize = 30_000_000;

/// Streams of each node, in the order of the nodes.
type Counts = Vec<u32>;

/// Distributes streams so that the lower end of the predicted interval is highest, then spreads
/// them over nodes that are equal within the noise, as far as that costs at most 1 % of it.
///
/// Exact up to 500 distributions. Beyond, a local search moves streams between nodes.
///
/// # Errors
/// [`PredictError`] if there are no streams or more than [`MAX_DISTRIBUTED_STREAMS`].
pub fn best_mix(fit: &DeviceFit, streams: u32) -> Result<MixPrediction, PredictError> {
    if streams == 0 {
        return Err(PredictError::NoStreams);
    }
    if streams > MAX_DISTRIBUTED_STREAMS {
        return Err(PredictError::TooMany { streams, most: MAX_DISTRIBUTED_STREAMS });
    }
    let search = Search::new(fit, streams);
    let found = match distributions(search.nodes.len() as u64, u64::from(streams)) <= MOST_EXHAUSTIVE {
        true => search.exhaustive()?,
        false => search.local()?,
    };
    let nothing = PredictError::NothingMeasured { direction: fit.capacities.direction };
    let (counts, end) = found.ok_or(nothing)?;
    let counts = search.spread(counts, end * (1.0 - SPREAD))?;
    predict(fit, &search.mix(&counts))
}

/// Returns the number of distributions of streams over nodes, at most `u64::MAX`.
fn distributions(nodes: u64, streams: u64) -> u64 {
    // Each step of the product is a binomial coefficient, so that divisions are exact.
    (1..nodes).fold(1u64, |product, node| product.saturating_mul(streams + node) / node)
}

/// A distribution of streams with the lower end of its interval, in bytes per second.
type Found = (Counts, f64);

/// The nodes of a device, and the streams to distribute over them.
pub(super) struct Search<'a> {
    fit: &'a DeviceFit,
    /// By bandwidth alone; of equal ones the device's own is first.
    nodes: Vec<&'a NodeCapacity>,
    streams: u32,
}

impl<'a> Search<'a> {
    /// Sorts the nodes of a device.
    pub fn new(fit: &'a DeviceFit, streams: u32) -> Self {
        let mut nodes: Vec<&NodeCapacity> = fit.capacities.nodes.iter().collect();
        // An unmeasured node counts with the lower end of its interval.
        let alone = |node: &NodeCapacity| curve::at(node, streams).low;
        let own = |node: &NodeCapacity| Some(node.node) == fit.capacities.node;
        nodes.sort_by(|a, b| {
            alone(b).total_cmp(&alone(a)).then(own(b).cmp(&own(a))).then(a.node.cmp(&b.node))
        });
        Self { fit, nodes, streams }
    }

    /// Returns the best of all distributions.
    pub fn exhaustive(&self) -> Result<Option<Found>, PredictError> {
        let mut best = None;
        let mut counts = vec![0; self.nodes.len()];
        self.compare_all(&mut counts, 0, self.streams, &mut best)?;
        Ok(best)
    }

    /// Compares all distributions of the streams that are left over the nodes from `first`.
    fn compare_all(
        &self,
        counts: &mut Counts,
        first: usize,
        left: u32,
        best: &mut Option<Found>,
    ) -> Result<(), PredictError> {
        if first + 1 >= counts.len() {
            if let Some(last) = counts.get_mut(first) {
                *last = left;
                keep_better(best, counts, self.exact(counts)?);
            }
            return Ok(());
        }
        // From the most streams down, so that of equal distributions fewer nodes are first.
        for own in (0..=left).rev() {
            counts[first] = own;
            self.compare_all(counts, first + 1, left - own, best)?;
        }
        Ok(())
    }

    /// Returns the best distribution of a local search. It starts at two greedy distributions, at
    /// each node alone and at even distributions over the first nodes, and moves streams between
    /// two nodes while that helps.
    pub fn local(&self) -> Result<Option<Found>, PredictError> {
        let points = self.fit.family.thinned(SEARCH_POINTS);
        let mut starts = Vec::new();
        for counts in starts_of(self.nodes.len(), self.streams) {
            let end = lower_end(self.fit, &points, &self.mix(&counts))?;
            starts.push((counts, end));
        }
        // Stable: of equal ends, fewer nodes stay first.
        starts.sort_by(|a, b| b.1.total_cmp(&a.1));
        starts.truncate(MOST_STARTS);
        let mut left = MOST_EVALUATIONS;
        let by_interval = |counts: &[u32]| lower_end(self.fit, &points, &self.mix(counts));
        for counts in [self.greedy(&by_interval)?, self.greedy(&|counts| Ok(self.sum_alone(counts)))?] {
            let end = by_interval(&counts)?;
            starts.push((counts, end));
        }
        let mut best = None;
        for start in starts {
            keep_better(&mut best, &start.0, self.exact(&start.0)?);
            let (counts, _) = self.improved(&points, start, &mut left)?;
            keep_better(&mut best, &counts, self.exact(&counts)?);
        }
        let Some(best) = best else { return Ok(None) };
        // The points that the search leaves out may decide between neighbors.
        self.improved(&self.fit.family.points, best, &mut left).map(Some)
    }

    /// Adds one stream after the other to the node where it yields most.
    fn greedy(&self, value: &dyn Fn(&[u32]) -> Result<f64, PredictError>) -> Result<Counts, PredictError> {
        let mut counts = vec![0; self.nodes.len()];
        for _ in 0..self.streams {
            let mut best = None;
            for node in 0..counts.len() {
                counts[node] += 1;
                let found = value(&counts)?;
                counts[node] -= 1;
                if best.is_none_or(|(_, known)| found > known * (1.0 + SAME)) {
                    best = Some((node, found));
                }
            }
            if let Some((node, _)) = best {
                counts[node] += 1;
            }
        }
        Ok(counts)
    }

    /// Returns the sum of the lower ends of the nodes alone, in bytes per second.
    fn sum_alone(&self, counts: &[u32]) -> f64 {
        let of_node = |(node, streams): (&&NodeCapacity, &u32)| match streams {
            0 => 0.0,
            streams => curve::at(node, *streams).low,
        };
        self.nodes.iter().zip(counts).map(of_node).sum()
    }

    /// Moves streams between two nodes while the lower end by some points grows; `left` is the
    /// number of evaluations left.
    fn improved(&self, points: &[Point], start: Found, left: &mut usize) -> Result<Found, PredictError> {
        let (mut counts, mut end) = start;
        let pairs: Vec<(usize, usize)> = (0..counts.len())
            .flat_map(|from| (0..counts.len()).map(move |to| (from, to)))
            .filter(|(from, to)| from != to)
            .collect();
        // Pairs since the last improvement, and the next pair.
        let (mut tried, mut next) = (0, 0);
        while tried < pairs.len() {
            let (from, to) = pairs[next];
            (tried, next) = (tried + 1, (next + 1) % pairs.len());
            for number in steps(counts[from]) {
                let mut moved = counts.clone();
                moved[from] -= number;
                moved[to] += number;
                let used = moved.iter().filter(|streams| **streams > 0).count();
                match left.checked_sub(points.len() * used) {
                    Some(rest) => *left = rest,
                    None => return Ok((counts, end)),
                }
                let found = lower_end(self.fit, points, &self.mix(&moved))?;
                if found > end * (1.0 + SAME) {
                    (counts, end, tried) = (moved, found, 0);
                    break;
                }
            }
        }
        Ok((counts, end))
    }

    /// Spreads the streams of equal nodes evenly over as many of them as possible, the device's own
    /// first, while the lower end stays at least `least`.
    fn spread(&self, counts: Counts, least: f64) -> Result<Counts, PredictError> {
        let mut spread = counts;
        let mut grouped = vec![false; spread.len()];
        for first in 0..spread.len() {
            if spread[first] == 0 || grouped[first] {
                continue;
            }
            let mut alike: Vec<usize> =
                (0..spread.len()).filter(|other| !grouped[*other] && self.are_alike(first, *other)).collect();
            alike.iter().for_each(|node| grouped[*node] = true);
            let used = alike.iter().filter(|node| spread[**node] > 0).count();
            let is_own = |node: usize| Some(self.nodes[node].node) == self.fit.capacities.node;
            alike.sort_by_key(|node| (!is_own(*node), spread[*node] == 0));
            let sum: u32 = alike.iter().map(|node| spread[*node]).sum();
            for number in (used..=alike.len().min(sum as usize)).rev() {
                let mut even = spread.clone();
                alike.iter().for_each(|node| even[*node] = 0);
                let shares = even_shares(sum, number);
                alike.iter().zip(shares).for_each(|(node, share)| even[*node] = share);
                if self.exact(&even)? >= least {
                    spread = even;
                    break;
                }
            }
        }
        Ok(spread)
    }

    fn are_alike(&self, a: usize, b: usize) -> bool {
        let (a, b) = (self.nodes[a], self.nodes[b]);
        let (one, other) = (curve::at(a, self.streams), curve::at(b, self.streams));
        let overlap = one.low <= other.high && other.low <= one.high;
        let is_measured = a.measured == a.node && b.measured == b.node;
        let is_same = a.node == b.node || (one.bytes_per_s / other.bytes_per_s - 1.0).abs() <= SAME_NODES;
        is_same && overlap && (is_measured || a.node == b.node)
    }

    /// Returns the lower end of the interval that is predicted, in bytes per second.
    fn exact(&self, counts: &[u32]) -> Result<f64, PredictError> {
        lower_end(self.fit, &self.fit.family.points, &self.mix(counts))
    }

    fn mix(&self, counts: &[u32]) -> Vec<NodeStreams> {
        let parts = self.nodes.iter().zip(counts);
        let streams =
            |(node, streams): (&&NodeCapacity, &u32)| NodeStreams { node: node.node, streams: *streams };
        merged(&parts.map(streams).collect::<Vec<_>>())
    }
}

fn keep_better(best: &mut Option<Found>, counts: &Counts, end: f64) {
    if best.as_ref().is_none_or(|(_, known)| end > known * (1.0 + SAME)) {
        *best = Some((counts.clone(), end));
    }
}

/// Returns each node alone, and even distributions over the first nodes.
fn starts_of(nodes: usize, streams: u32) -> impl Iterator<Item = Counts> {
    let alone = move |own: usize| (0..nodes).map(|node| if node == own { streams } else { 0 }).collect();
    let even =
        move |used: usize| even_shares(streams, used).chain(std::iter::repeat(0)).take(nodes).collect();
    (0..nodes).map(alone).chain((2..=nodes.min(streams as usize)).map(even))
}

/// Divides streams evenly over a number of nodes; the first ones have the rest.
fn even_shares(streams: u32, nodes: usize) -> impl Iterator<Item = u32> {
    let number = nodes as u32;
    (0..number).map(move |index| streams / number + u32::from(index < streams % number))
}

/// Returns the numbers of streams to move from a node: one, half and all.
fn steps(streams: u32) -> Vec<u32> {
    let mut steps = vec![1, streams / 2, streams];
    steps.dedup();
    steps.retain(|number| *number > 0 && *number <= streams);
    steps
}
