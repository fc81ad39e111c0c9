//! Configurations of platforms that choose CPUs and nodes themselves, or only partially by request:
//! KubeVirt, OpenStack and Proxmox VE.

use super::configuration_parts::{comment_lines, guest_topology, hashed, vcpu_list};
use super::qemu::quoted;
use numaio_machine::set::CpuSet;
use numaio_machine::topology::Topology;
use numaio_schema::{GuestPlacement, GuestPlan, GuestRequest, PlacedCell};
use std::fmt::Write;

const MEBIBYTE: u64 = 1 << 20;

/// Formats a VirtualMachineInstance of KubeVirt for each guest (kubevirt.io, "Dedicated CPU
/// resources", "NUMA").
pub fn guest_kubevirt(plan: &GuestPlan, topology: &Topology) -> String {
    let needs_nodes =
        |guest: &GuestPlacement| guest.cells.windows(2).any(|pair| pair[0].node != pair[1].node);
    let of_nodes: Vec<&str> =
        plan.guests.iter().filter(|guest| needs_nodes(guest)).map(|guest| guest.name.as_str()).collect();
    // A policy of one node rejects a pod that fits no node.
    let policy = if of_nodes.is_empty() { "single-numa-node" } else { "best-effort" };
    let chosen = format!(
        "KubeVirt cannot name CPUs or nodes: kubelet chooses them (cpuManagerPolicy static, topologyManagerPolicy \
         {policy}, memoryManagerPolicy Static)"
    );
    let several = format!("needs several nodes: {}", of_nodes.join(", "));
    let mut notes = vec![
        chosen.as_str(),
        "guestMappingPassthrough shows the guest the nodes of its CPUs, and requires huge pages (--huge-pages)",
        "fill in disks, and the network of the device plugin that offers the virtual functions",
    ];
    notes.extend(Some(several.as_str()).filter(|_| !of_nodes.is_empty()));
    let mut lines = comment_lines(plan, &notes);
    for guest in &plan.guests {
        lines.push(planned(guest));
    }
    let mut text = hashed(&lines);
    for (request, guest) in plan.requests.iter().zip(&plan.guests) {
        text += &instance(request, guest, topology);
    }
    text
}

/// States the planned CPUs and nodes of a guest, to compare them with the actual ones.
fn planned(guest: &GuestPlacement) -> String {
    let cell = |cell: &PlacedCell| {
        let cpus = cell.vcpus.iter().fold(CpuSet::new(), |all, pinned| all.union(&pinned.cpus));
        format!("node {}: CPUs {cpus}, {} MiB", cell.node, cell.memory_bytes / MEBIBYTE)
    };
    let cells: Vec<String> = guest.cells.iter().map(cell).collect();
    crate::style::clean_paragraph(&format!("Planned for {}: {}", guest.name, cells.join("; ")))
}

fn instance(request: &GuestRequest, guest: &GuestPlacement, topology: &Topology) -> String {
    let (sockets, cores, threads) = guest_topology(guest, topology);
    let mut text = "---\napiVersion: kubevirt.io/v1\nkind: VirtualMachineInstance\nmetadata:\n".to_owned();
    let _ = writeln!(text, "  name: {}", label(&request.name));
    text += "spec:\n  domain:\n    cpu:\n";
    let _ = writeln!(text, "      sockets: {sockets}\n      cores: {cores}\n      threads: {threads}");
    text += "      dedicatedCpuPlacement: true\n";
    if !guest.shares_cpus {
        text += "      isolateEmulatorThread: true\n";
    }
    if request.huge_page_bytes.is_some() {
        text += "      numa:\n        guestMappingPassthrough: {}\n";
    }
    if let Some(bytes) = request.huge_page_bytes {
        let size = if bytes.is_multiple_of(1 << 30) {
            format!("{}Gi", bytes >> 30)
        } else {
            format!("{}Mi", bytes / MEBIBYTE)
        };
        let _ = writeln!(text, "    memory:\n      hugepages:\n        pageSize: {size}");
    }
    if request.io_threads > 0 {
        text += "    ioThreadsPolicy: auto\n";
    }
    text += "    devices:\n";
    match guest.function.is_some() {
        true => text += "      interfaces:\n        - name: fast\n          sriov: {}\n      disks: []\n",
        false => text += "      disks: []\n",
    }
    let memory = guest.memory_bytes() / MEBIBYTE;
    let _ = writeln!(
        text,
        "    resources:\n      requests:\n        memory: {memory}Mi\n      limits:\n        memory: {memory}Mi"
    );
    if guest.function.is_some() {
        text += "  networks:\n    - name: fast\n      multus:\n        networkName: NETWORK\n";
    }
    text
}

