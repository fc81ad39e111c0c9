//! Ping-pong on the simulated machine, with a peer that adds no time of its own.

use super::{admit_samples, refused, Simulated};
use crate::spec::{DeviceSpec, IoRates};
use numaio_machine::devices::DeviceKind;
use numaio_machine::ids::NodeId;
use numaio_machine::probe::{PingOutcome, ProbeError};
use numaio_machine::workload::{Direction, Flow, Pages, PingWorkload, Sampling};

/// Time of a message in one direction without its bytes and without the machine: two stacks and a
/// wire.
const WIRE_NS: f64 = 10_000.0;
/// Dependent accesses of the thread to memory of the device's node for a message: descriptors,
/// completion, doorbell.
pub(super) const ACCESSES: f64 = 8.0;

impl Simulated {
    /// Returns the nanoseconds of a round trip without noise.
    ///
    /// A message has arrived when all its parts have, which use devices of their own.
    ///
    /// # Errors
    /// As [`numaio_machine::probe::Probe::run`].
    pub fn ping_truth(&self, ping: &PingWorkload) -> Result<f64, ProbeError> {
        self.admit_cpus(&ping.cpus)?;
        self.admit_buffers(&[(ping.memory, ping.bytes(), 1)], Pages::Base)?;
        admit_samples(Sampling::Window { milliseconds: ping.milliseconds, slices: ping.slices })?;
        let has_io = |device: &&DeviceSpec| device.kind == DeviceKind::Network && device.io.is_some();
        let mut devices = self.spec.devices.iter().filter(has_io);
        let (mut out, mut back) = (0.0f64, 0.0f64);
        for part in &ping.parts {
            let device = devices.next();
            let Some((device, io)) = device.and_then(|device| Some((device, device.io.as_ref()?))) else {
                return Err(ProbeError::Unsupported { feature: ping.peer.clone() });
            };
            if part.bytes > 0 {
                let access = WIRE_NS + ACCESSES * self.access_ns(ping, device.node);
                let one_way =
                    |rates: &IoRates| access + part.bytes as f64 / self.part_rate(rates, ping.memory) * 1e9;
                out = out.max(one_way(io.rates(Direction::Write)));
                back = back.max(one_way(io.rates(Direction::Read)));
            }
        }
        match out + back {
            ns if ns > 0.0 && ns.is_finite() => Ok(ns),
            _ => refused("run", "a message without bytes, or through a path without bandwidth"),
        }
    }

    /// Returns the latency in nanoseconds from the first CPU to memory of the device's node.
    fn access_ns(&self, ping: &PingWorkload, device: Option<NodeId>) -> f64 {
        let cpu = ping.cpus.iter().next();
        cpu.map_or(0.0, |cpu| self.wiring.latency_ns(cpu, device.unwrap_or(ping.memory), None))
    }

    /// Returns the bytes per second of one connection with its buffer on a node.
    fn part_rate(&self, rates: &IoRates, memory: NodeId) -> f64 {
        let place = self.spec.nodes.iter().position(|node| node.id == memory);
        let path = place.and_then(|place| rates.nodes.get(place)).copied().unwrap_or(0.0);
        path.min(rates.cap).min(rates.stream.unwrap_or(f64::INFINITY))
    }

    pub(super) fn ping(&self, ping: &PingWorkload) -> Result<PingOutcome, ProbeError> {
        let truth_ns = self.ping_truth(ping)?;
        let (mut random, factor) = self.next_run(Flow { source: ping.memory, sink: ping.memory });
        let slice_ns = (u64::from(ping.milliseconds) * 1_000_000 / u64::from(ping.slices)).max(1);
        let deviation = self.spec.noise.sample;
        // A hundred times of each slice suffice for a percentile.
        let mut time = || (truth_ns / factor / random.factor(deviation)).round() as u64;
        let slices: Vec<Vec<u64>> =
            (0..ping.slices).map(|_| (0..100).map(|_| time().max(1)).collect()).collect();
        let round_trips = (slice_ns as f64 / truth_ns).max(1.0) as u64 * u64::from(ping.slices);
        let elapsed_ns = slice_ns.max(truth_ns as u64).saturating_mul(u64::from(ping.slices) + 1);
        self.pass(elapsed_ns, &ping.cpus);
        let residency = self.residency(&[(ping.memory, ping.bytes(), 1)], Pages::Base);
        Ok(PingOutcome { round_trips, elapsed_ns, residency, ..PingOutcome::of_slices(&slices) })
    }
}
