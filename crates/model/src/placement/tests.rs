use super::*;
use crate::device_bandwidth::tests::device;
use crate::fit::tests::{cell, record};
use crate::testing::mmio;
use crate::{fit, ClassOptions};
use numaio_machine::ids::{CpuId, PackageId};
use numaio_machine::topology::{Cache, CoreKind, Cpu, CpuQuota, Distances, Memory, Node};
use numaio_machine::workload::Direction;
use numaio_schema::{Basis, ClassRule, CoreOrder, Document, Model, PlacementHint};
use proptest::prelude::*;

/// Nodes of `cores` cores with two hardware threads each, two nodes per package; the CPU numbers of
/// siblings are not adjacent.
pub(crate) fn machine(nodes: u32, cores: u32) -> Topology {
    let all = nodes * cores;
    let siblings = |core: u32| [core, core + all].into_iter().map(CpuId).collect::<CpuSet>();
    let cpu = |id: u32| Cpu {
        id: CpuId(id),
        online: true,
        node: Some(NodeId(id % all / cores)),
        package: Some(PackageId(id % all / cores / 2)),
        die: None,
        core: Some(id % all),
        siblings: siblings(id % all),
        allowed: true,
        isolated: false,
        core_kind: None,
    };
    let node = |id: u32| Node {
        id: NodeId(id),
        cpus: (id * cores..(id + 1) * cores).map(siblings).fold(CpuSet::new(), |set, one| set.union(&one)),
        memory: Some(Memory { total_bytes: 1 << 30, free_bytes: 1 << 30, reclaimable_bytes: 0 }),
        huge_pages: Vec::new(),
        packages: vec![PackageId(id / 2)],
        access: Vec::new(),
        memory_side_caches: Vec::new(),
        memory_allowed: true,
        memory_kind: None,
        memory_kind_source: None,
        memory_unknown: false,
    };
    let distance = |from: u32, to: u32| match (from == to, from / 2 == to / 2) {
        (true, _) => 10,
        (_, true) => 16,
        _ => 20 + (from + to) % 2,
    };
    let rows = (0..nodes).map(|from| (0..nodes).map(|to| distance(from, to)).collect()).collect();
    Topology {
        nodes: (0..nodes).map(node).collect(),
        cpus: (0..2 * all).map(cpu).collect(),
        distances: Some(Distances { nodes: (0..nodes).map(NodeId).collect(), rows }),
        ..Topology::default()
    }
}

/// Node 7 of the paper's machine: Tables IV and V of Li et al. (ICPP 2013), Gbit/s.
pub(crate) fn paper() -> Model {
    let write = [44.5, 44.4, 26.6, 25.0, 43.0, 42.9, 45.5, 51.2];
    let read = [40.9, 40.4, 50.3, 46.9, 27.9, 39.9, 47.1, 51.2];
    let cells = (0..8u32).flat_map(|node| {
        let write = cell(node, 7, 7, Some(write[node as usize]));
        let read = cell(7, node, 7, Some(read[node as usize]));
        if node == 7 {
            vec![write]
        } else {
            vec![write, read]
        }
    });
    fit(record(cells.collect()), &machine(8, 4), ClassOptions::default())
}

/// The same, interrupted: node 7 and two others were measured.
pub(crate) fn interrupted() -> Model {
    let mut record = paper().record;
    for cell in &mut record.cells {
        if [cell.flow.source, cell.flow.sink].iter().any(|node| (2..7).contains(&node.0)) {
            cell.bytes_copied_per_s = None;
        }
    }
    record.provenance.complete = false;
    fit(record, &machine(8, 4), ClassOptions::default())
}

fn near(device: &str, node: Option<u32>) -> TargetDevice {
    TargetDevice {
        handle: device.to_owned(),
        chain: Vec::new(),
        device: device.to_owned(),
        node: node.map(NodeId),
        irq_cpus: CpuSet::new(),
        bytes_per_s: None,
        has_unknown_share: false,
    }
}

fn cpus(list: &str) -> CpuSet {
    CpuSet::parse_list(list).expect("a list")
}

fn used(chosen: &PlacementChoice) -> Vec<String> {
    chosen.tasks.iter().map(|task| task.cpu_nodes.to_string()).collect()
}

