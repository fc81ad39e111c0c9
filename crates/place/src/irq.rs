//! Which CPUs should serve a device: its interrupts one to each core of its node, and packets likewise
//! (`Documentation/networking/scaling.rst`).

use numaio_machine::control::Change;
use numaio_machine::devices::Device;
use numaio_machine::ids::{CpuId, NodeId};
use numaio_machine::set::CpuSet;
use numaio_machine::steering::{self, NetQueues};
use numaio_machine::sysfs::Sysfs;
use numaio_machine::topology::Topology;
use numaio_schema::{AppliedChange, DeviceIrqs, IrqPlan, QueueIrq};
use std::collections::{BTreeMap, BTreeSet};

/// Flows that the machine should remember for receive flow steering, as scaling.rst suggests.
const FLOWS: u32 = 32_768;

/// What was asked for.
#[derive(Debug, Clone, Default)]
pub struct IrqRequest {
    /// CPUs of tasks, to be left to them.
    pub tasks: CpuSet,
    /// CPUs that are to be disturbed by nothing; see [`steering::isolated_cpus`].
    pub isolated: CpuSet,
    /// Whether to use receive flow steering, which is for the machine as a whole.
    pub flow_steering: bool,
}

/// Looks at what serves a device.
pub fn read_device(root: &dyn Sysfs, device: &Device) -> DeviceIrqs {
    let irqs = device.irqs.iter().map(|irq| QueueIrq {
        queue: steering::queue_of_device(&irq.name, &device.names),
        fixed: steering::unmovable_reason(root, irq),
        irq: irq.clone(),
    });
    DeviceIrqs {
        device: device.name(),
        node: device.locality.node,
        irqs: irqs.collect(),
        interfaces: steering::queues(root, device),
    }
}

/// Plans for devices; `entries` are the flows that the machine remembers now. Each device begins where the one
/// before it ended, so that those of one node do not crowd its first cores.
pub fn plan(
    topology: &Topology,
    devices: &[DeviceIrqs],
    entries: Option<u32>,
    request: &IrqRequest,
) -> IrqPlan {
    let mut plan = IrqPlan::default();
    let mut taken: BTreeMap<CpuId, usize> = BTreeMap::new();
    for device in devices {
        let mut cores = cores(topology, device, request, &mut plan);
        let Some(first) = cores.first().map(|core| core.cpu) else { continue };
        let begin = taken.entry(first).or_default();
        let turn = *begin % cores.len();
        *begin += ranks(device).len().max(1);
        cores.rotate_left(turn);
        plan.cpus = plan.cpus.union(&cores.iter().map(|core| core.cpu).collect());
        interrupts(device, &cores, request, &mut plan);
        for interface in &device.interfaces {
            receive(interface, &cores, entries, request, &mut plan);
            transmit(topology, interface, &cores, &mut plan);
        }
    }
    plan
}

/// A core that serves: the CPU that takes interrupts, and all of its hardware threads.
struct Core {
    cpu: CpuId,
    threads: CpuSet,
}

/// Cores for a device's interrupts, best first: those of its node that no task has.
fn cores(topology: &Topology, device: &DeviceIrqs, request: &IrqRequest, plan: &mut IrqPlan) -> Vec<Core> {
    let name = &device.device;
    let (node, why) = home(topology, device.node);
    plan.reasons.push(format!("{name}: {why}"));
    let none = CpuSet::new();
    let every = of_node(topology, node, &none, &none);
    let open = of_node(topology, node, &none, &request.isolated);
    let isolated = threads(&every).intersection(&request.isolated);
    let (all, shunned) = if open.is_empty() { (every, &none) } else { (open, &request.isolated) };
    let free = of_node(topology, node, &request.tasks, shunned);
    if !isolated.is_empty() {
        plan.reasons.push(match shunned.is_empty() {
            false => format!("{name}: CPUs {isolated} are isolated, and are left alone"),
            true => format!(
                "{name}: every CPU there is isolated; they serve it all the same, since those of other nodes cost more"
            ),
        });
    }
    match (all.len(), free.len()) {
        (0, _) => plan.rejected.push(format!("{name}: none of these CPUs is online")),
        (_, 0) => plan.reasons.push(format!(
            "{name}: tasks have every core there; its interrupts share cores with them, since those of other nodes \
             cost more"
        )),
        (all, free) if free < all => {
            plan.reasons.push(format!("{name}: {} cores are left to tasks", all - free));
        }
        _ => {}
    }
    if free.is_empty() {
        all
    } else {
        free
    }
}

