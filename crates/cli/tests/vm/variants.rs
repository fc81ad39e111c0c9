//! Configurations of guests in every combination of their parts: nodes, I/O threads, huge pages,
//! virtual functions, and existing domains that are edited.

use crate::support::Home;
use numaio_machine::topology::Topology;
use numaio_schema::{GuestPlan, PlannedFunction, TopologyDocument};

/// Name of the guest of all variants.
pub const GUEST: &str = "guest";

const MACHINE: [&str; 2] = ["--machine", "amd-dl585-g7"];

/// A placement on one or two nodes, with its options.
pub struct PlanVariant {
    /// Its options, for messages.
    pub name: String,
    /// The plan of one guest.
    pub plan: GuestPlan,
}

/// A domain of libvirt.
pub struct DomainVariant {
    /// Its options, for messages.
    pub name: String,
    /// The domain.
    pub text: String,
    /// Architecture of its guest.
    pub architecture: &'static str,
}

/// Returns the topology of the machine of all variants.
pub fn topology(home: &Home) -> Topology {
    let text = home.run(&[&["topology", "--json"], &MACHINE[..]].concat()).ok();
    TopologyDocument::from_json(&text).expect("a topology").topology
}

/// Returns a plan of a guest on one or two nodes.
fn plan(home: &Home, nodes: usize) -> GuestPlan {
    let size = if nodes == 1 { ["2", "128M"] } else { ["4", "384M"] };
    let args = ["vm", "place", "--near", "eth0", "--json", "--vcpus", size[0], "--memory", size[1]];
    let plan = GuestPlan::from_json(&home.run(&[&args[..], &MACHINE].concat()).ok()).expect("a plan");
    assert_eq!(plan.guests[0].cells.len(), nodes);
    plan
}

/// Returns a virtual function on the last node of a plan, of a network card or another device.
fn function(plan: &GuestPlan, network: bool) -> PlannedFunction {
    let node = plan.guests[0].cells.last().map(|cell| cell.node);
    let address = "0000:3b:02.1".parse().expect("an address");
    PlannedFunction { address, physical_function: "eth0".to_owned(), node, network }
}

/// Returns placements in all combinations of options.
pub fn plans(home: &Home) -> Vec<PlanVariant> {
    let mut found = Vec::new();
    for nodes in [1, 2] {
        let plain = plan(home, nodes);
        for io_threads in [0, 2] {
            for huge_page_bytes in [None, Some(2 << 20), Some(1 << 30)] {
                for network in [None, Some(true), Some(false)] {
                    let mut plan = plain.clone();
                    plan.requests[0].io_threads = io_threads;
                    plan.requests[0].huge_page_bytes = huge_page_bytes;
                    plan.guests[0].function = network.map(|network| function(&plain, network));
                    let name = format!(
                        "{nodes} nodes, {io_threads} I/O threads, pages {huge_page_bytes:?}, network {network:?}"
                    );
                    found.push(PlanVariant { name, plan });
                }
            }
        }
    }
    found
}

/// An existing domain; `MACHINE` and `DEVICES` are replaced.
const EXISTING: &str = "<domain type='qemu'>
  <name>guest</name>
  <memory unit='MiB'>128</memory>
  <currentMemory unit='MiB'>64</currentMemory>
  <memoryBacking><hugepages/><nosharepages/></memoryBacking>
  <vcpu placement='auto'>2</vcpu>
  <iothreads>2</iothreads>
  <cputune><shares>2048</shares><vcpupin vcpu='0' cpuset='7'/></cputune>
  <numatune><memory mode='preferred' nodeset='0'/></numatune>
  <os><type arch='x86_64' machine='MACHINE'>hvm</type></os>
  <cpu mode='maximum'><topology sockets='1' dies='1' cores='2' threads='1'/></cpu>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
DEVICES  </devices>
</domain>
";
const CONTROLLERS: &str = "    <controller type='pci' index='0' model='pcie-root'/>
    <controller type='pci' index='1' model='pcie-root-port'>
      <model name='pcie-root-port'/>
      <target chassis='1' port='0x8'/>
      <address type='pci' domain='0x0000' bus='0x00' slot='0x01' function='0x0' multifunction='on'/>
    </controller>
    <controller type='usb' index='0' model='qemu-xhci'>
      <address type='pci' domain='0x0000' bus='0x01' slot='0x00' function='0x0'/>
    </controller>
";

/// Returns domains: new ones of all plans, new ones for aarch64, and edited ones.
pub fn domains(home: &Home) -> Vec<DomainVariant> {
    let topology = topology(home);
    let mut found = Vec::new();
    for PlanVariant { name, mut plan } in plans(home) {
        let text = numaio_report::guest_domain(&plan, 0, &topology);
        found.push(DomainVariant { name: format!("new, {name}"), text, architecture: "x86_64" });
        let request = &plan.requests[0];
        if request.io_threads != 2 || request.huge_page_bytes != Some(2 << 20) {
            continue;
        }
        for (machine, devices) in [("q35", ""), ("q35", CONTROLLERS), ("pc", "")] {
            let existing = EXISTING.replace("MACHINE", machine).replace("DEVICES", devices);
            let text = numaio_report::guest_domain_from(&plan, 0, &topology, &existing).expect("a domain");
            let name = format!("edited {machine} of {} bytes, {name}", existing.len());
            found.push(DomainVariant { name, text, architecture: "x86_64" });
        }
        plan.machine.architecture = "aarch64".to_owned();
        let text = numaio_report::guest_domain(&plan, 0, &topology);
        found.push(DomainVariant { name: format!("aarch64, {name}"), text, architecture: "aarch64" });
    }
    found
}

/// Returns the lines of a domain that state its placement, and that libvirt writes alike.
pub fn placement_lines(text: &str) -> impl Iterator<Item = &str> {
    const STARTS: [&str; 13] = [
        "<vcpu ",
        "<vcpupin",
        "<emulatorpin",
        "<iothreadpin",
        "<iothreads>",
        "<memory mode=",
        "<memnode",
        "<page ",
        "<cell ",
        "<sibling",
        "<topology",
        "<target busNr",
        "<node>",
    ];
    text.lines().map(str::trim).filter(|line| {
        let is_bus = line.contains("model='pcie-expander-bus'>");
        let is_on_port = line.starts_with("<address type='pci'") && line.contains("slot='0x00'");
        is_bus || is_on_port || STARTS.iter().any(|start| line.starts_with(start))
    })
}
