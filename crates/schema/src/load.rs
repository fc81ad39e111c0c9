//! Load beside a measurement.

use crate::Summary;
use numaio_machine::ids::NodeId;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Load beside a measurement, as requested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(tag = "load", rename_all = "lowercase")]
pub enum Load {
    /// STREAM threads.
    Stream {
        /// Node of their CPUs.
        cpu_node: NodeId,
        /// Number of threads.
        threads: u32,
        /// Node of their arrays.
        memory_node: NodeId,
    },
    /// A command of the user's shell.
    Command {
        /// The command.
        command: String,
    },
}

/// Load that ran beside every visit of a measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct MeasuredLoad {
    /// The load.
    #[serde(flatten)]
    pub load: Load,
    /// Bytes per second that its threads read and wrote, as counted by STREAM, over all visits of
    /// the measurement; `None` for a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_s: Option<Summary>,
}

/// Maximum number of threads of a load.
const MAX_THREADS: u32 = 4096;

impl Load {
    /// Returns a name of lower-case letters, digits and hyphens for views: `7x4`, `7x4-on-6`.
    pub fn stable_name(&self) -> String {
        match self {
            Self::Stream { cpu_node, threads, memory_node } if cpu_node == memory_node => {
                format!("{cpu_node}x{threads}")
            }
            Self::Stream { cpu_node, threads, memory_node } => {
                format!("{cpu_node}x{threads}-on-{memory_node}")
            }
            Self::Command { command } => {
                let words = command.split(|c: char| !c.is_ascii_alphanumeric());
                let words = words.filter(|word| !word.is_empty()).map(str::to_lowercase);
                words.collect::<Vec<String>>().join("-")
            }
        }
    }
}

impl fmt::Display for Load {
    /// Writes the load as in the option `--load`, or the quoted command.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stream { cpu_node, threads, memory_node } if cpu_node == memory_node => {
                write!(f, "{cpu_node}:{threads}")
            }
            Self::Stream { cpu_node, threads, memory_node } => {
                write!(f, "{cpu_node}:{threads}:{memory_node}")
            }
            Self::Command { command } => write!(f, "'{}'", command.escape_debug()),
        }
    }
}

impl FromStr for Load {
    type Err = String;

    /// Parses `K:N` or `K:N:M`: N threads on CPUs of node K, with memory of node M, by default K.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "invalid load '{text}': expected K:N or K:N:M, a node, a number of threads up to {MAX_THREADS} \
                 and a node of their memory"
            )
        };
        let parts: Result<Vec<u32>, _> = text.split(':').map(str::parse).collect();
        let (cpu_node, threads, memory_node) = match parts.as_deref() {
            Ok([cpu_node, threads]) => (*cpu_node, *threads, *cpu_node),
            Ok([cpu_node, threads, memory_node]) => (*cpu_node, *threads, *memory_node),
            _ => return Err(wrong()),
        };
        if threads > MAX_THREADS {
            return Err(wrong());
        }
        Ok(Self::Stream { cpu_node: NodeId(cpu_node), threads, memory_node: NodeId(memory_node) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_and_formats_loads() {
        for (text, name) in [("7:4", "7x4"), ("7:4:6", "7x4-on-6"), ("0:0", "0x0")] {
            let load: Load = text.parse().expect(text);
            assert_eq!((load.to_string().as_str(), load.stable_name().as_str()), (text, name));
        }
        assert_eq!("7:4:7".parse::<Load>().expect("a load").to_string(), "7:4");
        for wrong in ["", "7", "7:", ":4", "7:4:", "7:4:6:5", "a:1", "1:-1", "7:4097", "7:4,6:1"] {
            assert!(wrong.parse::<Load>().is_err(), "{wrong}");
        }
        let command = Load::Command { command: "stress-ng --stream 4".into() };
        assert_eq!(command.stable_name(), "stress-ng-stream-4");
        assert_eq!(command.to_string(), "'stress-ng --stream 4'");
    }
}
