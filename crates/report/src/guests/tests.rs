//! Configurations of a guest on two nodes, and edits of existing domains.

use super::*;
use numaio_machine::guests::{parse_domain, DomainSummary};
use numaio_machine::ids::{CpuId, NodeId};
use numaio_machine::set::CpuSet;
use numaio_machine::topology::{Distances, Identity, Topology};
use numaio_schema::{
    GuestPlacement, GuestPlan, GuestPlanProof, GuestPlanValue, GuestRequest, MachineSource, PinnedVcpu,
    PlacedCell, PlannedFunction, RequestedCell, GUEST_PLAN_SCHEMA,
};

const GIB: u64 = 1 << 30;

fn topology() -> Topology {
    let nodes = vec![NodeId(0), NodeId(1)];
    Topology {
        distances: Some(Distances { nodes, rows: vec![vec![10, 21], vec![21, 10]] }),
        ..Topology::default()
    }
}

/// A plan of a guest with two vCPUs on each of these nodes.
fn plan(name: &str, nodes: &[u32], function: bool) -> GuestPlan {
    let cell = |(index, node): (usize, &u32)| PlacedCell {
        node: NodeId(*node),
        vcpus: (0..2)
            .map(|at| PinnedVcpu { vcpu: index as u32 * 2 + at, cpus: CpuSet::one(CpuId(node * 8 + at)) })
            .collect(),
        memory_bytes: GIB,
    };
    let value = GuestPlanValue { min_share: 1.0, bytes_per_s: 0.0, ranks: 1.0 };
    let of = "eth0".to_owned();
    GuestPlan {
        schema: GUEST_PLAN_SCHEMA.into(),
        numaio: String::new(),
        created_at: 0,
        machine: Identity { architecture: "x86_64".into(), ..Identity::default() },
        source: MachineSource::Live,
        requests: vec![GuestRequest {
            name: name.into(),
            vcpus: 2 * nodes.len() as u32,
            memory_bytes: nodes.len() as u64 * GIB,
            io_threads: 1,
            huge_page_bytes: Some(2 << 20),
            vcpu_ids: Vec::new(),
            cells: Vec::new(),
            demands: Vec::new(),
        }],
        nodes: Vec::new(),
        devices: Vec::new(),
        guests: vec![GuestPlacement {
            name: name.into(),
            cells: nodes.iter().enumerate().map(cell).collect(),
            service_cpus: CpuSet::one(CpuId(5)),
            shares_cpus: false,
            demands: Vec::new(),
            function: function.then(|| PlannedFunction {
                address: "0000:3b:02.1".parse().expect("an address"),
                physical_function: of,
                node: Some(NodeId(1)),
                network: true,
            }),
        }],
        value,
        bound: value,
        proof: GuestPlanProof::Optimal,
        examined: 1,
        baselines: Vec::new(),
        notes: vec!["a -- note --".into()],
    }
}

fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
}

#[test]
fn complete_domain_has_nodes_distances_and_the_bus_of_the_device() {
    let text = guest_domain(&plan("web", &[0, 1], true), 0, &topology());
    let document = parse_domain(&text).expect("well-formed");
    let has_element = |name: &str| document.descendants().any(|node| node.tag_name().name() == name);
    assert!(has_element("distances") && has_element("hugepages"));
    has(
        &text,
        &[
            "<vcpupin vcpu='3' cpuset='9'/>",
            "<iothreadpin iothread='1' cpuset='5'/>",
            "<memory mode='strict' nodeset='0-1'/>",
            "<memnode cellid='1' mode='strict' nodeset='1'/>",
            "<cell id='1' cpus='2-3' memory='1048576' unit='KiB'>",
            "<sibling id='1' value='21'/>",
            "<topology sockets='2' dies='1' cores='2' threads='1'/>",
            "<target busNr='136'>\n        <node>1</node>",
            "<interface type='hostdev' managed='yes'>",
            // The port on the bus of guest node 1.
            "bus='0x0a' slot='0x00' function='0x0'/>\n    </interface>",
        ],
    );
    let summary = DomainSummary::parse(&text).expect("a domain");
    assert_eq!((summary.vcpu_ids, summary.io_thread_ids), (vec![0, 1, 2, 3], vec![1]));
    assert_eq!((summary.memory_bytes, summary.cells.len()), (2 * GIB, 2));
}

#[test]
fn function_of_another_node_is_on_no_bus_of_a_guest_node() {
    let mut plan = plan("web", &[0, 1], true);
    let function = plan.guests[0].function.as_mut().expect("a function");
    function.node = Some(NodeId(6));
    let (domain, command) = (guest_domain(&plan, 0, &topology()), guest_qemu(&plan, &topology()));
    let interface = domain.split("<interface").nth(1).expect("an interface");
    assert_eq!(interface.matches("<address").count(), 1, "the source alone: {interface}");
    has(&command, &["host=0000:3b:02.1,bus=pcie.0"]);
}

