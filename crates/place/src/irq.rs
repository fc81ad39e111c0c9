//! CPUs to serve a device: each queue's interrupts on one core of its node, and packets likewise
//! (`Documentation/networking/scaling.rst`).

use numaio_machine::control::{queue_list, Change};
use numaio_machine::devices::Device;
use numaio_machine::ids::{CpuId, NodeId};
use numaio_machine::locate::{Locate, LocateExt};
use numaio_machine::set::CpuSet;
use numaio_machine::steering::{self, NetQueues};
use numaio_machine::sysfs::Sysfs;
use numaio_machine::topology::Topology;
use numaio_schema::{AppliedChange, DeviceIrqs, IrqPlan, QueueIrq};
use std::collections::{BTreeMap, BTreeSet};

/// Entries of the machine's flow table for receive flow steering, as scaling.rst suggests.
const FLOWS: u32 = 32_768;

/// Options of a plan.
#[derive(Debug, Clone, Default)]
pub struct IrqRequest {
    /// CPUs reserved for tasks.
    pub tasks: CpuSet,
    /// Isolated CPUs, to leave undisturbed; see [`Topology::isolated_cpus`].
    pub isolated: CpuSet,
    /// Whether to use receive flow steering, a setting of the machine.
    pub flow_steering: bool,
    /// Whether to divide received packets among the queues of the serving cores only.
    pub receive_scaling: bool,
    /// Node whose CPUs serve the devices; `None` for the node of each device.
    pub node: Option<NodeId>,
}

/// Reads the interrupts and queues of a device.
pub fn read_device(root: &dyn Sysfs, locate: &dyn Locate, device: &Device) -> DeviceIrqs {
    let irqs = device.irqs.iter().map(|irq| QueueIrq {
        queue: steering::queue_of_device(&irq.name, &device.names),
        fixed: steering::unmovable_reason(root, irq),
        irq: irq.clone(),
    });
    let with_table = |queues: NetQueues| NetQueues {
        receive_table: locate.receive_table(&queues.interface).ok(),
        ..queues
    };
    DeviceIrqs {
        device: device.name(),
        node: device.locality.node,
        irqs: irqs.collect(),
        interfaces: steering::queues(root, device).into_iter().map(with_table).collect(),
    }
}

/// Plans interrupts and packet steering; `entries` is the current size of the flow table.
///
/// Devices of one node start on different cores, so that their queues spread over all of them.
pub fn plan(
    topology: &Topology,
    devices: &[DeviceIrqs],
    entries: Option<u32>,
    request: &IrqRequest,
) -> IrqPlan {
    let mut plan = IrqPlan::default();
    let mut used_ranks: BTreeMap<CpuId, usize> = BTreeMap::new();
    for device in devices {
        let mut cores = cores(topology, device, request, &mut plan);
        let Some(first) = cores.first().map(|core| core.cpu) else { continue };
        let start = used_ranks.entry(first).or_default();
        let shift = *start % cores.len();
        *start += ranks(device).len().max(1);
        cores.rotate_left(shift);
        plan.cpus = plan.cpus.union(&cores.iter().map(|core| core.cpu).collect());
        interrupts(device, &cores, request, &mut plan);
        for interface in &device.interfaces {
            receive_table(device, interface, &cores, request, &mut plan);
            receive(interface, &cores, entries, request, &mut plan);
            transmit(topology, interface, &cores, &mut plan);
        }
    }
    plan
}

/// A serving core: the CPU that handles interrupts, and all its hardware threads.
struct Core {
    cpu: CpuId,
    threads: CpuSet,
}

/// Returns the cores for a device's interrupts: those of its node that no task uses, if any.
fn cores(topology: &Topology, device: &DeviceIrqs, request: &IrqRequest, plan: &mut IrqPlan) -> Vec<Core> {
    let name = &device.device;
    let (node, why) = match request.node {
        Some(node) => (Some(node), format!("uses CPUs of node {node}, as requested")),
        None => serving_node(topology, device.node),
    };
    plan.reasons.push(format!("{name}: {why}"));
    let none = CpuSet::new();
    let all_cores = cores_of_node(topology, node, &none, &none);
    let unisolated = cores_of_node(topology, node, &none, &request.isolated);
    let isolated = threads(&all_cores).intersection(&request.isolated);
    let (usable, avoided) =
        if unisolated.is_empty() { (all_cores, &none) } else { (unisolated, &request.isolated) };
    let free = cores_of_node(topology, node, &request.tasks, avoided);
    if !isolated.is_empty() {
        plan.reasons.push(match avoided.is_empty() {
            false => format!("{name}: CPUs {isolated} are isolated and are not used"),
            true => format!(
                "{name}: all CPUs of this node are isolated, but used anyway, since other nodes are slower"
            ),
        });
    }
    match (usable.len(), free.len()) {
        (0, _) => plan.rejected.push(format!("{name}: all of these CPUs are offline")),
        (_, 0) => plan.reasons.push(format!(
            "{name}: tasks use all cores of this node; interrupts share them, since other nodes are slower"
        )),
        (usable, free) if free < usable => {
            plan.reasons.push(format!("{name}: {} cores are reserved for tasks", usable - free));
        }
        _ => {}
    }
    if free.is_empty() {
        usable
    } else {
        free
    }
}

