//! Interrupts planned, moved, and taken back whatever ends the process that moves them.

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

/// The machine of the paper; its NIC has as many queues as are asked for.
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
    let named = |name: &&str| topology.devices.iter().find(|device| device.has_name(name)).expect("a device");
    let devices: Vec<_> = names.iter().map(|name| read_device(machine, named(name))).collect();
    let made = plan(&topology, &devices, steering::sock_flow_entries(machine), request);
    (topology, made)
}

/// Where the plan sends interrupts, in the order of their numbers.
fn goals(plan: &IrqPlan) -> Vec<String> {
    let goal = |applied: &AppliedChange| match &applied.change {
        Change::IrqAffinity { cpus, .. } => Some(cpus.to_string()),
        _ => None,
    };
    plan.changes.iter().filter_map(goal).collect()
}

fn said(texts: &[String], part: &str) -> bool {
    texts.iter().any(|text| text.contains(part))
}

#[test]
fn each_queue_gets_a_core_of_the_devices_node_then_around() {
    let request = IrqRequest::default();
    assert_eq!(goals(&planned(&machine(4, |_| {}), &["eth0"], &request).1), ["28", "29", "30", "31"]);
    let (_, around) = planned(&machine(6, |_| {}), &["eth0"], &request);
    assert_eq!(goals(&around), ["28", "29", "30", "31", "28", "29"]);
    assert!(said(&around.reasons, "around its 4 cores"), "{:?}", around.reasons);
    assert!(
        !around.changes.iter().any(|it| matches!(it.change, Change::RpsCpus { .. })),
        "a queue for each core"
    );
    let second = machine(2, |spec| {
        let mut nic = spec.devices[1].clone();
        (nic.pci, nic.names) = (shapes::pci(0, 0x21, 0, 1), vec!["eth1".into()]);
        spec.devices.push(nic);
    });
    assert_eq!(goals(&planned(&second, &["eth0", "eth1"], &request).1), ["28", "29", "30", "31"]);
}

#[test]
fn tasks_keep_their_cores_unless_they_have_them_all() {
    let some = IrqRequest { tasks: cpus("28-29"), ..IrqRequest::default() };
    assert_eq!(goals(&planned(&machine(2, |_| {}), &["eth0"], &some).1), ["30", "31"]);
    let all = IrqRequest { tasks: cpus("0-31"), ..IrqRequest::default() };
    let (_, shared) = planned(&machine(2, |_| {}), &["eth0"], &all);
    assert_eq!(goals(&shared), ["28", "29"]);
    assert!(said(&shared.reasons, "tasks have every core there"), "{:?}", shared.reasons);
}

#[test]
fn what_is_bound_to_one_cpu_of_the_node_is_not_widened_for_want_of_a_name() {
    let machine = machine(3, |_| {});
    let topology = discover(&machine.tree());
    let eth0 = topology.devices.iter().find(|device| device.has_name("eth0")).expect("a device");
    let goals_of = |tasks: &str, bound: [&str; 3]| {
        let mut device = read_device(&machine, eth0);
        for (irq, list) in device.irqs.iter_mut().zip(bound) {
            (irq.queue, irq.irq.name, irq.irq.affinity) = (None, "it".into(), cpus(list));
        }
        let request = IrqRequest { tasks: cpus(tasks), ..IrqRequest::default() };
        goals(&plan(&topology, &[device], None, &request))
    };
    assert_eq!(goals_of("", ["29", "0", "30-31"]), ["28-31", "28-31"], "another node's, and two CPUs");
    assert_eq!(goals_of("29", ["29", "30", "31"]), ["28,30-31"], "a task's CPU is left to it");
}

#[test]
fn isolated_cpus_are_left_out_as_long_as_others_are_there() {
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
    assert_eq!((goals(&some), rps(&some)), (vec!["29".into(), "30".into()], cpus("29-31")));
    assert!(said(&some.reasons, "CPUs 28 are isolated"), "{:?}", some.reasons);
    let all = isolated("28-31");
    assert_eq!((goals(&all), rps(&all)), (vec!["28".into(), "29".into()], CpuSet::new()));
    assert!(said(&all.reasons, "every CPU there is isolated") && said(&all.rejected, "no RPS"), "{all:?}");
}

