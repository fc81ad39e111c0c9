//! Queues of network interfaces and drives, and the CPUs that serve them.

use super::shell::{operand, option, word};
use super::symptom::{Effect, Fix, Symptom};
use crate::devices::{Device, DeviceKind};
use crate::finding::{Finding, Severity};
use crate::findings::matters;
use crate::set::CpuSet;
use crate::steering::{self, NetQueues};
use crate::sysfs::Sysfs;
use crate::topology::Topology;

/// Link speed above which one core rarely keeps up, in bits per second.
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

/// Returns the cores of the device's node that this process may use.
fn cores_near(topology: &Topology, device: &Device) -> usize {
    device.locality.node.map_or(0, |node| topology.cores(node).len())
}

/// Reports an interface whose packets are handled by fewer cores than its node has
/// (`Documentation/networking/scaling.rst`).
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
        finding: Finding::new(
            if is_fast { Severity::Warning } else { Severity::Note },
            "queues-few",
            name,
            format!("It has {number} receive queue{} for {cores} cores of its node, and RPS is off: the other cores process no packets.", s(number)),
            format!("/sys/class/net/{name}/queues: {}; rx-0/rps_cpus: 0", numbered(number)),
            format!("Distribute packets by RPS, or configure more queues if supported (see ethtool -l {}).", word(name)),
        ),
        device: None,
        target: device.locality.node,
        effect: Effect::Unquantified("measure before and after with numaio bench net and several streams".to_owned()),
        fix,
    })
}

/// Moves interrupts with numaio, under the name by which numaio records the change.
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

/// Reports RPS to CPUs of other nodes, which fetch the packets across the interconnect.
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
        finding: Finding::new(
            Severity::Warning,
            "rps-foreign-node",
            name,
            format!(
                "RPS steers packets of {} of {} receive queues to CPUs outside its node {}, such as {cpus}.",
                found.len(),
                queues.receive.len(),
                node.id
            ),
            format!(
                "/sys/class/net/{name}/queues/rx-{queue}/rps_cpus: CPUs {}",
                queues
                    .receive
                    .iter()
                    .find(|it| it.queue == *queue)
                    .and_then(|it| it.rps_cpus.clone())
                    .unwrap_or_default()
            ),
            "Restrict RPS to CPUs of its node.",
        ),
        device: None,
        target: Some(node.id),
        effect: Effect::Unquantified(
            "CPUs fetch the packets across nodes, without device copies: measure before and after with \
             numaio bench net"
                .to_owned(),
        ),
        fix: by_numaio(topology, device),
    })
}

/// Reports a drive with fewer queues than CPUs: some CPUs share a queue and its lock.
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
        finding: Finding::new(
            Severity::Note,
            "queues-few",
            device.distinct_name(&topology.devices),
            format!("It has {number} queue{} for {online} CPUs: several CPUs share each.", s(number)),
            format!("/proc/interrupts: {first} and {} more", number - 1),
            "Run the programs that use it on at most as many cores as it has queues.",
        ),
        device: None,
        target: device.locality.node,
        effect: Effect::Unquantified(format!(
            "measure with more streams than queues: numaio bench disk {} --direction read",
            option("--device", &device.name())
        )),
        fix: Fix::none(),
    })
}