#[test]
fn guest_on_one_node_needs_no_guest_nodes() {
    let text = guest_domain(&plan("web", &[1], false), 0, &topology());
    assert!(!text.contains("<numa>") && !text.contains("pcie-expander-bus"), "{text}");
    has(&text, &["<memory mode='strict' nodeset='1'/>", "<vcpu placement='static'>2</vcpu>"]);
}

const EXISTING: &str = "<?xml version='1.0'?>
<!-- kept -->
<domain type='kvm' id='3'>
  <name>db</name>
  <memory unit='KiB'>2097152</memory>
  <currentMemory unit='KiB'>1048576</currentMemory>
  <vcpu placement='auto' cpuset='0-3'>4</vcpu>
  <cputune>
    <shares>2048</shares>
    <vcpupin vcpu='0' cpuset='7'/>
  </cputune>
  <os><type arch='x86_64' machine='pc-q35-7.2'>hvm</type></os>
  <cpu mode='host-model'><topology sockets='1' cores='4' threads='1'/><feature name='vmx'/></cpu>
  <future kind='9'><thing>kept &amp; unchanged</thing></future>
  <devices>
    <controller type='pci' index='0' model='pcie-root'/>
    <controller type='pci' index='6' model='pcie-root-port'/>
    <interface type='network'><address type='pci' bus='0x07' slot='0x00'/></interface>
  </devices>
</domain>
";

#[test]
fn edited_domain_keeps_everything_else() {
    let text = guest_domain_from(&plan("db", &[0, 1], true), 0, &topology(), EXISTING).expect("a domain");
    parse_domain(&text).expect("well-formed");
    has(
        &text,
        &[
            "<?xml version='1.0'?>\n<!-- kept -->\n<!-- Placement",
            "<future kind='9'><thing>kept &amp; unchanged</thing></future>",
            "<shares>2048</shares>",
            "<feature name='vmx'/>",
            "<memory unit='KiB'>2097152</memory>",
            "<currentMemory unit='KiB'>1048576</currentMemory>",
            "<topology sockets='1' cores='4' threads='1'/>",
            "<vcpu placement='static'>4</vcpu>",
            "<vcpupin vcpu='0' cpuset='0'/>",
            "<cell id='1' cpus='2-3'",
            "index='8' model='pcie-expander-bus'",
            "index='11' model='pcie-root-port'",
            "bus='0x0b' slot='0x00' function='0x0'/>\n    </interface>",
            "<interface type='network'>",
        ],
    );
    for removed in ["cpuset='7'", "placement='auto'"] {
        assert!(!text.contains(removed), "{removed} is in:\n{text}");
    }
    // A second edit keeps the guest nodes.
    let mut kept = plan("db", &[0, 1], false);
    kept.requests[0].cells = vec![RequestedCell::default(); 2];
    let again = guest_domain_from(&kept, 0, &topology(), &text).expect("a domain");
    assert_eq!(again.matches("<cell ").count(), 2);
    assert_eq!(again.matches("<vcpupin").count(), 4);
    assert_eq!(again.matches("<memnode").count(), 2);
    assert_eq!(again.matches("model='pcie-expander-bus'").count(), 2, "it has its buses already");
}

/// Elements of a domain that placement has no reason to change.
#[test]
fn amounts_hotplug_and_numbered_threads_stay() {
    let domain = "<domain><name>a</name>\n<memory unit='GiB' dumpCore='off'>2</memory>\n\
        <currentMemory unit='GiB'>1</currentMemory>\n<vcpu current='4'>8</vcpu>\n<iothreads>2</iothreads>\n\
        <iothreadids><iothread id='2'/><iothread id='4'/></iothreadids>\n<memoryBacking><hugepages>\
        <page size='2' unit='M' nodeset='0'/></hugepages></memoryBacking>\n\
        <cpu><topology sockets='8' cores='1' threads='1'/></cpu></domain>";
    let mut plan = plan("a", &[0, 1], false);
    let request = &mut plan.requests[0];
    (request.memory_bytes, request.io_threads) = (2 * GIB, 2);
    let text = guest_domain_from(&plan, 0, &topology(), domain).expect("a domain");
    has(
        &text,
        &[
            "<memory unit='GiB' dumpCore='off'>2</memory>",
            "<currentMemory unit='GiB'>1</currentMemory>",
            " current='4'>8</vcpu>",
            "<page size='2' unit='M' nodeset='0'/>",
            "<topology sockets='8' cores='1' threads='1'/>",
            "iothread='2' cpuset='5'",
            "iothread='4' cpuset='5'",
            // Those that are plugged later are divided, too.
            "<cell id='0' cpus='0-1,4,6'",
            "<cell id='1' cpus='2-3,5,7'",
        ],
    );
    assert_eq!(text.matches("<iothreadpin").count(), 2, "{text}");
    plan.requests[0].memory_bytes = GIB;
    plan.guests[0].cells.iter_mut().for_each(|cell| cell.memory_bytes = GIB / 4);
    let smaller = guest_domain_from(&plan, 0, &topology(), domain).expect("a domain");
    has(
        &smaller,
        &[
            "<memory dumpCore='off' unit='KiB'>524288</memory>",
            "<currentMemory unit='KiB'>524288</currentMemory>",
        ],
    );
}

