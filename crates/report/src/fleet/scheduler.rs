//! Results of a fleet as input of schedulers: Slurm, Node Feature Discovery and the balloons policy
//! of nri-plugins. The text is printed and never executed.
//!
//! Names come from hosts and devices. Only names of safe characters are written outside of
//! comments.

use super::names::host_list;
use crate::record_header::date;
use crate::style::clean;
use numaio_machine::devices::{Device, DeviceKind};
use numaio_machine::ids::NodeId;
use numaio_machine::set::{CpuSet, NodeSet};
use numaio_machine::topology::Topology;
use numaio_schema::{FleetCheck, HostCheck, MachineExpectation};
use std::collections::{BTreeMap, HashSet};

/// A group with the topology of one of its hosts, which stands for all.
#[derive(Debug, Clone)]
pub struct GroupTopology {
    /// Name of the group.
    pub name: String,
    /// Names of the hosts.
    pub hosts: Vec<String>,
    /// The topology of one of them.
    pub topology: Topology,
    /// What the devices of this host can transfer with buffers on each node.
    pub expected: MachineExpectation,
}

/// A device with the nodes that reach its full bandwidth.
struct PlacedDevice<'a> {
    device: &'a Device,
    name: &'a str,
    /// Its node.
    target: NodeId,
    nodes: NodeSet,
}

impl GroupTopology {
    /// Returns GPUs and network interfaces with the nodes that cost them no bandwidth, in both
    /// directions. Devices without known values are left out.
    fn placed_devices(&self) -> Vec<PlacedDevice<'_>> {
        let is_used = |device: &&Device| {
            matches!(device.kind, DeviceKind::Gpu | DeviceKind::Network | DeviceKind::Rdma)
        };
        let placed = self.topology.devices.iter().filter(is_used).filter_map(|device| {
            let target = device.locality.node?;
            let name = device.names.iter().find(|name| is_safe(name))?;
            Some(PlacedDevice { device, name, target, nodes: self.best_nodes(device)? })
        });
        placed.collect()
    }

    /// Returns the nodes of a device's best class in all directions; with an unknown limit, those
    /// of the best paths.
    fn best_nodes(&self, device: &Device) -> Option<NodeSet> {
        let name = device.distinct_name(&self.topology.devices);
        let best = self.expected.of(&name).map(|of| of.class(1));
        best.reduce(|a, b| a.intersection(&b)).filter(|nodes| !nodes.is_empty())
    }

    /// Returns Slurm's indices of the cores of nodes, as ranges.
    ///
    /// They count cores over sockets in order, and not CPUs as the kernel numbers them
    /// (gres.conf(5), `Cores`).
    fn slurm_cores(&self, nodes: &NodeSet) -> String {
        let mut cores: BTreeMap<(Option<u32>, u32), (bool, u32)> = BTreeMap::new();
        for cpu in self.topology.cpus.iter().filter(|cpu| cpu.online) {
            let first = cpu.siblings.first().map_or(cpu.id.0, |first| first.0);
            let is_near = cpu.node.is_some_and(|node| nodes.contains(node));
            cores.entry((cpu.package.map(|package| package.0), first)).or_insert((is_near, 0)).0 |= is_near;
        }
        let near = cores.values().zip(0..).filter(|((is_near, _), _)| *is_near);
        let indices: CpuSet = near.map(|(_, index)| numaio_machine::ids::CpuId(index)).collect();
        indices.to_string()
    }
}

/// Returns whether a name can be written without quotes in shells, Slurm's files and YAML, and does
/// not expand to several hosts.
fn is_safe(name: &str) -> bool {
    let safe = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    !name.is_empty()
        && name.len() <= 63
        && name.bytes().all(safe)
        && name.as_bytes()[0].is_ascii_alphanumeric()
}

/// Joins the safe names of hosts with commas; the unsafe ones are returned as well.
fn safe_hosts(hosts: &[String]) -> (String, Vec<&String>) {
    let (safe, other): (Vec<&String>, Vec<&String>) = hosts.iter().partition(|host| is_safe(host));
    (safe.iter().map(|host| host.as_str()).collect::<Vec<_>>().join(","), other)
}

