//! Plans of guests on the paper's machine, and an exhaustive search beside the bounded one.

use super::instance::{NodeCapacity, Part};
use super::search::{search, MAX_EXAMINED};
use super::value::{is_better, shares};
use super::*;
use crate::placement::tests::{machine, paper};
use crate::placement::TargetDevice;
use numaio_machine::topology::{HugePages, Topology};
use numaio_schema::{GuestBaselineRule, GuestDemand};
use proptest::prelude::*;

const MIB: u64 = 1 << 20;

/// A card on node 7 with 4 GB/s, and two free virtual functions.
fn card() -> GuestTarget {
    let address = |text: &str| text.parse().expect("an address");
    GuestTarget {
        device: TargetDevice {
            handle: "eth0".into(),
            chain: Vec::new(),
            device: "eth0".into(),
            node: Some(NodeId(7)),
            irq_cpus: CpuSet::new(),
            bytes_per_s: Some(4e9),
            has_unknown_share: false,
        },
        pci: Some(address("0000:80:00.0")),
        network: true,
        free_functions: vec![address("0000:80:02.0"), address("0000:80:02.1")],
    }
}

fn guest(name: &str, vcpus: u32, memory_mib: u64, wanted: Option<f64>) -> GuestRequest {
    GuestRequest {
        name: name.into(),
        vcpus,
        memory_bytes: memory_mib * MIB,
        io_threads: 0,
        huge_page_bytes: None,
        vcpu_ids: Vec::new(),
        cells: Vec::new(),
        demands: vec![GuestDemand { device: "eth0".into(), bytes_per_s: wanted }],
    }
}

/// Inputs of a plan besides the requests.
#[derive(Default)]
struct Setting {
    occupied: CpuSet,
    released: BTreeMap<Option<u64>, BTreeMap<NodeId, u64>>,
    hardware_threads: bool,
    functions: bool,
}

/// Plans on the paper's machine of eight nodes of four cores and 1 GiB.
fn plan(requests: &[GuestRequest], setting: &Setting) -> Result<PlannedGuests, GuestPlanError> {
    plan_on(&machine(8, 4), requests, setting)
}

fn plan_on(
    topology: &Topology,
    requests: &[GuestRequest],
    setting: &Setting,
) -> Result<PlannedGuests, GuestPlanError> {
    plan_guests(&GuestPlanInputs {
        topology,
        sources: (&[&paper()]).into(),
        requests,
        targets: &[card()],
        occupied: &setting.occupied,
        released: &setting.released,
        hardware_threads: setting.hardware_threads,
        functions: setting.functions,
    })
}

/// Plans without occupied CPUs.
fn plan_alone(requests: &[GuestRequest]) -> Result<PlannedGuests, GuestPlanError> {
    plan(requests, &Setting::default())
}

fn nodes(guest: &GuestPlacement) -> Vec<u32> {
    guest.cells.iter().map(|cell| cell.node.0).collect()
}

fn cpus(guest: &GuestPlacement) -> String {
    guest.vcpus().iter().fold(CpuSet::new(), |all, pinned| all.union(&pinned.cpus)).to_string()
}

#[test]
fn places_one_guest_on_the_node_of_its_device() {
    let planned = plan_alone(&[guest("web", 3, 256, None)]).expect("a plan");
    let web = &planned.guests[0];
    assert_eq!((nodes(web), cpus(web).as_str()), (vec![7], "28-30"));
    assert_eq!((web.service_cpus.to_string().as_str(), web.shares_cpus), ("31", false));
    assert_eq!((web.demands[0].share, planned.proof), (1.0, GuestPlanProof::Optimal));
}

