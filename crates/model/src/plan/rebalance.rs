//! Which pool of threads gives waiting work to which, from the rates that are observed.
//!
//! A plan foresees the start. When a device or a node turns out slower, some queues end long before others, and work is
//! better handed over. Pure: the caller observes, asks, and carries it out.

/// Parts in which the queue of a pool is handed over at first; then ever smaller ones, down to a chunk.
const PARTS: u64 = 64;

/// The queue of a pool of threads, as it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Pool {
    /// Bytes that wait, those that a thread works on not counted.
    pub waiting_bytes: u64,
    /// Rate at which the pool was observed to work, in bytes per second; 0 if it stands still.
    pub bytes_per_s: f64,
}

/// A pool that could take work of another one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Helper {
    /// Index of the pool whose work it is.
    pub from: usize,
    /// Index of the pool that could take it.
    pub to: usize,
    /// Rate at which it would work on it, in bytes per second, while the other one goes on at its own rate: of a
    /// device that has nothing left to give this is 0.
    pub bytes_per_s: f64,
}

/// Work to be handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handover {
    /// Index of the pool that gives.
    pub from: usize,
    /// Index of the pool that takes.
    pub to: usize,
    /// Bytes, a multiple of the chunk.
    pub bytes: u64,
}

/// Hands work of the pool that ends last to the one that would be done with it first, as long as that is sooner
/// than it would be done by waiting. Every byte that is handed over ends before its giver would have ended.
///
/// Bytes go in multiples of `chunk_bytes`. A pool gives or takes, never both, so that nothing goes in circles. Rates
/// that are negative or no numbers count as 0, and a helper that names no pool is passed over.
pub fn rebalance(pools: &[Pool], helpers: &[Helper], chunk_bytes: u64) -> Vec<Handover> {
    let chunk = chunk_bytes.max(1);
    let mut state = State::new(pools);
    let mut step: Vec<u64> =
        pools.iter().map(|pool| (pool.waiting_bytes / chunk / PARTS).max(1) * chunk).collect();
    while let Some(last) = state.last(chunk) {
        let bytes = step[last].min(state.waiting[last] / chunk * chunk);
        match state.best_helper(helpers, last, bytes, chunk) {
            Some(helper) => state.hand_over(helper, bytes),
            None if bytes > chunk => step[last] = (bytes / chunk / 2).max(1) * chunk,
            // If nothing helps the one that ends last, the whole does not end sooner.
            None => break,
        }
    }
    state.handovers
}

struct State {
    waiting: Vec<u64>,
    /// Observed rate of each pool.
    rate: Vec<f64>,
    /// Seconds until each pool ends.
    end: Vec<f64>,
    handovers: Vec<Handover>,
}

impl State {
    fn new(pools: &[Pool]) -> Self {
        let rate: Vec<f64> = pools.iter().map(|pool| positive(pool.bytes_per_s)).collect();
        let waiting: Vec<u64> = pools.iter().map(|pool| pool.waiting_bytes).collect();
        let end = waiting.iter().zip(&rate).map(|(waiting, rate)| seconds(*waiting, *rate)).collect();
        Self { waiting, rate, end, handovers: Vec::new() }
    }

    /// The pool that ends last; none if it has no chunk to give or has taken some.
    fn last(&self, chunk: u64) -> Option<usize> {
        let last = (0..self.end.len()).max_by(|a, b| self.end[*a].total_cmp(&self.end[*b]).then(b.cmp(a)))?;
        let takes = self.handovers.iter().any(|handover| handover.to == last);
        (self.waiting[last] >= chunk && !takes).then_some(last)
    }

    /// The helper that would be done first with so many bytes of a pool, if that is before the pool itself: of
    /// more than a chunk, before the pool with what it keeps.
    fn best_helper(&self, helpers: &[Helper], from: usize, bytes: u64, chunk: u64) -> Option<Helper> {
        let able = helpers.iter().filter(|helper| {
            let gives = self.handovers.iter().any(|handover| handover.from == helper.to);
            helper.from == from && helper.to != from && helper.to < self.end.len() && !gives
        });
        let done = |helper: &Helper| self.end[helper.to] + seconds(bytes, positive(helper.bytes_per_s));
        let best = able.min_by(|a, b| done(a).total_cmp(&done(b)).then(a.to.cmp(&b.to)))?;
        let keeps = if bytes > chunk { self.waiting[from] - bytes } else { self.waiting[from] };
        (done(best) < seconds(keeps, self.rate[from])).then_some(*best)
    }

