//! What two numaios say to each other: JSON objects, one a line, over one TCP connection.
//!
//! The client opens every connection, so that a firewall needs one hole. Its first line says what the connection is
//! for ([`Opening`]): a session, with the token that the server printed, or one stream of a run, with the key that
//! the server gave for that run. Then, over the session's connection:
//!
//! ```text
//! client                          server
//! opening, token               →
//!                              ←  welcome: nodes, interface, where it places streams by itself
//! run: groups, sizes, window   →
//!                              ←  ready: key of this run
//!     (the streams connect)
//!                              ←  prepared: buffers are there, all streams came
//! go                           →
//!                              ←  slice, slice, ...: what its receiving streams counted
//! stop                         →
//!                              ←  ended: CPU time, where pages were, what went wrong
//! tool: program, arguments     →
//!                              ←  listening: a port for each process
//! stop                         →
//!                              ←  tools-ended: what they said
//! ```
//!
//! `refused` may come in place of every answer. Fields that one side does not know are passed over; what changes the
//! meaning of others is a new version.

use numaio_machine::devices::Irq;
use numaio_machine::ids::NodeId;
use numaio_machine::probe::{Residency, ToolSaid};
use numaio_machine::set::CpuSet;
use numaio_machine::workload::Direction;
use serde::{Deserialize, Serialize};

/// Version of what is said here.
pub const PROTOCOL: u32 = 1;
/// Bytes of an opening, at most: it comes from strangers.
pub const MAX_OPENING_BYTES: usize = 1 << 10;
/// Bytes of any other line, at most. The longest carry what a tool said.
pub const MAX_LINE_BYTES: usize = 4 << 20;

/// Groups of a run, at most.
const MAX_GROUPS: usize = 64;
/// Streams of a run, at most.
const MAX_STREAMS: u32 = 256;
/// Bytes of all buffers of a run, at most.
const MAX_BUFFER_BYTES: u64 = 4 << 30;
/// Length of a run in milliseconds, at most.
pub const MAX_RUN_MS: u32 = 600_000;
/// Slices of a run, at most.
pub const MAX_SLICES: u32 = 4096;

/// The first line of every connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opening {
    /// [`PROTOCOL`] of the client.
    pub protocol: u32,
    /// The server's token for a session, a run's key for a stream.
    pub secret: String,
    /// Which stream of the run this is; none for a session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<u32>,
}

/// What the client says in a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "kebab-case")]
pub enum Request {
    /// Prepare streams.
    Run(RunRequest),
    /// Begin to move bytes.
    Go,
    /// End what was begun: a run, or tools.
    Stop,
    /// Start the other end of a tool.
    Tool(ToolRequest),
}

/// What the server says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "kebab-case")]
pub enum Answer {
    /// No, and why.
    Refused {
        /// In words.
        why: String,
    },
    /// The token was right.
    Welcome(HostInfo),
    /// Streams may connect.
    Ready {
        /// What they open with.
        key: String,
    },
    /// All streams came and have their buffers.
    Prepared,
    /// What was received in one stretch of time.
    Slice(ReceivedSlice),
    /// A run is over.
    Ended(RunResult),
    /// The tool listens.
    Listening {
        /// A port for each process.
        ports: Vec<u16>,
    },
    /// The tool was ended.
    ToolsEnded {
        /// What each process said.
        #[serde(rename = "said")]
        outputs: Vec<ToolSaid>,
    },
}

/// Streams that are wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRequest {
    /// Groups, in the order of the workload; streams are numbered through them.
    pub groups: Vec<RunGroup>,
    /// Bytes of a message.
    pub block_bytes: u64,
    /// Messages that a stream's buffer holds.
    pub depth: u32,
    /// Length of a slice in nanoseconds.
    pub slice_ns: u64,
    /// How many count; one more passes before them.
    pub slices: u32,
    /// Where the server is to place its streams; it chooses otherwise.
    #[serde(rename = "there")]
    pub placement: Option<(CpuSet, NodeId)>,
}

