//! Advice of `numaio balance` on the programs of a sample.

use crate::commands::program_moves::{
    build_problem, group_programs, members_of, original_affinities, BalanceConfig, BusyDevices, Knowledge,
    MovedTogether, Observation, OriginalAffinity, SeenProgram,
};
use crate::documents;
use crate::options::Common;
use crate::receipts;
use crate::store::Kind;
use numaio_linux::Kernel;
use numaio_machine::topology::Topology;
use numaio_model::{BalanceOptions, BalanceProblem, Balancer, GroupDecision};
use numaio_schema::{BalanceAdvice, IoRecord, Model, UnknownValue};
use std::collections::BTreeMap;
use std::time::Duration;

/// Time after which receipts are read again, in which earlier moves and their reversals are.
const RECEIPTS_EVERY: Duration = Duration::from_secs(10);

/// A move that the user confirmed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfirmedMove {
    /// The process.
    pub pid: u32,
    /// Moved bytes.
    pub bytes: u64,
}

/// Decides as `numaio balance --once` does with its default limits, and moves nothing.
pub struct BalanceAdvisor {
    records: Vec<IoRecord>,
    config: BalanceConfig,
    balancer: Balancer,
    busy: BusyDevices,
    originals: OriginalAffinity,
    receipts_at: Option<Duration>,
    /// The problem and the decisions of the last sample, by process.
    last: (BalanceProblem, BTreeMap<u32, GroupDecision>),
}

impl BalanceAdvisor {
    /// Creates an advisor with the measured I/O of this machine.
    pub fn new(common: &Common, topology: &Topology) -> Self {
        // A sample shows a gain at once: the user confirms it.
        let options =
            BalanceOptions { confirm_rounds: 1, moves_per_round: usize::MAX, ..BalanceOptions::default() };
        Self {
            records: documents::saved_io(common, Kind::Io, &topology.identity),
            config: BalanceConfig::default(),
            balancer: Balancer::new(options),
            busy: BusyDevices::default(),
            originals: OriginalAffinity::new(),
            receipts_at: None,
            last: Default::default(),
        }
    }

    /// Returns the measured I/O of this machine, newest first.
    pub fn records(&self) -> &[IoRecord] {
        &self.records
    }

    /// Returns a remark if no gain can be predicted.
    pub fn missing_models(&self, models: &[Model]) -> Option<UnknownValue> {
        (models.is_empty() && self.records.is_empty()).then(|| UnknownValue {
            name: "gain of moves".to_owned(),
            reason: "only nearness is known: no model is saved; numaio model measures one".to_owned(),
        })
    }

    /// Returns the decision about each program that was inspected, by process ID.
    ///
    /// `observation` has the inspected programs and the load of nodes; its busy devices are added.
    pub fn decide(
        &mut self,
        kernel: &Kernel,
        topology: &Topology,
        models: &[Model],
        mut observation: Observation,
        at: Duration,
    ) -> BTreeMap<u32, BalanceAdvice> {
        observation.device_busy = self.busy.shares(kernel, topology, at);
        // The first sample has no rates.
        if observation.nodes.is_empty() {
            return BTreeMap::new();
        }
        self.refresh_originals(kernel, at);
        let knowledge = Knowledge {
            topology,
            models,
            records: &self.records,
            config: &self.config,
            override_policies: false,
            together: MovedTogether::Process,
            devices: Vec::new(),
        };
        let groups = group_programs(&knowledge, &observation);
        let problem = build_problem(&knowledge, &observation, &groups, &self.originals, &|_| None);
        let decisions = self.balancer.decide(&problem, at.as_secs_f64());
        let pid_of = |decision: &GroupDecision| {
            let members = members_of(&observation, groups.get(decision.group)?);
            members.first().map(|seen: &&SeenProgram| seen.program.sample.pid)
        };
        let by_pid: BTreeMap<u32, GroupDecision> =
            decisions.into_iter().filter_map(|decision| Some((pid_of(&decision)?, decision))).collect();
        self.last = (problem, by_pid);
        self.last.1.iter().map(|(pid, decision)| (*pid, advice(decision))).collect()
    }

    /// Records a move, so that the program stays for the cool-down of a balancer.
    pub fn record(&mut self, moved: &ConfirmedMove, at: Duration) {
        self.receipts_at = None;
        if let Some(decision) = self.last.1.get(&moved.pid) {
            self.balancer.record(&self.last.0, decision, at.as_secs_f64(), moved.bytes);
        }
    }

    /// Reads receipts again in the next sample.
    pub fn expire_receipts(&mut self) {
        self.receipts_at = None;
    }

    fn refresh_originals(&mut self, kernel: &Kernel, at: Duration) {
        if self.receipts_at.is_some_and(|read_at| at.saturating_sub(read_at) < RECEIPTS_EVERY) {
            return;
        }
        self.receipts_at = Some(at);
        // Without receipts, the present affinity of every program is its own.
        let stored = receipts::all(&Common::silent(), kernel).unwrap_or_default();
        self.originals = original_affinities(kernel, &stored);
    }
}

fn advice(decision: &GroupDecision) -> BalanceAdvice {
    BalanceAdvice {
        to: decision.to,
        predicted_bytes_per_s: decision.predicted_bytes_per_s.filter(|_| decision.to.is_some()),
        reason: decision.reason.clone(),
    }
}
