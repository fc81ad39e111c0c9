//! Symptoms that cost I/O bandwidth on a machine, with their evidence, effect and fix.
//!
//! [`check`] extends the findings of [`crate::findings`] by checks of settings, memory, queues and
//! control groups. It does not compute costs, which requires measurements.

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

/// A condition that costs, or can cost, bandwidth.
#[derive(Debug, Clone, PartialEq)]
pub struct Symptom {
    /// The finding.
    pub finding: Finding,
    /// Index of its device in [`Topology::devices`]; `None` for no device or several.
    pub device: Option<usize>,
    /// Node of the affected devices; `None` for all nodes or if unknown.
    pub target: Option<NodeId>,
    /// Its effect on the data of devices.
    pub effect: Effect,
    /// Commands that fix it.
    pub fix: Fix,
}

/// The effect of a symptom on the data of devices.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// No effect by itself.
    Nothing,
    /// Buffers are on one of these nodes; which one is unknown.
    AnyOf {
        /// The nodes.
        nodes: NodeSet,
        /// The only affected direction; `None` for both.
        direction: Option<Direction>,
        /// Share of affected buffers, from 0 to 1; the others are placed well.
        share: f64,
    },
    /// Shares of the buffers on each node; they sum to 1.
    Shares(BTreeMap<NodeId, f64>),
    /// Lost share of a link's bandwidth, from 0 to 1.
    LinkLoss(f64),
    /// Not computable from bandwidths between nodes; the text explains how to measure it.
    Unquantified(String),
}

impl Effect {
    /// Creates the effect that all buffers are on one of these nodes.
    pub fn any_of(nodes: NodeSet) -> Self {
        Self::AnyOf { nodes, direction: None, share: 1.0 }
    }
}

/// Shell commands that fix a symptom, for root.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fix {
    /// The commands in order; empty if no command fixes it.
    pub commands: Vec<String>,
    /// Commands that undo the fix, in order; empty if unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undo: Vec<String>,
}

impl Fix {
    /// Creates a fix without commands.
    pub(crate) fn none() -> Self {
        Self::default()
    }

    /// Creates a fix of one command and its undo command.
    pub(crate) fn one(command: impl Into<String>, undo: impl Into<String>) -> Self {
        Self { commands: vec![command.into()], undo: vec![undo.into()] }
    }
}

/// Quotes a name as one word of a shell command (POSIX.1-2017, XCU 2.2.2).
///
/// Root runs the command, and the user who creates an interface chooses its name. A leading dash
/// is handled by [`operand`] and [`option`]; `ethtool -L` and `-l` accept any name as their
/// argument.
pub(crate) fn word(name: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._:@-".contains(c);
    match !name.is_empty() && name.chars().all(plain) {
        true => Cow::Borrowed(name),
        false => Cow::Owned(format!("'{}'", name.replace('\'', r"'\''"))),
    }
}

/// Formats a name as an operand of numaio, after `--` if it starts with a dash
/// (POSIX.1-2017, XBD 12.2, guideline 10).
pub(crate) fn operand(name: &str) -> String {
    let dashes = if name.starts_with('-') { "-- " } else { "" };
    format!("{dashes}{}", word(name))
}

/// Formats a name as the value of an option of numaio, joined with `=` if it starts with a dash.
pub(crate) fn option(option: &str, name: &str) -> String {
    let between = if name.starts_with('-') { "=" } else { " " };
    format!("{option}{between}{}", word(name))
}

/// Checks a machine for symptoms; unreadable files produce none.
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

/// Creates a symptom of the machine whose cost cannot be computed from bandwidths between nodes.
fn of_machine(finding: Finding, find_out: &str, fix: Fix) -> Symptom {
    Symptom { finding, device: None, target: None, effect: Effect::Unquantified(find_out.to_owned()), fix }
}

/// Creates a finding.
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

/// Returns the nodes on which the kernel allocates when a node is full: the nearest other nodes
/// with memory, or all of them without distances (`Documentation/mm/numa.rst`).
fn next_best(topology: &Topology, node: NodeId) -> NodeSet {
    let others = || topology.memory_nodes().iter().filter(|other| *other != node).collect::<Vec<_>>();
    let distance = |other: NodeId| topology.distances.as_ref().and_then(|it| it.between(node, other));
    let nearest = others().into_iter().filter_map(distance).min();
    others().into_iter().filter(|other| nearest.is_none() || distance(*other) == nearest).collect()
}
