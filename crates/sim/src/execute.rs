//! Simulates a transfer chunk by chunk: threads fill buffers of a node, other threads drain them,
//! and all share devices and links max-min fairly. The simulation uses only threads, bytes and
//! rates, no plan or prediction.

use crate::sharing::{share, CapacityUse};

/// Share of a chunk up to which bytes are rounding errors.
const ROUNDING: f64 = 1e-6;

/// A transfer.
#[derive(Debug, Clone, PartialEq)]
pub struct Transfer {
    /// Pools that fill buffers in memory: from storage to send, from the network to receive.
    pub fills: Vec<ThreadPool>,
    /// Pools that drain the buffers.
    pub drains: Vec<ThreadPool>,
    /// Shared rates in bytes per second, each with the indexes of its pools: fills first, then
    /// drains.
    pub shared: Vec<(f64, Vec<usize>)>,
    /// Bytes of a chunk, which a thread moves at once.
    pub chunk_bytes: f64,
    /// Number of chunk buffers for each thread of a node.
    pub buffers_per_thread: u32,
    /// How pools share rates and buffers.
    pub pace: Pace,
}

/// How pools share rates and buffers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// Every thread runs as fast as possible and shares evenly. Pools then finish at different
    /// times, and the last ones underuse the shared rates.
    Free,
    /// In proportion to their bytes, so that all finish together. A pool starts no chunk while it
    /// is further ahead of the slowest fill or drain pool than a share of its bytes.
    InStep {
        /// The share.
        ahead: f64,
    },
}

/// Threads that do the same work.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadPool {
    /// Index of the node that has the buffers.
    pub node: usize,
    /// Number of threads.
    pub threads: u32,
    /// Bytes per second of one thread.
    pub thread_bytes_per_s: f64,
    /// Maximum bytes per second of all threads together.
    pub max_bytes_per_s: f64,
    /// Bytes to move.
    pub bytes: f64,
}

/// Result of a simulated transfer.
#[derive(Debug, Clone, PartialEq)]
pub struct Execution {
    /// Seconds until the last byte is drained.
    pub seconds: f64,
    /// Seconds at which each pool moved its last byte, in the order of [`Transfer::shared`].
    pub pool_seconds: Vec<f64>,
    /// Chunks moved.
    pub chunks: u64,
}

/// Why a transfer cannot finish.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Stuck {
    /// Bytes are left, but no thread can move them.
    #[error("the transfer stalls with {0} bytes left")]
    Still(f64),
    /// It has too many chunks to simulate.
    #[error("the transfer has more than {0} chunks")]
    TooLong(u64),
}

/// Maximum number of chunks of a simulation.
const MAX_CHUNKS: u64 = 10_000_000;

/// Simulates a transfer.
///
/// # Errors
/// [`Stuck`], if no thread can move the remaining bytes: without threads or rates, or if a node
/// receives more than it sends.
pub fn execute(transfer: &Transfer) -> Result<Execution, Stuck> {
    let mut state = State::new(transfer);
    loop {
        state.start_chunks(match transfer.pace {
            Pace::Free => f64::INFINITY,
            Pace::InStep { ahead } => ahead,
        });
        if state.moving.is_empty() {
            // Chunks larger than the allowed lead could block each other.
            state.start_chunks(f64::INFINITY);
        }
        if state.moving.is_empty() {
            let left: f64 = state.left.iter().sum();
            return if left > ROUNDING * transfer.chunk_bytes {
                Err(Stuck::Still(left))
            } else {
                Ok(state.done())
            };
        }
        if state.chunks > MAX_CHUNKS {
            return Err(Stuck::TooLong(MAX_CHUNKS));
        }
        let rates = state.rates();
        let ends = state.moving.iter().zip(&rates).map(|(chunk, rate)| chunk.left / rate);
        let step = ends.fold(f64::INFINITY, f64::min);
        if !step.is_finite() {
            return Err(Stuck::Still(state.left.iter().sum()));
        }
        state.advance(step, &rates);
    }
}

/// A chunk in flight.
struct Chunk {
    pool: usize,
    bytes: f64,
    left: f64,
}

struct State<'a> {
    transfer: &'a Transfer,
    pools: Vec<&'a ThreadPool>,
    /// Bytes of each pool that no thread has started.
    left: Vec<f64>,
    /// Idle threads of each pool.
    idle: Vec<u32>,
    /// Bytes of free buffers of each node.
    free: Vec<f64>,
    /// Bytes in buffers of each node that wait to be drained.
    ready: Vec<f64>,
    moving: Vec<Chunk>,
    now: f64,
    pool_seconds: Vec<f64>,
    chunks: u64,
}

