//! The loop of observations, decisions and moves.

use super::args::BalanceArgs;
use super::events::EventWriter;
use super::selection::Selection;
use crate::commands::placement;
use crate::commands::program_moves::{
    build_problem, describe_hot_memory, group_programs, lock, members_of, original_affinities, remove_ended,
    BalanceConfig, HotMemoryMonitor, Knowledge, MonitoredGroup, Observation, Observer, ProgramGroup,
    ProgramMover, SeenProgram,
};
use crate::failure::Failure;
use crate::machine::Machine;
use crate::options::Common;
use crate::store::Kind;
use crate::{balancing, documents, output, receipts};
use numaio_linux::interrupt::{self, interrupted};
use numaio_linux::{process, Kernel};
use numaio_machine::conditions;
use numaio_machine::discover::discover_quick;
use numaio_machine::ids::NodeId;
use numaio_machine::programs::running_programs;
use numaio_machine::topology::Topology;
use numaio_model::{BalanceOptions, BalanceProblem, Balancer, GroupDecision};
use numaio_schema::{
    BalanceDecision, BalanceEventKind, BalanceReason, BalanceRound, BalanceStart, DeviceTraffic, IoRecord,
    Model,
};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

/// Daemons that move tasks, memory or interrupts.
const DAEMONS: [&str; 2] = ["irqbalance", "numad"];

/// Longest sleep between checks for signals.
const NAP: Duration = Duration::from_millis(100);

/// Rounds between removals of receipts whose programs have ended.
const PRUNE_ROUNDS: u64 = 300;

/// Runs the loop until it is interrupted, or once.
pub fn run(
    common: &Common,
    args: &BalanceArgs,
    config: &BalanceConfig,
    kernel: Kernel,
) -> Result<ExitCode, Failure> {
    interrupt::install().map_err(Failure::new)?;
    let machine = Machine::Live(kernel);
    let Some(kernel) = machine.kernel() else { return Err(Failure::usage("not this machine")) };
    let topology = discover_quick(kernel);
    let fingerprint = topology.identity.fingerprint.clone();
    let _lock = if args.dry_run { None } else { lock()? };
    let _paused = balancing::pause(common, args.pause_balancing, &machine, &fingerprint)?;
    let models = placement::models(common, &machine, &topology, None)?;
    let records = documents::saved_io(common, Kind::Io, &topology.identity);
    let knowledge = Knowledge {
        topology: &topology,
        models: &models,
        records: &records,
        config,
        override_policies: args.override_policies,
        together: args.together,
        devices: selected_devices(&topology, &args.device)?,
    };
    let mut selection = Selection::new(args, kernel)?;
    let stored = receipts::all(common, kernel)?;
    let originals = original_affinities(kernel, &stored);
    remove_ended(kernel, &stored);
    let mut balancing_loop = BalancingLoop {
        args,
        observer: Observer::new(kernel, &topology, selection.is_named()),
        balancer: Balancer::new(options(args, config)),
        mover: ProgramMover { common, kernel, knowledge: &knowledge, originals },
        hot: HotMemoryMonitor::new(common, kernel, &fingerprint, args.override_policies),
        is_monitoring: false,
        events: EventWriter::new(common, args, &fingerprint),
        moves: 0,
        moved_bytes: 0,
    };
    if !args.dry_run {
        balancing_loop.hot.recover();
    }
    balancing_loop.observer.observe(&selection.pids(kernel));
    balancing_loop.start(kernel, &models, &records)?;
    while wait(args.every) {
        balancing_loop.round(&selection.pids(kernel))?;
        // One more interval if the accesses of a program are monitored before its move.
        let is_done = args.once && !balancing_loop.is_monitoring;
        if is_done || (selection.is_named() && balancing_loop.has_ended(&args.pids)) {
            break;
        }
        if balancing_loop.events.round.is_multiple_of(PRUNE_ROUNDS) {
            remove_ended(kernel, &receipts::all(common, kernel)?);
        }
    }
    balancing_loop.end()?;
    Ok(ExitCode::SUCCESS)
}

fn options(args: &BalanceArgs, config: &BalanceConfig) -> BalanceOptions {
    let mut options = BalanceOptions::default();
    config.apply(&mut options);
    options.horizon_s = args.horizon.unwrap_or(options.horizon_s);
    options.cool_down_s = args.cool_down.unwrap_or(options.cool_down_s);
    options.limit_bytes_per_s = args.limit.map_or(options.limit_bytes_per_s, |limit| limit as f64);
    if args.once {
        options.confirm_rounds = 1;
        options.moves_per_round = usize::MAX;
    }
    options
}

