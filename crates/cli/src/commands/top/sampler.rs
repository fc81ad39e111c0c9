//! Samples of this machine at a bounded cost.

use super::balance_advisor::{BalanceAdvisor, ConfirmedMove};
use crate::commands::placement;
use crate::commands::program_moves::{network_rates, NetworkObserver, Observation, ProgramUses, SeenProgram};
use crate::failure::Failure;
use crate::machine::{now, Machine};
use crate::options::Common;
use numaio_machine::counters::{KernelCounts, NodeCpus};
use numaio_machine::devices::DeviceCounters;
use numaio_machine::discover::discover_quick;
use numaio_machine::guests;
use numaio_machine::ids::CpuId;
use numaio_machine::near::{resolve_process, OwnConnections, ResolveContext, RULE_DENIED};
use numaio_machine::process::{self, Pages, Process, Thread};
use numaio_machine::programs::{
    read_details, read_memory, LoadSample, ObservedProgram, ProgramMemory, ProgramWatch, WatchOptions,
};
use numaio_machine::topology::Topology;
use numaio_model::top::{
    add_transfer_rates, daemon_transfer, inspection_order, job_transfer, node_traffic, remote_advice,
    top_devices, top_nodes, top_program, NodeSamples, ProgramInspection,
};
use numaio_schema::{
    BalanceAdvice, MachineExpectation, Model, TopProgram, TopSnapshot, TopTransfer, UnknownTraffic,
    UnknownValue, TOP_SCHEMA,
};
use numaio_transfer::capacity::local_broker;
use numaio_transfer::jobs;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Time for which an inspection of a program is used.
const INSPECTION_AGE: Duration = Duration::from_secs(10);
/// Maximum number of programs that a sample inspects.
const MOST_INSPECTIONS: usize = 48;
/// Time after which a sample inspects no further program.
const INSPECTION_TIME: Duration = Duration::from_millis(250);
/// Share of the interval of `--once` before programs are active or not.
const FIRST_PART: f64 = 0.25;

/// Counters of one sample.
struct SampledCounters {
    at: Duration,
    load: LoadSample,
    kernel: KernelCounts,
    devices: DeviceCounters,
    transfers: Vec<TopTransfer>,
}

/// The last inspection of a program, with its time.
struct StoredInspection {
    start_time: u64,
    at: Duration,
    inspection: ProgramInspection,
    /// The inputs of a balancer's decisions; `None` without the kernel of this machine.
    uses: Option<ProgramUses>,
}

/// Samples this machine, each compared with the sample before.
pub struct Sampler {
    machine: Machine,
    topology: Arc<Topology>,
    models: Vec<Model>,
    expected: MachineExpectation,
    started: Instant,
    watch: ProgramWatch,
    inspections: BTreeMap<u32, StoredInspection>,
    before: Option<SampledCounters>,
    advisor: BalanceAdvisor,
    network: NetworkObserver,
}

impl Sampler {
    /// Creates a sampler of this machine, with its saved models.
    pub fn new(common: &Common, machine: Machine) -> Result<Self, Failure> {
        let topology = discover_quick(&machine);
        let models = placement::models(common, &machine, &topology, None)?;
        let options = WatchOptions { reads_memory: false, ..WatchOptions::default() };
        let advisor = BalanceAdvisor::new(common, &topology);
        let expected = placement::expectation(&topology, &models, advisor.records());
        Ok(Self {
            machine,
            topology: Arc::new(topology),
            models,
            expected,
            started: Instant::now(),
            watch: ProgramWatch::new(options),
            inspections: BTreeMap::new(),
            before: None,
            advisor,
            network: NetworkObserver::default(),
        })
    }

    /// Returns the topology.
    pub fn topology(&self) -> Arc<Topology> {
        self.topology.clone()
    }

    /// Takes one sample with rates over about an interval.
    pub fn sample_once(mut self, interval: Duration) -> TopSnapshot {
        // Threads are read of active programs only, and rates of threads need two readings.
        self.sample(&[]);
        thread::sleep(interval.mul_f64(FIRST_PART));
        self.sample(&[]);
        thread::sleep(interval.mul_f64(1.0 - FIRST_PART));
        self.sample(&[])
    }