/// Returns a name of Kubernetes: lower-case letters, digits and hyphens (RFC 1123), at most 63.
fn label(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let label: String = name.chars().take(63).map(plain).collect();
    match label.trim_matches('-') {
        "" => "guest".to_owned(),
        label => label.to_owned(),
    }
}

/// Formats a flavor of OpenStack for each guest (docs.openstack.org/nova, "CPU topologies", "Huge
/// pages", "PCI passthrough").
pub fn guest_openstack(plan: &GuestPlan, topology: &Topology) -> String {
    let notes = [
        "Nova chooses CPUs and nodes of the host: it places the guest near its virtual function",
        "set the size of the root disk, and create the port with --vnic-type direct",
    ];
    let mut lines = comment_lines(plan, &notes);
    lines.extend(plan.guests.iter().map(planned));
    let mut text = hashed(&lines);
    for (request, guest) in plan.requests.iter().zip(&plan.guests) {
        text += &flavor(request, guest, topology);
    }
    text
}

fn flavor(request: &GuestRequest, guest: &GuestPlacement, topology: &Topology) -> String {
    let (sockets, cores, threads) = guest_topology(guest, topology);
    let mut properties = vec![
        "hw:cpu_policy=dedicated".to_owned(),
        format!("hw:cpu_sockets={sockets}"),
        format!("hw:cpu_cores={cores}"),
        format!("hw:cpu_threads={threads}"),
        format!("hw:cpu_thread_policy={}", if threads > 1 { "require" } else { "prefer" }),
        format!("hw:numa_nodes={}", guest.cells.len()),
    ];
    for (index, cell) in guest.cells.iter().enumerate() {
        // Commas would separate values of the option.
        properties.push(format!("hw:numa_cpus.{index}={}", vcpu_list(cell)));
        properties.push(format!("hw:numa_mem.{index}={}", cell.memory_bytes / MEBIBYTE));
    }
    properties.push(match request.huge_page_bytes {
        Some(bytes) => format!("hw:mem_page_size={}", bytes / 1024),
        None => "hw:mem_page_size=small".to_owned(),
    });
    if !guest.shares_cpus {
        properties.push("hw:emulator_threads_policy=isolate".to_owned());
    }
    if guest.function.is_some() {
        properties.push("hw:pci_numa_affinity_policy=required".to_owned());
    }
    let mut words = vec![format!(
        "openstack flavor create --vcpus {} --ram {} --disk 0",
        guest.vcpus().len(),
        guest.memory_bytes() / MEBIBYTE
    )];
    words.extend(properties.iter().map(|property| format!("--property {property}")));
    // A name may start with a hyphen.
    words.push(format!("-- {}", quoted(&request.name)));
    words.join(" \\\n  ") + "\n"
}

/// Formats lines of a guest's configuration of Proxmox VE (qm.conf(5)).
pub fn guest_proxmox(plan: &GuestPlan, topology: &Topology) -> String {
    let notes = [
        "Proxmox VE pins a guest as a whole (affinity, from 7.3): numaio vm apply pins each vCPU to a core",
        "insert into /etc/pve/qemu-server/VMID.conf, or pass each line to qm set VMID",
    ];
    let mut text = hashed(&comment_lines(plan, &notes));
    for (request, guest) in plan.requests.iter().zip(&plan.guests) {
        text += &configuration(request, guest, topology);
    }
    text
}

fn configuration(request: &GuestRequest, guest: &GuestPlacement, topology: &Topology) -> String {
    let (sockets, cores, threads) = guest_topology(guest, topology);
    let cpus = guest.vcpus().iter().fold(guest.service_cpus.clone(), |all, pinned| all.union(&pinned.cpus));
    let mut text = format!("\nname: {}\nmachine: q35\ncpu: host\n", label(&request.name));
    let _ = writeln!(text, "sockets: {sockets}\ncores: {}", cores * threads as usize);
    let _ =
        writeln!(text, "memory: {}\nballoon: 0\naffinity: {cpus}\nnuma: 1", guest.memory_bytes() / MEBIBYTE);
    for (index, cell) in guest.cells.iter().enumerate() {
        // Semicolons separate the ranges of a list.
        let vcpus = vcpu_list(cell).replace(',', ";");
        let _ = writeln!(
            text,
            "numa{index}: cpus={vcpus},hostnodes={},memory={},policy=bind",
            cell.node,
            cell.memory_bytes / MEBIBYTE
        );
    }
    if let Some(bytes) = request.huge_page_bytes.filter(|bytes| [2 << 20, 1 << 30].contains(bytes)) {
        let _ = writeln!(text, "hugepages: {}", bytes / MEBIBYTE);
    }
    if let Some(function) = &guest.function {
        let _ = writeln!(text, "hostpci0: {},pcie=1", function.address);
    }
    text
}