#[test]
fn uses_the_best_class_before_farther_nodes() {
    let requests = [guest("a", 4, 256, None), guest("b", 4, 256, None), guest("c", 4, 256, None)];
    let planned = plan_alone(&requests).expect("a plan");
    let used: Vec<Vec<u32>> = planned.guests.iter().map(nodes).collect();
    // Tables IV and V of Li et al.: 51.2, 45.5 and 40.9 Gbit/s in the worse direction.
    let mut sorted: Vec<u32> = used.concat();
    sorted.sort_unstable();
    assert_eq!(sorted, [0, 6, 7]);
    // Three guests share the time of the card.
    let seconds = 1.0 + 51.2 / 45.5 + 51.2 / 40.9;
    assert!((planned.value.min_share - 1.0 / seconds).abs() < 1e-6, "{:?}", planned.value);
    assert!(planned.guests.iter().all(|guest| guest.shares_cpus), "no core is left on their nodes");
    let local = planned.baselines.iter().find(|plan| plan.rule == GuestBaselineRule::AllLocal);
    assert_eq!(local.and_then(|plan| plan.value), None, "all three do not fit on node 7");
}

#[test]
fn divides_a_guest_only_if_no_node_holds_it() {
    let planned = plan_alone(&[guest("big", 6, 1500, None)]).expect("a plan");
    let big = &planned.guests[0];
    assert_eq!(nodes(big), [6, 7]);
    let memory: Vec<u64> = big.cells.iter().map(|cell| cell.memory_bytes / MIB).collect();
    assert_eq!((memory.iter().sum::<u64>(), big.cells[0].vcpus.len()), (1500, 3));
    let vcpus: Vec<u32> = big.cells[1].vcpus.iter().map(|pinned| pinned.vcpu).collect();
    assert_eq!(vcpus, [3, 4, 5]);
    // Two guests of three cores do not fit on a node of four, but each is divided only if needed.
    let requests: Vec<GuestRequest> =
        (0..9).map(|number| guest(&format!("g{number}"), 3, 100, None)).collect();
    let divided = plan_alone(&requests).expect("a plan");
    assert!(divided.guests.iter().any(|guest| guest.cells.len() == 2), "nine guests on eight nodes");
}

#[test]
fn avoids_occupied_cores_and_counts_own_memory() {
    let occupied: CpuSet = CpuSet::parse_list("28,61").expect("a list");
    let planned =
        plan(&[guest("a", 2, 256, None)], &Setting { occupied, ..Setting::default() }).expect("a plan");
    assert_eq!(cpus(&planned.guests[0]), "30-31", "the sibling of CPU 61 is CPU 29");
    let request = [guest("a", 2, 1800, None)];
    assert_eq!(nodes(&plan_alone(&request).expect("a plan").guests[0]).len(), 2);
    let released: BTreeMap<_, BTreeMap<_, _>> = [(None, [(NodeId(7), 1000 * MIB)].into())].into();
    let again = plan(&request, &Setting { released, ..Setting::default() }).expect("a plan");
    assert_eq!(nodes(&again.guests[0]), [7], "its memory is on node 7 already");
}

#[test]
fn hardware_threads_of_a_core_belong_to_one_guest() {
    let requests = [guest("a", 4, 256, None), guest("b", 4, 256, None)];
    let planned = plan(&requests, &Setting { hardware_threads: true, ..Setting::default() }).expect("a plan");
    assert_eq!((nodes(&planned.guests[0]), nodes(&planned.guests[1])), (vec![7], vec![7]));
    assert_eq!(
        (cpus(&planned.guests[0]).as_str(), cpus(&planned.guests[1]).as_str()),
        ("28-29,60-61", "30-31,62-63")
    );
}

#[test]
fn huge_pages_limit_the_nodes() {
    let mut topology = machine(8, 4);
    topology.nodes[5].huge_pages.push(HugePages { page_bytes: 2 * MIB, total: 200, free: 200 });
    let request = [GuestRequest { huge_page_bytes: Some(2 * MIB), ..guest("a", 2, 301, None) }];
    let planned = plan_alone(&request);
    assert!(matches!(planned, Err(GuestPlanError::TooLarge { .. })), "no node has huge pages");
    let planned = plan_on(&topology, &request, &Setting::default()).expect("a plan");
    assert_eq!((nodes(&planned.guests[0]), planned.guests[0].memory_bytes()), (vec![5], 302 * MIB));
}

