//! Rates of one direction of the disk, and the rule by which nodes share it.

use serde::Deserialize;

/// Rules that `both` and `blend` combine.
const COMBINED_RULES: usize = 2;
/// Bytes of one stream in flight: 16 requests of 128 KiB, as `numaio bench disk` keeps them.
const STREAM_BYTES: u64 = 16 * (128 << 10);

/// Rates of one direction, in bytes per second.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rates {
    /// Rate of the path to each node.
    pub nodes: Vec<f64>,
    /// Total rate of all nodes.
    pub cap: f64,
    /// Maximum rate of one stream, if limited.
    #[serde(default)]
    pub stream: Option<f64>,
    /// How nodes share the disk.
    #[serde(default)]
    pub sharing: SharingRule,
    /// Share of the time in which the disk serves nothing, in bursts. Between them it is faster, so
    /// that the mean rate stays the same.
    #[serde(default)]
    pub stalls: Option<f64>,
    /// Bytes in flight that count as one stream: the disk receives requests, not streams.
    #[serde(default = "stream_bytes")]
    pub stream_bytes: u64,
}

/// How nodes share the disk. The names are those of `sim`'s `SharingRule`; lab/README.md describes
/// the mechanisms.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(tag = "rule", rename_all = "kebab-case", deny_unknown_fields)]
pub enum SharingRule {
    /// Nodes share the cap, in equal parts.
    #[default]
    Bytes,
    /// Nodes share the cap in proportion to their streams.
    BytesByStreams,
    /// An engine serves nodes one at a time, for a time in proportion to their streams.
    TimeByStreams {
        /// Rate of the engine for a node, over that of the node's path.
        factor: f64,
    },
    /// As `TimeByStreams`, for a time in proportion to the nodes' weights.
    TimeByNodes {
        /// As of `TimeByStreams`.
        factor: f64,
        /// Weight of each node; equal if empty.
        #[serde(default)]
        weights: Vec<f64>,
    },
    /// An engine serves the same number of bytes of each stream in turn, at the rate of its node.
    Requests {
        /// As of `TimeByStreams`.
        factor: f64,
    },
    /// Some nodes share a link.
    SharedLink {
        /// The nodes behind the link.
        nodes: Vec<usize>,
        /// Rate of the link.
        bytes_per_s: f64,
    },
    /// A fixed number of slots, first come, first served; each holds 128 KiB for the latency of the
    /// node.
    InFlight {
        /// Number of slots.
        requests: u32,
        /// Latency of 128 KiB by node, in seconds.
        latency_s: Vec<f64>,
    },
    /// A number of cores moves the bytes; a stream uses at most one of them.
    Cores {
        /// Cores for all streams together.
        cores: f64,
        /// Rate of a core for each node.
        core_bytes_per_s: Vec<f64>,
    },
    /// Copies of all streams share a memory.
    Copies {
        /// Rate of all copies together.
        bytes_per_s: f64,
        /// Copies of each byte by node.
        copies: Vec<f64>,
    },
    /// Each request passes two rules, one after the other.
    Both {
        /// The rules.
        rules: Vec<SharingRule>,
    },
    /// Two rules share the disk's time, in periods that are too short to observe.
    Blend {
        /// Share of the first rule.
        share: f64,
        /// The rules.
        rules: Vec<SharingRule>,
    },
}

fn stream_bytes() -> u64 {
    STREAM_BYTES
}

impl Rates {
    /// Checks the rates.
    ///
    /// # Errors
    ///
    /// A message about the first invalid value.
    pub fn check(&self) -> Result<(), String> {
        let stream = self.stream.iter();
        if !self.nodes.iter().chain([&self.cap]).chain(stream).all(is_positive) {
            return Err("rates must be above 0".into());
        }
        if self.stalls.is_some_and(|stalls| !(0.0..=0.5).contains(&stalls)) {
            return Err("stalls must be from 0 to 0.5".into());
        }
        if self.stream_bytes == 0 {
            return Err("stream_bytes must be above 0".into());
        }
        self.sharing.check(self.nodes.len())
    }
}

impl SharingRule {
    fn check(&self, nodes: usize) -> Result<(), String> {
        let positive = |figures: &[f64], name: &str| match figures.iter().all(is_positive) {
            true => Ok(()),
            false => Err(format!("{name} must be above 0")),
        };
        let of_nodes = |figures: &[f64], name: &str| match figures.len() == nodes {
            true => positive(figures, name),
            false => Err(format!("{name} needs one value per node")),
        };
        match self {
            Self::Bytes | Self::BytesByStreams => Ok(()),
            Self::TimeByStreams { factor } | Self::Requests { factor } => positive(&[*factor], "factor"),
            Self::TimeByNodes { factor, weights } => {
                positive(&[*factor], "factor")?;
                if weights.is_empty() {
                    Ok(())
                } else {
                    of_nodes(weights, "weights")
                }
            }
            Self::SharedLink { nodes: behind, bytes_per_s } => {
                match behind.iter().all(|node| *node < nodes) {
                    true => positive(&[*bytes_per_s], "bytes_per_s"),
                    false => Err("shared-link names a node that does not exist".into()),
                }
            }
            Self::InFlight { requests: 0, .. } => Err("requests must be above 0".into()),
            Self::InFlight { latency_s, .. } => of_nodes(latency_s, "latency_s"),
            Self::Cores { cores, core_bytes_per_s } => {
                positive(&[*cores], "cores")?;
                of_nodes(core_bytes_per_s, "core_bytes_per_s")
            }
            Self::Copies { bytes_per_s, copies } => {
                positive(&[*bytes_per_s], "bytes_per_s")?;
                of_nodes(copies, "copies")
            }
            Self::Both { rules } => check_rules(rules, nodes, |rule| rule.is_single(), "both"),
            Self::Blend { share, rules } => {
                if *share <= 0.0 || *share >= 1.0 {
                    return Err("share must be above 0 and below 1".into());
                }
                // Half of the requests would occupy fewer slots than all of them.
                let is_engine = |rule: &Self| rule.is_single() && !matches!(rule, Self::InFlight { .. });
                check_rules(rules, nodes, is_engine, "blend")
            }
        }
    }

    fn is_single(&self) -> bool {
        !matches!(self, Self::Both { .. } | Self::Blend { .. })
    }
}

fn is_positive(figure: &f64) -> bool {
    figure.is_finite() && *figure > 0.0
}

fn check_rules(
    rules: &[SharingRule],
    nodes: usize,
    may_contain: impl Fn(&SharingRule) -> bool,
    name: &str,
) -> Result<(), String> {
    if rules.len() != COMBINED_RULES || !rules.iter().all(may_contain) {
        return Err(format!("{name} needs two rules that it can combine"));
    }
    rules.iter().try_for_each(|rule| rule.check(nodes))
}
