//! Observes a program: its CPUs, memory and devices over time, and hardware counters.

use crate::failure::{Failure, NOT_FOUND};
use crate::machine::Machine;
use numaio_machine::counters::{Count, Counter};
use numaio_machine::ids::{CpuId, NodeId};
use numaio_machine::near::{resolve_process, OwnConnections, ResolveContext};
use numaio_machine::probe::{CountedOutcome, Outcome, ProbeError, ProbeExt, ToolExit, ToolOutput};
use numaio_machine::process::process_trees;
use numaio_machine::programs::{ObservedProgram, ProgramWatch, WatchOptions};
use numaio_machine::topology::Topology;
use numaio_machine::workload::{CountedTarget, CountedWorkload};
use numaio_schema::{DeviceUse, ProgramTraffic};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Time between samples of threads.
const SAMPLE_EVERY: Duration = Duration::from_millis(100);
/// Time between readings of memory, which take the kernel longer.
const MEMORY_EVERY: Duration = Duration::from_secs(1);
/// Number of samples between two examinations of open files.
const DEVICES_EVERY: u32 = 10;
/// Maximum number of processes to observe.
const MOST_PROCESSES: usize = 1000;

/// The programs to observe.
pub enum Subject<'a> {
    /// A running process.
    Process {
        /// Process id.
        pid: u32,
        /// Time of observation.
        seconds: f64,
    },
    /// A program to run.
    Command {
        /// Name and arguments.
        command: &'a [String],
        /// Time after which it is killed.
        limit_s: f64,
    },
}

/// Observes a program until the time is over or it ends.
///
/// # Errors
/// If the program cannot be started or fails, or the process ends before the first sample.
pub fn observe(machine: &Machine, topology: &Topology, subject: &Subject) -> Result<ProgramTraffic, Failure> {
    let (root, target) = match subject {
        Subject::Process { pid, seconds } => {
            (*pid, CountedTarget::Process { pid: *pid, milliseconds: milliseconds(*seconds) })
        }
        // The program is the only descendant of this process.
        Subject::Command { command, limit_s } => (
            std::process::id(),
            CountedTarget::Command { command: command.to_vec(), time_limit_ms: milliseconds(*limit_s) },
        ),
    };
    let counters = vec![
        Counter::Cycles,
        Counter::StallCycles,
        Counter::LocalDramLoads,
        Counter::RemoteDramLoads,
        Counter::NodeLoads,
        Counter::NodeLoadMisses,
    ];
    let is_over = AtomicBool::new(false);
    let (observed, counted) = thread::scope(|scope| {
        let samples = scope.spawn(|| {
            let mut observed = Observation::new(machine, topology, root);
            while !is_over.load(Ordering::Relaxed) {
                observed.sample();
                thread::park_timeout(SAMPLE_EVERY);
            }
            observed.sample();
            observed
        });
        let counted = machine.counted(&CountedWorkload { counters, target });
        is_over.store(true, Ordering::Relaxed);
        samples.thread().unpark();
        (samples.join(), counted)
    });
    let observed = observed.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    let counted = counted.map_err(|error| failure(subject, &error))?;
    if let (Subject::Command { command, .. }, Some(Outcome::Program(outcome))) =
        (subject, counted.outcome.as_deref())
    {
        check_exit(command, &outcome.output)?;
    }
    observed.traffic(&counted)
}

/// Rejects a program that failed. One that was killed at the time limit was observed until then.
fn check_exit(command: &[String], output: &ToolOutput) -> Result<(), Failure> {
    let why = match output.exit {
        ToolExit::Status(0) | ToolExit::TimeLimit => return Ok(()),
        ToolExit::Status(status) => format!("exit status {status}"),
        ToolExit::Signal(signal) => format!("killed by signal {signal}"),
    };
    let last: String = output.stderr.lines().last().unwrap_or_default().chars().take(120).collect();
    let last = last.escape_debug();
    let detail = if output.stderr.is_empty() { String::new() } else { format!(": {last}") };
    Err(Failure::new(format!("'{}' failed: {why}{detail}", command.join(" ").escape_debug())))
}

fn failure(subject: &Subject, error: &ProbeError) -> Failure {
    match (subject, error) {
        (Subject::Command { command, .. }, ProbeError::Unsupported { .. }) => {
            let name = command.first().map_or("", String::as_str).escape_debug();
            Failure { code: NOT_FOUND, ..Failure::new(format!("cannot execute '{name}': no such program")) }
        }
        (Subject::Command { command, .. }, _) => {
            Failure::new(format!("cannot run '{}': {error}", command.join(" ").escape_debug()))
        }
        (Subject::Process { pid, .. }, _) => Failure::new(format!("cannot observe process {pid}: {error}")),
    }
}

fn milliseconds(seconds: f64) -> u32 {
    (seconds * 1000.0).min(f64::from(u32::MAX)) as u32
}