/// Returns the node whose CPUs serve a device, none for all nodes, and the reason.
fn serving_node(topology: &Topology, node: Option<NodeId>) -> (Option<NodeId>, String) {
    let has_cpus = |id: &NodeId| topology.node(*id).is_some_and(|node| !node.cpus.is_empty());
    let Some(own) = node else {
        return (None, "its node is unknown, so all CPUs are considered equally near".to_owned());
    };
    if has_cpus(&own) {
        return (
            Some(own),
            format!("uses CPUs of its own node {own}, whose caches and memory its DMA reaches fastest"),
        );
    }
    let distance = |id: &NodeId| topology.distances.as_ref().and_then(|it| it.between(own, *id));
    let packages = |id: NodeId| topology.node(id).map_or(&[][..], |node| &node.packages);
    let is_other = |id: &NodeId| !packages(*id).iter().any(|package| packages(own).contains(package));
    let order = |id: &NodeId| (distance(id).unwrap_or(u32::MAX), is_other(id), *id);
    let nearest = topology.cpu_nodes().iter().min_by_key(order);
    let why = match nearest {
        Some(id) => format!("its node {own} has no CPUs; node {id} is the nearest node with CPUs"),
        None => "found no node with CPUs".to_owned(),
    };
    (nearest, why)
}

/// Returns the cores of a node without those that tasks use. Interrupts go to each core's first
/// thread that is not avoided.
fn cores_of_node(topology: &Topology, node: Option<NodeId>, tasks: &CpuSet, avoided: &CpuSet) -> Vec<Core> {
    let online = topology.cpus.iter().filter(|cpu| cpu.online && (node.is_none() || cpu.node == node));
    let candidates = online.filter(|cpu| !avoided.contains(cpu.id));
    let mut seen = CpuSet::new();
    let mut cores = Vec::new();
    for cpu in candidates {
        let threads = cpu.siblings.union(&CpuSet::one(cpu.id));
        let is_free = threads.intersection(tasks).is_empty();
        if !seen.contains(cpu.id) && is_free {
            cores.push(Core { cpu: cpu.id, threads: threads.clone() });
        }
        seen = seen.union(&threads);
    }
    cores
}

/// Assigns each queue's interrupts to its own core, round robin if there are fewer cores.
///
/// Interrupts without a queue go to all cores, unless each is already bound to one of them.
fn interrupts(device: &DeviceIrqs, cores: &[Core], request: &IrqRequest, plan: &mut IrqPlan) {
    let name = &device.device;
    let is_single = device.irqs.len() == 1;
    let ranks = ranks(device);
    // A core may have both isolated and other threads; isolated ones serve only if there are no
    // others.
    let local = match cores.iter().all(|core| request.isolated.contains(core.cpu)) {
        true => threads(cores),
        false => threads(cores).difference(&request.isolated),
    };
    let before = plan.changes.len();
    let mut queue_changes = 0;
    for irq in device.irqs.iter().filter(|irq| irq.fixed.is_none()) {
        let rank = irq.queue.and_then(|queue| ranks.get(&queue).copied()).or(is_single.then_some(0));
        let cpus = match rank {
            Some(rank) => CpuSet::one(cores[rank % cores.len()].cpu),
            // It may belong to a queue although its name does not indicate it: one CPU is
            // deliberate.
            None if irq.irq.affinity.len() == 1 && irq.irq.affinity.is_subset(&local) => continue,
            // A rare interrupt: any near core will do.
            None => cores.iter().map(|core| core.cpu).collect(),
        };
        let at = |cpus: &CpuSet| Change::IrqAffinity { irq: irq.irq.number, cpus: cpus.clone() };
        queue_changes += usize::from(rank.is_some() && cpus != irq.irq.affinity);
        add(plan, at(&cpus), at(&irq.irq.affinity));
    }
    report_unmovable(device, plan);
    let is_shared = ranks.len() > cores.len();
    match (queue_changes, plan.changes.len() - before) {
        (0, 0) if device.irqs.iter().all(|irq| irq.fixed.is_some()) => {}
        (0, 0) => plan.reasons.push(format!("{name}: its interrupts are already on the best cores")),
        (0, _) => {
            plan.reasons.push(format!("{name}: interrupts without a queue may go to any core of this node"))
        }
        _ if is_shared => plan.reasons.push(format!(
            "{name}: the interrupts of its {} queues share {} cores round robin",
            ranks.len(),
            cores.len()
        )),
        _ => plan.reasons.push(format!("{name}: each queue's interrupts go to a separate core")),
    }
}

