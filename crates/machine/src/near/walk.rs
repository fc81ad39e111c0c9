//! The walk from a handle to devices: steps, shares, limits, and reached devices.

use super::handle::Handle;
use super::members::{Division, Members};
use super::resolved::{NearDevice, Resolved, Step};
use super::shares::{DeviceShare, PathShare, ShareTable};
use super::sockets::OwnConnections;
use super::{block, fabric, file, host, net, process};
use crate::devices::{Device, LocalitySource, Sriov};
use crate::finding::{Finding, Severity};
use crate::locate::Locate;
use crate::set::NodeSet;
use crate::storage;
use crate::sysfs::{Sysfs, SysfsExt};
use crate::topology::Topology;
use std::net::IpAddr;

/// Maximum number of steps from a handle to a device; a stack of volumes has about ten.
const MAX_DEPTH: usize = 32;
/// Maximum number of steps of all paths; a pool of a hundred disks has about four hundred.
const MAX_STEPS: usize = 4096;
/// Maximum number of recorded characters of a value.
const MAX_VALUE_CHARS: usize = 200;

/// A resource on the path from a handle to a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Resource {
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
    /// An address of another machine.
    Address(IpAddr),
    /// A process.
    Process(u32),
}

impl Resource {
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

/// A position of the walk, and the share of the handle's I/O that reaches it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Position {
    step: Option<usize>,
    share: PathShare,
}

impl Position {
    /// The position above the handle, which all its I/O reaches.
    const START: Self = Self { step: None, share: PathShare::Known(1.0) };

    /// Returns the same position with a part of its share, from 0 to 1.
    pub fn part(self, part: f64) -> Self {
        Self { share: self.share.part(part), ..self }
    }
}

/// A state of the walk to which it can roll back.
pub(super) struct Checkpoint {
    steps: usize,
    findings: usize,
    arrivals: usize,
}

pub(super) struct Walk<'a> {
    pub ground: ResolveContext<'a>,
    /// Connections of this process's network namespace, if several processes are resolved.
    pub own_connections: Option<&'a OwnConnections>,
    steps: Vec<Step>,
    findings: Vec<Finding>,
    /// Resources above the position, to detect a stack that contains itself.
    ancestors: Vec<Resource>,
    shares: ShareTable,
}

impl<'a> Walk<'a> {
    /// Creates a walk without steps.
    pub fn new(ground: ResolveContext<'a>) -> Self {
        Self {
            ground,
            own_connections: None,
            steps: Vec::new(),
            findings: Vec::new(),
            ancestors: Vec::new(),
            shares: ShareTable::default(),
        }
    }