fn ask(tasks: u32, direction: Direction) -> PlacementRequest {
    PlacementRequest { tasks: Some(tasks), direction: Some(direction), ..PlacementRequest::default() }
}

#[test]
fn fills_the_best_node_before_its_class() {
    let (topology, model) = (machine(8, 4), paper());
    let chosen =
        choose_placement(&topology, &[near("nvme0n1", Some(7))], &[&model], &ask(6, Direction::Write))
            .expect("room");
    assert_eq!(used(&chosen), ["7", "7", "7", "7", "6", "6"]);
    assert_eq!(chosen.tasks[0].memory.policy, MemoryPolicy::Preferred);
    assert_eq!(chosen.tasks[5].memory.nodes, NodeSet::one(NodeId(6)));
    assert!(
        chosen.rejected.iter().any(|node| node.node == NodeId(3) && node.reason.contains("49 %")),
        "{chosen:?}"
    );
}

/// The paper found node 6 better than 7, whose cores serve the interrupts.
#[test]
fn interrupt_cores_stay_free_while_their_class_has_others() {
    let (topology, model) = (
        machine(8, 4),
        crate::refit(paper(), ClassOptions { classes: ClassRule::Paper, ..ClassOptions::default() }),
    );
    let busy = TargetDevice { irq_cpus: cpus("28-31"), ..near("eth0", Some(7)) };
    let chosen = |tasks| {
        choose_placement(&topology, std::slice::from_ref(&busy), &[&model], &ask(tasks, Direction::Write))
            .expect("room")
    };
    assert_eq!(chosen(1).tasks[0].cpu_nodes, NodeSet::one(NodeId(6)));
    // Class 1 is 6 and 7: an interrupt core is better than a worse class.
    assert_eq!(used(&chosen(5)), ["6", "6", "6", "6", "7"]);
    let whole = PlacementRequest { tasks: None, ..ask(1, Direction::Write) };
    let whole = choose_placement(&topology, &[busy], &[&model], &whole).expect("room");
    assert_eq!(used(&whole), ["7"], "all its cores handle interrupts");
}

/// A 63-queue NIC on a node of 64 cores left a program one core, and 64 queues all of them.
#[test]
fn program_gets_every_core_of_its_node_for_any_number_of_queues() {
    for (cores, queues) in (1u32..10).flat_map(|cores| (0..=cores).map(move |queues| (cores, queues))) {
        let topology = machine(2, cores);
        let busy = TargetDevice { irq_cpus: (0..queues).map(CpuId).collect(), ..near("eth0", Some(0)) };
        let whole = PlacementRequest { tasks: None, ..ask(1, Direction::Write) };
        let chosen = choose_placement(&topology, &[busy], &[], &whole).expect("room");
        assert_eq!(chosen.tasks[0].cpus, topology.usable_cpus(NodeId(0)), "{cores} cores, {queues} queues");
        assert_eq!(chosen.compromises, [""; 0], "nothing is left out");
        // With a number of tasks, quiet cores come first.
        let busy = TargetDevice { irq_cpus: (0..queues).map(CpuId).collect(), ..near("eth0", Some(0)) };
        let tasks = (cores - queues).max(1);
        let chosen =
            choose_placement(&topology, std::slice::from_ref(&busy), &[], &ask(tasks, Direction::Write))
                .expect("room");
        let quiet = chosen.tasks.iter().all(|task| task.cpus.intersection(&busy.irq_cpus).is_empty());
        assert_eq!(quiet, queues < cores, "{cores} cores, {queues} queues: {:?}", chosen.tasks);
        let all = choose_placement(&topology, &[busy], &[], &ask(cores, Direction::Write)).expect("room");
        let noted = all.compromises.iter().any(|note| note.contains("interrupts of eth0"));
        assert_eq!(noted, queues > 0, "{cores} cores, {queues} queues");
    }
}

