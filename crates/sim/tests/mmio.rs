//! Reads of registers of simulated devices.

use numaio_machine::conformance;
use numaio_machine::devices::MmioRegister;
use numaio_machine::ids::CpuId;
use numaio_machine::probe::{ProbeError, ProbeExt};
use numaio_machine::workload::MmioWorkload;
use numaio_sim::{shapes, Simulated, Spec};

/// Reads of the first register of a device.
fn reads(spec: &Spec, name: &str, cpu: u32) -> MmioWorkload {
    let device = spec.devices.iter().find(|device| device.names == [name]).expect("a device");
    let register = MmioRegister { pci: device.pci, bar: 0, offset: 8 };
    MmioWorkload { register, cpu: CpuId(cpu), reads: 100, slices: 10 }
}

fn machine() -> (Spec, Simulated) {
    let spec = shapes::dl585();
    (spec.clone(), Simulated::new(spec).expect("a machine"))
}

#[test]
fn implementation_passes_the_conformance_test() {
    let (spec, machine) = machine();
    for name in ["eth0", "nvme0n1"] {
        conformance::mmio(&machine, &reads(&spec, name, 0));
    }
}

#[test]
fn reads_are_fastest_from_the_node_of_the_device() {
    let (spec, machine) = machine();
    let ns = |node: usize| {
        let cpu = spec.nodes[node].cpus.first().expect("a CPU");
        machine.mmio_truth(&reads(&spec, "eth0", cpu.0)).expect("a time")
    };
    let local = spec.nodes.iter().position(|node| node.id.0 == 7).expect("the adapter's node");
    assert_eq!(ns(local), 700.0);
    for node in (0..spec.nodes.len()).filter(|node| *node != local) {
        assert!(ns(node) > 700.0, "node index {node}: {}", ns(node));
    }
}

#[test]
fn unbound_devices_do_not_answer() {
    let (mut spec, _) = machine();
    spec.devices.iter_mut().filter(|device| device.names == ["eth0"]).for_each(|device| {
        device.driver = None;
    });
    let machine = Simulated::new(spec.clone()).expect("a machine");
    let refused = machine.mmio(&reads(&spec, "eth0", 0)).expect_err("no driver has enabled the memory");
    let ProbeError::Refused { reason: why, .. } = &refused else { panic!("{refused:?}") };
    assert!(why.contains("does not respond to memory accesses"), "{why}");
}