/// Sums over the samples so far.
struct Observation<'a> {
    machine: &'a Machine,
    topology: &'a Topology,
    /// The root of the observed processes; this process itself is not observed.
    root: u32,
    began: Instant,
    watch: ProgramWatch,
    samples: u32,
    /// CPU time in seconds by node.
    cpu_seconds: BTreeMap<NodeId, f64>,
    /// Bytes from and to storage; `None` if denied.
    storage: Option<(f64, f64)>,
    /// Sum of the memory of all samples, and the number of samples with memory.
    bytes: BTreeMap<NodeId, f64>,
    memory_samples: u32,
    devices: BTreeMap<String, DeviceUse>,
}

impl<'a> Observation<'a> {
    fn new(machine: &'a Machine, topology: &'a Topology, root: u32) -> Self {
        let options =
            WatchOptions { all_active: true, memory_every: MEMORY_EVERY, ..WatchOptions::default() };
        Self {
            machine,
            topology,
            root,
            began: Instant::now(),
            watch: ProgramWatch::new(options),
            samples: 0,
            cpu_seconds: BTreeMap::new(),
            storage: None,
            bytes: BTreeMap::new(),
            memory_samples: 0,
            devices: BTreeMap::new(),
        }
    }

    fn sample(&mut self) {
        let own = std::process::id();
        let tree = process_trees(self.machine, &[self.root]).pop().unwrap_or_default();
        let pids: Vec<u32> = tree.into_iter().filter(|pid| *pid != own).take(MOST_PROCESSES).collect();
        let topology = self.topology;
        let node_of = |cpu: CpuId| -> Option<NodeId> { topology.cpu(cpu)?.node };
        let programs = self.watch.observe(self.machine, &pids, self.began.elapsed(), &node_of);
        self.memory_samples += u32::from(programs.iter().any(|program| program.sample.memory.is_some()));
        programs.iter().for_each(|program| self.add(program));
        if self.samples.is_multiple_of(DEVICES_EVERY) {
            self.read_devices(&pids);
        }
        self.samples += u32::from(!pids.is_empty());
    }

    fn add(&mut self, program: &ObservedProgram) {
        if let Some(rates) = &program.rates {
            for (node, cpus) in &rates.cpus_on {
                *self.cpu_seconds.entry(*node).or_default() += cpus * rates.seconds;
            }
            if let Some(io) = rates.io {
                let (read, write) = self.storage.get_or_insert((0.0, 0.0));
                *read += io.storage_read * rates.seconds;
                *write += io.storage_write * rates.seconds;
            }
        }
        if let Some(memory) = &program.sample.memory {
            let kinds = [&memory.private, &memory.bound, &memory.shared, &memory.huge];
            for (node, bytes) in kinds.into_iter().flatten() {
                *self.bytes.entry(*node).or_default() += *bytes as f64;
            }
        }
    }

    fn read_devices(&mut self, pids: &[u32]) {
        let context = ResolveContext { root: self.machine, locate: self.machine, topology: self.topology };
        for pid in pids {
            let open = resolve_process(context, *pid, &OwnConnections::default());
            for device in numaio_place::used_devices(self.topology, &open) {
                match self.devices.get_mut(&device.device) {
                    Some(known) => {
                        known.share = known.share.zip(device.share).map(|(one, other)| one + other)
                    }
                    None => drop(self.devices.insert(device.device.clone(), device)),
                }
            }
        }
    }

    /// Returns the traffic over the complete time.
    fn traffic(self, counted: &CountedOutcome) -> Result<ProgramTraffic, Failure> {
        if self.samples == 0 {
            return Err(Failure::new("the program ended before it could be observed"));
        }
        let seconds = self.began.elapsed().as_secs_f64();
        let memory_samples = f64::from(self.memory_samples.max(1));
        let count = |counter| value(&counted.counts, counter);
        let loads = count(Counter::LocalDramLoads).zip(count(Counter::RemoteDramLoads));
        let node_loads = count(Counter::NodeLoads).zip(count(Counter::NodeLoadMisses));
        let local = loads.map(|(local, remote)| (local, local + remote));
        let local = local.or(node_loads.map(|(all, remote)| (all - remote, all)));
        let share = |(part, all): (f64, f64)| (all > 0.0).then(|| (part / all).clamp(0.0, 1.0));
        let mut devices: Vec<DeviceUse> = self.devices.into_values().collect();
        let used: Option<f64> = devices.iter().map(|device| device.share).sum();
        devices.iter_mut().for_each(|device| {
            device.share = device.share.zip(used).map(|(share, used)| share / used);
        });
        Ok(ProgramTraffic {
            seconds,
            ended_early: counted.ended_early,
            cpus_on: self.cpu_seconds.into_iter().map(|(node, used)| (node, used / seconds)).collect(),
            bytes_on: self.bytes.into_iter().map(|(node, bytes)| (node, bytes / memory_samples)).collect(),
            storage_read: self.storage.map(|(read, _)| read / seconds),
            storage_write: self.storage.map(|(_, write)| write / seconds),
            local_loads: local.and_then(share),
            stalled: count(Counter::StallCycles).zip(count(Counter::Cycles)).and_then(share),
            devices,
        })
    }
}

/// Returns the scaled count over all nodes; `None` if none was counted.
fn value(counts: &[Count], counter: Counter) -> Option<f64> {
    let mut of = counts.iter().filter(|count| count.counter == counter).peekable();
    of.peek()?;
    of.map(Count::value).sum()
}
