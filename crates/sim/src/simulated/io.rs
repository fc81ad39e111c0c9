//! I/O on the simulated machine.

use super::device_sharing::{rule_rates, NodeDemand, Request};
use super::{admit_samples, refused, start_skew_ns, Simulated};
use crate::noise::Random;
use crate::spec::{DeviceSpec, IoRates, IoSpec};
use crate::wiring::DeviceFlow;
use numaio_machine::devices::DeviceKind;
use numaio_machine::ids::{CpuId, NodeId};
use numaio_machine::probe::{IoGroupOutcome, IoOutcome, IoSample, ProbeError};
use numaio_machine::set::CpuSet;
use numaio_machine::workload::{CopyLoop, Direction, Flow, IoPath, IoWorkload, Pages, Sampling, StreamGroup};
use std::collections::BTreeMap;

/// CPU time of a request in nanoseconds, about a system call and an interrupt.
const REQUEST_NS: u64 = 5_000;
/// Maximum number of streams of a run.
const MAX_STREAMS: u32 = 1 << 16;

/// A device that carries streams.
#[derive(Clone, Copy)]
struct SimulatedDevice<'a> {
    spec: &'a IoSpec,
    node: Option<NodeId>,
}

/// Streams of a device with buffers on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct StreamKey {
    direction: Direction,
    /// Index of the device in the workload.
    device: usize,
    memory: NodeId,
    /// One of the streams' CPUs, if their rate depends on it.
    cpu: Option<CpuId>,
}

/// The number of streams of a key.
struct BufferFlow {
    key: StreamKey,
    streams: u32,
}

impl Simulated {
    /// Returns the bytes per second of each group of streams without noise.
    ///
    /// # Errors
    /// As [`numaio_machine::probe::Probe::run`].
    pub fn io_truth(&self, io: &IoWorkload) -> Result<Vec<f64>, ProbeError> {
        let devices = self.admit_io(io)?;
        Ok(self.io_rates(&devices, io).into_iter().map(|rate| rate * self.balancing_factor()).collect())
    }