#[test]
fn assigns_each_virtual_function_once() {
    let requests = [guest("a", 1, 64, None), guest("b", 1, 64, None)];
    let setting = Setting { functions: true, ..Setting::default() };
    let planned = plan(&requests, &setting).expect("a plan");
    let functions: Vec<String> = planned
        .guests
        .iter()
        .filter_map(|guest| Some(guest.function.as_ref()?.address.to_string()))
        .collect();
    assert_eq!(functions, ["0000:80:02.0", "0000:80:02.1"]);
    let third = [&requests[..], &[guest("c", 1, 64, None)]].concat();
    let error = plan(&third, &setting).expect_err("two functions");
    assert_eq!(error, GuestPlanError::NoFunction { device: "eth0".into(), guest: "c".into() });
}

#[test]
fn rejects_impossible_requests() {
    let error = |requests: &[GuestRequest]| plan_alone(requests).expect_err("impossible").to_string();
    assert_eq!(error(&[]), "no guest to place");
    assert_eq!(error(&[guest("a", 0, 1, None)]), "guest 'a' has no vCPUs");
    let mut other = guest("a", 1, 1, None);
    other.demands[0].device = "eth9".into();
    assert!(error(&[other]).contains("'eth9'"));
}

#[test]
fn names_what_is_short() {
    let error = |requests: &[GuestRequest]| plan_alone(requests).expect_err("too large").to_string();
    assert_eq!(error(&[guest("a", 33, 1, None)]), "guest 'a' does not fit: free CPUs on nodes 0-7: 32 of 33");
    assert_eq!(
        error(&[guest("a", 33, 9000, None)]),
        "guest 'a' does not fit: free CPUs on nodes 0-7: 32 of 33; free memory on nodes 0-7: 8 GiB of 8.8 GiB"
    );
    // Divided among the nodes, each part is larger than the memory of a node.
    assert_eq!(
        error(&[guest("a", 1, 2000, None)]),
        "guest 'a' does not fit: enough in total, but not node by node; nodes 0-7: 4 CPUs, 1 GiB each"
    );
    let many: Vec<GuestRequest> = (0..33).map(|number| guest(&number.to_string(), 1, 1, None)).collect();
    assert_eq!(error(&many), "the guests do not fit together: free CPUs on nodes 0-7: 32 of 33");
    let full: Vec<GuestRequest> = (0..9).map(|number| guest(&number.to_string(), 1, 1000, None)).collect();
    assert!(error(&full).ends_with("free memory on nodes 0-7: 8 GiB of 8.8 GiB"), "{}", error(&full));
    let mut pages = guest("a", 1, 4096, None);
    pages.huge_page_bytes = Some(1 << 30);
    assert!(error(&[pages.clone()]).ends_with("free huge pages of 1 GiB on nodes 0-7: 0 of 4"));
    let cell = |vcpu, huge_page_bytes| RequestedCell {
        vcpu_ids: vec![vcpu],
        memory_bytes: 512 * MIB,
        huge_page_bytes,
    };
    pages.cells = vec![cell(0, None), cell(1, Some(2 * MIB))];
    assert!(error(&[pages])
        .ends_with("guest node 1 fits on no node: free huge pages of 2 MiB on node 0: 0 of 256"));
}

#[test]
fn cpus_without_memory_use_that_of_the_nearest_node() {
    let mut topology = machine(4, 4);
    let bytes = |topology: &mut Topology, node: usize, gib: u64| {
        let memory = topology.nodes[node].memory.as_mut().expect("memory");
        (memory.total_bytes, memory.free_bytes) = (gib << 30, gib << 30);
    };
    // As on a partition of PowerVM: CPUs on node 2 alone, memory on the others, all equally near.
    for node in [0, 1, 3] {
        topology.nodes[node].cpus = CpuSet::new();
    }
    topology.nodes[2].memory = None;
    topology.distances = None;
    [(0, 5), (1, 8), (3, 1)].into_iter().for_each(|(node, gib)| bytes(&mut topology, node, gib));
    let plan = |requests: &[GuestRequest]| plan_on(&topology, requests, &Setting::default());
    let planned = plan(&[guest("a", 2, 6000, None)]).expect("a plan");
    assert_eq!((nodes(&planned.guests[0]), cpus(&planned.guests[0])), (vec![1], "8-9".into()));
    assert!(
        planned
            .notes
            .iter()
            .any(|note| note.starts_with("node 2 without memory")
                && note.ends_with("use the memory of node 1")),
        "{:?}",
        planned.notes
    );
    let error = plan(&[guest("a", 2, 9000, None)]).expect_err("more than node 1 has").to_string();
    assert!(error.ends_with("free memory on node 1: 8 GiB of 8.8 GiB"), "{error}");
}

