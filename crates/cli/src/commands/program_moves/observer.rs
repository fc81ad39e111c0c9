//! Observation of programs, their devices and the nodes.

use super::network_observer::{NetworkObserver, NetworkRates};
use numaio_linux::Kernel;
use numaio_machine::devices::busy_ms;
use numaio_machine::ids::{CpuId, NodeId};
use numaio_machine::locate::{LocateExt, OpenedFacts};
use numaio_machine::near::{resolve_process, OwnConnections, ResolveContext, Resolved};
use numaio_machine::programs::{
    group_limits, read_details, read_memory, GroupLimits, LoadSample, NodeLoad, ObservedProgram, Pressure,
    ProgramWatch, WatchOptions,
};
use numaio_machine::sysfs::Sysfs;
use numaio_machine::topology::Topology;
use numaio_model::{device_traffic, TrafficInputs};
use numaio_schema::{DeviceTraffic, UnknownTraffic};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Time after which the open files of a program are examined again.
const FILES_EVERY: Duration = Duration::from_secs(30);

/// The same for a program without devices.
const NO_FILES_EVERY: Duration = Duration::from_secs(6);

/// Start of open files through which devices access memory directly, and pin it.
const PINNING: [&str; 3] = ["/dev/infiniband/uverbs", "/dev/vfio/", "anon_inode:[io_uring]"];

/// Facts from the open files and the control group of a program.
#[derive(Debug, Clone, Default)]
pub struct ProgramUses {
    /// Share of I/O by index of the device in the topology.
    pub devices: BTreeMap<usize, f64>,
    /// Whether it has an open file through which devices may pin memory.
    pub may_pin: bool,
    /// Whether it shares this process's network namespace; `None` if unknown.
    pub same_network: Option<bool>,
    /// CPUs and nodes of its control group.
    pub limits: GroupLimits,
    /// Whether its open files could not be examined.
    pub is_denied: bool,
}

/// A program with what it uses.
#[derive(Debug, Clone)]
pub struct SeenProgram {
    /// Samples and rates.
    pub program: ObservedProgram,
    /// Devices and limits; `None` unless it is active.
    pub uses: Option<ProgramUses>,
    /// Traffic with each device, by index in the topology.
    pub traffic: BTreeMap<usize, DeviceTraffic>,
    /// Why the traffic of its sockets is unknown.
    pub unknown_traffic: Option<UnknownTraffic>,
}

impl SeenProgram {
    /// Combines what was observed of a program with the rates of its sockets.
    pub fn new(
        topology: &Topology,
        network: &NetworkObserver,
        program: ObservedProgram,
        uses: Option<ProgramUses>,
    ) -> Self {
        let sockets = network_rates(network, program.sample.pid, uses.as_ref());
        let none = BTreeMap::new();
        let traffic = device_traffic(
            |index| topology.devices.get(index).map(|device| device.kind),
            TrafficInputs {
                shares: uses.as_ref().map_or(&none, |uses| &uses.devices),
                io: program.rates.as_ref().and_then(|rates| rates.io.as_ref()),
                sockets: sockets.as_ref().ok(),
            },
        );
        Self { program, uses, traffic, unknown_traffic: sockets.err() }
    }

    /// Returns the bytes per second that it exchanges with devices.
    pub fn device_bytes_per_s(&self) -> f64 {
        self.traffic.values().map(DeviceTraffic::total).sum()
    }
}

/// Returns the rates of a program's sockets by device.
///
/// # Errors
/// The reason why they are unknown.
pub fn network_rates(
    network: &NetworkObserver,
    pid: u32,
    uses: Option<&ProgramUses>,
) -> Result<NetworkRates, UnknownTraffic> {
    match uses {
        Some(uses) if uses.is_denied => Err(UnknownTraffic::Denied),
        Some(uses) if uses.same_network == Some(false) => Err(UnknownTraffic::OtherNamespace),
        _ => network.of(pid),
    }
}

/// One round of observation.
#[derive(Debug, Clone, Default)]
pub struct Observation {
    /// The programs.
    pub programs: Vec<SeenProgram>,
    /// Load of each node; empty in the first round.
    pub nodes: Vec<NodeLoad>,
    /// Pressure of the machine.
    pub pressure: Pressure,
    /// Share of time in which each device was busy, by index in the topology.
    pub device_busy: BTreeMap<usize, f64>,
}

/// Observes a machine repeatedly.
pub struct Observer<'a> {
    kernel: &'a Kernel,
    topology: &'a Topology,
    watch: ProgramWatch,
    started: Instant,
    load: Option<LoadSample>,
    busy: BusyDevices,
    network: NetworkObserver,
    /// Uses by process id and start time, with the time of their examination.
    uses: BTreeMap<(u32, u64), (ProgramUses, Duration)>,
}

impl<'a> Observer<'a> {
    /// Creates an observer; `all_active` reads threads and memory of every program.
    pub fn new(kernel: &'a Kernel, topology: &'a Topology, all_active: bool) -> Self {
        let options = WatchOptions { all_active, ..WatchOptions::default() };
        Self {
            kernel,
            topology,
            watch: ProgramWatch::new(options),
            started: Instant::now(),
            load: None,
            busy: BusyDevices::default(),
            network: NetworkObserver::default(),
            uses: BTreeMap::new(),
        }
    }