/// Streams of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunGroup {
    /// How many.
    pub streams: u32,
    /// Seen from the client: of a device write the server receives.
    pub direction: Direction,
}

/// What was received in one stretch of time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceivedSlice {
    /// Its length in nanoseconds.
    pub ns: u64,
    /// Bytes of each group; 0 of one that sends.
    pub bytes: Vec<u64>,
}

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunResult {
    /// CPU time of the server's process while slices were taken, in nanoseconds.
    pub cpu_ns: u64,
    /// Where the pages of its buffers were.
    pub residency: Residency,
    /// Its CPUs and the node of its buffers.
    pub placed: (CpuSet, NodeId),
    /// What went wrong, if something did.
    pub cut: Option<String>,
}

/// The other end of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolRequest {
    /// Its name.
    pub program: String,
    /// Arguments; the port is added to them.
    pub args: Vec<String>,
    /// How many.
    pub processes: u32,
    /// Where they are to run.
    #[serde(rename = "there")]
    pub placement: Option<(CpuSet, NodeId)>,
    /// Milliseconds after which they are ended.
    pub time_limit_ms: u32,
}

/// The server's machine, as far as a client needs it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostInfo {
    /// Version of its numaio.
    pub numaio: String,
    /// Its nodes.
    pub nodes: Vec<HostNode>,
    /// The interface through which the session came; none if it is not known.
    pub interface: Option<Interface>,
}

/// A node of the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostNode {
    /// The node.
    pub node: NodeId,
    /// Its CPUs that the server may use; empty if it has none.
    pub cpus: CpuSet,
    /// Whether it has memory that the server may use.
    pub memory: bool,
}

/// A network interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// Its name, as in `eth0` or `lo`.
    pub name: String,
    /// The node it hangs on; none if it hangs on none, as `lo`, or that is not known.
    pub node: Option<NodeId>,
    /// Its interrupts as they were; nothing was changed.
    #[serde(default)]
    pub irqs: Vec<Irq>,
}

impl RunRequest {
    /// Whether a server can do this without harm; why not otherwise.
    ///
    /// # Errors
    /// The first bound that is passed, in words.
    pub fn check_limits(&self) -> Result<(), String> {
        let streams = self.streams();
        if self.groups.is_empty() || self.groups.len() > MAX_GROUPS {
            return Err(format!("{} groups; from 1 to {MAX_GROUPS} can be had", self.groups.len()));
        }
        if streams == 0 || streams > MAX_STREAMS || self.groups.iter().any(|group| group.streams == 0) {
            return Err(format!(
                "{streams} streams; from 1 to {MAX_STREAMS} can be had, and one of each group"
            ));
        }
        let each = self.block_bytes.checked_mul(u64::from(self.depth)).filter(|bytes| *bytes > 0);
        let all = each.and_then(|bytes| bytes.checked_mul(u64::from(streams)));
        if all.is_none_or(|all| all > MAX_BUFFER_BYTES) {
            let (bytes, depth) = (self.block_bytes, self.depth);
            return Err(format!(
                "{depth} messages of {bytes} bytes for each of {streams} streams; \
                 all buffers together have from 1 to {MAX_BUFFER_BYTES} bytes"
            ));
        }
        let longest_ns = u64::from(MAX_RUN_MS) * 1_000_000;
        let long = self.slice_ns.saturating_mul(u64::from(self.slices) + 1);
        if self.slices == 0 || self.slices > MAX_SLICES || self.slice_ns == 0 || long > longest_ns {
            return Err(format!(
                "{} slices of {} ns; from 1 to {MAX_SLICES} within {MAX_RUN_MS} ms can be had",
                self.slices, self.slice_ns
            ));
        }
        Ok(())
    }

    /// Streams of all groups.
    pub fn streams(&self) -> u32 {
        self.groups.iter().map(|group| group.streams).fold(0, u32::saturating_add)
    }
}