    fn hand_over(&mut self, helper: Helper, bytes: u64) {
        self.end[helper.to] += seconds(bytes, positive(helper.bytes_per_s));
        self.waiting[helper.from] -= bytes;
        self.end[helper.from] = seconds(self.waiting[helper.from], self.rate[helper.from]);
        let known =
            self.handovers.iter_mut().find(|known| known.from == helper.from && known.to == helper.to);
        match known {
            Some(known) => known.bytes += bytes,
            None => self.handovers.push(Handover { from: helper.from, to: helper.to, bytes }),
        }
    }
}

fn positive(rate: f64) -> f64 {
    if rate.is_finite() && rate > 0.0 {
        rate
    } else {
        0.0
    }
}

fn seconds(bytes: u64, rate: f64) -> f64 {
    match bytes {
        0 => 0.0,
        _ => bytes as f64 / rate,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pool(waiting_bytes: u64, bytes_per_s: f64) -> Pool {
        Pool { waiting_bytes, bytes_per_s }
    }

    fn helper(from: usize, to: usize, bytes_per_s: f64) -> Helper {
        Helper { from, to, bytes_per_s }
    }

    /// 900 bytes at 1/s beside an idle pool that would do 2/s: equal ends at 300 s.
    #[test]
    fn both_end_together() {
        let given = rebalance(&[pool(900, 1.0), pool(0, 5.0)], &[helper(0, 1, 2.0)], 1);
        assert_eq!(given.len(), 1);
        assert!((given[0].from, given[0].to) == (0, 1) && (599..=600).contains(&given[0].bytes), "{given:?}");
    }

    #[test]
    fn a_path_slower_than_waiting_is_not_taken() {
        let pools = [pool(100, 10.0), pool(0, 10.0)];
        // The last chunk of 10 bytes ends after 10 s by waiting, and after 100 s on this path.
        assert!(rebalance(&pools, &[helper(0, 1, 0.1)], 10).is_empty());
        assert!(rebalance(&pools, &[helper(0, 1, 0.0), helper(0, 9, 5.0), helper(0, 0, 5.0)], 10).is_empty());
        assert!(rebalance(&pools, &[helper(0, 1, f64::NAN)], 10).is_empty());
    }

    #[test]
    fn a_pool_that_stands_still_gives_everything_whole() {
        let pools = [pool(1000, 0.0), pool(0, 1.0), pool(0, 1.0)];
        let mut given = rebalance(&pools, &[helper(0, 1, 10.0), helper(0, 2, 10.0)], 100);
        given.sort_by_key(|handover| handover.to);
        assert_eq!(given, [Handover { from: 0, to: 1, bytes: 500 }, Handover { from: 0, to: 2, bytes: 500 }]);
    }

    #[test]
    fn queues_that_end_together_are_left_alone() {
        let pools = [pool(1000, 10.0), pool(500, 5.0)];
        assert!(rebalance(&pools, &[helper(0, 1, 5.0), helper(1, 0, 10.0)], 1).is_empty());
        assert!(rebalance(&[], &[helper(0, 1, 5.0)], 1).is_empty());
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// No byte is lost, nobody gives and takes, and the whole never ends later than by waiting.
        #[test]
        fn handing_over_never_makes_it_later(
            queues in prop::collection::vec((0u64..1_000_000, 0.0f64..1000.0), 1..6),
            paths in prop::collection::vec((0usize..6, 0usize..6, 0.0f64..1000.0), 0..20),
            chunk in 1u64..5000,
        ) {
            let pools: Vec<Pool> = queues.iter().map(|(bytes, rate)| pool(*bytes, *rate)).collect();
            let mut paths = paths;
            paths.sort_by_key(|(from, to, _)| (*from, *to));
            paths.dedup_by_key(|(from, to, _)| (*from, *to));
            let helpers: Vec<Helper> = paths.iter().map(|(from, to, rate)| helper(*from, *to, *rate)).collect();
            let given = rebalance(&pools, &helpers, chunk);
            let mut end: Vec<f64> = pools.iter().map(|pool| seconds(pool.waiting_bytes, pool.bytes_per_s)).collect();
            let before = end.iter().copied().fold(0.0, f64::max);
            for one in &given {
                let sum: u64 = given.iter().filter(|other| other.from == one.from).map(|other| other.bytes).sum();
                prop_assert!(sum <= pools[one.from].waiting_bytes && one.bytes % chunk == 0);
                prop_assert!(given.iter().all(|other| other.to != one.from));
                let rate = helpers.iter().find(|helper| helper.from == one.from && helper.to == one.to).map(|it| it.bytes_per_s);
                end[one.to] += one.bytes as f64 / rate.unwrap_or(0.0);
                end[one.from] = seconds(pools[one.from].waiting_bytes - sum, pools[one.from].bytes_per_s);
            }
            let after = end.iter().copied().fold(0.0, f64::max);
            prop_assert!(after <= before, "{after} after {before}: {given:?}");
        }
    }
}