fn selected_devices(topology: &Topology, names: &[String]) -> Result<Vec<usize>, Failure> {
    let find = |name: &String| {
        let found = topology.devices.iter().position(|device| device.has_name(name));
        found.ok_or_else(|| {
            Failure::usage(format!("device '{name}' not found")).hint("numaio topology lists devices")
        })
    };
    names.iter().map(find).collect()
}

/// Sleeps until the next round; returns whether there is one.
fn wait(duration: Duration) -> bool {
    let end = std::time::Instant::now() + duration;
    loop {
        let left = end.saturating_duration_since(std::time::Instant::now());
        if interrupted() {
            return false;
        }
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(NAP));
    }
}

struct BalancingLoop<'a> {
    args: &'a BalanceArgs,
    observer: Observer<'a>,
    balancer: Balancer,
    mover: ProgramMover<'a>,
    hot: HotMemoryMonitor<'a>,
    /// Whether moves of this round wait for a monitor.
    is_monitoring: bool,
    events: EventWriter<'a>,
    moves: u64,
    moved_bytes: u64,
}

impl BalancingLoop<'_> {
    fn start(&mut self, kernel: &Kernel, models: &[Model], records: &[IoRecord]) -> Result<(), Failure> {
        let of_models = models.iter().flat_map(|model| model.targets.iter().map(|target| target.target));
        let of_records = records.iter().filter_map(|record| record.device.node);
        self.events.write(BalanceEventKind::Started(BalanceStart {
            every_s: self.args.every.as_secs_f64(),
            dry_run: self.args.dry_run,
            numa_balancing: conditions::read(kernel).numa_balancing,
            daemons: running_programs(kernel, &DAEMONS),
            modeled_nodes: of_models.chain(of_records).collect(),
            missing_sockets: self.observer.missing_sockets().map(str::to_owned),
        }))
    }

    fn round(&mut self, pids: &[u32]) -> Result<(), Failure> {
        self.events.start_round();
        let before = process::cpu_time_s();
        let observation = self.observer.observe(pids);
        let groups = group_programs(self.mover.knowledge, &observation);
        let at = self.observer.elapsed();
        self.hot.collect(at);
        let hot = &self.hot;
        let hot_on = |group: &str| Some(hot.of(group)?.ok()?.bytes_on().clone());
        let (knowledge, originals) = (self.mover.knowledge, &self.mover.originals);
        let problem = build_problem(knowledge, &observation, &groups, originals, &hot_on);
        let mut decisions = self.balancer.decide(&problem, at.as_secs_f64());
        self.monitor(&problem, &observation, &groups, &mut decisions, at);
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        self.events.write(BalanceEventKind::Round(BalanceRound {
            programs: count(observation.programs.len()),
            groups: count(groups.len()),
            cpu_s: process::cpu_time_s() - before,
            nodes: observation.nodes.clone(),
            pressure: observation.pressure,
        }))?;
        let topology = self.mover.knowledge.topology;
        for decision in &decisions {
            let described = describe(topology, &problem, &observation, &groups, decision);
            let hot = self.hot.of(&described.group).map(describe_hot_memory);
            self.events.write_decision(BalanceDecision { hot, ..described })?;
        }
        for decision in decisions.iter().filter(|decision| decision.to.is_some()) {
            self.perform(&problem, &observation, &groups, decision)?;
        }
        let ids: Vec<String> = groups.into_iter().map(|group| group.id).collect();
        self.events.end_round(&ids)
    }

    /// Starts to monitor the accesses of groups that would move much memory. Their moves wait until
    /// the next round, which moves what is in use.
    fn monitor(
        &mut self,
        problem: &BalanceProblem,
        observation: &Observation,
        groups: &[ProgramGroup],
        decisions: &mut [GroupDecision],
        at: Duration,
    ) {
        // A dry run changes nothing, not even a monitor.
        if self.args.dry_run {
            return;
        }
        let wanted: Vec<(usize, u64)> = decisions
            .iter()
            .filter(|decision| self.hot.of(&groups[decision.group].id).is_none())
            .filter_map(|decision| Some((decision.group, decision.monitored_bytes(problem)?)))
            .collect();
        let monitored = |(group, _): &(usize, u64)| MonitoredGroup {
            id: &groups[*group].id,
            members: members_of(observation, &groups[*group]),
        };
        self.hot.start(wanted.iter().map(monitored).collect(), self.args.every, at);
        let is_waiting = |group: usize| self.hot.is_running_for(&groups[group].id);
        self.is_monitoring = wanted.iter().any(|(group, _)| is_waiting(*group));
        for (group, move_bytes) in wanted.into_iter().filter(|(group, _)| is_waiting(*group)) {
            if let Some(decision) = decisions.iter_mut().find(|decision| decision.group == group) {
                decision.to = None;
                decision.reason = BalanceReason::Monitoring { move_bytes };
            }
        }
    }

    /// Moves a group, or in a dry run only counts it as moved.
    fn perform(
        &mut self,
        problem: &BalanceProblem,
        observation: &Observation,
        groups: &[ProgramGroup],
        decision: &GroupDecision,
    ) -> Result<(), Failure> {
        let (Some(to), Some(group)) = (decision.to, groups.get(decision.group)) else { return Ok(()) };
        let at = self.observer.elapsed().as_secs_f64();
        if self.args.dry_run {
            self.balancer.record(problem, decision, at, 0);
            return Ok(());
        }
        match self.mover.move_group(observation, group, to, self.hot.of(&group.id)) {
            Ok(moved) => {
                self.moves += 1;
                self.moved_bytes += moved.moved_bytes;
                self.balancer.record(problem, decision, at, moved.moved_bytes);
                self.hot.expire_place(&group.id, self.observer.elapsed());
                for seen in members_of(observation, group) {
                    self.observer.expire_memory(seen.program.sample.pid);
                }
                self.events.write(BalanceEventKind::Moved(moved))
            }
            Err(failure) => {
                // The next attempt waits as long as after a move.
                self.balancer.record(problem, decision, at, 0);
                if self.args.once {
                    return Err(failure);
                }
                let (group, why) = (group.id.clone(), failure.message);
                self.events.write(BalanceEventKind::MoveFailed { group, reason: why })
            }
        }
    }

    fn has_ended(&self, pids: &[u32]) -> bool {
        pids.iter().all(|pid| numaio_machine::process::start_time(self.mover.kernel, *pid).is_none())
    }

    fn end(&mut self) -> Result<(), Failure> {
        let (moves, moved_bytes) = (self.moves, self.moved_bytes);
        let reasons = self.events.totals.reasons();
        self.events.write(BalanceEventKind::Ended { moves, moved_bytes, reasons })?;
        if moves > 0 {
            output::remark(
                self.mover.common,
                "numaio undo reverts the newest move; numaio undo --all all of them",
            );
        }
        Ok(())
    }
}