#[test]
fn spread_tasks_use_the_complete_class() {
    let (topology, model) = (machine(8, 4), paper());
    let spread = PlacementRequest { spread: true, ..ask(8, Direction::Read) };
    let chosen = choose_placement(&topology, &[near("nvme0n1", Some(7))], &[&model], &spread).expect("room");
    let classes = &model.targets[0].directions[1].classes;
    let best = &classes[0].nodes;
    assert!(best.len() > 1 && best.contains(NodeId(2)), "{classes:?}");
    for node in best.iter() {
        let here = chosen.tasks.iter().filter(|task| task.cpu_nodes.contains(node)).count();
        let share = 8.0 / best.len() as f64;
        assert!((here as f64 - share).abs() < 1.0, "{here} of 8 tasks on node {node} of {best}");
    }
    let whole = PlacementRequest { tasks: None, ..spread };
    let chosen = choose_placement(&topology, &[near("nvme0n1", Some(7))], &[&model], &whole).expect("room");
    assert_eq!((&chosen.tasks[0].cpu_nodes, &chosen.tasks[0].memory.nodes), (best, best));
}

#[test]
fn worse_direction_counts_without_a_requested_one() {
    let (topology, model) = (machine(8, 4), paper());
    let both = PlacementRequest { tasks: Some(32), ..PlacementRequest::default() };
    let chosen = choose_placement(&topology, &[near("nvme0n1", Some(7))], &[&model], &both).expect("room");
    let last: Vec<u32> = chosen.targets[0].nodes.iter().rev().take(3).map(|node| node.node.0).collect();
    // 2 and 3 are worst for writing, 4 for reading.
    assert!([2, 3].iter().all(|node| last.contains(node)), "{:?}", chosen.targets[0].nodes);
    assert_eq!(chosen.tasks.len(), 32);
}

#[test]
fn topology_decides_without_a_model_and_the_reason_names_it() {
    let topology = machine(4, 2);
    let chosen =
        choose_placement(&topology, &[near("eth0", Some(2))], &[], &ask(8, Direction::Write)).expect("room");
    assert_eq!(used(&chosen), ["2", "2", "3", "3", "0", "0", "1", "1"]);
    assert_eq!(chosen.targets[0].basis, Basis::Topology);
    assert!(chosen.reasons[0].contains("guess"), "{:?}", chosen.reasons);
    let unknown =
        choose_placement(&topology, &[near("eth0", None)], &[], &ask(1, Direction::Write)).expect("room");
    assert!(unknown.compromises[0].contains("unknown"), "{:?}", unknown.compromises);
}

#[test]
fn interrupted_model_is_used_only_without_a_complete_one() {
    let (topology, whole, mut newer) = (machine(8, 4), paper(), interrupted());
    newer.record.provenance.measured_at = whole.record.provenance.measured_at + 1;
    let chosen = |models: &[&Model]| {
        let spread = PlacementRequest { spread: true, ..ask(4, Direction::Write) };
        choose_placement(&topology, &[near("nvme0n1", Some(7))], models, &spread).expect("room")
    };
    assert_eq!(chosen(&[&newer, &whole]), chosen(&[&whole]));
    let alone = chosen(&[&newer]);
    let why = |node: u32| &alone.rejected.iter().find(|it| it.node == NodeId(node)).expect("rejected").reason;
    assert_eq!(
        (why(2).as_str(), why(4).as_str()),
        ("not measured by the model", "not measured by the model")
    );
    assert_eq!(why(0), "class 2: 87 % of the best node's path");
    let [note] = alone.compromises.as_slice() else { panic!("{:?}", alone.compromises) };
    assert!(
        note.contains("incomplete: it has no value for nodes 2-6,") && note.contains("numaio model --node 7"),
        "{note}"
    );
}

#[test]
fn hints_change_the_choice() {
    let (topology, model) = (machine(8, 4), paper());
    let with = |hint| {
        let request = PlacementRequest { hint, ..ask(1, Direction::Read) };
        let busy = TargetDevice { irq_cpus: cpus("28-31"), ..near("nvme0n1", Some(7)) };
        used(&choose_placement(&topology, &[busy], &[&model], &request).expect("room"))
    };
    assert_eq!(with(PlacementHint::Cpu), ["4"], "the worst for reading is what a device needs least");
    assert_eq!(with(PlacementHint::Latency), ["7"], "no other node has a shorter path");
}

