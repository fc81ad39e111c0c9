//! The walk from a handle to devices: steps, shares, limits, and what is reached.

use super::{block, fabric, file, host, net, process, Ground, Handle, NearDevice, NearNode, Resolved, Step};
use crate::devices::{Device, LocalitySource, Sriov};
use crate::findings::{Finding, Severity};
use crate::ids::NodeId;
use crate::set::NodeSet;
use crate::sysfs::{Sysfs, SysfsExt};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Longest way from a handle to a device, in steps; a stack of volumes has some ten.
const DEEPEST: usize = 32;
/// Most steps of all ways together; a pool of a hundred disks has some four hundred.
const MOST_STEPS: usize = 4096;
/// Most characters kept of what a file said.
const MOST_SAID: usize = 200;

/// A thing on the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Thing {
    /// A network interface.
    Net(String),
    /// A block device, by the kernel's name.
    Block(String),
    /// An NVMe controller.
    Nvme(String),
    /// An RDMA device.
    Rdma(String),
    /// A path, as processes see it.
    Path(String),
    /// A host by name, or by an address as text.
    Host(String),
    /// Another machine.
    Address(IpAddr),
    /// A process.
    Process(u32),
}

impl Thing {
    fn name(&self) -> String {
        match self {
            Self::Net(name)
            | Self::Block(name)
            | Self::Nvme(name)
            | Self::Rdma(name)
            | Self::Path(name)
            | Self::Host(name) => name.clone(),
            Self::Address(address) => address.to_string(),
            Self::Process(pid) => format!("process {pid}"),
        }
    }
}

/// Where the walk stands, and the share of the handle's I/O that comes here.
#[derive(Debug, Clone, Copy)]
pub(super) struct At {
    step: Option<usize>,
    pub share: f64,
}

impl At {
    /// The same place, with a part of the share.
    pub fn part(self, part: f64) -> Self {
        Self { share: self.share * part, ..self }
    }
}

/// What the walk knows at some moment, to go back to.
pub(super) struct Mark {
    steps: usize,
    findings: usize,
    ends: usize,
}

/// A device that was reached.
struct Reached {
    device: usize,
    step: usize,
    share: f64,
}

pub(super) struct Walk<'a> {
    pub ground: Ground<'a>,
    steps: Vec<Step>,
    findings: Vec<Finding>,
    /// What the walk is below of, to find a stack that contains itself.
    above: Vec<Thing>,
    /// Devices in the order in which they were reached.
    reached: Vec<Reached>,
    /// How often a device was reached.
    ends: usize,
}

impl<'a> Walk<'a> {
    pub fn new(ground: Ground<'a>) -> Self {
        Self {
            ground,
            steps: Vec::new(),
            findings: Vec::new(),
            above: Vec::new(),
            reached: Vec::new(),
            ends: 0,
        }
    }

