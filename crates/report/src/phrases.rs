//! Phrases shared by several reports: names, counts, bandwidths, links and groups of findings.

pub(crate) use crate::style::short;
use crate::subjects;
use numaio_machine::devices::{Device, LocalitySource, PcieLink, Sriov};
use numaio_machine::findings::{Finding, Severity};
use numaio_machine::set::{CpuSet, NodeSet};
use numaio_machine::surroundings::{GuestPlatform, Surroundings};
use numaio_machine::topology::{CoreKind, Identity, Node, Topology};
use numaio_machine::units::{format_size, BandwidthUnit};
use numaio_schema::{Nearness, View};
use std::collections::{BTreeMap, BTreeSet};

/// Formats a count with its noun: `1 node`, `2 nodes`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    let plural = match noun {
        noun if number == 1 => noun.to_owned(),
        noun if noun.ends_with(['s', 'x']) => format!("{noun}es"),
        noun if noun.ends_with('y') => format!("{}ies", &noun[..noun.len() - 1]),
        noun => format!("{noun}s"),
    };
    format!("{number} {plural}")
}

/// Names nodes: `node 7`, `nodes 6-7`.
pub(crate) fn nodes(nodes: &NodeSet) -> String {
    match nodes.len() {
        1 => format!("node {nodes}"),
        _ => format!("nodes {nodes}"),
    }
}

/// Names a program, or the virtual machine that it runs: `web (guest)`.
pub(crate) fn program_name(name: &str, guest: Option<&str>) -> String {
    match guest {
        Some(guest) => format!("{} (guest)", short(guest)),
        None => short(name),
    }
}

/// Formats a share in full percent: `12 %`.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// Trims texts and joins those that are not empty.
pub(crate) fn joined<S: AsRef<str>>(texts: impl IntoIterator<Item = S>, between: &str) -> String {
    let texts: Vec<S> = texts.into_iter().collect();
    let texts = texts.iter().map(|text| text.as_ref().trim()).filter(|text| !text.is_empty());
    texts.collect::<Vec<_>>().join(between)
}

/// Returns the display name of a device.
pub(crate) fn device_name(device: &Device) -> String {
    short(&device.name())
}

/// Returns product and host: `HP ProLiant DL585 G7 (dl585)`, or `unnamed machine`.
pub fn machine_name(identity: &Identity) -> String {
    match (short(&identity.product).as_str(), short(&identity.hostname).as_str()) {
        ("", "") => "unnamed machine".to_owned(),
        ("", host) => host.to_owned(),
        (product, "") => product.to_owned(),
        (product, host) => format!("{product} ({host})"),
    }
}

/// Returns CPU model, architecture and kernel.
pub(crate) fn machine_kind(identity: &Identity) -> String {
    let kernel = match short(&identity.kernel) {
        kernel if kernel.is_empty() => String::new(),
        kernel => format!("Linux {kernel}"),
    };
    joined([short(&identity.cpu_model), short(&identity.architecture), kernel], ", ")
}

/// Describes the size of a machine: `4 packages, 8 nodes, 32 CPUs on 32 cores, 128 GiB of memory`.
pub(crate) fn machine_size(topology: &Topology) -> String {
    let online: CpuSet = topology.cpus.iter().filter(|cpu| cpu.online).map(|cpu| cpu.id).collect();
    let packages: BTreeSet<_> =
        topology.cpus.iter().filter(|cpu| cpu.online).filter_map(|cpu| cpu.package).collect();
    let memory: u64 = topology
        .nodes
        .iter()
        .filter_map(|node| node.memory)
        .fold(0u64, |sum, memory| sum.saturating_add(memory.total_bytes));
    let cores = cores_of(topology, &online);
    let on_cores = if cores > 0 { format!(" on {}", count(cores, "core")) } else { String::new() };
    let packages = if packages.is_empty() { String::new() } else { count(packages.len(), "package") };
    joined(
        [
            packages,
            count(topology.nodes.len(), "node"),
            count(online.len(), "CPU") + &on_cores,
            match topology.nodes.iter().any(|node| node.memory_unknown) {
                true => "memory unknown".to_owned(),
                false => format!("{} of memory", format_size(memory)),
            },
        ],
        ", ",
    )
}

/// Returns the number of cores of these CPUs; 0 if unknown.
pub(crate) fn cores_of(topology: &Topology, cpus: &CpuSet) -> usize {
    let cpus = cpus.iter().filter_map(|cpu| topology.cpu(cpu));
    let cores: BTreeSet<_> = cpus.filter_map(|cpu| Some((cpu.siblings.first()?, cpu.package))).collect();
    cores.len()
}

/// Lists the last-level caches of these CPUs: `L3 6 MiB`, `2 × L3 16 MiB`; empty if unknown.
pub(crate) fn last_cache(topology: &Topology, cpus: &CpuSet) -> String {
    let last = topology.cache_domains(cpus);
    let sizes: BTreeSet<u64> = last.iter().map(|cache| cache.bytes).collect();
    let of_size = |bytes: &u64| {
        let number = last.iter().filter(|cache| cache.bytes == *bytes).count();
        let times = if number > 1 { format!("{number} × ") } else { String::new() };
        format!("{times}L{} {}", last[0].level, format_size(*bytes))
    };
    joined(sizes.iter().map(of_size), ", ")
}

