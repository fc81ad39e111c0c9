//! A problem in the form of the methods: numbered nodes, only usable paths, scaled values.

use numaio_machine::ids::NodeId;
use numaio_schema::{Objective, PathId};

/// Rates below this are rounding errors of a solution.
const NO_RATE: f64 = 2e-7;

/// A validated problem. Bytes are shares of all data, rates multiples of the fastest thread.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Instance {
    /// Objective to minimize.
    pub objective: Objective,
    /// Bytes of all data.
    pub total_bytes: f64,
    /// Bytes per second of the fastest thread: the unit of all rates here.
    pub unit_bytes_per_s: f64,
    /// Nodes with data, and their share of it.
    pub sources: Vec<(NodeId, f64)>,
    /// Nodes with NICs.
    pub sinks: Vec<NodeId>,
    /// Nodes through whose memory data may pass (vias), with their maximum number of threads.
    pub vias: Vec<(NodeId, u32)>,
    /// Paths between storage and memory, by source, then via; then paths between memory and
    /// network, by via, then sink.
    pub paths: Vec<TransferPath>,
    /// Number of paths between storage and memory.
    pub reads: usize,
    /// Rates shared by several paths: NICs of a node, limits. Only with [`Objective::Time`].
    pub limits: Vec<Limit>,
    /// Minimum time, in shares over rates, of a storage device for its own data. 0 with
    /// [`Objective::Sum`].
    pub floor: f64,
}

/// A usable path.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TransferPath {
    /// Path ID.
    pub id: PathId,
    /// Number of its source or sink.
    pub end: usize,
    /// Number of its via.
    pub via: usize,
    /// B0: rate of one thread.
    pub unit: f64,
    /// Bmax: rate of many threads; for [`Objective::Sum`], as printed, that of `most_threads`.
    pub most: f64,
    /// Number of threads beyond which nothing is gained or none are available.
    pub most_threads: u32,
}

/// A rate that several paths share.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Limit {
    /// The rate.
    pub rate: f64,
    /// Numbers of the paths.
    pub paths: Vec<usize>,
}

/// Threads and amounts of each path, in the order of [`Instance::paths`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Assignment {
    /// γ.
    pub threads: Vec<u32>,
    /// β, as shares of all data.
    pub amounts: Vec<f64>,
}

impl TransferPath {
    /// Returns the rate of a number of threads.
    pub fn rate(&self, threads: u32) -> f64 {
        (self.unit * f64::from(threads)).min(self.most)
    }

    /// Returns the rate that the last useful thread adds, if it is lower than that of the others.
    pub fn last(&self) -> Option<f64> {
        let last = self.rate(self.most_threads) - self.rate(self.most_threads - 1);
        (last < self.unit * (1.0 - 1e-9)).then_some(last)
    }

    /// Returns the fewest threads that reach a rate, ignoring rounding errors.
    pub fn threads_for(&self, rate: f64) -> u32 {
        let rate = (rate - 1e-9 * self.unit).max(0.0);
        let full = (rate / self.unit).ceil();
        // The last thread may add less than a full rate.
        (full as u32).min(self.most_threads)
    }
}

impl Instance {
    /// Returns the paths between storage and the memory of a via.
    pub fn reads_at(&self, via: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.reads).filter(move |path| self.paths[*path].via == via)
    }

    /// Returns the paths between the memory of a via and the network.
    pub fn sends_at(&self, via: usize) -> impl Iterator<Item = usize> + '_ {
        (self.reads..self.paths.len()).filter(move |path| self.paths[*path].via == via)
    }

    /// Converts a time of the instance to seconds.
    pub fn seconds(&self, time: f64) -> f64 {
        time * self.total_bytes / self.unit_bytes_per_s
    }

    /// Returns the time of an assignment: of the slowest stage, or the printed sum.
    pub fn value(&self, assignment: &Assignment) -> f64 {
        match self.objective {
            Objective::Time => self.slowest(assignment),
            Objective::Sum => self.sum(assignment),
        }
    }

    /// Returns the time of each path.
    pub fn path_times(&self, assignment: &Assignment) -> Vec<f64> {
        let time = |(path, (threads, amount)): (&TransferPath, (&u32, &f64))| {
            if *amount > 0.0 {
                amount / path.rate(*threads)
            } else {
                0.0
            }
        };
        self.paths.iter().zip(assignment.threads.iter().zip(&assignment.amounts)).map(time).collect()
    }

    fn slowest(&self, assignment: &Assignment) -> f64 {
        let of_limit = |limit: &Limit| {
            limit.paths.iter().map(|path| assignment.amounts[*path]).sum::<f64>() / limit.rate
        };
        let times = self.path_times(assignment).into_iter().chain(self.limits.iter().map(of_limit));
        times.fold(self.floor, f64::max)
    }

    fn sum(&self, assignment: &Assignment) -> f64 {
        let times = self.path_times(assignment);
        let of_via = |via: usize| -> f64 {
            let used = |path: &usize| assignment.amounts[*path] > 0.0;
            let reads = self.reads_at(via).filter(used);
            let of_read = |read: usize| -> f64 {
                self.sends_at(via).filter(used).map(|send| times[read].max(times[send])).sum()
            };
            reads.map(of_read).sum()
        };
        (0..self.vias.len()).map(of_via).sum()
    }

    /// Removes threads that the time of an assignment does not need.
    pub fn trimmed(&self, assignment: &Assignment) -> Assignment {
        if self.objective == Objective::Sum {
            return assignment.clone();
        }
        let time = self.value(assignment);
        let needed = |(path, (threads, amount)): (&TransferPath, (&u32, &f64))| {
            path.threads_for(amount / time).min(*threads)
        };
        let paths = self.paths.iter().zip(assignment.threads.iter().zip(&assignment.amounts));
        Assignment { threads: paths.map(needed).collect(), amounts: assignment.amounts.clone() }
    }

    /// Returns the assignment for given threads and rates: amounts follow the rates and are
    /// balanced per source and via, or `None` if some data has no path.
    pub fn assignment(&self, threads: Vec<u32>, rates: &[f64]) -> Option<Assignment> {
        let flows = |path: usize| threads[path] > 0 && rates[path] > NO_RATE;
        let leaves: Vec<bool> = (0..self.vias.len()).map(|via| self.sends_at(via).any(flows)).collect();
        let weight =
            |path: &usize| if flows(*path) && leaves[self.paths[*path].via] { rates[*path] } else { 0.0 };
        let mut amounts = vec![0.0; self.paths.len()];
        let mut spread = |comes: f64, paths: &[usize]| {
            let all: f64 = paths.iter().map(weight).sum();
            for path in paths.iter().filter(|_| comes > 0.0) {
                amounts[*path] = comes * weight(path) / all;
            }
            (comes == 0.0 || all > 0.0).then_some(())
        };
        let mut reached = vec![0.0; self.vias.len()];
        for (source, (_, amount)) in self.sources.iter().enumerate() {
            let paths: Vec<usize> = (0..self.reads).filter(|path| self.paths[*path].end == source).collect();
            spread(*amount, &paths)?;
            let all: f64 = paths.iter().map(weight).sum();
            for path in paths {
                reached[self.paths[path].via] += amount * weight(&path) / all;
            }
        }
        for (via, comes) in reached.into_iter().enumerate() {
            spread(comes, &self.sends_at(via).collect::<Vec<usize>>())?;
        }
        Some(Assignment { threads, amounts })
    }
}