    /// Returns the time since the observer was created.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Returns why the kernel lists no sockets, as text; `None` if it does, or before a round.
    pub fn missing_sockets(&self) -> Option<&str> {
        self.network.missing()
    }

    /// Reads the memory of a program again in the next round.
    pub fn expire_memory(&mut self, pid: u32) {
        self.watch.expire_memory(pid);
    }

    /// Observes processes and nodes.
    pub fn observe(&mut self, pids: &[u32]) -> Observation {
        let at = self.started.elapsed();
        let topology = self.topology;
        let node_of = |cpu: CpuId| -> Option<NodeId> { topology.cpu(cpu)?.node };
        self.network.list(at);
        self.watch.set_active(self.network.active());
        let mut programs = self.watch.observe(self.kernel, pids, at, &node_of);
        self.network.assign(self.kernel, topology, &programs, at);
        self.activate(&mut programs);
        let own = OwnConnections::default();
        let programs: Vec<SeenProgram> = programs
            .into_iter()
            .map(|program| {
                let uses = program.is_active.then(|| self.uses_of(&program, &own, at));
                SeenProgram::new(topology, &self.network, program, uses)
            })
            .collect();
        self.uses.retain(|_, (_, seen)| at.saturating_sub(*seen) < FILES_EVERY * 2);
        let load = LoadSample::read(self.kernel, self.topology.nodes.iter().map(|node| node.id));
        let nodes = self.load.as_ref().map(|before| load.since(before, self.topology)).unwrap_or_default();
        let pressure = load.pressure();
        let device_busy = self.busy.shares(self.kernel, self.topology, at);
        self.load = Some(load);
        Observation { programs, nodes, pressure, device_busy }
    }

    /// Reads threads and memory of programs that only their sockets show to be active.
    fn activate(&self, programs: &mut [ObservedProgram]) {
        let active = self.network.active();
        let is_new =
            |program: &&mut ObservedProgram| !program.is_active && active.contains(&program.sample.pid);
        for program in programs.iter_mut().filter(is_new) {
            let pid = program.sample.pid;
            program.sample.details = read_details(self.kernel, pid).ok();
            program.sample.memory = read_memory(self.kernel, pid);
            program.is_active = true;
        }
    }

    fn uses_of(&mut self, program: &ObservedProgram, own: &OwnConnections, at: Duration) -> ProgramUses {
        let key = (program.sample.pid, program.sample.start_time);
        let is_recent = |uses: &ProgramUses, seen: Duration| {
            // A program without devices may open its files later.
            let every = if uses.devices.is_empty() { NO_FILES_EVERY } else { FILES_EVERY };
            at.saturating_sub(seen) < every
        };
        match self.uses.get(&key) {
            Some((uses, seen)) if is_recent(uses, *seen) => uses.clone(),
            _ => {
                let uses = self.examine(program.sample.pid, own);
                self.uses.insert(key, (uses.clone(), at));
                uses
            }
        }
    }

    fn examine(&self, pid: u32, own: &OwnConnections) -> ProgramUses {
        let context = ResolveContext { root: self.kernel, locate: self.kernel, topology: self.topology };
        ProgramUses::of(self.kernel, pid, &resolve_process(context, pid, own))
    }
}

impl ProgramUses {
    /// Returns the resources of a program, with the devices of its open files.
    pub fn of(kernel: &Kernel, pid: u32, found: &Resolved) -> Self {
        let opened = kernel.opened(pid);
        Self {
            devices: found.estimated_parts().into_iter().collect(),
            may_pin: opened.as_ref().is_ok_and(may_pin),
            same_network: opened.as_ref().ok().and_then(|opened| opened.same_network),
            limits: group_limits(kernel, pid),
            is_denied: opened.is_err(),
        }
    }
}

/// Share of time in which disks are busy, from one round to the next.
#[derive(Debug, Default)]
pub struct BusyDevices(BTreeMap<usize, (u64, Duration)>);

impl BusyDevices {
    /// Returns the share of time in which each disk was busy since the last call, by index in the
    /// topology; `at` is the time since any fixed moment.
    pub fn shares(&mut self, root: &dyn Sysfs, topology: &Topology, at: Duration) -> BTreeMap<usize, f64> {
        let mut shares = BTreeMap::new();
        for (index, device) in topology.devices.iter().enumerate() {
            let Some(now) = busy_ms(root, device.kind, &device.names) else { continue };
            if let Some((before, earlier)) = self.0.insert(index, (now, at)) {
                let elapsed = at.saturating_sub(earlier).as_secs_f64();
                let busy = now.saturating_sub(before) as f64 / 1e3;
                if elapsed > 0.0 {
                    shares.insert(index, (busy / elapsed).min(1.0));
                }
            }
        }
        shares
    }
}

fn may_pin(opened: &OpenedFacts) -> bool {
    opened.files.iter().any(|file| PINNING.iter().any(|start| file.target.starts_with(start)))
}