/// The node whose CPUs serve a device, and why; none for all nodes.
fn home(topology: &Topology, node: Option<NodeId>) -> (Option<NodeId>, String) {
    let has_cpus = |id: &NodeId| topology.node(*id).is_some_and(|node| !node.cpus.is_empty());
    let Some(own) = node else {
        return (None, "its node is not known, so that no CPU is nearer than another".to_owned());
    };
    if has_cpus(&own) {
        return (Some(own), format!("it is on node {own}, whose caches and memory its DMA reaches first"));
    }
    let distance = |id: &NodeId| topology.distances.as_ref().and_then(|it| it.between(own, *id));
    let packages = |id: NodeId| topology.node(id).map_or(&[][..], |node| &node.packages);
    let is_other = |id: &NodeId| !packages(*id).iter().any(|package| packages(own).contains(package));
    let order = |id: &NodeId| (distance(id).unwrap_or(u32::MAX), is_other(id), *id);
    let nearest = topology.cpu_nodes().iter().min_by_key(order);
    let why = match nearest {
        Some(id) => format!("its node {own} has no CPUs; node {id} is the nearest that has"),
        None => "no node is known to have CPUs".to_owned(),
    };
    (nearest, why)
}

/// The cores of a node, without those that tasks have a thread of; the first thread of each that is not to be shunned takes interrupts.
fn of_node(topology: &Topology, node: Option<NodeId>, tasks: &CpuSet, shunned: &CpuSet) -> Vec<Core> {
    let there = topology.cpus.iter().filter(|cpu| cpu.online && (node.is_none() || cpu.node == node));
    let there = there.filter(|cpu| !shunned.contains(cpu.id));
    let mut seen = CpuSet::new();
    let mut cores = Vec::new();
    for cpu in there {
        let threads = cpu.siblings.union(&CpuSet::one(cpu.id));
        let is_free = threads.intersection(tasks).is_empty();
        if !seen.contains(cpu.id) && is_free {
            cores.push(Core { cpu: cpu.id, threads: threads.clone() });
        }
        seen = seen.union(&threads);
    }
    cores
}

/// Each queue's interrupts to a core of its own, then around; the others to any of the cores, unless they are bound to one of them.
fn interrupts(device: &DeviceIrqs, cores: &[Core], request: &IrqRequest, plan: &mut IrqPlan) {
    let name = &device.device;
    let alone = device.irqs.len() == 1;
    let ranks = ranks(device);
    // An open core may have an isolated thread, which is left alone; isolated cores serve only where there are no others.
    let here = match cores.iter().all(|core| request.isolated.contains(core.cpu)) {
        true => threads(cores),
        false => threads(cores).difference(&request.isolated),
    };
    let before = plan.changes.len();
    let mut of_queues = 0;
    for irq in device.irqs.iter().filter(|irq| irq.fixed.is_none()) {
        let rank = irq.queue.and_then(|queue| ranks.get(&queue).copied()).or(alone.then_some(0));
        let cpus = match rank {
            Some(rank) => CpuSet::one(cores[rank % cores.len()].cpu),
            // It may be a queue's, although its name does not say so: it is bound to one CPU on purpose.
            None if irq.irq.affinity.len() == 1 && irq.irq.affinity.is_subset(&here) => continue,
            // It comes seldom: where it goes matters little, as long as it stays near.
            None => cores.iter().map(|core| core.cpu).collect(),
        };
        let at = |cpus: &CpuSet| Change::IrqAffinity { irq: irq.irq.number, cpus: cpus.clone() };
        of_queues += usize::from(rank.is_some() && cpus != irq.irq.affinity);
        add(plan, at(&cpus), at(&irq.irq.affinity));
    }
    unmoved(device, plan);
    let around = ranks.len() > cores.len();
    match (of_queues, plan.changes.len() - before) {
        (0, 0) if device.irqs.iter().all(|irq| irq.fixed.is_some()) => {}
        (0, 0) => plan.reasons.push(format!("{name}: its interrupts are where they should be")),
        (0, _) => plan.reasons.push(format!("{name}: what serves no queue may go to any core there")),
        _ if around => plan.reasons.push(format!(
            "{name}: its {} queues' interrupts go around its {} cores",
            ranks.len(),
            cores.len()
        )),
        _ => plan.reasons.push(format!("{name}: each queue's interrupts go to a core of its own")),
    }
}

/// All hardware threads of cores.
fn threads(cores: &[Core]) -> CpuSet {
    cores.iter().fold(CpuSet::new(), |all, core| all.union(&core.threads))
}

