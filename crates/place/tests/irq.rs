//! Tests that plan, apply and undo changes of interrupts, also with a killed process.

use numaio_machine::conformance;
use numaio_machine::control::{Change, Control, ControlError};
use numaio_machine::devices::DeviceKind;
use numaio_machine::discover::discover;
use numaio_machine::ids::NodeId;
use numaio_machine::set::CpuSet;
use numaio_machine::steering;
use numaio_machine::topology::Topology;
use numaio_place::irq::{plan, read_device, IrqRequest};
use numaio_place::{apply, undo, without_unmovable, ApplyError};
use numaio_schema::{AppliedChange, IrqPlan, Receipt};
use numaio_sim::{shapes, Simulated, Spec};
use proptest::prelude::*;
use std::cell::{Cell, RefCell};
use std::panic::{catch_unwind, AssertUnwindSafe};

/// The machine of the paper, whose NIC has `queues` queues.
fn machine(queues: u32, change: impl FnOnce(&mut Spec)) -> Simulated {
    let mut spec = shapes::dl585();
    let nics = spec.devices.iter_mut().filter(|device| device.kind == DeviceKind::Network);
    for nic in nics {
        nic.irqs = queues;
        nic.irq_affinity = Some(cpus("0-31"));
    }
    change(&mut spec);
    Simulated::new(spec).expect("a machine")
}

fn cpus(list: &str) -> CpuSet {
    CpuSet::parse_list(list).expect("a list")
}

fn planned(machine: &Simulated, names: &[&str], request: &IrqRequest) -> (Topology, IrqPlan) {
    let topology = discover(&machine.tree());
    let find_device =
        |name: &&str| topology.devices.iter().find(|device| device.has_name(name)).expect("a device");
    let devices: Vec<_> = names.iter().map(|name| read_device(machine, machine, find_device(name))).collect();
    let plan = plan(&topology, &devices, steering::sock_flow_entries(machine), request);
    (topology, plan)
}

/// Returns the CPUs that the plan assigns to interrupts, by interrupt number.
fn assigned_cpus(plan: &IrqPlan) -> Vec<String> {
    let cpu_list = |applied: &AppliedChange| match &applied.change {
        Change::IrqAffinity { cpus, .. } => Some(cpus.to_string()),
        _ => None,
    };
    plan.changes.iter().filter_map(cpu_list).collect()
}

fn any_contains(texts: &[String], part: &str) -> bool {
    texts.iter().any(|text| text.contains(part))
}

#[test]
fn assigns_queues_to_cores_of_device_node_round_robin() {
    let request = IrqRequest::default();
    assert_eq!(assigned_cpus(&planned(&machine(4, |_| {}), &["eth0"], &request).1), ["28", "29", "30", "31"]);
    let (_, shared) = planned(&machine(6, |_| {}), &["eth0"], &request);
    assert_eq!(assigned_cpus(&shared), ["28", "29", "30", "31", "28", "29"]);
    assert!(any_contains(&shared.reasons, "share 4 cores round robin"), "{:?}", shared.reasons);
    assert!(
        !shared.changes.iter().any(|it| matches!(it.change, Change::RpsCpus { .. })),
        "a queue for each core"
    );
    let second = machine(2, |spec| {
        let mut nic = spec.devices[1].clone();
        (nic.pci, nic.names) = (shapes::pci(0, 0x21, 0, 1), vec!["eth1".into()]);
        spec.devices.push(nic);
    });
    assert_eq!(assigned_cpus(&planned(&second, &["eth0", "eth1"], &request).1), ["28", "29", "30", "31"]);
}

#[test]
fn avoids_cores_of_tasks_unless_tasks_use_all() {
    let some = IrqRequest { tasks: cpus("28-29"), ..IrqRequest::default() };
    assert_eq!(assigned_cpus(&planned(&machine(2, |_| {}), &["eth0"], &some).1), ["30", "31"]);
    let all = IrqRequest { tasks: cpus("0-31"), ..IrqRequest::default() };
    let (_, shared) = planned(&machine(2, |_| {}), &["eth0"], &all);
    assert_eq!(assigned_cpus(&shared), ["28", "29"]);
    assert!(any_contains(&shared.reasons, "tasks use all cores of this node"), "{:?}", shared.reasons);
}