#[test]
fn node_of_a_device_is_inferred_from_latency() {
    let mut topology = machine(2, 4);
    topology.devices = vec![device("eth0", 0, Some(100.0))];
    topology.devices[0].locality = Default::default();
    let chosen = |reads: &[(u32, f64)]| {
        let mut record = mmio(0, reads);
        record.device.node = None;
        let document = Document::Mmio(Box::new(record));
        let latencies = [&document];
        let sources = RankingSources { latencies: &latencies, ..RankingSources::default() };
        let near = [near("eth0", None)];
        choose_placement(&topology, &near, sources, &ask(1, Direction::Read)).expect("room")
    };
    let inferred = chosen(&[(0, 1200.0), (1, 800.0)]);
    assert_eq!((used(&inferred), inferred.targets[0].node), (vec!["1".to_owned()], Some(NodeId(1))));
    assert_eq!(
        inferred.compromises,
        ["eth0: firmware states no node; node 1 is inferred: its latency is lowest, the next node's is 1.50 \
          times as long (eth0, MMIO read)"]
    );
    for unclear in [&[(0, 810.0), (1, 800.0)][..], &[(1, 800.0)]] {
        assert_eq!(chosen(unclear).targets[0].node, None, "{unclear:?}");
    }
}

#[test]
fn latency_ranks_by_what_was_measured() {
    let topology = Topology { devices: vec![device("eth0", 7, Some(100.0))], ..machine(8, 4) };
    let read: Document =
        Document::Mmio(Box::new(mmio(7, &[(7, 1200.0), (6, 800.0), (0, 1500.0), (1, 810.0)])));
    let request = PlacementRequest { hint: PlacementHint::Latency, ..ask(1, Direction::Read) };
    let latencies = [&read];
    let sources = RankingSources { latencies: &latencies, ..RankingSources::default() };
    let chosen = choose_placement(&topology, &[near("eth0", Some(7))], sources, &request).expect("room");
    let target = &chosen.targets[0];
    assert_eq!(
        (used(&chosen), &target.basis),
        (vec!["6".to_owned()], &Basis::Latency { measured_at: Some(1) })
    );
    let ranks: Vec<(u32, u32)> = target.nodes.iter().map(|node| (node.node.0, node.rank)).collect();
    assert_eq!(ranks[..4], [(6, 1), (1, 1), (7, 2), (0, 3)]);
    assert_eq!(chosen.reasons[0], "eth0: nodes 1,6 have the lowest measured latency (eth0, MMIO read)");
    let without = choose_placement(&topology, &[near("eth1", Some(7))], sources, &request).expect("room");
    assert_eq!((used(&without), &without.targets[0].basis), (vec!["7".to_owned()], &Basis::Topology));
    assert!(without.reasons[0].contains("latency was not measured"), "{}", without.reasons[0]);
}

/// Two devices with different node rankings.
#[test]
fn nodes_needed_by_several_devices_are_not_for_compute_tasks() {
    let (topology, model) = (machine(8, 4), paper());
    let chosen =
        choose_placement(&topology, &[near("nvme0n1", Some(7))], &[&model], &ask(1, Direction::Write));
    let one = chosen.expect("room").targets.swap_remove(0);
    let mut other = one.clone();
    other.nodes.iter_mut().filter(|node| node.node.0 < 2).for_each(|node| node.of_best = Some(0.1));
    let both = [one, other].map(|target| PlacementTarget { share: 0.5, ..target });
    let first = |hint| rank::combine_targets(&both, hint)[0].node.0;
    let worst = both[0].nodes.iter().zip(&both[1].nodes).min_by(|one, other| {
        let sum =
            |pair: &(&RankedNode, &RankedNode)| pair.0.of_best.unwrap_or(9.0) + pair.1.of_best.unwrap_or(9.0);
        sum(one).total_cmp(&sum(other))
    });
    assert_eq!(
        (first(PlacementHint::Bandwidth), Some(first(PlacementHint::Cpu))),
        (7, worst.map(|(node, _)| node.node.0))
    );
}

