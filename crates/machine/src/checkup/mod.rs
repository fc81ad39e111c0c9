//! What costs I/O bandwidth on a machine: each symptom with what shows it, what it does to the data of devices, and
//! the command that mends it.
//!
//! [`look`] takes the findings of [`crate::findings`] and adds what a look at settings, memory, queues and control groups
//! shows. How much it costs is not told here: that takes measurements, and this crate has none.

mod confinement;
mod findings;
mod iommu;
mod memory;
mod processors;
mod programs;
mod settings;
mod stacks;
mod steering;

pub use programs::{remote_programs, Program};
pub use stacks::{split_stack, stacks};

use crate::conditions::Conditions;
use crate::findings::{Finding, Severity};
use crate::ids::NodeId;
use crate::set::NodeSet;
use crate::sysfs::Sysfs;
use crate::topology::Topology;
use crate::workload::Direction;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Something that costs bandwidth, or may.
#[derive(Debug, Clone, PartialEq)]
pub struct Symptom {
    /// What was seen, and where.
    pub finding: Finding,
    /// Index in [`Topology::devices`] of the device that it is about; none if it is about more than one, or none.
    pub device: Option<usize>,
    /// The node whose devices suffer; none if it is all nodes, or not known.
    pub target: Option<NodeId>,
    /// What it does to the data of devices.
    pub effect: Effect,
    /// What takes it away.
    pub fix: Fix,
}

/// What a symptom does to the data of devices.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Nothing by itself.
    Nothing,
    /// Buffers lie on one of these nodes, nobody knows on which.
    AnyOf {
        /// The nodes.
        nodes: NodeSet,
        /// The only direction of which that is so; none for both.
        direction: Option<Direction>,
        /// Share of the buffers of which it is so, from 0 to 1; the others lie well.
        share: f64,
    },
    /// Buffers lie on these nodes; all shares add up to 1.
    Shares(BTreeMap<NodeId, f64>),
    /// This share of what a link could carry is lost, from 0 to 1.
    LinkLoss(f64),
    /// It cannot be told from bandwidths between nodes; how to find out, in words.
    Unquantified(String),
}

impl Effect {
    /// All buffers may lie on one of these nodes.
    pub fn any_of(nodes: NodeSet) -> Self {
        Self::AnyOf { nodes, direction: None, share: 1.0 }
    }
}

/// Commands that take a symptom away, as root's shell takes them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fix {
    /// The commands, in their order; empty if none does it.
    pub commands: Vec<String>,
    /// What takes them back, in its order; empty where that is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undo: Vec<String>,
}

impl Fix {
    /// Nothing that a command could do.
    pub(crate) fn none() -> Self {
        Self::default()
    }

    /// One command and what takes it back.
    pub(crate) fn one(command: impl Into<String>, undo: impl Into<String>) -> Self {
        Self { commands: vec![command.into()], undo: vec![undo.into()] }
    }
}

/// A name as one word of a shell's command line (POSIX.1-2017, XCU 2.2.2). Whoever may name an interface chooses its name, and
/// root types the command. It may begin with a dash: numaio takes it as an [`operand`] or the value of an [`option`], and what stands
/// behind `ethtool -L` or `-l` is a name whatever it looks like.
pub(crate) fn word(name: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._:@-".contains(c);
    match !name.is_empty() && name.chars().all(plain) {
        true => Cow::Borrowed(name),
        false => Cow::Owned(format!("'{}'", name.replace('\'', r"'\''"))),
    }
}

/// A name as an operand of numaio: behind `--` where it would be taken for an option (POSIX.1-2017, XBD 12.2, guideline 10).
pub(crate) fn operand(name: &str) -> String {
    let dashes = if name.starts_with('-') { "-- " } else { "" };
    format!("{dashes}{}", word(name))
}

/// A name as the value of an option of numaio: joined to it where it would be taken for another one.
pub(crate) fn option(option: &str, name: &str) -> String {
    let between = if name.starts_with('-') { "=" } else { " " };
    format!("{option}{between}{}", word(name))
}

/// Looks at a machine. What cannot be read is passed over: no file, no symptom.
pub fn check(root: &dyn Sysfs, topology: &Topology, conditions: &Conditions) -> Vec<Symptom> {
    let mut found = findings::symptoms(root, topology, conditions);
    found.extend(settings::symptoms(root, topology, conditions));
    found.extend(processors::symptoms(root, conditions));
    found.extend(memory::symptoms(root, topology));
    found.extend(steering::symptoms(root, topology));
    found.extend(iommu::symptoms(root, topology));
    found.extend(confinement::symptoms(topology));
    found
}

/// A symptom of the machine as a whole, whose cost bandwidths between nodes do not tell.
fn of_machine(finding: Finding, find_out: &str, fix: Fix) -> Symptom {
    Symptom { finding, device: None, target: None, effect: Effect::Unquantified(find_out.to_owned()), fix }
}

/// A finding.
fn finding(
    severity: Severity,
    rule: &str,
    subject: impl Into<String>,
    what: impl Into<String>,
    evidence: impl Into<String>,
    remedy: impl Into<String>,
) -> Finding {
    Finding {
        severity,
        rule: rule.to_owned(),
        subject: subject.into(),
        what: what.into(),
        evidence: evidence.into(),
        remedy: remedy.into(),
    }
}

/// Where the kernel places what finds no room on a node: the nearest other nodes with memory, by distance; all of
/// them where it tells no distances (`Documentation/mm/numa.rst`).
fn next_best(topology: &Topology, node: NodeId) -> NodeSet {
    let others = || topology.memory_nodes().iter().filter(|other| *other != node).collect::<Vec<_>>();
    let distance = |other: NodeId| topology.distances.as_ref().and_then(|it| it.between(node, other));
    let nearest = others().into_iter().filter_map(distance).min();
    others().into_iter().filter(|other| nearest.is_none() || distance(*other) == nearest).collect()
}