#[test]
fn keeps_unnamed_interrupts_bound_to_one_local_cpu() {
    let machine = machine(3, |_| {});
    let topology = discover(&machine.tree());
    let eth0 = topology.devices.iter().find(|device| device.has_name("eth0")).expect("a device");
    let cpus_assigned = |tasks: &str, bound: [&str; 3]| {
        let mut device = read_device(&machine, &machine, eth0);
        for (irq, list) in device.irqs.iter_mut().zip(bound) {
            (irq.queue, irq.irq.name, irq.irq.affinity) = (None, "irq".into(), cpus(list));
        }
        let request = IrqRequest { tasks: cpus(tasks), ..IrqRequest::default() };
        assigned_cpus(&plan(&topology, &[device], None, &request))
    };
    assert_eq!(
        cpus_assigned("", ["29", "0", "30-31"]),
        ["28-31", "28-31"],
        "moves from another node and from two CPUs"
    );
    assert_eq!(cpus_assigned("29", ["29", "30", "31"]), ["28,30-31"], "moves from the CPU of a task");
}

#[test]
fn avoids_isolated_cpus_unless_all_are_isolated() {
    let isolated = |list: &str| {
        let request = IrqRequest { isolated: cpus(list), ..IrqRequest::default() };
        planned(&machine(2, |_| {}), &["eth0"], &request).1
    };
    let rps = |plan: &IrqPlan| {
        let of = |applied: &AppliedChange| match &applied.change {
            Change::RpsCpus { cpus, .. } => Some(cpus.clone()),
            _ => None,
        };
        plan.changes.iter().filter_map(of).fold(CpuSet::new(), |all, cpus| all.union(&cpus))
    };
    let some = isolated("0,28");
    assert_eq!((assigned_cpus(&some), rps(&some)), (vec!["29".into(), "30".into()], cpus("29-31")));
    assert!(any_contains(&some.reasons, "CPUs 28 are isolated"), "{:?}", some.reasons);
    let all = isolated("28-31");
    assert_eq!((assigned_cpus(&all), rps(&all)), (vec!["28".into(), "29".into()], CpuSet::new()));
    assert!(
        any_contains(&all.reasons, "all CPUs of this node are isolated")
            && any_contains(&all.rejected, "no RPS"),
        "{all:?}"
    );
}

/// Also if the core has another thread that is not isolated.
#[test]
fn moves_interrupts_from_isolated_threads() {
    let machine = machine(2, |_| {});
    let mut topology = discover(&machine.tree());
    for cpu in topology.cpus.iter_mut().filter(|cpu| [28, 29].contains(&cpu.id.0)) {
        cpu.siblings = cpus("28-29");
    }
    let eth0 = topology.devices.iter().find(|device| device.has_name("eth0")).expect("a device");
    let cpus_assigned = |isolated: &str| {
        let mut device = read_device(&machine, &machine, eth0);
        for irq in &mut device.irqs {
            (irq.queue, irq.irq.name, irq.irq.affinity) = (None, "irq".into(), cpus("29"));
        }
        let request = IrqRequest { isolated: cpus(isolated), ..IrqRequest::default() };
        assigned_cpus(&plan(&topology, &[device], None, &request))
    };
    assert_eq!(cpus_assigned("29"), ["28,30-31", "28,30-31"]);
    assert_eq!(cpus_assigned("28-31"), Vec::<String>::new(), "all cores are isolated");
    assert_eq!(cpus_assigned(""), Vec::<String>::new());
}

#[test]
fn device_without_node_may_use_all_cpus() {
    let lost = machine(3, |spec| spec.devices.iter_mut().for_each(|device| device.node = None));
    let (_, plan) = planned(&lost, &["eth0"], &IrqRequest::default());
    assert_eq!(assigned_cpus(&plan), ["0", "1", "2"]);
    assert!(any_contains(&plan.reasons, "unknown"), "{:?}", plan.reasons);
    let machine = machine(2, |_| {});
    let mut topology = discover(&machine.tree());
    let eth0 = topology.devices.iter().find(|device| device.has_name("eth0")).expect("a device");
    let device = read_device(&machine, &machine, eth0);
    topology.nodes.iter_mut().filter(|node| node.id == NodeId(7)).for_each(|node| node.cpus = CpuSet::new());
    let plan = numaio_place::irq::plan(&topology, &[device], None, &IrqRequest::default());
    assert_eq!(assigned_cpus(&plan), ["24", "25"], "node 6 is the neighbor: {:?}", plan.reasons);
}

