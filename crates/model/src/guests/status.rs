//! The state of a guest, with the cost of what is remote.

use crate::{best_nodes, diagnose, BandwidthSubject, MachineEvidence, RankingSources};
use numaio_machine::checkup::{guest_symptoms, Symptom};
use numaio_machine::guests::{Guest, GuestDevice};
use numaio_machine::ids::NodeId;
use numaio_schema::{GuestStatus, IoRecord, Model};
use std::collections::BTreeMap;

/// Returns the symptoms of a guest that uses these devices: what is not on their best nodes.
pub fn remote_symptoms(evidence: &MachineEvidence, guest: &Guest, devices: &[GuestDevice]) -> Vec<Symptom> {
    let topology = evidence.topology;
    let models: Vec<&Model> = evidence.models.iter().collect();
    let records: Vec<&IoRecord> = evidence.io.iter().collect();
    let sources = RankingSources { models: &models, records: &records, ..RankingSources::default() };
    let best = |used: &GuestDevice| {
        let device = used.index.and_then(|index| topology.devices.get(index));
        let name = used.device.as_deref().unwrap_or_default();
        let mut best = best_nodes(topology, BandwidthSubject::new(name, used.node, device), sources);
        best.extend(used.node);
        best
    };
    guest_symptoms(topology, guest, devices, &best)
}

/// Describes a guest that uses these devices, and computes the cost of what is remote.
pub fn guest_status(evidence: &MachineEvidence, guest: Guest, devices: Vec<GuestDevice>) -> GuestStatus {
    let topology = evidence.topology;
    let symptoms = remote_symptoms(evidence, &guest, &devices);
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