    /// Returns the root of the machine's files.
    pub fn root(&self) -> &'a dyn Sysfs {
        self.ground.root
    }

    /// Starts at a resource.
    pub fn start(&mut self, resource: Resource) {
        self.follow(Position::START, resource, "", "");
    }

    /// Starts at a name that is not a [`Resource`].
    pub fn start_named(&mut self, name: &str) -> Position {
        self.step(Position::START, name, "", "")
    }

    /// Adds a step from `at` to `what`.
    pub fn step(&mut self, at: Position, what: &str, source: &str, value: &str) -> Position {
        let value = value.trim().chars().take(MAX_VALUE_CHARS).collect();
        let [what, source] = [what, source].map(str::to_owned);
        self.steps.push(Step { from: at.step, name: what, source, value });
        Position { step: Some(self.steps.len() - 1), ..at }
    }

    /// Adds a step from `at` to a resource and follows it down to devices.
    pub fn follow(&mut self, at: Position, resource: Resource, source: &str, value: &str) {
        let name = resource.name();
        let at = self.step(at, &name, source, value);
        if self.ancestors.contains(&resource) {
            return self.dead_end(
                at,
                "near-loop",
                &name,
                "The stack contains itself.",
                "Check how it was set up.",
            );
        }
        if self.ancestors.len() >= MAX_DEPTH || self.steps.len() >= MAX_STEPS {
            let what = "The stack is too deep or has too many members; the rest was not resolved.";
            return self.dead_end(at, "near-too-deep", &name, what, "Name one of its members.");
        }
        self.ancestors.push(resource.clone());
        match resource {
            Resource::Net(name) => net::follow(self, at, &name),
            Resource::Block(name) => block::follow(self, at, &name),
            Resource::Nvme(name) => fabric::nvme(self, at, &name),
            Resource::Rdma(name) => net::follow_rdma(self, at, &name),
            Resource::Path(path) => file::follow(self, at, &path),
            Resource::Host(name) => host::follow(self, at, &name),
            Resource::Address(address) => host::follow_address(self, at, address),
            Resource::Process(pid) => process::follow(self, at, pid),
        }
        self.ancestors.pop();
    }

    /// Follows the members of a stack. Those that carry nothing now get the share 0, and their
    /// state as the value of their step.
    pub fn follow_members(
        &mut self,
        at: Position,
        stack: Members,
        to_resource: fn(String) -> Resource,
        source: &str,
    ) {
        let is_active = stack.is_active();
        let value = stack.value();
        if !is_active && !stack.members.is_empty() {
            let subject = self.name_at(at);
            let what = "None of its members carries I/O now.";
            self.dead_end(
                at,
                "near-no-active-member",
                &subject,
                what,
                "See the state of each with --explain.",
            );
        }
        let carrying = stack.members.iter().filter(|member| !is_active || member.idle.is_none()).count();
        let part = match stack.division {
            Division::Even if is_active => at.part(1.0 / carrying.max(1) as f64),
            Division::Unpromised(_) if carrying == 1 && is_active => at,
            Division::Even => self.divide(at, "its members carry nothing now"),
            Division::Unpromised(why) => self.divide(at, why),
        };
        for member in stack.members {
            let (share, value) = match member.idle {
                Some(state) if is_active => (at.part(0.0), format!("{}: {state}", stack.kind)),
                Some(state) => (part, format!("{}: {state}", stack.kind)),
                None => (part, value.clone()),
            };
            self.follow(share, to_resource(member.name), source, value.trim_start_matches(": "));
        }
    }

    /// Returns the position of members among which the kernel does not promise how I/O is divided.
    pub fn divide(&mut self, at: Position, why: &str) -> Position {
        let subject = self.name_at(at);
        let what = format!("The shares of its members are unknown: {why}.");
        let note = self.finding(at, Severity::Note, "near-shares-unknown", &subject, &what, "");
        Position { share: self.shares.divide(at.share, note), ..at }
    }

    /// Returns the name of the step at a position.
    fn name_at(&self, at: Position) -> String {
        at.step.and_then(|step| self.steps.get(step)).map(|step| step.name.clone()).unwrap_or_default()
    }

    /// Returns whether the walk is below this resource.
    pub fn is_visiting(&self, resource: &Resource) -> bool {
        self.ancestors.contains(resource)
    }

    /// Returns the device of a sysfs path: the nearest parent that moves data.
    pub fn device_at(&self, path: &str) -> Option<usize> {
        self.ground.topology.device_at(path)
    }

    /// Returns the devices with a name.
    pub fn devices_named(&self, name: &str) -> Vec<usize> {
        let devices = self.ground.topology.devices.iter().enumerate();
        let named = devices.filter(|(_, device)| device.moves_data() && device.has_name(name));
        named.map(|(index, _)| index).collect()
    }

    /// Ends at devices with the same name, each an unknown part of the I/O.
    pub fn reach_all(&mut self, at: Position, devices: &[usize], source: &str) {
        let part = if devices.len() > 1 { self.divide(at, "several devices have this name") } else { at };
        for index in devices {
            self.reach(part, *index, source);
        }
    }

    /// Ends at a device, adding steps for the device and its node.
    pub fn reach(&mut self, at: Position, index: usize, source: &str) {
        let Some(device) = self.ground.topology.devices.get(index) else { return };
        let name = device.pci.map_or_else(|| device.name(), |pci| pci.to_string());
        let at = self.step(at, &name, source, &describe(device));
        self.node_of(at, device);
        self.shares.reach(index, at.step.unwrap_or(0), at.share);
    }

    /// Ends at a device that already has a step, adding a step for its node.
    pub fn reach_here(&mut self, at: Position, index: usize) {
        let Some(device) = self.ground.topology.devices.get(index) else { return };
        self.node_of(at, device);
        self.shares.reach(index, at.step.unwrap_or(0), at.share);
    }

    fn node_of(&mut self, at: Position, device: &Device) {
        let source = format!("{}/numa_node", device.path);
        let nodes = nodes_of(device);
        if nodes.is_empty() {
            let what = "The kernel does not report its node.";
            let remedy = "Find the socket of its slot in the board's manual; see also numaio topology.";
            return self.dead_end(at, "near-node-unknown", &device.name(), what, remedy);
        }
        let value = match device.locality.source {
            LocalitySource::NumaNode => "reported by the device",
            LocalitySource::ParentBridge => "-1; reported by the bridge above it",
            LocalitySource::LocalCpus => "-1; from its local_cpulist",
            LocalitySource::OnlyNode => "the machine has no other node",
            LocalitySource::AbsentNode | LocalitySource::Unknown => "",
        };
        let what = if nodes.len() == 1 { format!("node {nodes}") } else { format!("nodes {nodes}") };
        self.step(at, &what, &source, value);
    }

    /// Reports that this path ends without a device; the last step is the evidence.
    pub fn dead_end(&mut self, at: Position, rule: &str, subject: &str, what: &str, remedy: &str) {
        self.shares.end_without_device(at.share);
        self.add_finding(at, Severity::Warning, rule, subject, what, remedy);
    }

    /// Reports that a part of the I/O is not followed: the kernel does not report where it goes.
    pub fn not_followed(&mut self, at: Position, subject: &str, what: &str, remedy: &str) {
        self.shares.end_without_device(at.share);
        self.note(at, "near-not-followed", subject, what, remedy);
    }

    /// Adds a remark.
    pub fn note(&mut self, at: Position, rule: &str, subject: &str, what: &str, remedy: &str) {
        self.add_finding(at, Severity::Note, rule, subject, what, remedy);
    }

    fn add_finding(
        &mut self,
        at: Position,
        severity: Severity,
        rule: &str,
        subject: &str,
        what: &str,
        remedy: &str,
    ) {
        let finding = self.finding(at, severity, rule, subject, what, remedy);
        if !self.findings.contains(&finding) {
            self.findings.push(finding);
        }
    }

    /// Returns a finding with the step at a position as its evidence.
    fn finding(
        &self,
        at: Position,
        severity: Severity,
        rule: &str,
        subject: &str,
        what: &str,
        remedy: &str,
    ) -> Finding {
        let evidence = at.step.and_then(|step| self.steps.get(step)).map(|step| match step.value.as_str() {
            "" => step.source.clone(),
            value => format!("{}: {value}", step.source),
        });
        Finding::new(severity, rule, subject, what, evidence.unwrap_or_default(), remedy)
    }

    /// Returns the current state for [`Walk::keep_if_reached`].
    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint { steps: self.steps.len(), findings: self.findings.len(), arrivals: self.shares.arrivals }
    }

    /// Discards steps and findings since the checkpoint unless a device was reached; returns
    /// whether one was.
    pub fn keep_if_reached(&mut self, checkpoint: &Checkpoint) -> bool {
        let reached = self.shares.arrivals > checkpoint.arrivals;
        if !reached {
            self.steps.truncate(checkpoint.steps);
            self.findings.truncate(checkpoint.findings);
        }
        reached
    }

    /// Returns whether no device was reached yet.
    pub fn found_nothing(&self) -> bool {
        self.shares.arrivals == 0
    }

    /// Returns the sysfs path of a block device.
    pub fn block_path(&self, name: &str) -> Option<String> {
        storage::block_path(self.root(), name)
    }

    /// Reads a file; `None` if it is absent or empty.
    pub fn text(&self, path: &str) -> Option<String> {
        self.root().optional(path).filter(|text| !text.is_empty())
    }

    /// Combines steps, devices and nodes to the result.
    pub fn finish(self, handle: &Handle) -> Resolved {
        let topology = self.ground.topology;
        let device = |found: DeviceShare| {
            let DeviceShare { device: index, step, share } = found;
            let device = &topology.devices[index];
            let (name, kind, pci) = (device.name(), device.kind, device.pci);
            NearDevice { index, step, name, kind, pci, share, nodes: nodes_of(device) }
        };
        let mut findings = self.findings;
        findings.extend(self.shares.notes());
        Resolved {
            handle: handle.to_string(),
            chain: self.steps,
            devices: self.shares.devices().into_iter().map(device).collect(),
            nodes: self.shares.nodes(|device| nodes_of(&topology.devices[device])),
            findings,
        }
    }
}

/// Returns the nearest nodes of a device.
fn nodes_of(device: &Device) -> NodeSet {
    let locality = &device.locality;
    match locality.node {
        Some(node) if locality.nodes.is_empty() => NodeSet::one(node),
        _ => locality.nodes.clone(),
    }
}

/// Returns a short description of a device.
fn describe(device: &Device) -> String {
    let names = device.names.join(", ");
    let of = match device.sriov {
        Some(Sriov::Virtual { physical_function: of }) => format!("virtual function of {of}"),
        _ => String::new(),
    };
    let parts = [device.kind.name(), &device.model, &names, &of];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<&str>>().join("; ")
}

/// The machine on which handles are resolved.
#[derive(Clone, Copy)]
pub struct ResolveContext<'a> {
    /// Its files.
    pub root: &'a dyn Sysfs,
    /// Answers for what no file contains.
    pub locate: &'a dyn Locate,
    /// Its devices and nodes.
    pub topology: &'a Topology,
}