#[test]
fn steers_packets_with_fewer_queues_than_cores() {
    let machine = machine(2, |_| {});
    let plan_with =
        |flow_steering| planned(&machine, &["eth0"], &IrqRequest { flow_steering, ..Default::default() }).1;
    let plan = plan_with(false);
    let rps = |queue, list: &str| Change::RpsCpus { interface: "eth0".into(), queue, cpus: cpus(list) };
    let changes = |plan: &IrqPlan| plan.changes.iter().map(|it| it.change.clone()).collect::<Vec<_>>();
    assert!(changes(&plan).contains(&rps(0, "28,30")) && changes(&plan).contains(&rps(1, "29,31")));
    assert!(
        any_contains(&plan.rejected, "--rfs")
            && !changes(&plan).iter().any(|it| matches!(it, Change::RpsFlows { .. }))
    );
    let xps = changes(&plan).into_iter().filter_map(|change| match change {
        Change::XpsCpus { cpus, .. } => Some(cpus),
        _ => None,
    });
    let xps: Vec<CpuSet> = xps.collect();
    assert_eq!(xps[0].union(&xps[1]), cpus("0-31"), "every CPU sends through a queue");
    assert!(xps[0].intersection(&xps[1]).is_empty() && cpus("28,30").is_subset(&xps[0]));
    let flows = changes(&plan_with(true));
    assert!(flows.contains(&Change::SockFlowEntries { entries: 32768 }));
    assert!(flows.contains(&Change::RpsFlows { interface: "eth0".into(), queue: 1, flows: 16384 }));
}

#[test]
fn reports_managed_interrupts_and_keeps_them() {
    let machine = machine(2, |spec| {
        spec.devices.iter_mut().for_each(|device| device.irq_affinity = Some(cpus("0-31")));
    });
    let (_, plan) = planned(&machine, &["nvme0n1"], &IrqRequest::default());
    assert_eq!(plan.changes.len(), 1, "only the queue of commands: {:?}", plan.changes);
    assert!(any_contains(&plan.rejected, "managed"), "{:?}", plan.rejected);
    let topology = discover(&machine.tree());
    let queue =
        topology.devices.iter().flat_map(|it| &it.irqs).find(|irq| irq.name == "nvme0q1").expect("a queue");
    let at = |list: &CpuSet| Change::IrqAffinity { irq: queue.number, cpus: list.clone() };
    let forced = AppliedChange { change: at(&cpus("0")), inverse: at(&queue.affinity) };
    let before = machine.tree();
    let (movable, unmovable) =
        without_unmovable(&machine, vec![forced, plan.changes[0].clone()]).expect("tried");
    assert_eq!((movable, unmovable), (plan.changes, vec![queue.number]));
    assert!(machine.tree() == before, "a test write changes nothing");
}

#[test]
fn applied_plan_is_effective_and_idempotent() {
    let machine = machine(4, |_| {});
    let request = IrqRequest::default();
    let (topology, plan) = planned(&machine, &["eth0"], &request);
    for applied in &plan.changes {
        conformance::control(&machine, &applied.change).expect("allowed");
    }
    let receipt = Receipt::planned(&topology.identity.fingerprint, None, 0, plan.changes);
    apply(&machine, receipt, &mut |_| Ok(())).expect("applied");
    let effective: Vec<_> = discover(&machine.tree())
        .devices
        .iter()
        .filter(|device| device.has_name("eth0"))
        .flat_map(|device| device.irqs.iter().filter_map(|irq| irq.effective.clone()))
        .collect();
    assert_eq!(effective, ["28", "29", "30", "31"].map(cpus));
    let (_, second) = planned(&machine, &["eth0"], &request);
    assert_eq!(second.changes, [], "{:?}", second.reasons);
}

/// A machine whose process is killed, or which rejects a change, at a step; 0 is the first.
struct FaultyMachine<'a> {
    machine: &'a Simulated,
    remaining: Cell<usize>,
    fault: Fault,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    KilledBefore,
    KilledAfter,
    Rejects,
}