/// Returns all hardware threads of cores.
fn threads(cores: &[Core]) -> CpuSet {
    cores.iter().fold(CpuSet::new(), |all, core| all.union(&core.threads))
}

/// Reports the interrupts that cannot be moved, and why.
fn report_unmovable(device: &DeviceIrqs, plan: &mut IrqPlan) {
    let mut by_why: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for irq in &device.irqs {
        if let Some(why) = &irq.fixed {
            let name =
                if irq.irq.name.is_empty() { irq.irq.number.to_string() } else { irq.irq.name.clone() };
            by_why.entry(why).or_default().push(name);
        }
    }
    for (why, names) in by_why {
        let names = match names.as_slice() {
            [first, .., last] if names.len() > 3 => format!("{first} to {last}"),
            names => names.join(", "),
        };
        plan.rejected.push(format!("{}: {names} cannot be moved: {why}", device.device));
    }
}

/// Plans RPS if there are fewer receive queues than cores: the cores are divided among the queues.
///
/// With a queue for each core, RPS would only add work.
fn receive(
    interface: &NetQueues,
    cores: &[Core],
    entries: Option<u32>,
    request: &IrqRequest,
    plan: &mut IrqPlan,
) {
    let name = &interface.interface;
    let queues = interface.receive.len();
    if interface.receive.iter().all(|queue| queue.rps_cpus.is_none()) {
        plan.rejected.push(format!("{name}: no RPS: this kernel is built without it"));
        return;
    }
    if cores.iter().all(|core| request.isolated.contains(core.cpu)) {
        plan.rejected.push(format!("{name}: no RPS: the kernel does not steer packets to isolated CPUs"));
        return;
    }
    let spread = queues < cores.len();
    plan.reasons.push(match spread {
        true => format!(
            "{name}: fewer receive queues ({queues}) than cores ({}), so RPS distributes packets",
            cores.len()
        ),
        false => format!("{name}: a receive queue for each core, so RPS would only add work"),
    });
    if spread && !request.flow_steering {
        plan.rejected.push(format!(
            "{name}: no RFS, which steers packets to their reader's CPU: it is a setting of the machine (--rfs)"
        ));
    }
    let target_entries = entries.filter(|_| request.flow_steering && spread).map(|now| now.max(FLOWS));
    if let (Some(now), Some(target)) = (entries, target_entries) {
        add(plan, Change::SockFlowEntries { entries: target }, Change::SockFlowEntries { entries: now });
    }
    for (rank, queue) in interface.receive.iter().enumerate() {
        let number = queue.queue;
        if let Some(now) = &queue.rps_cpus {
            let at = |cpus: CpuSet| Change::RpsCpus { interface: name.clone(), queue: number, cpus };
            let share = cores.iter().skip(rank).step_by(queues.max(1)).map(|core| core.cpu);
            let cpus = if spread { share.collect() } else { CpuSet::new() };
            add(plan, at(cpus), at(now.clone()));
        }
        if let (Some(now), Some(target)) = (queue.flows, target_entries) {
            let at = |flows| Change::RpsFlows { interface: name.clone(), queue: number, flows };
            add(plan, at(power_of_two(target / queues as u32)), at(now));
        }
    }
}