fn unsafe_note(hosts: &[&String]) -> String {
    match hosts {
        [] => String::new(),
        _ => format!("# left out, not names of nodes: {}\n", clean(&host_list(hosts.iter().copied()))),
    }
}

/// States in a few words why a host should not run jobs, with the date of the newest figure.
fn reason(host: &HostCheck, date: &str) -> String {
    let structure = host.facts.first().map(|fact| format!("{} differs", fact.fact.name));
    let slow = host
        .figures
        .first()
        .map(|figure| format!("{} {:+.0} %", figure.key.quantity, figure.deviation * 100.0));
    let common = host.summaries.first().map(|found| format!("figures {:+.0} %", found.deviation * 100.0));
    let parts: Vec<String> = structure.into_iter().chain(common).chain(slow).collect();
    // Only characters without a meaning in quotes of a shell and in Slurm's state files.
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || " .,:+-_%/".contains(*c);
    let source = format!("numaio {date}");
    format!("{}: {}", source.trim_end(), parts.join(", ")).chars().filter(is_plain).take(120).collect()
}

/// Formats commands that drain hosts with findings, and lines of slurm.conf and gres.conf for the
/// groups (scontrol(1), slurm.conf(5), gres.conf(5)).
pub fn slurm_actions(check: &FleetCheck, groups: &[GroupTopology]) -> String {
    let mut text = String::from("# Hosts with findings; a node that has a reason already is left as it is\n");
    let date = check.newest.map(date).unwrap_or_default();
    let mut unsafe_names = Vec::new();
    for host in check.hosts.iter().filter(|host| host.has_findings()) {
        match is_safe(&host.host) {
            true if !host.is_unfit() => {
                text.push_str(&format!("# not drained, differs in a setting only: {}\n", host.host));
            }
            // Without an answer of sinfo nothing is changed.
            true => text.push_str(&format!(
                "sinfo --noheader --Node --all --nodes={name} --format=%E | grep --quiet --line-regexp none && \
                 scontrol update nodename={name} state=drain reason='{reason}'\n",
                name = host.host,
                reason = reason(host, &date)
            )),
            false => unsafe_names.push(&host.host),
        }
    }
    text.push_str(&unsafe_note(&unsafe_names));
    text.push_str("# slurm.conf: add these features to those of the nodes\n");
    for group in groups {
        let (hosts, other) = safe_hosts(&group.hosts);
        text.push_str(&unsafe_note(&other));
        if !hosts.is_empty() {
            text.push_str(&format!("NodeName={hosts} Feature=numaio_{}\n", clean_word(&group.name)));
        }
    }
    text.push_str("# gres.conf: cores of the nodes that reach a device's full bandwidth\n");
    for group in groups {
        let (hosts, _) = safe_hosts(&group.hosts);
        if !hosts.is_empty() {
            text.push_str(&gres(group, &hosts));
        }
    }
    text
}

/// Formats the devices of a group as lines of gres.conf.
fn gres(group: &GroupTopology, hosts: &str) -> String {
    let mut devices = group.placed_devices();
    if devices.is_empty() {
        return format!("# group {}: no model of GPUs or NICs\n", clean_word(&group.name));
    }
    devices.sort_by_key(|placed| placed.device.pci);
    let (mut text, mut nvidia) = (String::new(), 0);
    for PlacedDevice { device, name, nodes, .. } in &devices {
        let cores = group.slurm_cores(nodes);
        let render = device.names.iter().find(|name| name.starts_with("renderD") && is_safe(name));
        let line = match (device.kind, render) {
            (DeviceKind::Gpu, _) if device.driver.as_deref() == Some("nvidia") => {
                nvidia += 1;
                format!("Name=gpu File=/dev/nvidia{} Cores={cores}", nvidia - 1)
            }
            (DeviceKind::Gpu, Some(render)) => format!("Name=gpu File=/dev/dri/{render} Cores={cores}"),
            (DeviceKind::Gpu, None) => format!("Name=gpu Type={name} Count=1 Cores={cores}"),
            _ => format!("Name=nic Type={name} Count=1 Cores={cores}"),
        };
        text.push_str(&format!("NodeName={hosts} {line}\n"));
    }
    if nvidia > 0 {
        text.insert_str(0, "# /dev/nvidiaN by PCI address: compare with nvidia-smi -q (Minor Number)\n");
    }
    text
}