impl Control for FaultyMachine<'_> {
    fn apply(&self, change: &Change) -> Result<Change, ControlError> {
        let remaining = self.remaining.get();
        // Fails once, so rolling back succeeds unless it failed itself.
        self.remaining.set(remaining.wrapping_sub(1));
        match (remaining, self.fault) {
            (0, Fault::KilledBefore) => panic!("killed"),
            (0, Fault::Rejects) => Err(ControlError::Refused { what: change.to_string(), why: "no".into() }),
            (0, Fault::KilledAfter) => {
                self.machine.apply(change)?;
                panic!("killed")
            }
            _ => self.machine.apply(change),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// A process killed or rejected at any change or save: undoing the newest receipt restores the
    /// machine exactly, also if repeated.
    #[test]
    fn undo_restores_machine_after_any_fault(
        queues in 1u32..7,
        flow_steering in any::<bool>(),
        tasks in prop::sample::select(vec!["", "28", "30-31"]),
        step in 0usize..24,
        fault in prop::sample::select(vec![Fault::KilledBefore, Fault::KilledAfter, Fault::Rejects]),
        failing_save in prop::option::of(0usize..24),
    ) {
        let machine = machine(queues, |_| {});
        let request = IrqRequest { tasks: cpus(tasks), flow_steering, ..IrqRequest::default() };
        let (topology, plan) = planned(&machine, &["eth0", "nvme0n1"], &request);
        let fingerprint = &topology.identity.fingerprint;
        let before = machine.tree();
        let disk: RefCell<Option<Receipt>> = RefCell::new(None);
        let mut saves = 0;
        let mut save = |receipt: &Receipt| {
            // A full disk keeps the previous receipt.
            saves += 1;
            if failing_save == Some(saves - 1) {
                return Err("no space left".to_owned());
            }
            *disk.borrow_mut() = Some(receipt.clone());
            Ok(())
        };
        let count = plan.changes.len();
        let faulty = FaultyMachine { machine: &machine, remaining: Cell::new(step), fault };
        let receipt = Receipt::planned(fingerprint, None, 0, plan.changes);
        let result = catch_unwind(AssertUnwindSafe(|| apply(&faulty, receipt, &mut save)));
        match &result {
            Ok(Ok(_)) => prop_assert!(step >= count && failing_save.is_none_or(|save| save > count)),
            Ok(Err(ApplyError::Failed(_) | ApplyError::ReceiptNotSaved(_))) => {
                prop_assert!(machine.tree() == before, "rolled back")
            }
            // Saving failed, and rolling back was rejected: the saved receipt must restore the
            // machine.
            Ok(Err(ApplyError::PartiallyApplied { .. })) if failing_save.is_some() && fault == Fault::Rejects => {}
            Ok(Err(other)) => prop_assert!(false, "{}", other),
            Err(_) => prop_assert!(fault != Fault::Rejects),
        }
        if result.as_ref().is_ok_and(|applied| applied.is_ok()) {
            prop_assert!(count == 0 || machine.tree() != before);
        }
        for _ in 0..2 {
            if let Some(receipt) = disk.borrow().clone() {
                prop_assert!(undo(&machine, fingerprint, receipt).expect("this machine").0.is_empty());
            }
            prop_assert!(machine.tree() == before, "step {}, {:?}", step, fault);
        }
    }
}

/// The first of two queues has its core's interrupt, and the second one's interrupt stays on node
/// 0.
#[test]
fn rss_skips_queues_whose_interrupts_stay_elsewhere() {
    let machine = machine(2, |_| {});
    let topology = discover(&machine.tree());
    let eth0 = topology.devices.iter().find(|device| device.has_name("eth0")).expect("a device");
    let mut device = read_device(&machine, &machine, eth0);
    device.irqs[1].fixed = Some("managed".into());
    device.irqs[1].irq.effective = Some(cpus("0"));
    device.interfaces[0].receive_table = Some(vec![0, 1, 0, 1]);
    let planned = |receive_scaling: bool| {
        let request = IrqRequest { receive_scaling, ..IrqRequest::default() };
        plan(&topology, std::slice::from_ref(&device), None, &request)
    };
    let is_rss = |applied: &&AppliedChange| matches!(applied.change, Change::ReceiveTable { .. });
    let without = planned(false);
    assert_eq!(without.changes.iter().find(is_rss), None);
    assert!(any_contains(&without.rejected, "eth0: RSS uses queues 0-1 where 0 have a core each (--rss"));
    let with = planned(true);
    let change = with.changes.iter().find(is_rss).expect("a change");
    let table = |queues: &[u32]| Change::ReceiveTable { interface: "eth0".into(), queues: queues.to_vec() };
    assert_eq!((&change.change, &change.inverse), (&table(&[0; 4]), &table(&[0, 1, 0, 1])));
}