impl<'a> State<'a> {
    fn new(transfer: &'a Transfer) -> Self {
        let pools: Vec<&ThreadPool> = transfer.fills.iter().chain(&transfer.drains).collect();
        let nodes = pools.iter().map(|pool| pool.node + 1).max().unwrap_or(0);
        let mut free = vec![0.0; nodes];
        for pool in &pools {
            let chunks = f64::from(pool.threads) * f64::from(transfer.buffers_per_thread);
            free[pool.node] += chunks * transfer.chunk_bytes;
        }
        Self {
            transfer,
            left: pools.iter().map(|pool| pool.bytes).collect(),
            idle: pools.iter().map(|pool| pool.threads).collect(),
            free,
            ready: vec![0.0; nodes],
            moving: Vec::new(),
            now: 0.0,
            pool_seconds: vec![0.0; pools.len()],
            chunks: 0,
            pools,
        }
    }

    fn fills(&self, pool: usize) -> bool {
        pool < self.transfer.fills.len()
    }

    /// Assigns chunks to idle threads, one thread of each pool in turn.
    fn start_chunks(&mut self, ahead: f64) {
        let (all, fills) = (self.pools.len(), self.transfer.fills.len());
        loop {
            let before = self.moving.len();
            for side in [0..fills, fills..all] {
                let behind = side.clone().map(|pool| self.started(pool)).fold(1.0, f64::min);
                for pool in side {
                    if self.started(pool) <= behind + ahead {
                        self.start_chunk(pool);
                    }
                }
            }
            if self.moving.len() == before {
                return;
            }
        }
    }

    /// Returns the share of a pool's bytes that threads have started.
    fn started(&self, pool: usize) -> f64 {
        let bytes = self.pools[pool].bytes;
        if bytes > 0.0 {
            1.0 - self.left[pool] / bytes
        } else {
            1.0
        }
    }

    fn start_chunk(&mut self, pool: usize) {
        let bytes = self.left[pool].min(self.transfer.chunk_bytes);
        let node = self.pools[pool].node;
        let has = if self.fills(pool) { self.free[node] } else { self.ready[node] };
        let rounding = ROUNDING * self.transfer.chunk_bytes;
        if self.idle[pool] == 0 || bytes <= rounding || has < bytes - rounding {
            return;
        }
        let account = if self.fills(pool) { &mut self.free } else { &mut self.ready };
        account[node] -= bytes;
        self.left[pool] -= bytes;
        self.idle[pool] -= 1;
        self.chunks += 1;
        self.moving.push(Chunk { pool, bytes, left: bytes });
    }

    /// Returns the rate of each chunk in flight.
    fn rates(&self) -> Vec<f64> {
        let pools = self.pools.len();
        let mut capacities: Vec<f64> = self.pools.iter().map(|pool| pool.max_bytes_per_s).collect();
        capacities.extend(self.transfer.shared.iter().map(|(rate, _)| *rate));
        let first_thread = capacities.len();
        let mut flows = Vec::with_capacity(self.moving.len());
        for (number, chunk) in self.moving.iter().enumerate() {
            capacities.push(self.pools[chunk.pool].thread_bytes_per_s);
            let shared =
                self.transfer.shared.iter().enumerate().filter(|(_, (_, of))| of.contains(&chunk.pool));
            let crossed = shared.map(|(place, _)| pools + place).chain([chunk.pool, first_thread + number]);
            let weight = self.weight(chunk.pool);
            flows.push(crossed.map(|capacity| CapacityUse { capacity, weight }).collect());
        }
        let shares = share(&capacities, &flows);
        shares.into_iter().zip(&self.moving).map(|(share, chunk)| share * self.weight(chunk.pool)).collect()
    }

    /// Returns the weight of a thread in shared rates: by the bytes of its pool if pools run in
    /// step.
    fn weight(&self, pool: usize) -> f64 {
        let pool = self.pools[pool];
        match self.transfer.pace {
            Pace::Free => 1.0,
            Pace::InStep { .. } => pool.bytes / f64::from(pool.threads),
        }
    }

    /// Advances the time, and completes the chunks that are done.
    fn advance(&mut self, seconds: f64, rates: &[f64]) {
        self.now += seconds;
        for (chunk, rate) in self.moving.iter_mut().zip(rates) {
            chunk.left -= rate * seconds;
        }
        let rounding = ROUNDING * self.transfer.chunk_bytes;
        let (done, moving): (Vec<Chunk>, Vec<Chunk>) =
            std::mem::take(&mut self.moving).into_iter().partition(|chunk| chunk.left <= rounding);
        self.moving = moving;
        for chunk in done {
            let node = self.pools[chunk.pool].node;
            let account = if self.fills(chunk.pool) { &mut self.ready } else { &mut self.free };
            account[node] += chunk.bytes;
            self.idle[chunk.pool] += 1;
            self.pool_seconds[chunk.pool] = self.now;
        }
    }