    /// Returns rates and node of each device.
    fn admit_io(&self, io: &IoWorkload) -> Result<Vec<SimulatedDevice<'_>>, ProbeError> {
        let found = io.paths().enumerate().map(|(index, path)| self.device_of_path(index, path));
        let devices = found.collect::<Result<_, _>>()?;
        if !io.has_all_devices() {
            return refused("run", "a stream group names no device of the workload");
        }
        if io.block_bytes == 0 || io.depth == 0 {
            return refused("run", "requests of no bytes, or none in flight");
        }
        if io.groups.is_empty() || io.groups.iter().any(|group| group.streams == 0) {
            return refused("run", "no streams");
        }
        if io.streams() > MAX_STREAMS {
            return refused(&format!("{} streams", io.streams()), "more than a simulated machine starts");
        }
        for path in io.paths() {
            if let IoPath::Disk(disk) = path {
                if disk.bytes < io.block_bytes {
                    return refused(&disk.path, "the area is smaller than a block");
                }
            }
        }
        for group in &io.groups {
            self.admit_cpus(&group.cpus)?;
        }
        self.admit_buffers(&buffers(io), Pages::Base)?;
        match io.sampling {
            Sampling::Window { .. } => admit_samples(io.sampling).map(|()| devices),
            Sampling::Repetitions { .. } => refused("run", "streams have no repetitions"),
        }
    }

    /// Returns the device of a path: a disk by the name of its file, a GPU by its index, and for
    /// TCP the interface with the index of the path among those of the workload.
    fn device_of_path(&self, index: usize, through: &IoPath) -> Result<SimulatedDevice<'_>, ProbeError> {
        let of_kind = |kind| self.spec.devices.iter().filter(move |device| device.kind == kind);
        let named = |device: &&DeviceSpec, path: &str| {
            path.rsplit_once('/').is_some_and(|(_, name)| device.names.iter().any(|other| other == name))
        };
        let device = match through {
            IoPath::Disk(disk) => self.spec.devices.iter().find(|device| named(device, &disk.path)),
            IoPath::Tcp(_) => of_kind(DeviceKind::Network).filter(|device| device.io.is_some()).nth(index),
            IoPath::Gpu { device } => of_kind(DeviceKind::Gpu).nth(*device as usize),
            IoPath::Null => None,
        };
        let found =
            device.and_then(|device| Some(SimulatedDevice { spec: device.io.as_ref()?, node: device.node }));
        found.ok_or_else(|| ProbeError::Unsupported { feature: through.name() })
    }

    /// Returns the bytes per second of each group.
    fn io_rates(&self, devices: &[SimulatedDevice], io: &IoWorkload) -> Vec<f64> {
        let request = Request { bytes: io.block_bytes as f64, depth: f64::from(io.depth) };
        let key = |group: &StreamGroup| StreamKey {
            direction: group.direction,
            device: group.device,
            memory: group.memory,
            cpu: match devices[group.device].spec.rates(group.direction).copied {
                true => group.cpus.iter().next(),
                false => None,
            },
        };
        let mut streams: BTreeMap<StreamKey, u32> = BTreeMap::new();
        for group in &io.groups {
            *streams.entry(key(group)).or_default() += group.streams;
        }
        let mut rates: BTreeMap<StreamKey, f64> = BTreeMap::new();
        for direction in [Direction::Write, Direction::Read] {
            let of_direction = streams.iter().filter(|(key, _)| key.direction == direction);
            let flows: Vec<BufferFlow> =
                of_direction.map(|(key, streams)| BufferFlow { key: *key, streams: *streams }).collect();
            // Sharing without streams would give the loads their bandwidth without streams.
            if flows.is_empty() {
                continue;
            }
            let paths = self.paths_of_buffers(devices, direction, &flows);
            for (index, device) in devices.iter().enumerate() {
                let own = flows.iter().zip(&paths).filter(|(flow, _)| flow.key.device == index);
                let own: Vec<(&BufferFlow, f64)> = own.map(|(flow, path)| (flow, *path)).collect();
                let shared = self.shared(*device, direction, &own, request);
                rates.extend(own.iter().map(|(flow, _)| flow.key).zip(shared));
            }
        }
        let of_group = |group: &StreamGroup| {
            let all = streams.get(&key(group)).copied().unwrap_or(1).max(1);
            rates.get(&key(group)).copied().unwrap_or(0.0) * f64::from(group.streams) / f64::from(all)
        };
        io.groups.iter().map(of_group).collect()
    }

    /// Returns the bytes per second of a device's streams by node in one direction, given the rates
    /// of their paths.
    fn shared(
        &self,
        device: SimulatedDevice<'_>,
        direction: Direction,
        flows: &[(&BufferFlow, f64)],
        request: Request,
    ) -> Vec<f64> {
        let rates = device.spec.rates(direction);
        let demand = |(flow, path): &(&BufferFlow, f64)| NodeDemand {
            position: self.spec.nodes.iter().position(|other| other.id == flow.key.memory).unwrap_or(0),
            streams: f64::from(flow.streams),
            path: *path,
            stream: rates.stream.unwrap_or(f64::INFINITY).min(self.copied_rate(
                flow.key,
                device.node,
                request,
            )),
        };
        let nodes: Vec<NodeDemand> = flows.iter().map(demand).collect();
        rule_rates(&rates.sharing, rates.cap, &nodes, request)
    }

    /// Returns the bytes per second of a stream whose CPU copies each request between its buffer
    /// and memory of the device's node; infinite if it copies nothing.
    ///
    /// A request also takes the time of a system call and the dependent accesses of a message.
    fn copied_rate(&self, key: StreamKey, device: Option<NodeId>, request: Request) -> f64 {
        let Some((cpu, device)) = key.cpu.zip(device) else { return f64::INFINITY };
        let flow = match key.direction {
            Direction::Write => Flow { source: key.memory, sink: device },
            Direction::Read => Flow { source: device, sink: key.memory },
        };
        let accesses = super::ping::ACCESSES * self.wiring.latency_ns(cpu, device, None);
        let copy = self.wiring.seconds_to_copy(&CpuSet::from_iter([cpu]), flow, CopyLoop::Memcpy, 1);
        request.bytes / ((REQUEST_NS as f64 + accesses) * 1e-9 + request.bytes * copy)
    }

    /// Returns the bytes per second of the paths to buffers beside the load and the other devices.
    fn paths_of_buffers(
        &self,
        devices: &[SimulatedDevice],
        direction: Direction,
        flows: &[BufferFlow],
    ) -> Vec<f64> {
        let of = |flow: &BufferFlow| {
            self.path_of_buffers(devices[flow.key.device].spec.rates(direction), flow.key.memory)
        };
        let paths: Vec<f64> = flows.iter().map(of).collect();
        let device_flow = |(flow, path): (&BufferFlow, &f64)| {
            let device = devices[flow.key.device].node?;
            Some(DeviceFlow {
                device,
                memory: flow.key.memory,
                direction,
                streams: flow.streams,
                path: *path,
            })
        };
        let shared: Option<Vec<DeviceFlow>> = flows.iter().zip(&paths).map(device_flow).collect();
        match shared {
            Some(shared) => self.wiring.device_rates(&shared, devices.len() > 1),
            None => paths,
        }
    }

    /// Returns the bytes per second of the path to buffers on a node, some of which may be
    /// misplaced.
    fn path_of_buffers(&self, rates: &IoRates, node: NodeId) -> f64 {
        let of = |node: NodeId| {
            let place = self.spec.nodes.iter().position(|other| other.id == node);
            place.and_then(|place| rates.nodes.get(place)).copied().unwrap_or(0.0)
        };
        let misplaced = self.spec.noise.misplaced.iter().find(|pages| pages.node == node);
        match misplaced {
            Some(pages) => 1.0 / ((1.0 - pages.share) / of(node) + pages.share / of(pages.found_on)),
            None => of(node),
        }
    }

    pub(super) fn io(&self, io: &IoWorkload) -> Result<IoOutcome, ProbeError> {
        let devices = self.admit_io(io)?;
        let node = io.groups.first().map_or(NodeId(0), |group| group.memory);
        let (mut random, factor) = self.next_run(Flow { source: node, sink: node });
        let rates: Vec<f64> = self.io_rates(&devices, io).iter().map(|rate| rate * factor).collect();
        let (ns, slices, cut) = self.slices(io, rates.iter().sum());
        // A stall stops all groups of a device at once.
        let direction = io.groups.first().map_or(Direction::Read, |group| group.direction);
        let of_device =
            |device: &SimulatedDevice| stall_factors(device.spec.rates(direction), slices, &mut random);
        let bursts: Vec<Vec<f64>> = devices.iter().map(of_device).collect();
        let group = |(group, rate): (&StreamGroup, &f64)| {
            let samples = self.io_samples(*rate, ns, &bursts[group.device], &mut random);
            let bytes = samples.iter().map(|sample| sample.bytes).fold(0, u64::saturating_add);
            let residency = self.residency(&[buffer(io, group)], Pages::Base);
            IoGroupOutcome { samples, requests: bytes.div_ceil(io.block_bytes), residency }
        };
        let groups: Vec<IoGroupOutcome> = io.groups.iter().zip(&rates).map(group).collect();
        let streams = u64::from(io.streams());
        let start_skew_ns = start_skew_ns(streams, &mut random);
        let requests = groups.iter().map(|group| group.requests).fold(0, u64::saturating_add);
        let residencies = groups.iter().map(|group| &group.residency);
        let per_stream = io.block_bytes as f64 * f64::from(io.depth);
        let preparation_ns = residencies
            .map(|residency| self.preparation_ns(streams, per_stream, residency))
            .fold(0, u64::saturating_add);
        // The warm-up is as long as a slice.
        let elapsed_ns = [ns.saturating_mul(u64::from(slices) + 1), preparation_ns, start_skew_ns]
            .into_iter()
            .fold(0, u64::saturating_add);
        let cpus: CpuSet = io.groups.iter().flat_map(|group| group.cpus.iter()).collect();
        self.pass(elapsed_ns, &cpus);
        let cpu_ns = requests.saturating_mul(REQUEST_NS);
        Ok(IoOutcome {
            groups,
            elapsed_ns,
            start_skew_ns,
            cpu_ns,
            peer: None,
            notes: Vec::new(),
            interrupted: cut,
        })
    }

    /// Returns the duration of a slice in nanoseconds, the number of slices, and why the run ends
    /// early.
    fn slices(&self, io: &IoWorkload, bytes_per_s: f64) -> (u64, u32, Option<String>) {
        let Sampling::Window { milliseconds, slices } = io.sampling else { return (1, 0, None) };
        let ns = (u64::from(milliseconds) * 1_000_000 / u64::from(slices)).max(1);
        let Some(most) = io.max_bytes else { return (ns, slices, None) };
        let of_slice = (bytes_per_s * ns as f64 / 1e9).max(1.0);
        // The warm-up moves bytes too.
        let room = (most as f64 / of_slice).floor() as u64;
        match u32::try_from(room.saturating_sub(1)) {
            Ok(room) if room < slices => (ns, room, Some(format!("{most} bytes were moved"))),
            _ => (ns, slices, None),
        }
    }

    fn io_samples(&self, rate: f64, ns: u64, bursts: &[f64], random: &mut Random) -> Vec<IoSample> {
        let deviation = self.spec.noise.sample;
        let mut bytes = |burst: &f64| (rate * burst * random.factor(deviation) * ns as f64 / 1e9) as u64;
        bursts.iter().map(|burst| IoSample { bytes: bytes(burst).max(1), ns }).collect()
    }
}