/// Of a core that is open, too.
#[test]
fn what_is_bound_to_an_isolated_thread_moves() {
    let machine = machine(2, |_| {});
    let mut topology = discover(&machine.tree());
    for cpu in topology.cpus.iter_mut().filter(|cpu| [28, 29].contains(&cpu.id.0)) {
        cpu.siblings = cpus("28-29");
    }
    let eth0 = topology.devices.iter().find(|device| device.has_name("eth0")).expect("a device");
    let goals_of = |isolated: &str| {
        let mut device = read_device(&machine, eth0);
        for irq in &mut device.irqs {
            (irq.queue, irq.irq.name, irq.irq.affinity) = (None, "it".into(), cpus("29"));
        }
        let request = IrqRequest { isolated: cpus(isolated), ..IrqRequest::default() };
        goals(&plan(&topology, &[device], None, &request))
    };
    assert_eq!(goals_of("29"), ["28,30-31", "28,30-31"]);
    assert_eq!(goals_of("28-31"), Vec::<String>::new(), "there is no other");
    assert_eq!(goals_of(""), Vec::<String>::new());
}

#[test]
fn a_device_without_a_node_may_be_served_anywhere_and_that_is_said() {
    let lost = machine(3, |spec| spec.devices.iter_mut().for_each(|device| device.node = None));
    let (_, plan) = planned(&lost, &["eth0"], &IrqRequest::default());
    assert_eq!(goals(&plan), ["0", "1", "2"]);
    assert!(said(&plan.reasons, "not known"), "{:?}", plan.reasons);
    let machine = machine(2, |_| {});
    let mut topology = discover(&machine.tree());
    let eth0 = topology.devices.iter().find(|device| device.has_name("eth0")).expect("a device");
    let device = read_device(&machine, eth0);
    topology.nodes.iter_mut().filter(|node| node.id == NodeId(7)).for_each(|node| node.cpus = CpuSet::new());
    let plan = numaio_place::irq::plan(&topology, &[device], None, &IrqRequest::default());
    assert_eq!(goals(&plan), ["24", "25"], "node 6 is the neighbour: {:?}", plan.reasons);
}

#[test]
fn packets_are_steered_where_queues_are_fewer_than_cores() {
    let machine = machine(2, |_| {});
    let steer =
        |flow_steering| planned(&machine, &["eth0"], &IrqRequest { flow_steering, ..Default::default() }).1;
    let plan = steer(false);
    let rps = |queue, list: &str| Change::RpsCpus { interface: "eth0".into(), queue, cpus: cpus(list) };
    let changes = |plan: &IrqPlan| plan.changes.iter().map(|it| it.change.clone()).collect::<Vec<_>>();
    assert!(changes(&plan).contains(&rps(0, "28,30")) && changes(&plan).contains(&rps(1, "29,31")));
    assert!(
        said(&plan.rejected, "--rfs")
            && !changes(&plan).iter().any(|it| matches!(it, Change::RpsFlows { .. }))
    );
    let xps = changes(&plan).into_iter().filter_map(|change| match change {
        Change::XpsCpus { cpus, .. } => Some(cpus),
        _ => None,
    });
    let xps: Vec<CpuSet> = xps.collect();
    assert_eq!(xps[0].union(&xps[1]), cpus("0-31"), "every CPU sends through a queue");
    assert!(xps[0].intersection(&xps[1]).is_empty() && cpus("28,30").is_subset(&xps[0]));
    let flows = changes(&steer(true));
    assert!(flows.contains(&Change::SockFlowEntries { entries: 32768 }));
    assert!(flows.contains(&Change::RpsFlows { interface: "eth0".into(), queue: 1, flows: 16384 }));
}

#[test]
fn managed_interrupts_are_named_and_left_alone() {
    let machine = machine(2, |spec| {
        spec.devices.iter_mut().for_each(|device| device.irq_affinity = Some(cpus("0-31")));
    });
    let (_, plan) = planned(&machine, &["nvme0n1"], &IrqRequest::default());
    assert_eq!(plan.changes.len(), 1, "the queue of commands alone: {:?}", plan.changes);
    assert!(said(&plan.rejected, "managed"), "{:?}", plan.rejected);
    let topology = discover(&machine.tree());
    let queue =
        topology.devices.iter().flat_map(|it| &it.irqs).find(|irq| irq.name == "nvme0q1").expect("a queue");
    let at = |list: &CpuSet| Change::IrqAffinity { irq: queue.number, cpus: list.clone() };
    let forced = AppliedChange { change: at(&cpus("0")), inverse: at(&queue.affinity) };
    let before = machine.tree();
    let (movable, unmovable) =
        without_unmovable(&machine, vec![forced, plan.changes[0].clone()]).expect("tried");
    assert_eq!((movable, unmovable), (plan.changes, vec![queue.number]));
    assert!(machine.tree() == before, "trying changes nothing");
}