/// Replaces the characters of a word that schedulers do not accept.
fn clean_word(word: &str) -> String {
    let replace = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '_' };
    word.chars().take(40).map(replace).collect()
}

/// Formats a feature file of Node Feature Discovery for each group, and for each host with findings
/// (`features.d`; label values have at most 63 letters, digits, `-`, `_` and `.`).
pub fn node_features(check: &FleetCheck, groups: &[GroupTopology]) -> String {
    let mut text = String::from("# Files for /etc/kubernetes/node-feature-discovery/features.d\n");
    let unfit: HashSet<&str> =
        check.hosts.iter().filter(|host| host.is_unfit()).map(|host| host.host.as_str()).collect();
    let failed = |host: &String| unfit.contains(host.as_str());
    for group in groups {
        let (bad, good): (Vec<String>, Vec<String>) = group.hosts.iter().cloned().partition(failed);
        for (hosts, result) in [(good, "passed"), (bad, "failed")] {
            let (names, other) = safe_hosts(&hosts);
            text.push_str(&unsafe_note(&other));
            if names.is_empty() {
                continue;
            }
            text.push_str(&format!("# numaio.features on {names}\n"));
            text.push_str(&format!("numaio-check={result}\nnumaio-group={}\n", clean_word(&group.name)));
            for PlacedDevice { name, nodes, .. } in group.placed_devices() {
                let nodes: String = nodes.to_string().replace(',', "_").chars().take(63).collect();
                text.push_str(&format!("numaio-nodes-{}={nodes}\n", clean_word(name)));
            }
        }
    }
    text
}

/// Formats a configuration of the balloons policy for each group: a balloon type for each device,
/// for which the policy takes CPUs of the device's node.
///
/// The policy knows that node alone. Devices whose full bandwidth is reached from other nodes only
/// are named in comments.
pub fn balloons(groups: &[GroupTopology]) -> String {
    let mut text = String::new();
    for group in groups {
        let (hosts, other) = safe_hosts(&group.hosts);
        let name = clean_word(&group.name).to_ascii_lowercase().replace('_', "-");
        text.push_str(&format!("---\n# Hosts: {hosts}\n{}", unsafe_note(&other)));
        text.push_str(&format!("# Label them config.nri/group=numaio-{name}\n"));
        text.push_str("apiVersion: config.nri/v1alpha1\nkind: BalloonsPolicy\nmetadata:\n");
        text.push_str(&format!("  name: group.numaio-{name}\n  namespace: kube-system\nspec:\n"));
        text.push_str("  pinCPU: true\n  pinMemory: true\n  reservedResources:\n    cpu: 1000m\n");
        let types = balloon_types(group);
        text.push_str(if types.contains("- name") { "  balloonTypes:\n" } else { "  balloonTypes: []\n" });
        text.push_str(&types);
    }
    text
}