/// Lists the kinds of cores, fastest first: `CPUs 4-7 (4 cores): capacity 1024`; empty for one
/// kind.
pub(crate) fn core_kinds(topology: &Topology) -> Vec<String> {
    let mut kinds: BTreeMap<CoreKind, CpuSet> = BTreeMap::new();
    for cpu in topology.cpus.iter().filter(|cpu| cpu.online) {
        if let Some(kind) = cpu.core_kind {
            kinds.entry(kind).or_default().insert(cpu.id);
        }
    }
    let line = |(kind, cpus): (&CoreKind, &CpuSet)| {
        let cores = count(cores_of(topology, cpus), "core");
        let capacity = kind.capacity.map(|capacity| format!(": capacity {capacity}")).unwrap_or_default();
        format!("CPUs {cpus} ({cores}){capacity}")
    };
    kinds.iter().map(line).collect()
}

/// Describes where this process runs: `Virtual machine`, `Container (lxc) in a virtual machine`;
/// `None` on the machine itself.
pub(crate) fn surroundings(surroundings: &Surroundings) -> Option<String> {
    let container = surroundings.container.as_deref().map(|name| match name {
        "container" => "Container".to_owned(),
        name => format!("Container ({})", short(name)),
    });
    let name = surroundings.hypervisor.and_then(GuestPlatform::name);
    let name = name.map(|name| format!(" ({name})")).unwrap_or_default();
    match (container, surroundings.virtual_machine) {
        (Some(container), true) => Some(format!("{container} in a virtual machine{name}")),
        (None, true) => Some(format!("Virtual machine{name}")),
        (container, false) => container,
    }
}

/// Lists unusual properties of a node: kind of memory, no CPUs, no memory, not allowed.
pub(crate) fn node_notes(node: &Node) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(kind) = node.memory_kind.as_deref().filter(|kind| *kind != "DRAM") {
        let source = node.memory_kind_source.as_deref();
        // The driver of a GPU is the only source for its memory.
        let source = source.filter(|_| kind != "GPU").map(|source| format!(" (by {})", short(source)));
        notes.push(short(kind) + &source.unwrap_or_default());
    }
    if node.cpus.is_empty() {
        notes.push("no CPUs".to_owned());
    }
    match node.memory {
        None if node.memory_unknown => notes.push("memory unknown".to_owned()),
        None => notes.push("no memory".to_owned()),
        Some(_) if !node.memory_allowed => notes.push("memory excluded".to_owned()),
        Some(_) => {}
    }
    let caches = node.memory_side_caches.iter();
    notes.extend(caches.map(|cache| format!("memory-side cache {}", format_size(cache.bytes))));
    notes
}

/// Formats a bandwidth: `7.9 GB/s`.
pub(crate) fn bandwidth(bytes_per_s: f64, unit: BandwidthUnit) -> String {
    let value = unit.of(bytes_per_s);
    let decimals = match value {
        value if value >= 100.0 => 0,
        value if value >= 1.0 => 1,
        _ => 2,
    };
    format!("{value:.decimals$} {unit}")
}

/// Formats current and maximum width and speed of a PCIe link: `x8 of x16, 8.0 of 16.0 GT/s`.
pub(crate) fn link_width(link: &PcieLink) -> String {
    if link.lanes == 0 {
        return format!("link down, maximum x{}, {:.1} GT/s", link.max_lanes, link.max_gt_per_s);
    }
    let width = match link.max_lanes {
        0 => format!("x{}", link.lanes),
        max if max == link.lanes => format!("x{max}"),
        max => format!("x{} of x{max}", link.lanes),
    };
    let now = link.gt_per_s;
    if now <= 0.0 {
        return format!("{width}, speed unknown");
    }
    let speed = match link.max_gt_per_s {
        max if max <= 0.0 || (max - now).abs() < 0.05 => format!("{now:.1}"),
        max => format!("{now:.1} of {max:.1}"),
    };
    format!("{width}, {speed} GT/s")
}

/// Returns the current bandwidth of a link; `None` if it is down or its speed is unknown.
pub(crate) fn link_bytes_per_s(link: &PcieLink) -> Option<f64> {
    (link.lanes > 0 && link.gt_per_s > 0.0).then(|| link.bytes_per_s())
}

/// Formats a link with its current bandwidth: `x8 of x16, 8.0 of 16.0 GT/s = 7.9 GB/s`.
pub(crate) fn link(link: &PcieLink, unit: BandwidthUnit) -> String {
    match link_bytes_per_s(link) {
        None => link_width(link),
        Some(bytes_per_s) => format!("{} = {}", link_width(link), bandwidth(bytes_per_s, unit)),
    }
}