    pub fn root(&self) -> &'a dyn Sysfs {
        self.ground.root
    }

    /// Starts with what was typed.
    pub fn begin(&mut self, thing: Thing) {
        let start = At { step: None, share: 1.0 };
        self.go(start, thing, "", "");
    }

    /// Starts with a name for which there is no [`Thing`].
    pub fn begin_named(&mut self, name: &str) -> At {
        self.step(At { step: None, share: 1.0 }, name, "", "")
    }

    /// Adds a step that leads from `at` to `what`.
    pub fn step(&mut self, at: At, what: &str, looked_at: &str, said: &str) -> At {
        let said = said.trim().chars().take(MOST_SAID).collect();
        let [what, looked_at] = [what, looked_at].map(str::to_owned);
        self.steps.push(Step { from: at.step, what, looked_at, said });
        At { step: Some(self.steps.len() - 1), ..at }
    }

    /// Goes on from `at` to a thing, as `looked_at` said, and follows it to its end.
    pub fn go(&mut self, at: At, thing: Thing, looked_at: &str, said: &str) {
        let name = thing.name();
        let at = self.step(at, &name, looked_at, said);
        if self.above.contains(&thing) {
            return self.dead_end(
                at,
                "near-loop",
                &name,
                "It stands upon itself.",
                "Look how it was set up.",
            );
        }
        if self.above.len() >= DEEPEST || self.steps.len() >= MOST_STEPS {
            let what = "It lies too deep, or too many things lie below: it was not followed further.";
            return self.dead_end(at, "near-too-deep", &name, what, "Name one of the things below it.");
        }
        self.above.push(thing.clone());
        match thing {
            Thing::Net(name) => net::follow(self, at, &name),
            Thing::Block(name) => block::follow(self, at, &name),
            Thing::Nvme(name) => fabric::nvme(self, at, &name),
            Thing::Rdma(name) => net::follow_rdma(self, at, &name),
            Thing::Path(path) => file::follow(self, at, &path),
            Thing::Host(name) => host::follow(self, at, &name),
            Thing::Address(address) => host::follow_address(self, at, address),
            Thing::Process(pid) => process::follow(self, at, pid),
        }
        self.above.pop();
    }

    /// Goes on to several things, among which the share is divided evenly.
    pub fn go_all(&mut self, at: At, things: Vec<Thing>, looked_at: &str, said: &str) {
        let part = at.part(1.0 / things.len().max(1) as f64);
        for thing in things {
            self.go(part, thing, looked_at, said);
        }
    }

    /// Whether the walk came through this thing.
    pub fn came_from(&self, thing: &Thing) -> bool {
        self.above.contains(thing)
    }

    /// The device to which a path in sysfs belongs: the nearest above it that moves data.
    pub fn device_at(&self, path: &str) -> Option<usize> {
        let holds = |device: &Device| {
            let rest = path.strip_prefix(device.path.as_str());
            device.moves_data() && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let devices = self.ground.topology.devices.iter().enumerate();
        let held = devices.filter(|(_, device)| holds(device));
        held.max_by_key(|(_, device)| device.path.len()).map(|(index, _)| index)
    }

    /// Devices that have a name.
    pub fn devices_named(&self, name: &str) -> Vec<usize> {
        let devices = self.ground.topology.devices.iter().enumerate();
        let named = devices.filter(|(_, device)| device.moves_data() && device.answers_to(name));
        named.map(|(index, _)| index).collect()
    }

    /// Ends at devices, among which the share is divided evenly.
    pub fn reach_all(&mut self, at: At, devices: &[usize], looked_at: &str) {
        let part = at.part(1.0 / devices.len().max(1) as f64);
        for index in devices {
            self.reach(part, *index, looked_at);
        }
    }

    /// Ends at a device, and adds its node.
    pub fn reach(&mut self, at: At, index: usize, looked_at: &str) {
        let Some(device) = self.ground.topology.devices.get(index) else { return };
        let name = device.pci.map_or_else(|| device.name(), |pci| pci.to_string());
        let at = self.step(at, &name, looked_at, &card(device));
        self.node_of(at, device);
        self.count(at, index);
    }

    /// Ends at a device whose step stands already.
    pub fn reach_here(&mut self, at: At, index: usize) {
        let Some(device) = self.ground.topology.devices.get(index) else { return };
        self.node_of(at, device);
        self.count(at, index);
    }

    fn count(&mut self, at: At, device: usize) {
        self.ends += 1;
        match self.reached.iter_mut().find(|known| known.device == device) {
            Some(known) => known.share += at.share,
            None => self.reached.push(Reached { device, step: at.step.unwrap_or(0), share: at.share }),
        }
    }

    fn node_of(&mut self, at: At, device: &Device) {
        let looked_at = format!("{}/numa_node", device.path);
        let nodes = nodes_of(device);
        if nodes.is_empty() {
            let what = "The kernel does not tell on which node it is.";
            let remedy =
                "The board's manual tells which slot hangs on which socket; numaio topology tells more.";
            return self.dead_end(at, "near-node-unknown", &device.name(), what, remedy);
        }
        let said = match device.locality.source {
            LocalitySource::NumaNode => "it says so itself",
            LocalitySource::ParentBridge => "-1; the bridge above it says so",
            LocalitySource::LocalCpus => "-1; its local_cpulist says so",
            LocalitySource::OnlyNode => "the machine has no other node",
            LocalitySource::AbsentNode | LocalitySource::Unknown => "",
        };
        let what = if nodes.len() == 1 { format!("node {nodes}") } else { format!("nodes {nodes}") };
        self.step(at, &what, &looked_at, said);
    }

    /// Says that the way ends here without a device, with what the last step looked at as evidence.
    pub fn dead_end(&mut self, at: At, rule: &str, subject: &str, what: &str, remedy: &str) {
        self.say(at, Severity::Warning, rule, subject, what, remedy);
    }

    /// Says something that must be known.
    pub fn note(&mut self, at: At, rule: &str, subject: &str, what: &str, remedy: &str) {
        self.say(at, Severity::Note, rule, subject, what, remedy);
    }

    fn say(&mut self, at: At, severity: Severity, rule: &str, subject: &str, what: &str, remedy: &str) {
        let evidence = at.step.and_then(|step| self.steps.get(step)).map(|step| match step.said.as_str() {
            "" => step.looked_at.clone(),
            said => format!("{}: {said}", step.looked_at),
        });
        let [rule, subject, what, remedy] = [rule, subject, what, remedy].map(str::to_owned);
        let finding =
            Finding { severity, rule, subject, what, evidence: evidence.unwrap_or_default(), remedy };
        if !self.findings.contains(&finding) {
            self.findings.push(finding);
        }
    }

    /// Remembers what is known now.
    pub fn mark(&self) -> Mark {
        Mark { steps: self.steps.len(), findings: self.findings.len(), ends: self.ends }
    }

    /// Forgets the steps and findings since the mark if no device was reached since; tells whether one was.
    pub fn kept(&mut self, mark: &Mark) -> bool {
        let reached = self.ends > mark.ends;
        if !reached {
            self.steps.truncate(mark.steps);
            self.findings.truncate(mark.findings);
        }
        reached
    }

    /// Whether no device was reached yet.
    pub fn is_nowhere(&self) -> bool {
        self.ends == 0
    }

    /// Where a block device is described; kernels before 2.6.26 have no class of them.
    pub fn block_path(&self, name: &str) -> Option<String> {
        let places = ["/sys/class/block", "/sys/block"];
        places.iter().find_map(|place| self.root().resolve(&format!("{place}/{name}")).ok())
    }

    /// A file's text; none if it is absent or empty.
    pub fn text(&self, path: &str) -> Option<String> {
        self.root().optional(path).filter(|text| !text.is_empty())
    }

    pub fn finish(self, handle: &Handle) -> Resolved {
        let topology = self.ground.topology;
        let mut nodes: BTreeMap<NodeId, f64> = BTreeMap::new();
        let mut devices = Vec::with_capacity(self.reached.len());
        for Reached { device: index, step, share } in self.reached {
            let device = &topology.devices[index];
            let near = nodes_of(device);
            for node in near.iter() {
                *nodes.entry(node).or_default() += share / near.len() as f64;
            }
            let (name, kind, pci) = (device.name(), device.kind, device.pci);
            devices.push(NearDevice { index, step, name, kind, pci, share, nodes: near });
        }
        Resolved {
            handle: handle.to_string(),
            chain: self.steps,
            devices,
            nodes: nodes.into_iter().map(|(node, share)| NearNode { node, share }).collect(),
            findings: self.findings,
        }
    }
}

/// The nodes a device is nearest to.
fn nodes_of(device: &Device) -> NodeSet {
    let locality = &device.locality;
    match locality.node {
        Some(node) if locality.nodes.is_empty() => NodeSet::one(node),
        _ => locality.nodes.clone(),
    }
}

/// What a device is, in a few words.
fn card(device: &Device) -> String {
    let names = device.names.join(", ");
    let of = match device.sriov {
        Some(Sriov::Virtual { of }) => format!("virtual function of {of}"),
        _ => String::new(),
    };
    let parts = [device.kind.name(), &device.model, &names, &of];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<&str>>().join("; ")
}