fn balloon_types(group: &GroupTopology) -> String {
    let mut text = String::new();
    for PlacedDevice { device, name, target, nodes } in group.placed_devices() {
        let cpus = group.topology.node(target).map_or(0, |node| node.cpus.len());
        if !nodes.contains(target) {
            text.push_str(&format!(
                "    # {name}: its full bandwidth is reached from nodes {nodes}, not from its own\n"
            ));
            continue;
        }
        text.push_str(&format!(
            "    - name: near-{}\n      maxCPUs: {cpus}\n      preferCloseToDevices:\n",
            clean_word(name).to_ascii_lowercase().replace(['_', '.'], "-")
        ));
        let path = match device.kind {
            DeviceKind::Network => format!("class/net/{name}"),
            DeviceKind::Rdma => format!("class/infiniband/{name}"),
            _ => match device.pci {
                Some(address) => format!("bus/pci/devices/{address}"),
                None => continue,
            },
        };
        text.push_str(&format!("        - /sys/{path}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaio_machine::devices::Locality;
    use numaio_machine::ids::{CpuId, PackageId};
    use numaio_machine::topology::{Cpu, Node};
    use numaio_machine::workload::Direction;
    use numaio_schema::{
        BandwidthDifference, CheckOptions, DeviceBandwidth, DeviceExpectation, ExpectationSource,
        ExpectedBandwidth, Fact, FactDeviation, FactKind, FLEET_CHECK_SCHEMA,
    };

    fn node(id: u32, cpus: &str) -> Node {
        Node {
            id: NodeId(id),
            cpus: CpuSet::parse_list(cpus).expect("CPUs"),
            memory: None,
            huge_pages: Vec::new(),
            packages: vec![PackageId(id)],
            access: Vec::new(),
            memory_side_caches: Vec::new(),
            memory_allowed: true,
            memory_kind: None,
            memory_kind_source: None,
            memory_unknown: false,
        }
    }

    /// A CPU of one of two packages with two cores each; CPUs 4 to 7 are the second threads.
    fn cpu(id: u32) -> Cpu {
        let first = id % 4;
        Cpu {
            id: CpuId(id),
            online: true,
            node: Some(NodeId(first % 2)),
            package: Some(PackageId(first % 2)),
            die: None,
            core: Some(first / 2),
            siblings: CpuSet::parse_list(&format!("{first},{}", first + 4)).expect("CPUs"),
            allowed: true,
            isolated: false,
            core_kind: None,
        }
    }

    fn device(kind: DeviceKind, name: &str, node: u32) -> Device {
        let locality = Locality { node: Some(NodeId(node)), ..Locality::default() };
        Device {
            kind,
            names: vec![name.to_owned()],
            name_classes: BTreeMap::new(),
            pci: None,
            path: name.to_owned(),
            ids: None,
            class: None,
            model: String::new(),
            driver: None,
            locality,
            link: None,
            upstream: Vec::new(),
            power: None,
            irqs: Vec::new(),
            sriov: None,
            port_bits_per_s: None,
        }
    }

    /// A group with a NIC on node 1, whose best class is node 1, and a GPU on node 0, whose best
    /// class is node 1 as well.
    fn group(hosts: &[&str]) -> GroupTopology {
        let value = |node, class| ExpectedBandwidth {
            node: NodeId(node),
            class,
            bytes_per_s: 1e9 / f64::from(class),
            source: ExpectationSource::Path,
            path_bytes_copied_per_s: None,
        };
        let expected = |device: &str| DeviceExpectation {
            device: device.to_owned(),
            node: None,
            direction: Direction::Read,
            limit: DeviceBandwidth::Unknown { measure: String::new() },
            beside: Vec::new(),
            difference: BandwidthDifference::Some,
            nodes: vec![value(0, 2), value(1, 1)],
        };
        GroupTopology {
            name: "1b".to_owned(),
            hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
            topology: Topology {
                nodes: vec![node(0, "0,2,4,6"), node(1, "1,3,5,7")],
                cpus: (0..8).map(cpu).collect(),
                devices: vec![device(DeviceKind::Network, "eth0", 1), device(DeviceKind::Gpu, "card0", 0)],
                ..Topology::default()
            },
            expected: MachineExpectation {
                devices: vec![expected("eth0"), expected("card0")],
                ..MachineExpectation::default()
            },
        }
    }

    fn check(host: &str) -> FleetCheck {
        let fact = Fact { kind: FactKind::Structure, name: "link '$(x)'".into(), value: "x4".into() };
        let deviation = FactDeviation {
            fact,
            expected: "x8".into(),
            hosts_with_expected: 9,
            hosts_with_value: 1,
            explains: Vec::new(),
            explains_more: 0,
        };
        let host = HostCheck {
            host: host.to_owned(),
            group: "1b".to_owned(),
            p: None,
            facts: vec![deviation],
            summaries: Vec::new(),
            figures: Vec::new(),
            more_figures: 0,
            better_figures: 0,
        };
        FleetCheck {
            schema: FLEET_CHECK_SCHEMA.to_owned(),
            numaio: String::new(),
            newest: None,
            options: CheckOptions::default(),
            compared_hosts: 0,
            compared_figures: 0,
            groups: Vec::new(),
            hosts: vec![host],
            undecided: Vec::new(),
        }
    }

    #[test]
    fn slurm_drains_hosts_and_counts_cores_over_sockets() {
        let text = slurm_actions(&check("n1"), &[group(&["n1", "n2"])]);
        assert!(
            text.contains(" && scontrol update nodename=n1 state=drain reason='numaio: link x differs'\n"),
            "{text}"
        );
        let dated = slurm_actions(&FleetCheck { newest: Some(86_400), ..check("n1") }, &[]);
        assert!(dated.contains("reason='numaio 1970-01-02 00:00 UTC: link x differs'\n"), "{dated}");
        assert!(text.contains("NodeName=n1,n2 Feature=numaio_1b\n"), "{text}");
        // Node 1 has CPUs 1, 3, 5 and 7, which are cores 2 and 3: the first socket has cores 0 and
        // 1.
        assert!(text.contains("NodeName=n1,n2 Name=nic Type=eth0 Count=1 Cores=2-3\n"), "{text}");
        assert!(text.contains("NodeName=n1,n2 Name=gpu Type=card0 Count=1 Cores=2-3\n"), "{text}");
    }

    #[test]
    fn unsafe_names_are_only_in_comments() {
        for name in ["n1;reboot", "$(x)", "n[1-9]", "a b", "-x", "", "n1\nroot"] {
            let text =
                slurm_actions(&check(name), &[group(&[name, "n2"])]) + &balloons(&[group(&[name, "n2"])]);
            let commands: Vec<&str> =
                text.lines().filter(|line| !line.starts_with(['#', '-', ' '])).collect();
            assert!(!commands.iter().any(|line| line.contains("drain") || line.contains("root")), "{text}");
            assert!(name.is_empty() || !commands.iter().any(|line| line.contains(name)), "{text}");
            assert!(text.contains("NodeName=n2 Feature=numaio_1b\n"), "{text}");
        }
    }

    #[test]
    fn hosts_that_differ_in_a_setting_only_are_not_drained() {
        let mut check = check("n1");
        check.hosts[0].facts[0].fact.kind = FactKind::Setting;
        let text = slurm_actions(&check, &[group(&["n1"])]);
        assert!(text.contains("# not drained, differs in a setting only: n1\n"), "{text}");
        assert!(!text.contains("scontrol"), "{text}");
        assert!(node_features(&check, &[group(&["n1"])]).contains("numaio-check=passed"));
    }

    #[test]
    fn features_distinguish_hosts_with_findings() {
        let text = node_features(&check("n1"), &[group(&["n1", "n2"])]);
        assert!(text.contains("# numaio.features on n2\nnumaio-check=passed\nnumaio-group=1b\n"), "{text}");
        assert!(text.contains("# numaio.features on n1\nnumaio-check=failed\n"), "{text}");
        assert!(text.contains("numaio-nodes-eth0=1\n"), "{text}");
    }

    #[test]
    fn balloons_follow_devices_only_where_their_node_is_best() {
        let text = balloons(&[group(&["n1"])]);
        assert!(text.contains("- name: near-eth0\n      maxCPUs: 4\n"), "{text}");
        assert!(text.contains("        - /sys/class/net/eth0\n"), "{text}");
        assert!(
            text.contains("# card0: its full bandwidth is reached from nodes 1, not from its own"),
            "{text}"
        );
    }
}