/// States how a device's node was determined, unless by its own `numa_node`.
pub(crate) fn locality_source(device: &Device) -> &'static str {
    match device.locality.source {
        LocalitySource::NumaNode => "",
        LocalitySource::ParentBridge => "node inferred from the upstream bridge",
        LocalitySource::LocalCpus => "node inferred from its local CPUs",
        // The heading above the devices states it.
        LocalitySource::OnlyNode => "",
        LocalitySource::Unknown => "node unknown",
        LocalitySource::AbsentNode => "numa_node refers to an absent or offline node",
    }
}

/// Describes the SR-IOV role: `2 of 64 virtual functions`, `virtual function of 0000:3b:00.0`;
/// empty without.
pub(crate) fn sriov(device: &Device) -> String {
    match &device.sriov {
        None => String::new(),
        Some(Sriov::Physical { total, functions }) => {
            format!("{} of {}", functions.len(), count(*total as usize, "virtual function"))
        }
        Some(Sriov::Virtual { physical_function: of }) => format!("virtual function of {of}"),
    }
}

/// Lists all names after the first.
pub(crate) fn other_names(device: &Device) -> String {
    subjects::joined(device.names.iter().skip(1))
}

/// Returns whether a finding concerns this device or a bridge above it.
pub(crate) fn concerns_device(finding: &Finding, device: &Device) -> bool {
    let above = device.upstream.iter().any(|bridge| bridge.to_string() == finding.subject);
    above || device.has_name(&finding.subject) || finding.subject == device.path
}

/// Findings that differ only in subject and evidence.
pub(crate) struct FindingGroup {
    pub(crate) severity: Severity,
    pub(crate) rule: String,
    pub(crate) what: String,
    pub(crate) remedy: String,
    pub(crate) subjects: Vec<String>,
    /// Distinct evidence.
    pub(crate) evidence: Vec<String>,
}

impl FindingGroup {
    /// Formats the group without its severity: `eth0, eth1: one sentence`.
    pub(crate) fn sentence(&self) -> String {
        format!("{}: {}", subjects::joined(&self.subjects), self.what)
    }
}

/// Groups findings that differ only in subject and evidence, in the order of first occurrence.
pub(crate) fn group_findings(findings: &[Finding]) -> Vec<FindingGroup> {
    let mut groups: Vec<FindingGroup> = Vec::new();
    for Finding { severity, rule, subject, message: what, evidence, remedy } in findings {
        let same = |group: &&mut FindingGroup| {
            (group.severity, &group.rule, &group.what, &group.remedy) == (*severity, rule, what, remedy)
        };
        match groups.iter_mut().find(same) {
            Some(group) => {
                group.subjects.push(subject.clone());
                if !group.evidence.contains(evidence) {
                    group.evidence.push(evidence.clone());
                }
            }
            None => groups.push(FindingGroup {
                severity: *severity,
                rule: rule.clone(),
                what: what.clone(),
                remedy: remedy.clone(),
                subjects: vec![subject.clone()],
                evidence: vec![evidence.clone()],
            }),
        }
    }
    groups
}

/// Names a severity: `problem`, `warning` or `note`.
pub(crate) fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Problem => "problem",
        Severity::Warning => "warning",
        Severity::Note => "note",
    }
}

/// Groups devices with equal `key`, in the order of first occurrence; groups smaller than
/// `at_least` are split.
pub(crate) fn group_devices<'d, K: PartialEq>(
    devices: &[&'d Device],
    at_least: usize,
    key: impl Fn(&Device) -> K,
) -> Vec<Vec<&'d Device>> {
    let mut groups: Vec<(K, Vec<&'d Device>)> = Vec::new();
    for device in devices {
        let device_key = key(device);
        match groups.iter_mut().find(|(key, _)| *key == device_key) {
            Some((_, group)) => group.push(device),
            None => groups.push((device_key, vec![device])),
        }
    }
    let split_small = |group: Vec<&'d Device>| {
        if group.len() >= at_least {
            vec![group]
        } else {
            group.into_iter().map(|device| vec![device]).collect()
        }
    };
    groups.into_iter().flat_map(|(_, group)| split_small(group)).collect()
}

/// Names a group of devices: `12 NVMe`, `3 DMA engines`.
pub(crate) fn group_name(group: &[&Device]) -> String {
    let kind = group.first().map(|device| device.kind.name()).unwrap_or_default();
    match kind {
        "NVMe" | "RDMA" => format!("{} {kind}", group.len()),
        kind => count(group.len(), kind),
    }
}

/// Returns the title of a view, or its name if a foreign document has no title.
pub(crate) fn view_title(view: &View) -> String {
    match short(&view.title) {
        title if title.is_empty() => short(&view.name),
        title => title,
    }
}
/// Formats the expected loss of bandwidth of the most affected device.
pub(crate) fn bandwidth_lost(nearness: &Nearness) -> String {
    nearness.bandwidth_loss.map_or_else(|| "unknown".to_owned(), |loss| format!("{:.0} %", loss * 100.0))
}