    fn done(self) -> Execution {
        Execution { seconds: self.now, pool_seconds: self.pool_seconds, chunks: self.chunks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(node: usize, threads: u32, rate: f64, bytes: f64) -> ThreadPool {
        ThreadPool { node, threads, thread_bytes_per_s: rate, max_bytes_per_s: f64::INFINITY, bytes }
    }

    fn transfer(fills: Vec<ThreadPool>, drains: Vec<ThreadPool>) -> Transfer {
        Transfer {
            fills,
            drains,
            shared: Vec::new(),
            chunk_bytes: 1.0,
            buffers_per_thread: 2,
            pace: Pace::Free,
        }
    }

    /// One thread fills ten chunks in 1 s each, one drains them in 0.5 s each: the last one is
    /// drained 0.5 s after it was filled.
    #[test]
    fn last_chunk_drains_after_it_is_filled() {
        let done =
            execute(&transfer(vec![pool(0, 1, 1.0, 10.0)], vec![pool(0, 1, 2.0, 10.0)])).expect("an end");
        assert_eq!((done.seconds, done.chunks), (10.5, 20));
        assert_eq!(done.pool_seconds, [10.0, 10.5]);
    }

    /// With four buffers, a fast source waits for the slow sink, which never pauses after the first
    /// chunk.
    #[test]
    fn full_buffers_throttle_the_source() {
        let done =
            execute(&transfer(vec![pool(0, 1, 4.0, 12.0)], vec![pool(0, 1, 1.0, 12.0)])).expect("an end");
        assert_eq!(done.seconds, 12.25);
        // The last chunk starts once the fourth-last one before it is drained.
        assert!(done.pool_seconds[0] > 7.0 && done.pool_seconds[0] < 12.0, "{done:?}");
    }

    #[test]
    fn pools_share_common_rates() {
        let mut shared = transfer(
            vec![pool(0, 2, 5.0, 50.0), pool(1, 2, 5.0, 50.0)],
            vec![pool(0, 2, 5.0, 50.0), pool(1, 2, 5.0, 50.0)],
        );
        let free = execute(&shared).expect("an end").seconds;
        shared.shared.push((10.0, vec![0, 1]));
        let held = execute(&shared).expect("an end").seconds;
        assert!((free - 5.2).abs() < 1e-9 && (held - 10.2).abs() < 0.3, "{free} {held}");
        shared.shared[0].0 = f64::INFINITY;
        shared.fills[0].max_bytes_per_s = 2.5;
        assert!((execute(&shared).expect("an end").seconds - 20.2).abs() < 0.3);
    }

    /// With fair shares of 3 B/s, the larger pool finishes alone at 4 B/s: 10 + 7.5 s. In step, at
    /// 2 and 4 B/s, both finish after 15 s.
    #[test]
    fn pools_in_step_use_shared_rates_until_the_end() {
        let pools = || vec![pool(0, 1, 4.0, 30.0), pool(1, 1, 4.0, 60.0)];
        let mut free = transfer(pools(), pools());
        free.shared.push((6.0, vec![0, 1]));
        let in_step = Transfer { pace: Pace::InStep { ahead: 0.1 }, ..free.clone() };
        let (free, in_step) =
            (execute(&free).expect("an end").seconds, execute(&in_step).expect("an end").seconds);
        assert!((free - 17.75).abs() < 0.5 && (in_step - 15.25).abs() < 0.6, "{free} {in_step}");
    }

    #[test]
    fn reports_transfers_that_cannot_finish() {
        let none = execute(&transfer(vec![pool(0, 0, 1.0, 3.0)], vec![pool(0, 1, 1.0, 3.0)]));
        assert_eq!(none, Err(Stuck::Still(6.0)));
        let more = execute(&transfer(vec![pool(0, 1, 1.0, 30.0)], vec![pool(0, 1, 1.0, 3.0)]));
        assert!(matches!(more, Err(Stuck::Still(_))), "{more:?}");
        let slow = execute(&transfer(vec![pool(0, 1, 0.0, 3.0)], vec![pool(0, 1, 1.0, 3.0)]));
        assert!(matches!(slow, Err(Stuck::Still(_))), "{slow:?}");
    }
}