fn describe(
    topology: &Topology,
    problem: &BalanceProblem,
    observation: &Observation,
    groups: &[ProgramGroup],
    decision: &GroupDecision,
) -> BalanceDecision {
    let group = &problem.groups[decision.group];
    let members = members_of(observation, &groups[decision.group]);
    let mut cpus_on: BTreeMap<NodeId, f64> = BTreeMap::new();
    let rates = members.iter().filter_map(|seen| seen.program.rates.as_ref());
    for (node, cpus) in rates.flat_map(|rates| &rates.cpus_on) {
        *cpus_on.entry(*node).or_default() += cpus;
    }
    let busiest =
        members.iter().max_by(|one, other| one.device_bytes_per_s().total_cmp(&other.device_bytes_per_s()));
    let devices = group.devices.keys().filter_map(|index| problem.devices.get(*index));
    let is_readable = members.iter().any(|seen| seen.program.sample.memory.is_some());
    BalanceDecision {
        group: group.id.clone(),
        name: busiest.map(|seen| seen.program.sample.name.clone()).unwrap_or_default(),
        pids: members.iter().map(|seen| seen.program.sample.pid).collect(),
        devices: devices.map(|device| device.name.clone()).collect(),
        traffic: traffic_of(topology, &members),
        unknown_traffic: members.iter().find_map(|seen| seen.unknown_traffic),
        bytes_per_s: group.bytes_per_s,
        cpus_on,
        bytes_on: is_readable.then(|| group.bytes_on.clone()),
        hot: None,
        to: decision.to,
        predicted_bytes_per_s: decision.predicted_bytes_per_s,
        reason: decision.reason.clone(),
    }
}

/// Returns the traffic of programs with each device, by its name.
fn traffic_of(topology: &Topology, members: &[&SeenProgram]) -> BTreeMap<String, DeviceTraffic> {
    let mut sums: BTreeMap<String, DeviceTraffic> = BTreeMap::new();
    for (index, traffic) in members.iter().flat_map(|seen| &seen.traffic) {
        let Some(device) = topology.devices.get(*index) else { continue };
        let name = device.distinct_name(&topology.devices);
        let none = DeviceTraffic { read_bytes_per_s: 0.0, write_bytes_per_s: 0.0, source: traffic.source };
        let sum = sums.entry(name).or_insert(none);
        sum.read_bytes_per_s += traffic.read_bytes_per_s;
        sum.write_bytes_per_s += traffic.write_bytes_per_s;
    }
    sums
}