    /// Takes a sample; programs in `focus` are inspected first.
    pub fn sample(&mut self, focus: &[u32]) -> TopSnapshot {
        let at = self.started.elapsed();
        let pids = process::pids(&self.machine);
        let topology = self.topology.clone();
        let node_of = |cpu: CpuId| topology.cpu(cpu)?.node;
        if self.machine.kernel().is_some() {
            self.network.list(at);
        }
        self.watch.set_active(self.network.active());
        let mut observed = self.watch.observe(&self.machine, &pids, at, &node_of);
        if let Some(kernel) = self.machine.kernel() {
            self.network.assign(kernel, &topology, &observed, at);
        }
        self.inspect(&mut observed, focus, at);
        let mut unknown = Vec::new();
        let after = self.read_counters(at, &mut unknown);
        unknown.extend(self.advisor.missing_models(&self.models));
        unknown.extend(self.network.missing().map(|why| UnknownValue {
            name: "network traffic of programs".to_owned(),
            reason: why.to_owned(),
        }));
        let mut snapshot = self.compose(&after, unknown);
        let mut decisions = self.decide(&observed, &after);
        let is_modeled = self.advisor.missing_models(&self.models).is_none();
        let program = |observed: &ObservedProgram| {
            let stored = self.inspections.get(&observed.sample.pid);
            let stored = stored.filter(|stored| stored.start_time == observed.sample.start_time);
            let mut program = top_program(observed, stored.map(|stored| &stored.inspection), &node_of);
            self.add_network(&mut program, stored);
            program.balance = decisions.remove(&program.pid);
            let is_unmodeled = program.balance.as_ref().map_or(!is_modeled, BalanceAdvice::is_unmodeled);
            program.advice = remote_advice(&program).filter(|_| is_unmodeled);
            program
        };
        snapshot.programs = observed.iter().map(program).collect();
        self.before = Some(SampledCounters { transfers: snapshot.transfers.clone(), ..after });
        snapshot
    }

    /// Records a move, and inspects the program again in the next sample.
    pub fn record_move(&mut self, moved: &ConfirmedMove) {
        self.inspections.remove(&moved.pid);
        self.advisor.record(moved, self.started.elapsed());
    }

    /// Inspects all programs again.
    pub fn expire_inspections(&mut self) {
        self.inspections.clear();
        self.advisor.expire_receipts();
    }

    /// Returns a balancer's advice on the inspected programs.
    fn decide(
        &mut self,
        observed: &[ObservedProgram],
        after: &SampledCounters,
    ) -> BTreeMap<u32, BalanceAdvice> {
        let Some(kernel) = self.machine.kernel() else { return BTreeMap::new() };
        let nodes = self.before.as_ref().map(|before| after.load.since(&before.load, &self.topology));
        let programs = observed.iter().filter_map(|program| {
            let stored = self.inspections.get(&program.sample.pid)?;
            if stored.start_time != program.sample.start_time {
                return None;
            }
            let mut program = program.clone();
            program.sample.memory.clone_from(&stored.inspection.memory);
            Some(SeenProgram::new(&self.topology, &self.network, program, stored.uses.clone()))
        });
        let observation = Observation {
            programs: programs.collect(),
            nodes: nodes.unwrap_or_default(),
            pressure: after.load.pressure(),
            ..Observation::default()
        };
        self.advisor.decide(kernel, &self.topology, &self.models, observation, after.at)
    }

    /// Adds the traffic of a program's sockets by device.
    fn add_network(&self, program: &mut TopProgram, stored: Option<&StoredInspection>) {
        let uses = stored.and_then(|stored| stored.uses.as_ref());
        match network_rates(&self.network, program.pid, uses) {
            Ok(rates) => {
                let devices = &self.topology.devices;
                let named =
                    |(index, rates): (usize, _)| Some((devices.get(index)?.distinct_name(devices), rates));
                program.network = rates.into_iter().filter_map(named).collect();
            }
            // All programs of a sample lack these, which the snapshot states once.
            Err(UnknownTraffic::FirstObservation | UnknownTraffic::NoSocketList) => {}
            Err(why) => program.unknown_network = Some(why),
        }
    }

    fn read_counters(&self, at: Duration, unknown: &mut Vec<UnknownValue>) -> SampledCounters {
        let nodes = self.topology.nodes.iter();
        let node_cpus = NodeCpus(nodes.clone().map(|node| (node.id, node.cpus.clone())).collect());
        SampledCounters {
            at,
            load: LoadSample::read(&self.machine, nodes.map(|node| node.id)),
            kernel: KernelCounts::read(&self.machine, &node_cpus),
            devices: DeviceCounters::read(&self.machine, &self.topology.devices),
            transfers: transfers(unknown),
        }
    }

    /// Composes all of a snapshot but its programs.
    fn compose(&self, after: &SampledCounters, mut unknown: Vec<UnknownValue>) -> TopSnapshot {
        let before = self.before.as_ref();
        let seconds = before.map_or(0.0, |before| after.at.saturating_sub(before.at).as_secs_f64());
        let (traffic, missing) = node_traffic(before.map(|before| &before.kernel), &after.kernel, seconds);
        unknown.extend(missing);
        let devices = &self.topology.devices;
        let devices = top_devices(devices, before.map(|before| &before.devices), &after.devices, seconds);
        let samples = NodeSamples { before: before.map(|before| &before.load), after: &after.load };
        let mut transfers = after.transfers.clone();
        add_transfer_rates(before.map_or(&[], |before| &before.transfers), &mut transfers, seconds);
        let identity = &self.topology.identity;
        TopSnapshot {
            schema: TOP_SCHEMA.to_owned(),
            numaio: env!("CARGO_PKG_VERSION").to_owned(),
            machine: identity.fingerprint.clone(),
            host: identity.hostname.clone(),
            taken_at_ms: now_ms(),
            interval_s: seconds,
            pressure: after.load.pressure(),
            nodes: top_nodes(&self.topology, samples, &traffic, &devices),
            devices,
            programs: Vec::new(),
            omitted_programs: 0,
            transfers,
            unknown,
        }
    }

