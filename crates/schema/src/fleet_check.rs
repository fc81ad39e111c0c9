//! Hosts of a fleet that differ from like hosts, or from their own past.

use crate::{Fact, FactKind, FigureKey};
use numaio_machine::ids::NodeId;
use serde::{Deserialize, Serialize};

/// Hosts of a fleet that differ from like hosts, or from their own past.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct FleetCheck {
    /// [`FLEET_CHECK_SCHEMA`](crate::FLEET_CHECK_SCHEMA).
    pub schema: String,
    /// Version of numaio that checked.
    pub numaio: String,
    /// Time of the newest figure in seconds since 1970; `None` without figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newest: Option<u64>,
    /// The options.
    pub options: CheckOptions,
    /// Number of hosts with figures that could be compared.
    pub compared_hosts: u32,
    /// Number of compared figures, over all hosts.
    pub compared_figures: u64,
    /// The groups of like hosts, largest first.
    pub groups: Vec<FleetGroup>,
    /// The hosts with a finding or a remark: structure first, then by significance.
    pub hosts: Vec<HostCheck>,
    /// The undecided questions, with reasons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undecided: Vec<String>,
}

/// The limits of deviations.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct CheckOptions {
    /// Smallest deviation that counts, as a share.
    pub least: f64,
    /// Expected share of false hosts among the reported ones.
    pub false_discovery_rate: f64,
    /// Figures before this time are only a host's past, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<u64>,
    /// Figures up to this time are a host's past, in seconds since 1970; `None` for all but the
    /// newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<u64>,
}

/// Hosts of like hardware and structure, whose figures are compared with each other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct FleetGroup {
    /// A short name, such as `1` or, for a structure variant of like hardware, `1b`.
    pub name: String,
    /// The common parts of all hosts: hardware, and the structure of most.
    pub facts: Vec<Fact>,
    /// Names of the hosts, sorted.
    pub hosts: Vec<String>,
    /// Smallest deviations that the check could find; `None` before a check, or without figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detectable: Option<Detectable>,
    /// Common move of all hosts of the group against their past.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved: Option<GroupMove>,
}

/// Smallest deviations, as shares, that a check finds in a group of this size and noise.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Detectable {
    /// Number of figures of a host.
    pub figures: u32,
    /// If all figures of a host deviate by it; `None` if no deviation suffices.
    pub host: Option<f64>,
    /// If a single figure of a host deviates by it; `None` if no deviation suffices.
    pub figure: Option<f64>,
}

/// A move of a complete group.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct GroupMove {
    /// Number of hosts with a past.
    pub hosts: u32,
    /// Median change of a host's figures, as a share; negative if they became worse.
    pub change: f64,
}

/// A host with a finding or a remark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct HostCheck {
    /// The host.
    pub host: String,
    /// Name of its group.
    pub group: String,
    /// Adjusted p-value of the host's figures: the false discovery rate at which the host would
    /// just be reported. `None` if its figures were not compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p: Option<f64>,
    /// Differences in structure and settings, structure first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<FactDeviation>,
    /// Deviations common to many figures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub summaries: Vec<SummaryDeviation>,
    /// Figures that deviate in the bad direction and no difference in structure explains, most
    /// significant first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<FigureDeviation>,
    /// Number of further such figures.
    #[serde(default)]
    pub more_figures: u32,
    /// Number of figures that are much better than those of like hosts.
    #[serde(default)]
    pub better_figures: u32,
}

/// A fact in which a host differs from like hosts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct FactDeviation {
    /// The fact; its value is empty if the host lacks it.
    #[serde(flatten)]
    pub fact: Fact,
    /// The value of like hosts; empty if they lack it.
    pub expected: String,
    /// Number of hosts of the group with the expected value.
    pub hosts_with_expected: u32,
    /// Number of hosts of the group with the host's value, itself included.
    pub hosts_with_value: u32,
    /// Deviating figures that this difference explains, most significant first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub explains: Vec<FigureDeviation>,
    /// Number of further such figures.
    #[serde(default)]
    pub explains_more: u32,
}

/// Figures that deviate together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(tag = "scope", rename_all = "kebab-case")]
pub enum FigureScope {
    /// All figures of the host.
    Host,
    /// The figures from or to a node.
    Node {
        /// The node.
        node: NodeId,
    },
    /// The figures of a device.
    Device {
        /// Its name.
        device: String,
    },
}

/// With what a value was compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ComparedWith {
    /// The hosts of its group.
    Group,
    /// The host's own past, less the group's move.
    Past,
}

/// A deviation common to many figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct SummaryDeviation {
    /// The figures.
    #[serde(flatten)]
    pub scope: FigureScope,
    /// With what they were compared.
    pub against: ComparedWith,
    /// Number of figures.
    pub figures: u32,
    /// Median of their deviations, as a share; negative is worse, regardless of the unit.
    pub deviation: f64,
    /// One-sided p-value, not adjusted.
    pub p: f64,
}

/// A figure that deviates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct FigureDeviation {
    /// The quantity.
    #[serde(flatten)]
    pub key: FigureKey,
    /// With what it was compared.
    pub against: ComparedWith,
    /// The newest value.
    pub value: f64,
    /// The 95 % interval of the value.
    pub interval: (f64, f64),
    /// Time of measurement in seconds since 1970.
    pub measured_at: u64,
    /// The group's median, or the median of the host's past after the group's move.
    pub expected: f64,
    /// Number of other hosts, or of past values, that were compared.
    pub compared: u32,
    /// Value over the expected value, minus 1.
    pub deviation: f64,
    /// One-sided p-value, not adjusted.
    pub p: f64,
}

impl Default for CheckOptions {
    /// Deviations of at least 5 %, and 1 % false hosts among the reported ones.
    fn default() -> Self {
        Self { least: 0.05, false_discovery_rate: 0.01, since: None, baseline: None }
    }
}

impl FleetCheck {
    /// Returns whether a host has a finding; better figures are none.
    pub fn has_findings(&self) -> bool {
        self.hosts.iter().any(HostCheck::has_findings)
    }
}

/// The gravest finding about a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FindingKind {
    /// It differs in a setting only.
    Setting,
    /// Figures are worse, and no difference in structure explains it.
    Figures,
    /// It differs in its structure or hardware.
    Structure,
}

impl HostCheck {
    /// Returns the gravest finding; `None` without one.
    pub fn gravest(&self) -> Option<FindingKind> {
        match self {
            host if host.differs_in_structure() => Some(FindingKind::Structure),
            host if host.has_slow_figures() => Some(FindingKind::Figures),
            host if !host.facts.is_empty() => Some(FindingKind::Setting),
            _ => None,
        }
    }

    /// Returns whether the host differs in structure or a setting, or is worse than like hosts.
    pub fn has_findings(&self) -> bool {
        self.gravest().is_some()
    }

    /// Returns whether the host should not run jobs: a setting alone, such as another kernel, does
    /// not cost its users anything that was measured.
    pub fn is_unfit(&self) -> bool {
        self.gravest() > Some(FindingKind::Setting)
    }

    /// Returns whether figures are worse, and no difference in structure explains it.
    pub fn has_slow_figures(&self) -> bool {
        !self.summaries.is_empty() || !self.figures.is_empty()
    }

    /// Returns whether the host differs in its structure or hardware.
    pub fn differs_in_structure(&self) -> bool {
        self.facts.iter().any(|fact| fact.fact.kind != FactKind::Setting)
    }
}