/// Share of samples with a stall.
const STALLED_SAMPLES: f64 = 0.25;

/// Returns a factor of each sample; their mean is 1. A stall falls into one sample of four, so that
/// the median of samples is above the mean.
fn stall_factors(rates: &IoRates, slices: u32, random: &mut Random) -> Vec<f64> {
    let Some(stalls) = rates.stalls else { return vec![1.0; slices as usize] };
    let between = 1.0 / (1.0 - stalls);
    let within = (1.0 - (1.0 - STALLED_SAMPLES) * between) / STALLED_SAMPLES;
    let stalled = (f64::from(slices) * STALLED_SAMPLES + random.unit()).floor() as u32;
    let mut factors: Vec<f64> =
        (0..slices).map(|slice| if slice < stalled { within } else { between }).collect();
    for index in (1..factors.len()).rev() {
        factors.swap(index, (random.unit() * (index + 1) as f64) as usize);
    }
    factors
}

/// Returns the buffers of each group: node, bytes per stream, and number.
fn buffers(io: &IoWorkload) -> Vec<(NodeId, u64, u64)> {
    io.groups.iter().map(|group| buffer(io, group)).collect()
}

fn buffer(io: &IoWorkload, group: &StreamGroup) -> (NodeId, u64, u64) {
    (group.memory, io.block_bytes.saturating_mul(u64::from(io.depth)), u64::from(group.streams))
}
