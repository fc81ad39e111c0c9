//! A symptom, its effect and its fix.

use crate::finding::Finding;
use crate::ids::NodeId;
use crate::set::NodeSet;
use crate::workload::Direction;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A condition that costs, or can cost, bandwidth.
#[derive(Debug, Clone, PartialEq)]
pub struct Symptom {
    /// The finding.
    pub finding: Finding,
    /// Index of its device in [`devices`](crate::topology::Topology::devices); `None` for no device
    /// or several.
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
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
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

/// Creates a symptom of the machine whose cost cannot be computed from bandwidths between nodes.
pub(super) fn of_machine(finding: Finding, find_out: &str, fix: Fix) -> Symptom {
    Symptom { finding, device: None, target: None, effect: Effect::Unquantified(find_out.to_owned()), fix }
}
