//! Placement formats: the policy in each format, and a note for each unsupported policy.

#![allow(clippy::unwrap_used)]

use crate::common::machines::{cpus, dl585, set};
use numaio_machine::ids::CpuId;
use numaio_machine::set::CpuSet;
use numaio_machine::topology::Identity;
use numaio_machine::workload::{MemoryBinding, MemoryPolicy};
use numaio_report::forms;
use numaio_schema::{
    Basis, MachineSource, PlacementPlan, PlacementRequest, PlacementTarget, TaskPlacement, PLACEMENT_SCHEMA,
};
use proptest::prelude::*;
use MemoryPolicy::{Bind, Interleave, Preferred, WeightedInterleave};

const FORMS: [&str; 9] =
    ["numactl", "systemd", "slurm", "docker", "kubernetes", "libvirt", "openmp", "mpi", "fio"];

fn form(name: &str, plan: &PlacementPlan) -> String {
    match name {
        "numactl" => forms::numactl(plan),
        "systemd" => forms::systemd(plan),
        "slurm" => forms::slurm(plan),
        "docker" => forms::docker(plan),
        "kubernetes" => forms::kubernetes(plan, &dl585()),
        "libvirt" => forms::libvirt(plan, &dl585()),
        "openmp" => forms::openmp(plan),
        "mpi" => forms::mpi(plan),
        _ => forms::fio(plan),
    }
}

/// Builds a task from its CPUs, their nodes, and its memory policy and nodes.
fn task(on: &str, nodes: &str, policy: MemoryPolicy, memory: &str) -> TaskPlacement {
    let memory = MemoryBinding { policy, nodes: set(memory) };
    TaskPlacement { target: Some(0), cpus: cpus(on), cpu_nodes: set(nodes), memory }
}

fn plan(tasks: Vec<TaskPlacement>) -> PlacementPlan {
    let target = PlacementTarget {
        expected: Vec::new(),
        latency: None,
        handle: "eth0".into(),
        chain: Vec::new(),
        device: "eth0".into(),
        node: None,
        irq_cpus: CpuSet::new(),
        share: 1.0,
        basis: Basis::Topology,
        nodes: Vec::new(),
    };
    PlacementPlan {
        schema: PLACEMENT_SCHEMA.into(),
        numaio: "0.1.0".into(),
        created_at: 0,
        machine: Identity { fingerprint: "f".into(), hostname: "HOST".into(), ..dl585().identity },
        source: MachineSource::Live,
        request: PlacementRequest::default(),
        targets: vec![target],
        tasks,
        reasons: Vec::new(),
        rejected: Vec::new(),
        compromises: Vec::new(),
    }
}

/// Returns the lines that are not comments.
fn without_comments(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.starts_with("# ") && !line.starts_with("<!--")).collect()
}