#[test]
fn plan_is_no_worse_than_the_simple_plans() {
    let requests: Vec<GuestRequest> =
        (0..6).map(|number| guest(&format!("g{number}"), 2 + number % 3, 128, Some(1.5e9))).collect();
    let planned = plan_alone(&requests).expect("a plan");
    for baseline in &planned.baselines {
        let Some(value) = baseline.value.filter(|_| baseline.rule != GuestBaselineRule::Unpinned) else {
            continue;
        };
        assert!(!is_better(&value, &planned.value), "{baseline:?}");
    }
    assert!(!is_better(&planned.value, &planned.bound));
}

/// A small random instance: capacities and paths of one or two devices.
fn instance() -> impl Strategy<Value = Instance> {
    let nodes = 2..=3usize;
    let guest = (1..=4u32, 1..=4u64, proptest::option::of(0.5..6.0f64), 0..2usize);
    (nodes, proptest::collection::vec(guest, 1..=4), proptest::collection::vec(1.0..4.0f64, 8)).prop_map(
        |(nodes, guests, rates)| {
            let device = |index: usize| DeviceCapacity {
                bytes_per_s: 4.0,
                paths: (0..nodes).map(|node| rates[2 + (index + node) % 6]).collect(),
                ranks: (0..nodes).map(|node| ((index + node) % nodes) as f64 + 1.0).collect(),
            };
            let guests =
                guests.into_iter().enumerate().map(|(request, (vcpus, memory, wanted, device))| GuestShape {
                    request,
                    vcpus,
                    memory,
                    kind: 0,
                    cells: Vec::new(),
                    demands: vec![(device, wanted)],
                    choices: Vec::new(),
                    is_like_previous: false,
                });
            Instance {
                nodes: (0..nodes as u32).map(NodeId).collect(),
                capacity: NodeCapacity { cpus: vec![4; nodes], memory: vec![vec![6; nodes]] },
                devices: vec![device(0), device(1)],
                guests: guests.collect(),
                kinds: vec![None],
                is_truncated: false,
            }
        },
    )
}

/// Returns the best value over all combinations of choices.
fn exhaustive(instance: &Instance) -> Option<GuestPlanValue> {
    let mut best: Option<GuestPlanValue> = None;
    let sizes: Vec<usize> = instance.guests.iter().map(|guest| guest.choices.len()).collect();
    for number in 0..sizes.iter().product::<usize>() {
        let mut rest = number;
        let choices: Vec<&Choice> = instance
            .guests
            .iter()
            .zip(&sizes)
            .map(|(guest, size)| {
                let choice = &guest.choices[rest % size];
                rest /= size;
                choice
            })
            .collect();
        let used = |node: usize, of: &dyn Fn(&Part) -> u64| -> u64 {
            choices.iter().flat_map(|choice| &choice.parts).filter(|part| part.node == node).map(of).sum()
        };
        let fits = (0..instance.nodes.len()).all(|node| {
            used(node, &|part| part.vcpus.into()) <= instance.capacity.cpus[node].into()
                && used(node, &|part| part.memory) <= instance.capacity.memory[0][node]
        });
        if fits {
            let value = shares(instance, &instance.guests, &choices).value;
            best = Some(best.map_or(value, |known| if is_better(&value, &known) { value } else { known }));
        }
    }
    best
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn search_finds_the_exhaustive_optimum(mut instance in instance(), more in 0..2usize) {
        prop_assume!(instance.choose(more).is_ok());
        let found = search(&instance, None, MAX_EXAMINED);
        let best = exhaustive(&instance);
        prop_assert_eq!(found.best.is_some(), best.is_some());
        if let (Some((_, value)), Some(best)) = (found.best, best) {
            prop_assert!(!is_better(&best, &value), "{:?} is better than {:?}", best, value);
            prop_assert!(!found.is_stopped && !is_better(&value, &best));
        }
    }

    #[test]
    fn a_stopped_search_states_a_bound_that_holds(mut instance in instance(), limit in 0..6u64) {
        prop_assume!(instance.choose(0).is_ok());
        let stopped = search(&instance, simple_plans::known(&instance), limit);
        if let (Some(best), Some(bound)) = (exhaustive(&instance), stopped.bound) {
            prop_assert!(!is_better(&best, &bound), "{:?} exceeds {:?}", best, bound);
        }
    }

    #[test]
    fn shares_exceed_no_time_of_a_device(mut instance in instance()) {
        prop_assume!(instance.choose(1).is_ok());
        let choices: Vec<&Choice> = instance.guests.iter().map(|guest| &guest.choices[0]).collect();
        let result = shares(&instance, &instance.guests, &choices);
        for (index, device) in instance.devices.iter().enumerate() {
            let mut seconds = 0.0;
            for ((guest, choice), shares) in instance.guests.iter().zip(&choices).zip(&result.shares) {
                let (on, Some(wanted)) = guest.demands[0] else { continue };
                if on == index {
                    seconds += wanted * shares[0] * device.seconds_per_byte(&choice.parts);
                }
            }
            prop_assert!(seconds <= 1.0 + 1e-6, "{} s per second", seconds);
        }
        let least = result.shares.iter().flatten().copied().fold(1.0, f64::min);
        prop_assert!((least - result.value.min_share).abs() < 1e-12);
    }
}