/// Two devices on different nodes, and a node that is bad for both.
#[test]
fn memory_moves_off_the_task_cores_only_for_bandwidth() {
    let topology = machine(4, 2);
    let seen = [[10.0, 9.0, 5.0, 2.0], [0.0; 4], [6.0, 1.0, 10.0, 2.0], [0.0; 4]].concat();
    let model = model_of(&topology, 4, &seen);
    let devices = [near("eth0", Some(0)), near("eth2", Some(2))];
    let chosen = |hint| {
        let request = PlacementRequest { tasks: None, hint, ..ask(1, Direction::Write) };
        let mut chosen = choose_placement(&topology, &devices, &[&model], &request).expect("room");
        (chosen.tasks.remove(0), chosen)
    };
    let words = ["node 0 is the best", "node 0 is the best", "node 3 is the least useful to all"];
    for (hint, words) in
        [PlacementHint::Bandwidth, PlacementHint::Latency, PlacementHint::Cpu].into_iter().zip(words)
    {
        let (task, PlacementChoice { compromises, .. }) = chosen(hint);
        assert_eq!(task.memory, MemoryBinding { policy: MemoryPolicy::Preferred, nodes: task.cpu_nodes });
        assert!(compromises[0].contains(words), "{hint:?}: {compromises:?}");
    }
    // No better cores are left.
    let (bad, PlacementChoice { targets, .. }) = chosen(PlacementHint::Cpu);
    let policy = |hint| {
        let request = PlacementRequest { hint, ..PlacementRequest::default() };
        task_memory(&bad, &targets, &request, &topology, &usable_nodes(&topology), &mut Vec::new()).policy
    };
    let [preferred, turns] = [MemoryPolicy::Preferred, MemoryPolicy::Interleave];
    assert_eq!(
        [PlacementHint::Bandwidth, PlacementHint::Latency, PlacementHint::Cpu].map(policy),
        [turns, preferred, preferred]
    );
}

/// An unmeasured node may be the best for the device, so it is not given away.
#[test]
fn compute_tasks_use_unmeasured_nodes_last() {
    let (topology, model) = (machine(8, 4), interrupted());
    let request = PlacementRequest { hint: PlacementHint::Cpu, ..ask(1, Direction::Write) };
    let chosen = choose_placement(&topology, &[near("nvme0n1", Some(7))], &[&model], &request).expect("room");
    assert!(chosen.compromises[0].contains("nodes 2-6, ranked last"), "{:?}", chosen.compromises);
    let ranked = &chosen.targets[0].nodes;
    let order: Vec<u32> = ranked.iter().map(|node| node.node.0).collect();
    assert_eq!((used(&chosen), &order[..3]), (vec!["1".to_owned()], &[1, 0, 7][..]), "{ranked:?}");
    assert!(ranked.iter().is_sorted_by_key(|node| node.rank), "{ranked:?}");
    let why =
        |node: u32| &chosen.rejected.iter().find(|it| it.node == NodeId(node)).expect("rejected").reason;
    assert_eq!(
        (why(2).as_str(), why(7).as_str()),
        ("not measured by the model", "left to tasks that use the device")
    );
}

/// Cores are chosen as usual; pages go to memory without CPUs too, but not to forbidden nodes.
#[test]
fn weights_spread_pages_over_all_memory() {
    let (mut topology, model) = (machine(8, 4), paper());
    topology.nodes[3].memory_allowed = false;
    topology.nodes[5].cpus = CpuSet::new();
    let chosen = |weights| {
        let request = PlacementRequest { weights, ..ask(2, Direction::Write) };
        choose_placement(&topology, &[near("nvme0n1", Some(7))], &[&model], &request).expect("room")
    };
    let (with, without) = (chosen(true), chosen(false));
    assert_eq!(used(&with), used(&without));
    for (task, local) in with.tasks.iter().zip(&without.tasks) {
        assert_eq!(task.memory.policy, MemoryPolicy::WeightedInterleave);
        assert_eq!((task.memory.nodes.to_string(), local.memory.nodes.len()), ("0-2,4-7".to_owned(), 1));
    }
}

/// Grace and POWER9 show the memory of GPUs as nodes.
#[test]
fn weights_leave_memory_of_gpus_out() {
    let mut topology = machine(4, 2);
    for node in [2, 3] {
        topology.nodes[node].cpus = CpuSet::new();
        topology.nodes[node].memory_kind = Some(if node == 2 { "GPU" } else { "CXL" }.to_owned());
    }
    let request = PlacementRequest { weights: true, ..ask(1, Direction::Write) };
    let chosen = choose_placement(&topology, &[near("cuda:0", Some(0))], &[], &request).expect("room");
    assert_eq!(chosen.tasks[0].memory.nodes.to_string(), "0-1,3");
    assert!(chosen.compromises.iter().any(|note| note.contains("node 2 is memory of GPUs")), "{chosen:?}");
}