/// Says which interrupts stay where they are, and why.
fn unmoved(device: &DeviceIrqs, plan: &mut IrqPlan) {
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

/// RPS where there are fewer queues than cores: each queue's packets are shared by as many cores as there are for
/// each. With a queue for each core it would only send packets about.
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
        plan.rejected.push(format!("{name}: RPS is not to be had: this kernel is built without it"));
        return;
    }
    if cores.iter().all(|core| request.isolated.contains(core.cpu)) {
        plan.rejected.push(format!("{name}: no RPS: the kernel sends no packets to isolated CPUs"));
        return;
    }
    let spread = queues < cores.len();
    plan.reasons.push(match spread {
        true => format!(
            "{name}: fewer receive queues ({queues}) than cores ({}), so RPS shares their packets",
            cores.len()
        ),
        false => format!("{name}: a receive queue for each core, so RPS would only cost"),
    });
    if spread && !request.flow_steering {
        plan.rejected.push(format!(
            "{name}: RFS, which sends packets where their reader runs, is the whole machine's and was not asked for (--rfs)"
        ));
    }
    let entries_wanted = entries.filter(|_| request.flow_steering && spread).map(|now| now.max(FLOWS));
    if let (Some(now), Some(wanted)) = (entries, entries_wanted) {
        add(plan, Change::SockFlowEntries { entries: wanted }, Change::SockFlowEntries { entries: now });
    }
    for (rank, queue) in interface.receive.iter().enumerate() {
        let number = queue.queue;
        if let Some(now) = &queue.rps_cpus {
            let at = |cpus: CpuSet| Change::RpsCpus { interface: name.clone(), queue: number, cpus };
            let share = cores.iter().skip(rank).step_by(queues.max(1)).map(|core| core.cpu);
            let cpus = if spread { share.collect() } else { CpuSet::new() };
            add(plan, at(cpus), at(now.clone()));
        }
        if let (Some(now), Some(wanted)) = (queue.flows, entries_wanted) {
            let at = |flows| Change::RpsFlows { interface: name.clone(), queue: number, flows };
            add(plan, at(power_of_two(wanted / queues as u32)), at(now));
        }
    }
}

/// The greatest power of two that is not above the number; 1 for 0.
fn power_of_two(number: u32) -> u32 {
    1 << number.max(1).ilog2()
}

/// XPS: every CPU of the machine sends through one queue; those of a core that serves one use that one.
fn transmit(topology: &Topology, interface: &NetQueues, cores: &[Core], plan: &mut IrqPlan) {
    let queues = interface.transmit.len();
    let can: Vec<_> =
        interface.transmit.iter().filter_map(|it| Some((it.queue, it.xps_cpus.as_ref()?))).collect();
    let name = &interface.interface;
    if queues < 2 || can.len() < queues {
        let why = if queues < 2 { "it has one transmit queue" } else { "this kernel is built without it" };
        plan.rejected.push(format!("{name}: no XPS: {why}"));
        return;
    }
    let mut shares = vec![CpuSet::new(); queues];
    let mut give = |rank: usize, cpus: &CpuSet| shares[rank % queues] = shares[rank % queues].union(cpus);
    cores.iter().enumerate().for_each(|(rank, core)| give(rank, &core.threads));
    let served = threads(cores);
    let others = topology.cpus.iter().filter(|cpu| cpu.online && !served.contains(cpu.id));
    others.enumerate().for_each(|(rank, cpu)| give(rank, &CpuSet::one(cpu.id)));
    for ((queue, now), cpus) in can.into_iter().zip(shares) {
        let at = |cpus| Change::XpsCpus { interface: name.clone(), queue, cpus };
        add(plan, at(cpus), at(now.clone()));
    }
    plan.reasons
        .push(format!("{name}: each CPU sends through one of {queues} transmit queues, so that no two wait"));
}

/// The queues that have interrupts of their own, counted from 0 in ascending order.
fn ranks(device: &DeviceIrqs) -> BTreeMap<u32, usize> {
    let queues: BTreeSet<u32> = device.irqs.iter().filter_map(|irq| irq.queue).collect();
    queues.into_iter().zip(0..).collect()
}

/// Adds a change, unless it changes nothing, or what is set already.
fn add(plan: &mut IrqPlan, change: Change, inverse: Change) {
    let is_new = !plan.changes.iter().any(|applied| applied.change.is_same_setting(&change));
    if change != inverse && is_new {
        plan.changes.push(AppliedChange { change, inverse });
    }
}
