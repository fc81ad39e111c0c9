//! The state of a guest, with the cost of what is remote.

use crate::{best_nodes, diagnose, BandwidthSubject, MachineEvidence};
use numaio_machine::checkup::guest_symptoms;
use numaio_machine::guests::{Guest, GuestDevice};
use numaio_machine::ids::NodeId;
use numaio_schema::{GuestStatus, Model};
use std::collections::BTreeMap;

/// Describes a guest that uses these devices, and computes the cost of what is remote.
pub fn guest_status(evidence: &MachineEvidence, guest: Guest, devices: Vec<GuestDevice>) -> GuestStatus {
    let topology = evidence.topology;
    let models: Vec<&Model> = evidence.models.iter().collect();
    let best = |node: NodeId| {
        let mut best = best_nodes(topology, BandwidthSubject::on(node), &models);
        best.insert(node);
        best
    };
    let symptoms = guest_symptoms(topology, &guest, &devices, &best);
    let mut vcpus_on: BTreeMap<NodeId, u32> = BTreeMap::new();
    for thread in guest.vcpus() {
        if let Some(node) = topology.cpu(thread.cpu).and_then(|cpu| cpu.node) {
            *vcpus_on.entry(node).or_default() += 1;
        }
    }
    GuestStatus {
        pid: guest.pid,
        start_time: guest.start_time,
        name: guest.name(),
        vcpus_on,
        bytes_on: guest.memory.as_ref().map(|memory| memory.bytes_on()),
        pinned: guest.is_pinned(),
        configuration: guest.configuration,
        threads: guest.threads,
        memory: guest.memory,
        devices,
        findings: diagnose(evidence, symptoms),
    }
}
