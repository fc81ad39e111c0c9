//! Rates of a program: the difference of two samples.

use super::sample::ProgramSample;
use crate::ids::{CpuId, NodeId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// Clock ticks per second in files of /proc (`USER_HZ`, 100 on all supported architectures).
const TICKS_PER_S: f64 = 100.0;

/// Rates of a program between two samples.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ProgramRates {
    /// Time between the samples in seconds.
    pub seconds: f64,
    /// CPUs in use: 1 is one CPU all the time.
    pub cpus: f64,
    /// CPUs in use on each node; of the thread's last CPU. Empty without details in both samples.
    pub cpus_on: BTreeMap<NodeId, f64>,
    /// Bytes per second by counter; `None` if not permitted.
    pub io: Option<IoRates>,
}

/// Bytes per second that a program reads and writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct IoRates {
    /// Returned by read(2) and similar calls.
    pub requested_read: f64,
    /// Passed to write(2) and similar calls.
    pub requested_write: f64,
    /// Fetched from storage.
    pub storage_read: f64,
    /// Sent to storage.
    pub storage_write: f64,
}

impl IoRates {
    /// Returns the bytes exchanged with storage per second.
    pub fn storage(&self) -> f64 {
        self.storage_read + self.storage_write
    }
}

/// Computes rates; `None` if the samples are of different processes, or of the same time.
pub fn rates(
    before: &ProgramSample,
    after: &ProgramSample,
    elapsed: Duration,
    node_of: &dyn Fn(CpuId) -> Option<NodeId>,
) -> Option<ProgramRates> {
    let seconds = elapsed.as_secs_f64();
    if (before.pid, before.start_time) != (after.pid, after.start_time) || seconds <= 0.0 {
        return None;
    }
    let ticks = |after: u64, before: u64| after.saturating_sub(before) as f64 / TICKS_PER_S / seconds;
    let bytes = |after: u64, before: u64| after.saturating_sub(before) as f64 / seconds;
    let io = after.io.zip(before.io).map(|(after, before)| IoRates {
        requested_read: bytes(after.requested_read, before.requested_read),
        requested_write: bytes(after.requested_write, before.requested_write),
        storage_read: bytes(after.storage_read, before.storage_read),
        storage_write: bytes(after.storage_write, before.storage_write),
    });
    let mut cpus_on: BTreeMap<NodeId, f64> = BTreeMap::new();
    if let (Some(before), Some(after)) = (&before.details, &after.details) {
        let earlier: HashMap<(u32, u64), u64> =
            before.threads.iter().map(|thread| ((thread.tid, thread.start_time), thread.ticks)).collect();
        for thread in &after.threads {
            let Some(node) = node_of(thread.cpu) else { continue };
            let before = earlier.get(&(thread.tid, thread.start_time)).copied().unwrap_or(0);
            *cpus_on.entry(node).or_default() += ticks(thread.ticks, before);
        }
    }
    Some(ProgramRates { seconds, cpus: ticks(after.ticks, before.ticks), cpus_on, io })
}