/// A machine of one node with fast cores 2 and 3.
fn hybrid() -> Topology {
    let mut topology = machine(1, 4);
    for cpu in &mut topology.cpus {
        let is_fast = cpu.id.0 % 4 >= 2;
        let (rank, capacity) = if is_fast { (0, 1024) } else { (1, 400) };
        cpu.core_kind = Some(CoreKind { rank, capacity: Some(capacity) });
    }
    topology
}

#[test]
fn fast_cores_come_first_unless_efficient_ones_are_requested() {
    let topology = hybrid();
    let chosen = |request: PlacementRequest| {
        choose_placement(&topology, &[near("eth0", Some(0))], &[], &request).expect("room")
    };
    let one = chosen(ask(1, Direction::Write));
    assert_eq!(one.tasks[0].cpus, cpus("2,6"));
    assert_eq!(one.compromises, [""; 0]);
    let three = chosen(ask(3, Direction::Write));
    assert_eq!(three.tasks[2].cpus, cpus("0,4"));
    assert!(three.compromises[0].contains("CPUs 0,4 are slower"), "{:?}", three.compromises);
    let efficient = PlacementRequest { core_order: CoreOrder::Efficient, ..ask(1, Direction::Write) };
    assert_eq!(chosen(efficient).tasks[0].cpus, cpus("0,4"));
    // A fast core with interrupts is better than a slow one.
    let busy = TargetDevice { irq_cpus: cpus("2-3"), ..near("eth0", Some(0)) };
    let busy = choose_placement(&topology, &[busy], &[], &ask(1, Direction::Write)).expect("room");
    assert_eq!(busy.tasks[0].cpus, cpus("2,6"));
}

/// A machine of one node with two L3 caches of four and two cores.
fn two_caches() -> Topology {
    let mut topology = machine(1, 6);
    let cache = |list: &str| Cache {
        level: 3,
        kind: "Unified".to_owned(),
        bytes: 1 << 25,
        line_bytes: 64,
        ways: None,
        cpus: cpus(list),
    };
    topology.caches = vec![cache("0-1,6-7"), cache("2-5,8-11")];
    topology
}

#[test]
fn tasks_by_l3_keep_within_one_cache() {
    let topology = two_caches();
    let place = |topology: &Topology, request: PlacementRequest| {
        choose_placement(topology, &[near("eth0", Some(0))], &[], &request).expect("room")
    };
    let by = |request| PlacementRequest { by_cache: true, ..request };
    let pairs = by(PlacementRequest { cores_per_task: 3, ..ask(2, Direction::Write) });
    let chosen = place(&topology, pairs.clone());
    assert_eq!(chosen.tasks[0].cpus, cpus("2-4,8-10"), "the first cache has two cores only");
    assert!(chosen.compromises[0].contains("1 task does not fit"), "{:?}", chosen.compromises);
    let chosen = place(&topology, PlacementRequest { by_cache: false, ..pairs.clone() });
    assert_eq!(chosen.tasks[0].cpus, cpus("0-2,6-8"));
    let whole = place(&topology, by(PlacementRequest { tasks: None, ..ask(1, Direction::Write) }));
    assert_eq!(whole.tasks[0].cpus, cpus("2-5,8-11"), "the cache with most cores");
    let unknown = place(&machine(1, 6), pairs);
    assert!(unknown.compromises[0].contains("unknown"), "{:?}", unknown.compromises);
}

#[test]
fn isolated_cores_are_left_out_or_come_last() {
    let mut topology = machine(1, 4);
    topology.cpus.iter_mut().for_each(|cpu| cpu.isolated = cpu.id.0 % 4 < 2);
    let place = |topology: &Topology, tasks| {
        let request = PlacementRequest { tasks, ..ask(1, Direction::Write) };
        choose_placement(topology, &[near("eth0", Some(0))], &[], &request).expect("room")
    };
    let program = place(&topology, None);
    assert_eq!(program.tasks[0].cpus, cpus("2-3,6-7"));
    assert!(program.compromises[0].contains("CPUs 0-1,4-5 are isolated and not used"), "{program:?}");
    let tasks = place(&topology, Some(3));
    assert_eq!(tasks.tasks[0].cpus, cpus("2,6"));
    assert_eq!(tasks.tasks[2].cpus, cpus("0,4"));
    topology.cpus.iter_mut().for_each(|cpu| cpu.isolated = true);
    assert_eq!(place(&topology, None).tasks[0].cpus, cpus("0-7"), "no other core is left");
}