/// A policy with its CPU and memory nodes; for each of FORMS an expected part, and whether a note
/// is expected.
type Case = ((MemoryPolicy, &'static str, &'static str), [(&'static str, bool); 9]);

const CASES: [Case; 6] = [
    (
        (Bind, "7", "7"),
        [
            ("--membind=7", false),
            ("NUMAPolicy=bind\nNUMAMask=\nNUMAMask=7\n", false),
            (" --mem-bind=map_mem:7 ", false),
            (" --cpuset-mems=7", false),
            ("memoryManagerPolicy: Static", false),
            ("<memory mode='strict' nodeset='7'/>", false),
            ("OMP_PLACES='{28},{29}'", true),
            ("slot=28-29", true),
            ("numa_mem_policy=bind:7\n", false),
        ],
    ),
    (
        (Preferred, "7", "7"),
        [
            ("--preferred=7", false),
            ("NUMAPolicy=preferred\nNUMAMask=\nNUMAMask=7\n", false),
            (" --mem-bind=prefer,map_mem:7 ", false),
            ("docker run --cpuset-cpus=28-29\n", true),
            ("memoryManagerPolicy: None", true),
            ("<memory mode='preferred' nodeset='7'/>", false),
            ("OMP_NUM_THREADS=2", true),
            ("slot=28-29", true),
            ("numa_mem_policy=prefer:7\n", false),
        ],
    ),
    (
        (Preferred, "7", "6-7"),
        [
            ("--preferred-many=6-7", false),
            ("NUMAPolicy=local\nNUMAMask=\n", true),
            (" --mem-bind=local ", true),
            ("docker run --cpuset-cpus=28-29\n", true),
            ("memoryManagerPolicy: None", true),
            ("</cputune>\n", true),
            ("OMP_NUM_THREADS=2", true),
            ("slot=28-29", true),
            ("numa_mem_policy=local\n", true),
        ],
    ),
    // No CPU of the task is on the memory's nodes: the kernel's default would use other nodes.
    (
        (Preferred, "7", "2-3"),
        [
            ("--preferred-many=2-3", false),
            ("NUMAPolicy=preferred\nNUMAMask=\nNUMAMask=2\n", true),
            (" --mem-bind=prefer,map_mem:2 ", true),
            (" --cpuset-mems=2-3\n", true),
            ("memoryManagerPolicy: None", true),
            ("<memory mode='preferred' nodeset='2'/>", true),
            ("OMP_NUM_THREADS=2", true),
            ("slot=28-29", true),
            ("numa_mem_policy=prefer:2\n", true),
        ],
    ),
    (
        (Interleave, "7", "2,7"),
        [
            ("--interleave=2,7", false),
            ("NUMAPolicy=interleave\nNUMAMask=\nNUMAMask=2,7\n", false),
            (" --mem-bind=mask_mem:0x84 ", true),
            (" --cpuset-mems=2,7\n", true),
            ("memoryManagerPolicy: None", true),
            ("<memory mode='interleave' nodeset='2,7'/>", false),
            ("OMP_NUM_THREADS=2", true),
            ("slot=28-29", true),
            ("numa_mem_policy=interleave:2,7\n", false),
        ],
    ),
    (
        (WeightedInterleave, "7", "2,7"),
        [
            ("--weighted-interleave=2,7", false),
            ("NUMAPolicy=interleave\nNUMAMask=\nNUMAMask=2,7\n", true),
            (" --mem-bind=mask_mem:0x84 ", true),
            (" --cpuset-mems=2,7\n", true),
            ("memoryManagerPolicy: None", true),
            ("<memory mode='interleave' nodeset='2,7'/>", true),
            ("OMP_NUM_THREADS=2", true),
            ("slot=28-29", true),
            ("numa_mem_policy=interleave:2,7\n", true),
        ],
    ),
];

#[test]
fn each_format_translates_policies_or_notes_lack_of_support() {
    for ((policy, nodes, memory), expected) in CASES {
        let plan = plan(vec![task("28-29", nodes, policy, memory)]);
        for (name, (part, unsupported)) in FORMS.iter().zip(expected) {
            let text = form(name, &plan);
            assert!(text.contains(part), "{name}, {policy:?} {memory}: no {part:?} in\n{text}");
            assert_eq!(
                text.contains("does not support"),
                unsupported,
                "{name}, {policy:?} {memory}:\n{text}"
            );
        }
    }
}

#[test]
fn libvirt_guest_has_a_node_for_each_host_node() {
    let text = forms::libvirt(&plan(vec![task("24,28-29", "6-7", Bind, "6-7")]), &dl585());
    for part in [
        "<vcpupin vcpu='0' cpuset='24'/>",
        "<memnode cellid='0' mode='strict' nodeset='6'/>",
        "<memnode cellid='1' mode='strict' nodeset='7'/>",
        "<cell id='0' cpus='0' ",
        "<cell id='1' cpus='1-2' ",
        "1 GiB as a placeholder",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn slurm_sets_a_common_memory_policy_or_none() {
    let mixed = plan(vec![task("0", "0", Bind, "0"), task("4", "1", Preferred, "1")]);
    let text = forms::slurm(&mixed);
    assert!(
        !without_comments(&text).concat().contains("--mem-bind")
            && text.contains("# Note: Slurm has one --mem-bind policy"),
        "{text}"
    );
    let bound = plan(vec![task("0", "0", Bind, "0"), task("4-5,8", "1-2", Bind, "1-2")]);
    let text = forms::slurm(&bound);
    assert!(text.contains("--cpu-bind=mask_cpu:0x1,0x130 --mem-bind=mask_mem:0x1,0x6 "), "{text}");
}

/// RHEL 9 has Linux 5.14, Debian 12 6.1.
#[test]
fn numactl_uses_only_policies_of_the_kernel() {
    let at = |kernel: &str, policy, memory: &str| {
        let mut plan = plan(vec![task("0-3", "0-1", policy, memory)]);
        plan.machine.kernel = kernel.to_owned();
        (forms::numactl(&plan), forms::numactl_notes(&plan).join("; "))
    };
    let cases = [
        ("6.12.48", Preferred, "0-1", "--preferred-many=0-1", "requires numactl 2.0.15"),
        ("5.14.0-427.el9", Preferred, "0-1", "--preferred=0", "before Linux 5.15"),
        ("5.14.0-427.el9", Preferred, "1", "--preferred=1", ""),
        ("6.12.48", WeightedInterleave, "0-2", "--weighted-interleave=0-2", "requires numactl 2.0.19"),
        ("6.1.0-18-amd64", WeightedInterleave, "0-2", "--interleave=0-2", "before Linux 6.9"),
        ("3.10.0", Bind, "0", "--membind=0", ""),
        ("unknown", Preferred, "0-1", "--preferred-many=0-1", "requires numactl 2.0.15"),
    ];
    for (kernel, policy, memory, option, note) in cases {
        let (text, notes) = at(kernel, policy, memory);
        assert_eq!(text, format!("numactl --physcpubind=0-3 {option}\n"), "{kernel}");
        assert!(notes.contains(note) && notes.is_empty() == note.is_empty(), "{kernel}: {notes}");
    }
}

/// kubernetes#124148: kubelet does not start its topology manager with more than 8 nodes.
#[test]
fn kubelet_gets_the_options_that_its_node_count_requires() {
    let plan = plan(vec![task("0", "0", Bind, "0")]);
    let mut topology = dl585();
    assert_eq!(topology.nodes.len(), 8);
    assert!(!forms::kubernetes(&plan, &topology).contains("max-allowable-numa-nodes"));
    topology.nodes.push(topology.nodes[7].clone());
    let text = forms::kubernetes(&plan, &topology);
    assert!(text.contains("max-allowable-numa-nodes: \"9\""), "{text}");
    // The static policy requires a reserved CPU.
    topology.cpus.truncate(1);
    let text = forms::kubernetes(&plan, &topology);
    assert!(text.contains("plan fewer cores"), "{text}");
}

#[test]
fn compromises_are_comments() {
    let mut plan = plan(vec![task("0", "0", Bind, "0")]);
    plan.compromises = vec!["two devices, one task; with --tasks each has its own".into()];
    for name in FORMS.into_iter().filter(|name| *name != "numactl") {
        let text = form(name, &plan);
        assert!(text.contains("Note: two devices, one task"), "{name}: {text}");
    }
    assert_eq!(forms::numactl_notes(&plan), plan.compromises);
}

/// Arbitrary characters, with more delimiters.
fn name() -> impl Strategy<Value = String> {
    let dangerous = prop::sample::select(vec!['\n', '\r', '\x1b', '-', '>', '<', '#', '\\', '\'', '"', '$']);
    prop::collection::vec(prop_oneof![2 => any::<char>(), 3 => dangerous], 1..40)
        .prop_map(|chars| chars.into_iter().collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn names_of_a_machine_stay_in_comments(names in prop::collection::vec(name(), 5)) {
        let usual = plan(vec![task("28-29", "7", Preferred, "7"), task("24", "6", Preferred, "6")]);
        let mut odd = usual.clone();
        odd.targets[0].device = names[0].clone();
        odd.machine.hostname = names[1].clone() + "$";
        odd.machine.product = names[2].clone();
        odd.machine.fingerprint = names[3].clone();
        odd.compromises = vec![names[4].clone()];
        for name in FORMS {
            let (text, usual) = (form(name, &odd), form(name, &usual));
            let without_host =
                |line: &&str| !line.contains("nodeSelector") && !line.contains("kubernetes.io/hostname");
            let usual: Vec<&str> = without_comments(&usual).into_iter().filter(without_host).collect();
            prop_assert_eq!(without_comments(&text), usual, "{}", name);
            prop_assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{}: {:?}", name, text);
        }
        let domain = format!("<domain>{}</domain>", forms::libvirt(&odd, &dl585()));
        prop_assert!(roxmltree::Document::parse(&domain).is_ok(), "{}", domain);
    }

    #[test]
    fn slurm_masks_match_the_cpus(numbers in prop::collection::btree_set(0u32..128, 2..20)) {
        let mut tasks = vec![task("0", "0", Bind, "0")];
        tasks[0].cpus = numbers.iter().map(|number| CpuId(*number)).collect();
        let text = forms::slurm(&plan(tasks));
        let mask = text.split("mask_cpu:0x").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
        let wanted: u128 = numbers.iter().map(|number| 1u128 << number).sum();
        prop_assert_eq!(u128::from_str_radix(mask, 16).unwrap(), wanted);
    }
}