#[test]
fn pages_of_guest_nodes_stay_unless_others_are_requested() {
    let domain = "<domain><name>a</name><vcpu>2</vcpu>\n<memoryBacking><hugepages><page size='1' unit='G'/>\
        <page size='2' unit='M' nodeset='1'/></hugepages></memoryBacking>\n<cpu><numa>\
        <cell id='0' cpus='0' memory='1048576'/><cell id='1' cpus='1' memory='1048576'/></numa></cpu></domain>";
    let cell = |huge_page_bytes| RequestedCell { huge_page_bytes, ..RequestedCell::default() };
    let mut plan = plan("a", &[0, 1], false);
    plan.requests[0].huge_page_bytes = Some(GIB);
    plan.requests[0].cells = vec![cell(Some(GIB)), cell(Some(2 << 20))];
    let text = guest_domain_from(&plan, 0, &topology(), domain).expect("a domain");
    has(&text, &["<page size='2' unit='M' nodeset='1'/>", "<page size='1' unit='G'/>"]);
    plan.requests[0].cells = vec![cell(Some(GIB)); 2];
    let other = guest_domain_from(&plan, 0, &topology(), domain).expect("a domain");
    assert!(!other.contains("nodeset='1'/></hugepages>") && other.contains("size='1048576'"), "{other}");
}

#[test]
fn domain_of_a_machine_without_pci_express_gets_no_expander() {
    let old = EXISTING.replace("pc-q35-7.2", "pc-i440fx-7.2");
    let text = guest_domain_from(&plan("db", &[0, 1], true), 0, &topology(), &old).expect("a domain");
    assert!(!text.contains("pcie-expander-bus'>"), "{text}");
    has(&text, &["needs a q35 or virt machine", "<interface type='hostdev' managed='yes'>"]);
}

#[test]
fn empty_elements_of_a_domain_get_content() {
    let small = "<domain><name>a</name><memory>2097152</memory><cputune/><devices/></domain>";
    let text = guest_domain_from(&plan("a", &[0], true), 0, &topology(), small).expect("a domain");
    parse_domain(&text).expect("well-formed");
    has(
        &text,
        &[
            "<cputune>\n    <vcpupin",
            "</cputune>",
            "<devices>\n    <interface",
            "<vcpu placement='static'>2</vcpu>",
            "<iothreads>1</iothreads>",
        ],
    );
    assert!(guest_domain_from(&plan("a", &[0], true), 0, &topology(), "<network/>").is_err());
}

#[test]
fn hostile_names_are_escaped_in_every_form() {
    let hostile = "a'&<b>--\"\u{1b}[2J\n`$(x)`,b";
    let plan = plan(hostile, &[0, 1], true);
    let domain = guest_domain(&plan, 0, &topology());
    let summary = DomainSummary::parse(&domain).expect("well-formed");
    assert_eq!(summary.name, hostile.replace(['\u{1b}', '\n'], "\u{fffd}"));
    for text in [
        guest_qemu(&plan, &topology()),
        guest_kubevirt(&plan, &topology()),
        guest_openstack(&plan, &topology()),
        guest_proxmox(&plan, &topology()),
        guest_plan_text(&plan, &crate::TextStyle::default()),
    ] {
        assert!(!text.contains('\u{1b}'), "{text}");
    }
    has(&guest_qemu(&plan, &topology()), &["'guest=a'\\''&<b>--", ",,b,debug-threads=on'"]);
    has(&guest_kubevirt(&plan, &topology()), &["  name: a--"]);
}

#[test]
fn other_forms_state_nodes_memory_and_function() {
    let plan = plan("web", &[0, 1], true);
    has(
        &guest_qemu(&plan, &topology()),
        &[
            "taskset -c 0-1,5,8-9 numactl --membind=0-1 qemu-system-x86_64",
            "-object memory-backend-memfd,hugetlb=on,hugetlbsize=2097152,id=ram1,size=1048576k,host-nodes=1,policy=bind",
            "-numa node,nodeid=1,cpus=2-3,memdev=ram1",
            "-numa dist,src=0,dst=1,val=21",
            "-device pxb-pcie,id=pxb1,bus=pcie.0,bus_nr=136,numa_node=1",
            "-device vfio-pci,host=0000:3b:02.1,bus=port1",
        ],
    );
    has(
        &guest_kubevirt(&plan, &topology()),
        &[
            "dedicatedCpuPlacement: true",
            "pageSize: 2Mi",
            "memory: 2048Mi",
            "sriov: {}",
            "guestMappingPassthrough",
        ],
    );
    has(
        &guest_openstack(&plan, &topology()),
        &[
            "--vcpus 4 --ram 2048",
            "hw:numa_cpus.1=2-3",
            "hw:numa_mem.0=1024",
            "hw:mem_page_size=2048",
            "-- web",
        ],
    );
    has(
        &guest_proxmox(&plan, &topology()),
        &[
            "numa1: cpus=2-3,hostnodes=1,memory=1024,policy=bind",
            "hugepages: 2",
            "hostpci0: 0000:3b:02.1,pcie=1",
        ],
    );
}