impl HostInfo {
    /// Where streams are placed that nobody places: on the interface's node, where that has CPUs and memory, else
    /// on all CPUs and the first node with memory.
    pub fn default_placement(&self) -> (CpuSet, NodeId) {
        let near = self.interface.as_ref().and_then(|interface| interface.node);
        let whole = |node: &&HostNode| node.memory && !node.cpus.is_empty();
        if let Some(node) = self.nodes.iter().filter(whole).find(|node| near == Some(node.node)) {
            return (node.cpus.clone(), node.node);
        }
        let cpus = self.nodes.iter().flat_map(|node| node.cpus.iter()).collect();
        let memory = self.nodes.iter().find(|node| node.memory).map_or(NodeId(0), |node| node.node);
        (cpus, memory)
    }
}

/// A line for the other side, with its end.
pub fn line(message: &impl Serialize) -> Vec<u8> {
    // Our own types have no maps with odd keys, which is all that can fail.
    let mut line = serde_json::to_vec(message).unwrap_or_default();
    line.push(b'\n');
    line
}

/// Reads what the other side said.
///
/// # Errors
/// In words, if the text is nothing that is said here.
pub fn parse<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| format!("that is not said here ({error})"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaio_machine::ids::CpuId;

    fn run() -> RunRequest {
        let group = RunGroup { streams: 2, direction: Direction::Write };
        RunRequest {
            groups: vec![group, RunGroup { direction: Direction::Read, ..group }],
            block_bytes: 1 << 20,
            depth: 4,
            slice_ns: 100_000_000,
            slices: 5,
            placement: Some((CpuSet::one(CpuId(3)), NodeId(1))),
        }
    }

    #[test]
    fn what_is_said_is_understood() {
        let requests = [Request::Run(run()), Request::Go, Request::Stop];
        for request in requests {
            let line = line(&request);
            let text = std::str::from_utf8(&line).expect("text");
            assert_eq!(text.matches('\n').count(), 1);
            assert_eq!(parse::<Request>(text), Ok(request));
        }
        let later = r#"{"protocol":7,"secret":"x","of":{"a":"later version"}}"#;
        let opening = Opening { protocol: 7, secret: "x".into(), stream: None };
        assert_eq!(parse::<Opening>(later), Ok(opening));
    }

    #[test]
    fn no_bound_can_be_passed() {
        assert_eq!(run().check_limits(), Ok(()));
        let passed: [fn(&mut RunRequest); 11] = [
            |run| run.groups.clear(),
            |run| run.groups = vec![run.groups[0]; MAX_GROUPS + 1],
            |run| run.groups[0].streams = 0,
            |run| run.groups[0].streams = u32::MAX,
            |run| run.block_bytes = 0,
            |run| run.block_bytes = u64::MAX,
            |run| run.depth = 0,
            |run| run.depth = u32::MAX,
            |run| run.slices = MAX_SLICES + 1,
            |run| run.slices = 0,
            |run| run.slice_ns = u64::MAX,
        ];
        for (index, pass) in passed.iter().enumerate() {
            let mut run = run();
            pass(&mut run);
            assert!(run.check_limits().is_err(), "{index}");
        }
    }

    #[test]
    fn a_server_places_streams_beside_its_interface_if_it_can() {
        let node = |node, cpu, memory| HostNode { node: NodeId(node), cpus: CpuSet::one(CpuId(cpu)), memory };
        let mut host = HostInfo { nodes: vec![node(0, 0, false), node(1, 1, true)], ..HostInfo::default() };
        let all: CpuSet = [CpuId(0), CpuId(1)].into_iter().collect();
        assert_eq!(host.default_placement(), (all.clone(), NodeId(1)), "no interface is known");
        let on = |node| Interface { name: "eth0".into(), node: Some(NodeId(node)), irqs: Vec::new() };
        host.interface = Some(on(1));
        assert_eq!(host.default_placement(), (CpuSet::one(CpuId(1)), NodeId(1)));
        host.interface = Some(on(0));
        assert_eq!(host.default_placement(), (all, NodeId(1)), "its node has no memory");
    }
}
