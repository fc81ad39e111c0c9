//! Rebalancing of waiting work between pools of threads, from observed rates.
//!
//! If a device or node is slower than planned, some queues finish long before others, and work is
//! handed over. This is a pure computation: the caller observes and executes.

/// Parts in which a pool's queue is initially handed over; later parts are smaller, down to a
/// chunk.
const PARTS: u64 = 64;

/// The current queue of a pool of threads.
#[derive(Debug, Clone, PartialEq)]
pub struct Pool {
    /// Waiting bytes, without those in progress.
    pub waiting_bytes: u64,
    /// Observed rate in bytes per second; 0 if the pool makes no progress.
    pub bytes_per_s: f64,
}

/// A pool that could take over work of another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Helper {
    /// Index of the pool that gives work.
    pub from: usize,
    /// Index of the pool that takes work.
    pub to: usize,
    /// Rate of the takeover in bytes per second, while the other pool continues at its own rate: 0
    /// for a saturated device.
    pub bytes_per_s: f64,
}

/// Work to hand over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handover {
    /// Index of the pool that gives work.
    pub from: usize,
    /// Index of the pool that takes work.
    pub to: usize,
    /// Bytes, a multiple of the chunk.
    pub bytes: u64,
}

/// Hands work of the pool that finishes last to the helper that would finish it first, as long as
/// that is earlier than waiting. Every byte handed over finishes before its giver would have.
///
/// Bytes are multiples of `chunk_bytes`. A pool either gives or takes, so that work does not
/// circulate. Negative or NaN rates count as 0, and helpers with invalid pools are ignored.
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
            // Without help for the last pool, the total time does not decrease.
            None => break,
        }
    }
    state.handovers
}

struct State {
    waiting: Vec<u64>,
    /// Observed rate of each pool.
    rate: Vec<f64>,
    /// Seconds until each pool finishes.
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

    /// Returns the pool that finishes last, or `None` if it has no chunk to give or has taken work.
    fn last(&self, chunk: u64) -> Option<usize> {
        let last = (0..self.end.len()).max_by(|a, b| self.end[*a].total_cmp(&self.end[*b]).then(b.cmp(a)))?;
        let takes = self.handovers.iter().any(|handover| handover.to == last);
        (self.waiting[last] >= chunk && !takes).then_some(last)
    }

    /// Returns the helper that would finish some bytes of a pool first, if that is earlier than the
    /// pool itself; for more than a chunk, than the pool with its remaining work.
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

    /// 900 bytes at 1/s beside an idle pool with 2/s: both finish at 300 s.
    #[test]
    fn both_pools_finish_together() {
        let given = rebalance(&[pool(900, 1.0), pool(0, 5.0)], &[helper(0, 1, 2.0)], 1);
        assert_eq!(given.len(), 1);
        assert!((given[0].from, given[0].to) == (0, 1) && (599..=600).contains(&given[0].bytes), "{given:?}");
    }

    #[test]
    fn path_slower_than_waiting_is_not_used() {
        let pools = [pool(100, 10.0), pool(0, 10.0)];
        // The last chunk of 10 bytes finishes after 10 s by waiting, and after 100 s on this path.
        assert!(rebalance(&pools, &[helper(0, 1, 0.1)], 10).is_empty());
        assert!(rebalance(&pools, &[helper(0, 1, 0.0), helper(0, 9, 5.0), helper(0, 0, 5.0)], 10).is_empty());
        assert!(rebalance(&pools, &[helper(0, 1, f64::NAN)], 10).is_empty());
    }

    #[test]
    fn stalled_pool_gives_all_work() {
        let pools = [pool(1000, 0.0), pool(0, 1.0), pool(0, 1.0)];
        let mut given = rebalance(&pools, &[helper(0, 1, 10.0), helper(0, 2, 10.0)], 100);
        given.sort_by_key(|handover| handover.to);
        assert_eq!(given, [Handover { from: 0, to: 1, bytes: 500 }, Handover { from: 0, to: 2, bytes: 500 }]);
    }

    #[test]
    fn balanced_queues_are_unchanged() {
        let pools = [pool(1000, 10.0), pool(500, 5.0)];
        assert!(rebalance(&pools, &[helper(0, 1, 5.0), helper(1, 0, 10.0)], 1).is_empty());
        assert!(rebalance(&[], &[helper(0, 1, 5.0)], 1).is_empty());
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// No byte is lost, no pool both gives and takes, and the total time never increases.
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
