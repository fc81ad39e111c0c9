//! Reads of a register of a simulated device.

use super::{refused, Simulated};
use numaio_machine::devices::{MmioRegister, RegisterRequest};
use numaio_machine::ids::{CpuId, NodeId};
use numaio_machine::probe::{MmioOutcome, ProbeError};
use numaio_machine::set::CpuSet;
use numaio_machine::workload::{Flow, MmioWorkload};

/// Time of a read from the device's own node: the host bridge, two traversals of a PCI Express
/// link, and the device.
const LOCAL_NS: f64 = 700.0;
/// Time of a reading of the clock.
const CLOCK_NS: u64 = 25;

impl Simulated {
    /// Returns the nanoseconds of a read without noise and without the clock.
    ///
    /// It is a constant from the device's node. From another node, the difference of the latencies
    /// of both nodes' loads from memory of the device's node is added: a read takes the same path
    /// to the host bridge as a load to the memory beside it.
    ///
    /// # Errors
    /// As [`numaio_machine::probe::Probe::run`].
    pub fn mmio_truth(&self, mmio: &MmioWorkload) -> Result<f64, ProbeError> {
        let reads = u64::from(mmio.reads) * u64::from(mmio.slices);
        if !(1..=MmioWorkload::MAX_READS).contains(&reads) {
            return refused("mmio", &format!("{reads} reads"));
        }
        self.admit_cpus(&CpuSet::one(mmio.cpu))?;
        let MmioRegister { pci, bar, offset } = mmio.register;
        let request = RegisterRequest { bar: Some(bar), offset: Some(offset) };
        if let Err(error) = MmioRegister::select(&*self.tree.borrow(), pci, request) {
            return refused("mmio", &error.to_string());
        }
        let device = self.spec.devices.iter().find(|device| device.pci == pci);
        let Some(node) = device.and_then(|device| device.node) else { return Ok(LOCAL_NS) };
        let latency_ns = |cpu: CpuId| self.wiring.latency_ns(cpu, node, None);
        let nearest = self.spec.online_cpus().iter().map(latency_ns).fold(f64::INFINITY, f64::min);
        Ok(LOCAL_NS + (latency_ns(mmio.cpu) - nearest).max(0.0))
    }

    pub(super) fn mmio(&self, mmio: &MmioWorkload) -> Result<MmioOutcome, ProbeError> {
        let truth_ns = self.mmio_truth(mmio)?;
        let device = self.spec.devices.iter().find(|device| device.pci == mmio.register.pci);
        let node = device.and_then(|device| device.node).unwrap_or(NodeId(0));
        let (mut random, factor) = self.next_run(Flow { source: node, sink: node });
        let deviation = self.spec.noise.sample;
        let mut time = || (truth_ns / factor / random.factor(deviation)).round() as u64 + CLOCK_NS;
        let slices: Vec<Vec<u64>> =
            (0..mmio.slices).map(|_| (0..mmio.reads).map(|_| time()).collect()).collect();
        let outcome = MmioOutcome::of_slices(&slices, &[CLOCK_NS]);
        let warm_up_ns = u64::from(mmio.reads) * truth_ns as u64;
        let elapsed_ns = slices.iter().flatten().fold(warm_up_ns, |sum, ns| sum.saturating_add(*ns));
        self.pass(elapsed_ns, &CpuSet::one(mmio.cpu));
        Ok(MmioOutcome { elapsed_ns, ..outcome })
    }
}