/// A guest with guest nodes of these numbers of vCPUs and MiB.
fn guest_of_cells(cells: &[(u32, u64)]) -> GuestRequest {
    let mut next = 0..;
    let cell = |(vcpus, mib): &(u32, u64)| RequestedCell {
        vcpu_ids: next.by_ref().take(*vcpus as usize).collect(),
        memory_bytes: mib * MIB,
        huge_page_bytes: None,
    };
    let (vcpus, mib) = cells.iter().fold((0, 0), |sum, cell| (sum.0 + cell.0, sum.1 + cell.1));
    GuestRequest { cells: cells.iter().map(cell).collect(), ..guest("a", vcpus, mib, None) }
}

#[test]
fn guest_nodes_stay_undivided() {
    let together = plan_alone(&[guest_of_cells(&[(2, 100), (1, 100)])]).expect("a plan");
    assert_eq!(nodes(&together.guests[0]), [7, 7], "the node of the device holds both");
    let apart = plan_alone(&[guest_of_cells(&[(4, 100), (1, 900), (0, 900)])]).expect("a plan");
    let guest = &apart.guests[0];
    let distinct: std::collections::BTreeSet<u32> = nodes(guest).into_iter().collect();
    assert_eq!((guest.cells.len(), distinct.len()), (3, 2), "a node holds the memory of two");
    let sizes: Vec<(usize, u64)> =
        guest.cells.iter().map(|cell| (cell.vcpus.len(), cell.memory_bytes / MIB)).collect();
    assert_eq!(sizes, [(4, 100), (1, 900), (0, 900)]);
    assert_eq!(guest.cells[1].vcpus[0].vcpu, 4);
    let error = plan_alone(&[guest_of_cells(&[(5, 100), (1, 100)])]).expect_err("a node has four CPUs");
    assert!(matches!(error, GuestPlanError::TooLarge { .. }), "{error}");
}

#[test]
fn numbered_vcpus_keep_their_numbers_and_names_are_unique() {
    let request = GuestRequest { vcpu_ids: vec![0, 5], ..guest("a", 2, 10, None) };
    let planned = plan_alone(std::slice::from_ref(&request)).expect("a plan");
    let numbers: Vec<u32> = planned.guests[0].vcpus().iter().map(|pinned| pinned.vcpu).collect();
    assert_eq!(numbers, [0, 5]);
    let twice = plan_alone(&[request.clone(), request]).expect_err("one name");
    assert_eq!(twice, GuestPlanError::SameName("a".to_owned()));
}
