//! Ranges of a part of the search: thread counts of each path, and per node the number of threads
//! that serve storage.

use super::instance::Instance;

/// Open thread counts, both ends included.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ranges {
    /// Threads of each path.
    pub paths: Vec<(u32, u32)>,
    /// Threads of all paths between storage and the memory of each via. The via's other threads
    /// serve the network.
    pub split: Vec<(u32, u32)>,
}

/// A branching step: a range is divided in two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Threads of a path: at most this, or more.
    Way(usize, u32),
    /// Threads of a via that serve storage: at most this, or more.
    Split(usize, u32),
}

impl Ranges {
    /// Returns the ranges that the instance allows.
    pub fn all(instance: &Instance) -> Self {
        Self {
            paths: instance.paths.iter().map(|path| (0, path.most_threads)).collect(),
            // A via needs at least one thread for the network.
            split: instance.vias.iter().map(|(_, threads)| (0, threads - 1)).collect(),
        }
    }

    /// Returns both halves, narrowed by the sums; `None` for an empty half.
    pub fn halves(&self, cut: Cut, instance: &Instance) -> [Option<Self>; 2] {
        let half = |upper: bool| {
            let mut half = self.clone();
            let (range, at, via) = match cut {
                Cut::Way(path, at) => (&mut half.paths[path], at, instance.paths[path].via),
                Cut::Split(via, at) => (&mut half.split[via], at, via),
            };
            *range = if upper { (range.0.max(at + 1), range.1) } else { (range.0, range.1.min(at)) };
            half.narrow(via, instance).then_some(half)
        };
        [half(false), half(true)]
    }

    /// Narrows the ranges of a via by their sums; returns false if they are contradictory.
    pub fn narrow(&mut self, via: usize, instance: &Instance) -> bool {
        let threads = instance.vias[via].1;
        let reads: Vec<usize> = instance.reads_at(via).collect();
        let sends: Vec<usize> = instance.sends_at(via).collect();
        loop {
            let before = self.split[via];
            let least = |paths: &[usize]| paths.iter().map(|path| self.paths[*path].0).sum::<u32>();
            let (least_reads, least_sends) = (least(&reads), least(&sends));
            if least_reads + least_sends > threads {
                return false;
            }
            let split = (before.0.max(least_reads), before.1.min(threads - least_sends));
            self.split[via] = split;
            if split.0 > split.1 {
                return false;
            }
            for (paths, most, least) in
                [(&reads, split.1, least_reads), (&sends, threads - split.0, least_sends)]
            {
                for path in paths {
                    let (low, high) = self.paths[*path];
                    let high = high.min(most - (least - low));
                    self.paths[*path].1 = high;
                    if low > high {
                        return false;
                    }
                }
            }
            if self.split[via] == before {
                return true;
            }
        }
    }

    /// Returns the number of paths whose range was narrowed.
    pub fn cuts(&self, instance: &Instance) -> usize {
        let cut = self
            .paths
            .iter()
            .zip(&instance.paths)
            .filter(|((low, high), path)| *low > 0 || *high < path.most_threads);
        cut.count()
    }

    /// Returns the maximum throughput of a via, ignoring limits shared with other vias.
    pub fn through(&self, via: usize, instance: &Instance) -> f64 {
        let threads = instance.vias[via].1;
        let reads = self.best_rates(instance.reads_at(via), threads, instance);
        let sends = self.best_rates(instance.sends_at(via), threads, instance);
        let (low, high) = self.split[via];
        let of = |split: u32| reads[split as usize].min(sends[(threads - split) as usize]);
        (low..=high).map(of).fold(0.0, f64::max)
    }

    /// Returns the best total rate of some paths with 0, 1, 2... threads; 0 where these are too
    /// few.
    fn best_rates(&self, paths: impl Iterator<Item = usize>, threads: u32, instance: &Instance) -> Vec<f64> {
        let mut rate = 0.0;
        let mut least = 0;
        // The rate per added thread decreases, so the greedy choice is optimal.
        let mut steps = Vec::new();
        for (path, (low, high)) in paths.map(|path| (&instance.paths[path], self.paths[path])) {
            rate += path.rate(low);
            least += low;
            steps.extend((low..high).map(|threads| path.rate(threads + 1) - path.rate(threads)));
        }
        steps.sort_by(|a, b| b.total_cmp(a));
        let mut rates = vec![0.0; least as usize];
        rates.push(rate);
        for step in steps {
            rate += step;
            rates.push(rate);
        }
        rates.resize((rates.len()).max(threads as usize + 1), rate);
        rates
    }
}