#[test]
fn cpu_quota_is_noted() {
    let mut topology = machine(1, 4);
    let quota = |quota_us| Some(CpuQuota { quota_us, period_us: 100_000, file: "/cg/cpu.max".to_owned() });
    topology.confinement.cpu_quota = quota(250_000);
    let whole = PlacementRequest { tasks: None, ..ask(1, Direction::Write) };
    let notes = |topology: &Topology| {
        choose_placement(topology, &[near("eth0", Some(0))], &[], &whole).expect("room").compromises
    };
    assert!(notes(&topology)[0].contains("quota is 2.5 CPUs (/cg/cpu.max)"), "{:?}", notes(&topology));
    topology.confinement.cpu_quota = quota(800_000);
    assert_eq!(notes(&topology), [""; 0]);
}

#[test]
fn devices_share_tasks_by_bandwidth() {
    let topology = machine(4, 4);
    let rails = |fast, slow| {
        [(0, fast), (2, slow)]
            .map(|(node, rate)| TargetDevice { bytes_per_s: rate, ..near(&format!("eth{node}"), Some(node)) })
    };
    let known = choose_placement(&topology, &rails(Some(3e9), Some(1e9)), &[], &ask(4, Direction::Write))
        .expect("room");
    assert_eq!(
        known.tasks.iter().map(|task| task.target).collect::<Vec<_>>(),
        [Some(0), Some(0), Some(0), Some(1)]
    );
    assert_eq!(used(&known), ["0", "0", "0", "2"]);
    let unknown =
        choose_placement(&topology, &rails(Some(3e9), None), &[], &ask(4, Direction::Write)).expect("room");
    assert_eq!(used(&unknown), ["0", "0", "2", "2"]);
    let one = PlacementRequest { tasks: None, ..ask(1, Direction::Write) };
    let one = choose_placement(&topology, &rails(None, None), &[], &one).expect("room");
    assert_eq!(one.compromises.len(), 1, "{:?}", one.compromises);
    // A stack whose members the kernel uses as it likes.
    let stacked = rails(Some(1e9), Some(1e9)).map(|near| TargetDevice {
        handle: "bond0".to_owned(),
        has_unknown_share: true,
        ..near
    });
    let stacked = choose_placement(&topology, &stacked, &[], &ask(4, Direction::Write)).expect("room");
    let wanted =
        "the shares of eth0, eth2 in the I/O of bond0 are unknown: numaio divides by bandwidth, or evenly";
    assert_eq!(stacked.compromises, [wanted]);
    assert!(known.compromises.is_empty(), "{:?}", known.compromises);
}

#[test]
fn rejects_impossible_requests() {
    let topology = machine(2, 2);
    let at = |tasks, cores_per_task| {
        let request = PlacementRequest { cores_per_task, ..ask(tasks, Direction::Write) };
        choose_placement(&topology, &[near("eth0", Some(0))], &[], &request).map(|chosen| chosen.tasks.len())
    };
    assert_eq!(at(4, 1), Ok(4));
    assert_eq!(at(5, 1), Err(PlacementError::TooManyTasks { tasks: 5, each: 1, wanted: 5, cores: 4 }));
    assert_eq!(
        (at(0, 1), at(1, 0)),
        (Err(PlacementError::NoTasks(0, "tasks")), Err(PlacementError::NoTasks(0, "cores")))
    );
    assert_eq!(
        choose_placement(&topology, &[], &[], &ask(1, Direction::Write)),
        Err(PlacementError::NoTarget)
    );
    let bare = choose_placement(&Topology::default(), &[near("eth0", None)], &[], &ask(1, Direction::Write));
    assert_eq!(bare, Err(PlacementError::NoNode));
}

