//! Queues of network interfaces, and where their packets are sent.

use super::{finding, operand, option, word, Effect, Fix, Symptom};
use crate::devices::{Device, DeviceKind};
use crate::findings::{matters, Severity};
use crate::set::CpuSet;
use crate::steering::{self, NetQueues};
use crate::sysfs::Sysfs;
use crate::topology::Topology;

/// From this speed on one core seldom keeps up with a port, in bits per second.
const FAST: u64 = 10_000_000_000;

pub(super) fn symptoms(root: &dyn Sysfs, topology: &Topology) -> Vec<Symptom> {
    let devices = topology.devices.iter().enumerate().filter(|(_, device)| matters(device));
    devices
        .flat_map(|(index, device)| {
            let of_interfaces = steering::queues(root, device).into_iter().flat_map(|queues| {
                [few_queues(topology, device, &queues), far_steering(topology, device, &queues)]
            });
            let found = of_interfaces.chain([few_of_drive(topology, device)]).flatten();
            found.map(|symptom| Symptom { device: Some(index), ..symptom }).collect::<Vec<Symptom>>()
        })
        .collect()
}

/// Cores of the device's node that this process may use.
fn cores_near(topology: &Topology, device: &Device) -> usize {
    device.locality.node.map_or(0, |node| topology.cores(node).len())
}

/// Packets of an interface are handled by fewer cores than its node has (`Documentation/networking/scaling.rst`).
fn few_queues(topology: &Topology, device: &Device, queues: &NetQueues) -> Option<Symptom> {
    let cores = cores_near(topology, device);
    let number = queues.receive.len();
    let steered =
        queues.receive.iter().any(|queue| queue.rps_cpus.as_ref().is_some_and(|cpus| !cpus.is_empty()));
    if number == 0 || number >= cores || steered {
        return None;
    }
    let name = &queues.interface;
    let can_steer = queues.receive.iter().any(|queue| queue.rps_cpus.is_some());
    let is_fast = device.port_bits_per_s.is_some_and(|speed| speed >= FAST);
    let fix = match can_steer {
        true => by_numaio(topology, device),
        false => Fix::one(
            format!("ethtool -L {} combined {cores}", word(name)),
            format!("ethtool -L {} combined {number}", word(name)),
        ),
    };
    Some(Symptom {
        finding: finding(
            if is_fast { Severity::Warning } else { Severity::Note },
            "queues-few",
            name,
            format!("It has {number} receive queue{} for {cores} cores of its node, and RPS is off: the other cores take no packets.", s(number)),
            format!("/sys/class/net/{name}/queues: {}; rx-0/rps_cpus: 0", numbered(number)),
            format!("Share packets by RPS, or give it more queues where it has them (ethtool -l {} tells).", word(name)),
        ),
        device: None,
        target: device.locality.node,
        effect: Effect::Unquantified("numaio bench net, with several streams, before and after, shows it".to_owned()),
        fix,
    })
}

/// By the name under which it is remembered what was changed.
pub(super) fn by_numaio(topology: &Topology, device: &Device) -> Fix {
    let name = device.distinct_name(&topology.devices);
    let name = operand(&name);
    Fix::one(format!("numaio irq apply {name}"), format!("numaio irq undo {name}"))
}

fn s(number: usize) -> &'static str {
    if number == 1 {
        ""
    } else {
        "s"
    }
}

fn numbered(number: usize) -> String {
    match number {
        1 => "rx-0".to_owned(),
        number => format!("rx-0 to rx-{}", number - 1),
    }
}

/// RPS hands packets to CPUs of other nodes, which fetch them across the machine.
fn far_steering(topology: &Topology, device: &Device, queues: &NetQueues) -> Option<Symptom> {
    let node = topology.node(device.locality.node?).filter(|node| !node.cpus.is_empty())?;
    let far = |cpus: &CpuSet| cpus.difference(&node.cpus);
    let steered = |queue: &steering::ReceiveQueue| {
        let cpus = queue.rps_cpus.as_ref().map(far).filter(|far| !far.is_empty())?;
        Some((queue.queue, cpus))
    };
    let found: Vec<(u32, CpuSet)> = queues.receive.iter().filter_map(steered).collect();
    let (queue, cpus) = found.first()?;
    let name = &queues.interface;
    Some(Symptom {
        finding: finding(
            Severity::Warning,
            "rps-foreign-node",
            name,
            format!(
                "RPS hands packets of {} of {} receive queues to CPUs outside its node {}, as {cpus}.",
                found.len(),
                queues.receive.len(),
                node.id
            ),
            format!(
                "/sys/class/net/{name}/queues/rx-{queue}/rps_cpus: CPUs {}",
                queues.receive.iter().find(|it| it.queue == *queue).and_then(|it| it.rps_cpus.clone()).unwrap_or_default()
            ),
            "Keep RPS to CPUs of its node.",
        ),
        device: None,
        target: Some(node.id),
        effect: Effect::Unquantified(
            "packets are fetched across nodes by the CPU, not copied by the device: numaio bench net, before and after, \
             shows it"
                .to_owned(),
        ),
        fix: by_numaio(topology, device),
    })
}

/// A drive with fewer queues than the machine has CPUs: some share one, and its lock.
fn few_of_drive(topology: &Topology, device: &Device) -> Option<Symptom> {
    let queues: Vec<&str> = device
        .irqs
        .iter()
        .map(|irq| irq.name.as_str())
        .filter(|name| device.kind == DeviceKind::Nvme && steering::queue_of(name).is_some())
        .collect();
    let online = topology.cpus.iter().filter(|cpu| cpu.online).count();
    let (first, number) = (queues.first()?, queues.len());
    (number < online).then(|| Symptom {
        finding: finding(
            Severity::Note,
            "queues-few",
            device.distinct_name(&topology.devices),
            format!("It has {number} queue{} for {online} CPUs: several CPUs share each.", s(number)),
            format!("/proc/interrupts: {first} and {} more", number - 1),
            "Run programs that use it on as many cores as it has queues.",
        ),
        device: None,
        target: device.locality.node,
        effect: Effect::Unquantified(format!(
            "numaio bench disk {} --direction read, by more streams than queues, shows it",
            option("--device", &device.name())
        )),
        fix: Fix::none(),
    })
}