    /// Inspects programs whose inspection is missing or old, within limits of number and time.
    fn inspect(&mut self, observed: &mut [ObservedProgram], focus: &[u32], at: Duration) {
        let running: BTreeMap<u32, u64> =
            observed.iter().map(|program| (program.sample.pid, program.sample.start_time)).collect();
        self.inspections.retain(|pid, stored| running.get(pid) == Some(&stored.start_time));
        let is_fresh = |stored: &StoredInspection| at.saturating_sub(stored.at) < INSPECTION_AGE;
        let fresh: BTreeSet<u32> =
            self.inspections.iter().filter(|(_, stored)| is_fresh(stored)).map(|(pid, _)| *pid).collect();
        self.read_missing_details(observed, focus);
        let (started, own) = (Instant::now(), OwnConnections::default());
        for pid in inspection_order(observed, focus, &fresh, MOST_INSPECTIONS) {
            if started.elapsed() > INSPECTION_TIME {
                break;
            }
            let Some(program) = observed.iter().find(|program| program.sample.pid == pid) else { continue };
            let (inspection, uses) = self.inspect_program(program, &own);
            let start_time = program.sample.start_time;
            self.inspections.insert(pid, StoredInspection { start_time, at, inspection, uses });
        }
    }

    /// Reads the threads of visible programs that are not active, for which the watch omits them.
    fn read_missing_details(&self, observed: &mut [ObservedProgram], focus: &[u32]) {
        for program in observed.iter_mut().filter(|program| focus.contains(&program.sample.pid)) {
            if program.sample.details.is_none() {
                program.sample.details = read_details(&self.machine, program.sample.pid).ok();
            }
        }
    }

    fn inspect_program(
        &self,
        observed: &ObservedProgram,
        own: &OwnConnections,
    ) -> (ProgramInspection, Option<ProgramUses>) {
        let pid = observed.sample.pid;
        let memory = read_memory(&self.machine, pid);
        let context = ResolveContext { root: &self.machine, locate: &self.machine, topology: &self.topology };
        let open = resolve_process(context, pid, own);
        let is_denied = open.findings.iter().any(|finding| finding.rule == RULE_DENIED);
        let process = process_of(observed, memory.as_ref());
        let status = numaio_place::status(&self.topology, &process, &open, &self.expected);
        let uses = self.machine.kernel().map(|kernel| ProgramUses::of(kernel, pid, &open));
        let inspection = ProgramInspection {
            why: (is_denied || memory.is_none()).then(|| "permission denied".to_owned()),
            memory,
            guest: guests::configuration_of(&self.machine, pid).map(|found| found.guest_name(pid)),
            devices: status.devices,
            nearness: status.nearness,
        };
        (inspection, uses)
    }
}

/// Returns the process of a sample, so that its files are not read twice.
fn process_of(observed: &ObservedProgram, memory: Option<&ProgramMemory>) -> Process {
    let sample = &observed.sample;
    let threads = sample.details.iter().flat_map(|details| &details.threads).map(|thread| Thread {
        tid: thread.tid,
        name: sample.name.clone(),
        cpu: thread.cpu,
        allowed: thread.allowed.clone(),
        ticks: thread.ticks,
    });
    let anonymous = |memory: &ProgramMemory| {
        let mut sums = memory.private.clone();
        for (node, bytes) in memory.bound.iter().chain(&memory.shared) {
            let sum = sums.entry(*node).or_default();
            *sum = sum.saturating_add(*bytes);
        }
        sums
    };
    let pages =
        memory.map(|memory| Pages { anonymous: anonymous(memory), file_backed: memory.file_backed.clone() });
    Process {
        pid: sample.pid,
        parent: sample.parent,
        name: sample.name.clone(),
        threads: threads.collect(),
        pages,
    }
}

/// Reads the queue of the daemon and the running jobs of this user.
fn transfers(unknown: &mut Vec<UnknownValue>) -> Vec<TopTransfer> {
    let mut found = Vec::new();
    match local_broker::socket() {
        Some(socket) if socket.exists() => match local_broker::list(&socket) {
            Ok(queued) => found.extend(queued.iter().map(daemon_transfer)),
            Err(error) => unknown.push(UnknownValue {
                name: "transfers of the daemon".to_owned(),
                reason: format!("cannot ask the daemon at '{}': {error}", socket.display()),
            }),
        },
        // Most hosts run no daemon.
        _ => {}
    }
    match jobs::all() {
        Ok((jobs, _)) => found.extend(jobs.iter().filter_map(job_transfer)),
        Err(error) => {
            unknown.push(UnknownValue { name: "jobs of this user".to_owned(), reason: error.to_string() })
        }
    }
    found
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or_else(|_| now() * 1000, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
