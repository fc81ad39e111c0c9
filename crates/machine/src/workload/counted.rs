//! Workloads whose events are counted.

use super::copy::CopyWorkload;
use super::program::ProgramWorkload;
use super::stream::StreamWorkload;
use crate::counters::Counter;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A workload, and the counters to read while it runs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct CountedWorkload {
    /// The counters. Each has a count or a reason in the outcome.
    pub counters: Vec<Counter>,
    /// The counted event.
    pub target: CountedTarget,
}

/// The counted event.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(tag = "target", rename_all = "kebab-case")]
pub enum CountedTarget {
    /// Threads that copy memory.
    Copy(CopyWorkload),
    /// Threads that run a STREAM operation.
    Stream(StreamWorkload),
    /// A program, bound to CPUs and memory, with its children.
    Program(ProgramWorkload),
    /// A program with its children, without a binding.
    Command {
        /// Name in PATH or path of the program, and its arguments.
        command: Vec<String>,
        /// Milliseconds after which it is killed.
        time_limit_ms: u32,
    },
    /// A running process: its threads, and those that they start.
    Process {
        /// Process id.
        pid: u32,
        /// Time for which it is observed, in milliseconds.
        milliseconds: u32,
    },
}

impl fmt::Display for CountedWorkload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("events of ")?;
        match &self.target {
            CountedTarget::Copy(copy) => write!(f, "copy {} by CPUs {}", copy.flow, copy.placement.cpus),
            CountedTarget::Stream(stream) => {
                let (title, cpus) = (stream.op.title(), &stream.placement.cpus);
                write!(f, "{title} by CPUs {cpus} on node {}", stream.memory)
            }
            CountedTarget::Program(program) => program.fmt(f),
            CountedTarget::Command { command, .. } => f.write_str(&command.join(" ")),
            CountedTarget::Process { pid, milliseconds } => {
                write!(f, "process {pid} for {milliseconds} ms")
            }
        }
    }
}