/// A machine with some forbidden CPUs, one to three devices and a request.
fn question() -> impl Strategy<Value = (Topology, Vec<TargetDevice>, Option<Model>, PlacementRequest)> {
    (1u32..6, 1u32..6).prop_flat_map(|(nodes, cores)| {
        let forbidden = prop::collection::btree_set(0..2 * nodes * cores, 0..(nodes * cores) as usize);
        let devices =
            prop::collection::vec((prop::option::of(0..nodes), prop::option::of(1.0f64..9.0)), 1..4);
        let irqs = prop::collection::btree_set(0..nodes * cores, 0..4);
        let figures = prop::option::of(prop::collection::vec(1.0f64..10.0, (nodes * nodes) as usize));
        let request =
            (1u32..30, 1u32..4, any::<(bool, bool)>(), prop::sample::select(PlacementHint::ALL.to_vec()));
        let direction = prop::sample::select(vec![None, Some(Direction::Write), Some(Direction::Read)]);
        (forbidden, devices, irqs, figures, request, direction).prop_map(
            move |(forbidden, devices, irqs, figures, request, direction)| {
                let mut topology = machine(nodes, cores);
                for cpu in &mut topology.cpus {
                    cpu.allowed = !forbidden.contains(&cpu.id.0);
                }
                let irq_cpus: CpuSet = irqs.into_iter().map(CpuId).collect();
                let devices =
                    devices.into_iter().enumerate().map(|(index, (node, bytes_per_s))| TargetDevice {
                        irq_cpus: irq_cpus.clone(),
                        bytes_per_s,
                        ..near(&format!("dev{index}"), node)
                    });
                let model = figures.map(|figures| model_of(&topology, nodes, &figures));
                let (tasks, cores_per_task, (spread, strict), hint) = request;
                let request = PlacementRequest {
                    near: Vec::new(),
                    tasks: Some(tasks),
                    cores_per_task,
                    direction,
                    spread,
                    hint,
                    strict,
                    weights: false,
                    ..PlacementRequest::default()
                };
                (topology, devices.collect(), model, request)
            },
        )
    })
}

/// A model of every node toward every node, equal in both directions.
fn model_of(topology: &Topology, nodes: u32, figures: &[f64]) -> Model {
    let pairs = (0..nodes).flat_map(|target| (0..nodes).map(move |node| (target, node)));
    let cells = pairs.flat_map(|(target, node)| {
        let value = Some(figures[(target * nodes + node) as usize]);
        let read = (node != target).then(|| cell(target, node, target, value));
        read.into_iter().chain([cell(node, target, target, value)])
    });
    fit(record(cells.collect()), topology, ClassOptions::default())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn any_plan_stays_inside_and_takes_no_worse_class_while_a_better_one_has_room(
        (topology, near, model, request) in question()
    ) {
        let models: Vec<&Model> = model.iter().collect();
        let usable = topology.cpus.iter().filter(|cpu| cpu.allowed).map(|cpu| cpu.id).collect::<CpuSet>();
        let chosen = match choose_placement(&topology, &near, &models, &request) {
            Ok(chosen) => chosen,
            Err(PlacementError::TooManyTasks { wanted, cores, .. }) => {
                prop_assert!(wanted > cores as u64);
                return Ok(());
            }
            Err(PlacementError::NoNode) => {
                prop_assert!(usable.is_empty());
                return Ok(());
            }
            Err(other) => return Err(TestCaseError::fail(other.to_string())),
        };
        prop_assert_eq!(chosen.tasks.len() as u32, request.tasks.unwrap_or(1));
        let mut taken = CpuSet::new();
        for task in &chosen.tasks {
            prop_assert!(task.cpus.is_subset(&usable), "outside of what may be used");
            prop_assert!(taken.intersection(&task.cpus).is_empty(), "a core twice");
            let cores: std::collections::BTreeSet<_> =
                task.cpus.iter().filter_map(|cpu| topology.cpu(cpu)?.core).collect();
            prop_assert_eq!(cores.len() as u32, request.cores_per_task);
            taken = taken.union(&task.cpus);
        }
        let free: NodeSet =
            topology.nodes.iter().filter(|node| !topology.cores(node.id).difference(&taken).is_empty()).map(|node| node.id).collect();
        for task in &chosen.tasks {
            let target = &chosen.targets[task.target.unwrap_or(0)];
            let rank = |node: NodeId| target.nodes.iter().find(|ranked| ranked.node == node).map(|ranked| ranked.rank);
            let worst = task.cpu_nodes.iter().filter_map(rank).max();
            let better = free.iter().filter_map(rank).min();
            prop_assert!(better.is_none() || worst <= better, "{:?} while {} had room", task, free);
        }
        let again = choose_placement(&topology, &near, &models, &request).expect("as before");
        prop_assert_eq!(chosen, again, "the same question gives the same answer");
    }
}