/// Plans RSS: the card divides packets among one queue of each serving core, so that a queue whose
/// interrupt stays elsewhere gets none.
fn receive_table(
    device: &DeviceIrqs,
    interface: &NetQueues,
    cores: &[Core],
    request: &IrqRequest,
    plan: &mut IrqPlan,
) {
    let name = &interface.interface;
    let Some(now) = interface.receive_table.as_ref().filter(|table| !table.is_empty()) else { return };
    let serving: CpuSet = cores.iter().map(|core| core.cpu).collect();
    let cpu_of = |queue: u32| queue_cpus(device, queue, plan).first();
    let mut served: BTreeMap<CpuId, u32> = BTreeMap::new();
    for queue in interface.receive.iter().map(|queue| queue.queue) {
        if let Some(cpu) = cpu_of(queue).filter(|cpu| serving.contains(*cpu)) {
            served.entry(cpu).or_insert(queue);
        }
    }
    let mut queues: Vec<u32> = served.into_values().collect();
    queues.sort_unstable();
    if queues.is_empty() {
        plan.rejected.push(format!("{name}: no RSS: no queue has its interrupts on these cores"));
        return;
    }
    let target: Vec<u32> = queues.iter().copied().cycle().take(now.len()).collect();
    if target == *now {
        plan.reasons.push(format!("{name}: RSS already uses one queue of each core"));
        return;
    }
    let listed = queue_list(&queues);
    if !request.receive_scaling {
        plan.rejected.push(format!(
            "{name}: RSS uses queues {} where {listed} have a core each (--rss changes it)",
            queue_list(now)
        ));
        return;
    }
    plan.reasons.push(format!("{name}: RSS divides packets among queues {listed}, one for each core"));
    let at = |queues: &[u32]| Change::ReceiveTable { interface: name.clone(), queues: queues.to_vec() };
    add(plan, at(&target), at(now));
}

/// Returns the CPUs of a queue's interrupts after the plan.
fn queue_cpus(device: &DeviceIrqs, queue: u32, plan: &IrqPlan) -> CpuSet {
    let Some(irq) = device.irqs.iter().find(|irq| irq.queue == Some(queue)) else { return CpuSet::new() };
    let planned = plan.changes.iter().find_map(|applied| match &applied.change {
        Change::IrqAffinity { irq: number, cpus } if *number == irq.irq.number => Some(cpus.clone()),
        _ => None,
    });
    planned.unwrap_or_else(|| irq.irq.effective.clone().unwrap_or_else(|| irq.irq.affinity.clone()))
}

/// Rounds down to a power of two; 1 for 0.
fn power_of_two(number: u32) -> u32 {
    1 << number.max(1).ilog2()
}

/// Plans XPS: every CPU sends through one queue, and a serving core through its own.
fn transmit(topology: &Topology, interface: &NetQueues, cores: &[Core], plan: &mut IrqPlan) {
    let queues = interface.transmit.len();
    let steerable: Vec<_> =
        interface.transmit.iter().filter_map(|it| Some((it.queue, it.xps_cpus.as_ref()?))).collect();
    let name = &interface.interface;
    if queues < 2 || steerable.len() < queues {
        let why = if queues < 2 { "it has one transmit queue" } else { "this kernel is built without it" };
        plan.rejected.push(format!("{name}: no XPS: {why}"));
        return;
    }
    let mut shares = vec![CpuSet::new(); queues];
    let mut assign = |rank: usize, cpus: &CpuSet| shares[rank % queues] = shares[rank % queues].union(cpus);
    cores.iter().enumerate().for_each(|(rank, core)| assign(rank, &core.threads));
    let served = threads(cores);
    let others = topology.cpus.iter().filter(|cpu| cpu.online && !served.contains(cpu.id));
    others.enumerate().for_each(|(rank, cpu)| assign(rank, &CpuSet::one(cpu.id)));
    for ((queue, now), cpus) in steerable.into_iter().zip(shares) {
        let at = |cpus| Change::XpsCpus { interface: name.clone(), queue, cpus };
        add(plan, at(cpus), at(now.clone()));
    }
    plan.reasons.push(format!(
        "{name}: each CPU sends through one of {queues} transmit queues, which avoids lock contention"
    ));
}

/// Ranks the queues with interrupts, from 0 in ascending order.
fn ranks(device: &DeviceIrqs) -> BTreeMap<u32, usize> {
    let queues: BTreeSet<u32> = device.irqs.iter().filter_map(|irq| irq.queue).collect();
    queues.into_iter().zip(0..).collect()
}

/// Adds a change, unless the value is current or the plan already changes the setting.
fn add(plan: &mut IrqPlan, change: Change, inverse: Change) {
    let is_new = !plan.changes.iter().any(|applied| applied.change.is_same_setting(&change));
    if change != inverse && is_new {
        plan.changes.push(AppliedChange { change, inverse });
    }
}