#[test]
fn what_is_applied_is_seen_and_another_plan_has_nothing_to_do() {
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
    let (_, again) = planned(&machine, &["eth0"], &request);
    assert_eq!(again.changes, [], "{:?}", again.reasons);
}

/// A machine whose process dies, or which refuses, at a step: 0 is the first.
struct Fails<'a> {
    machine: &'a Simulated,
    left: Cell<usize>,
    /// How it fails.
    how: Fault,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    DiesBefore,
    DiesAfter,
    Refuses,
}

impl Control for Fails<'_> {
    fn apply(&self, change: &Change) -> Result<Change, ControlError> {
        let left = self.left.get();
        // Only once: rolling back succeeds, if it was not itself what failed.
        self.left.set(left.wrapping_sub(1));
        match (left, self.how) {
            (0, Fault::DiesBefore) => panic!("killed"),
            (0, Fault::Refuses) => Err(ControlError::Refused { what: change.to_string(), why: "no".into() }),
            (0, Fault::DiesAfter) => {
                self.machine.apply(change)?;
                panic!("killed")
            }
            _ => self.machine.apply(change),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Killed before or after any change, or while a receipt is kept, or refused: the newest receipt leads back to
    /// what was, exactly; so it does if it is followed twice.
    #[test]
    fn whatever_ends_it_undo_restores_the_machine(
        queues in 1u32..7,
        flow_steering in any::<bool>(),
        tasks in prop::sample::select(vec!["", "28", "30-31"]),
        step in 0usize..24,
        how in prop::sample::select(vec![Fault::DiesBefore, Fault::DiesAfter, Fault::Refuses]),
        keeps in prop::option::of(0usize..24),
    ) {
        let machine = machine(queues, |_| {});
        let request = IrqRequest { tasks: cpus(tasks), flow_steering, ..IrqRequest::default() };
        let (topology, plan) = planned(&machine, &["eth0", "nvme0n1"], &request);
        let fingerprint = &topology.identity.fingerprint;
        let before = machine.tree();
        let disk: RefCell<Option<Receipt>> = RefCell::new(None);
        let mut kept = 0;
        let mut keep = |receipt: &Receipt| {
            // A full disk keeps what was there.
            kept += 1;
            if keeps == Some(kept - 1) {
                return Err("no space left".to_owned());
            }
            *disk.borrow_mut() = Some(receipt.clone());
            Ok(())
        };
        let count = plan.changes.len();
        let fails = Fails { machine: &machine, left: Cell::new(step), how };
        let receipt = Receipt::planned(fingerprint, None, 0, plan.changes);
        let ended = catch_unwind(AssertUnwindSafe(|| apply(&fails, receipt, &mut keep)));
        match &ended {
            Ok(Ok(_)) => prop_assert!(step >= count && keeps.is_none_or(|keeps| keeps > count)),
            Ok(Err(ApplyError::Failed(_) | ApplyError::ReceiptNotSaved(_))) => {
                prop_assert!(machine.tree() == before, "it was rolled back")
            }
            // The receipt could not be kept, and taking back met the refusal: what is kept must lead back.
            Ok(Err(ApplyError::PartiallyApplied { .. })) if keeps.is_some() && how == Fault::Refuses => {}
            Ok(Err(other)) => prop_assert!(false, "{}", other),
            Err(_) => prop_assert!(how != Fault::Refuses),
        }
        if ended.as_ref().is_ok_and(|done| done.is_ok()) {
            prop_assert!(count == 0 || machine.tree() != before);
        }
        for _ in 0..2 {
            if let Some(receipt) = disk.borrow().clone() {
                prop_assert!(undo(&machine, fingerprint, receipt).expect("this machine").is_empty());
            }
            prop_assert!(machine.tree() == before, "step {}, {:?}", step, how);
        }
    }
}
