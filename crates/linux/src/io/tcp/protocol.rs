//! Protocol between a client and a server of numaio: newline-delimited JSON over an authenticated
//! control channel.
//!
//! The client opens every connection, so that a firewall needs one open port:
//!
//! ```text
//! client                          server
//!                              ←  hello: protocol version
//!                              ←  ready: port and key of one stream, which only tests the path
//!     (the stream connects)
//!                              ←  welcome: nodes, interface
//! run: groups, sizes, window   →
//!                              ←  ready: port and key of the streams of this run
//!     (the streams connect)
//!                              ←  prepared: buffers are allocated, all streams are connected
//! go                           →
//!                              ←  slice, slice, ...: bytes of its receiving streams
//! stop                         →
//!                              ←  ended: CPU time, page locations, error
//! ping: parts of a message     →
//!                              ←  ready: port and key of the connections of the parts
//!     (the connections connect)
//!                              ←  prepared: the buffer is allocated, messages are returned
//! stop                         →
//!                              ←  ended: CPU time, page locations, error
//! tool: program, arguments     →
//!                              ←  listening: a port for each process
//! stop                         →
//!                              ←  tools-ended: output of the tools
//! ```
//!
//! `refused` can replace every answer. Peers have the same version: any change raises it.

use super::connections::StreamEndpoint;
use numaio_machine::devices::Irq;
use numaio_machine::ids::NodeId;
use numaio_machine::network::is_congestion_control;
use numaio_machine::probe::{Residency, ToolOutput};
use numaio_machine::set::CpuSet;
use numaio_machine::workload::Direction;
use serde::{Deserialize, Serialize};

/// Protocol version.
pub const PROTOCOL: u32 = 1;
/// Maximum length of a client's line.
pub const MAX_REQUEST_BYTES: usize = 64 << 10;
/// Maximum length of a server's line; the longest contain the output of a tool.
pub const MAX_ANSWER_BYTES: usize = 4 << 20;

/// Maximum number of groups of a run.
const MAX_GROUPS: usize = 64;
/// Maximum number of streams of a run.
const MAX_STREAMS: u32 = 256;
/// Maximum bytes of all buffers of a run.
const MAX_BUFFER_BYTES: u64 = 4 << 30;
/// Maximum number of rails of a message.
pub const MAX_RAILS: usize = 8;
/// Maximum bytes of a message of a ping-pong.
const MAX_MESSAGE_BYTES: u64 = 64 << 20;
/// Maximum length of a run in milliseconds.
pub const MAX_RUN_MS: u32 = 600_000;
/// Maximum number of slices of a run.
pub const MAX_SLICES: u32 = 4096;

/// The first line of a server; every version begins with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Protocol version of the server.
    pub numaio_net: u32,
}

/// Request of a client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Request {
    /// Prepares streams.
    Run(RunRequest),
    /// Starts the transfer.
    Go,
    /// Stops a run or tools.
    Stop,
    /// Prepares to return messages.
    Ping(PingRequest),
    /// Starts the server processes of a tool.
    Tool(ToolRequest),
}

/// Answer of a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Answer {
    /// The request or session is rejected.
    Refused {
        /// The reason.
        reason: String,
    },
    /// The path works, and the session may begin.
    Welcome(HostInfo),
    /// Streams may connect.
    Ready(StreamEndpoint),
    /// All streams are connected and have buffers.
    Prepared,
    /// Bytes received in one time slice.
    Slice(ReceivedSlice),
    /// The run has ended.
    Ended(RunResult),
    /// The tool's processes are listening.
    Listening {
        /// Port of each process.
        ports: Vec<u16>,
    },
    /// The tool's processes have exited.
    ToolsEnded {
        /// Output of each process.
        outputs: Vec<ToolOutput>,
    },
}

/// Parameters of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRequest {
    /// Groups in the order of the workload; streams are numbered across groups.
    pub groups: Vec<RunGroup>,
    /// Bytes per message.
    pub block_bytes: u64,
    /// Messages per stream buffer.
    pub depth: u32,
    /// Length of a slice in nanoseconds.
    pub slice_ns: u64,
    /// Number of slices after the warm-up slice.
    pub slices: u32,
    /// CPUs and memory node of the server's streams; the server chooses if absent.
    pub placement: Option<(CpuSet, NodeId)>,
    /// Congestion control of the server's streams; its own if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion: Option<String>,
}

/// Parameters of a ping-pong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PingRequest {
    /// Bytes of the part of a message on each connection; 0 leaves a connection idle.
    pub parts: Vec<u64>,
    /// CPUs and memory node of the server's thread; the server chooses if absent.
    pub placement: Option<(CpuSet, NodeId)>,
}

/// Streams with the same direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunGroup {
    /// Number of streams.
    pub streams: u32,
    /// Direction as seen from the client: for a device write the server receives.
    pub direction: Direction,
}

/// Bytes received in one time slice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceivedSlice {
    /// Length in nanoseconds.
    pub ns: u64,
    /// Bytes of each group; 0 for sending groups.
    pub bytes: Vec<u64>,
}

/// Result of a run on the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunResult {
    /// CPU time of the server process during the slices, in nanoseconds.
    pub cpu_ns: u64,
    /// Page locations of its buffers.
    pub residency: Residency,
    /// CPUs and memory node of its streams.
    pub placed: (CpuSet, NodeId),
    /// Error that ended the run, if any.
    pub interrupted: Option<String>,
}

/// Server processes of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolRequest {
    /// Program name.
    pub program: String,
    /// Arguments; the port is appended.
    pub args: Vec<String>,
    /// Number of processes.
    pub processes: u32,
    /// CPUs and memory node.
    pub placement: Option<(CpuSet, NodeId)>,
    /// Time limit in milliseconds.
    pub time_limit_ms: u32,
}

/// Description of the server's host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostInfo {
    /// Version of numaio.
    pub numaio: String,
    /// NUMA nodes.
    pub nodes: Vec<HostNode>,
    /// Interface of the session, or `None` if unknown.
    pub interface: Option<Interface>,
    /// Congestion control of its streams; `None` if it is unknown.
    pub congestion: Option<String>,
}

/// A NUMA node of the server's host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostNode {
    /// Node ID.
    pub node: NodeId,
    /// CPUs that the server may use.
    pub cpus: CpuSet,
    /// Whether the node has memory that the server may use.
    pub memory: bool,
}

/// A network interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// Name, as in `eth0` or `lo`.
    pub name: String,
    /// Node of the device, or `None` if unknown or without a device, as for `lo`.
    pub node: Option<NodeId>,
    /// Current interrupts.
    #[serde(default)]
    pub irqs: Vec<Irq>,
    /// Maximum transmission unit in bytes; `None` if unknown.
    #[serde(default)]
    pub mtu: Option<u32>,
}

impl RunRequest {
    /// Checks the parameters against the limits of a server.
    ///
    /// # Errors
    /// A message about the first limit exceeded.
    pub fn check_limits(&self) -> Result<(), String> {
        let streams = self.streams();
        if self.groups.is_empty() || self.groups.len() > MAX_GROUPS {
            return Err(format!("{} groups, expected 1 to {MAX_GROUPS}", self.groups.len()));
        }
        if streams == 0 || streams > MAX_STREAMS || self.groups.iter().any(|group| group.streams == 0) {
            return Err(format!("{streams} streams, expected 1 to {MAX_STREAMS} and at least one per group"));
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
                "{} slices of {} ns, expected 1 to {MAX_SLICES} within {MAX_RUN_MS} ms",
                self.slices, self.slice_ns
            ));
        }
        if !self.congestion.as_deref().is_none_or(is_congestion_control) {
            return Err("invalid name of a congestion control".to_owned());
        }
        Ok(())
    }

    /// Returns the number of streams of all groups.
    pub fn streams(&self) -> u32 {
        self.groups.iter().map(|group| group.streams).fold(0, u32::saturating_add)
    }
}

impl PingRequest {
    /// Checks the parameters against the limits of a server.
    ///
    /// # Errors
    /// A message about the first limit exceeded.
    pub fn check_limits(&self) -> Result<(), String> {
        let rails = self.parts.len();
        if !(1..=MAX_RAILS).contains(&rails) {
            return Err(format!("{rails} rails, expected 1 to {MAX_RAILS}"));
        }
        let bytes = self.parts.iter().copied().fold(0, u64::saturating_add);
        if !(1..=MAX_MESSAGE_BYTES).contains(&bytes) {
            return Err(format!("messages of {bytes} bytes, expected 1 to {MAX_MESSAGE_BYTES}"));
        }
        Ok(())
    }
}

impl HostInfo {
    /// Returns the placement of streams without a requested one: the interface's node if it has
    /// CPUs and memory, otherwise all CPUs and the first node with memory.
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

/// Serializes a message with its newline.
pub fn line(message: &impl Serialize) -> Vec<u8> {
    // Serialization only fails for maps with non-string keys, which no message contains.
    let mut line = serde_json::to_vec(message).unwrap_or_default();
    line.push(b'\n');
    line
}

/// Parses a message.
///
/// # Errors
/// A message, if the text is not a valid message.
pub fn parse<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| format!("invalid message ({error})"))
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
            congestion: None,
        }
    }

    #[test]
    fn messages_survive_a_round_trip() {
        let ping = PingRequest { parts: vec![1, 0], placement: None };
        let requests = [Request::Run(run()), Request::Go, Request::Stop, Request::Ping(ping)];
        for request in requests {
            let line = line(&request);
            let text = std::str::from_utf8(&line).expect("text");
            assert_eq!(text.matches('\n').count(), 1);
            assert_eq!(parse::<Request>(text), Ok(request));
        }
        let endpoint = StreamEndpoint { port: 7, key: [9; 32] };
        for answer in [Answer::Ready(endpoint), Answer::Refused { reason: "no".into() }] {
            let line = line(&answer);
            assert_eq!(parse::<Answer>(std::str::from_utf8(&line).expect("text")), Ok(answer));
        }
        for other in [r#"{"numaio_net":7,"of":{"a":"later version"}}"#, r#"{"numaio_net":7,"token":"x"}"#] {
            assert_eq!(parse::<Hello>(other), Ok(Hello { numaio_net: 7 }));
        }
    }

    #[test]
    fn rejects_runs_beyond_each_limit() {
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
    fn rejects_messages_beyond_each_limit() {
        let check = |parts: &[u64]| PingRequest { parts: parts.to_vec(), placement: None }.check_limits();
        assert_eq!((check(&[1]), check(&[0, 64 << 20])), (Ok(()), Ok(())));
        for wrong in [&[][..], &[0, 0], &[(64 << 20) + 1], &[1; MAX_RAILS + 1], &[u64::MAX, u64::MAX]] {
            assert!(check(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn default_placement_is_the_interface_node_if_usable() {
        let node = |node, cpu, memory| HostNode { node: NodeId(node), cpus: CpuSet::one(CpuId(cpu)), memory };
        let mut host = HostInfo { nodes: vec![node(0, 0, false), node(1, 1, true)], ..HostInfo::default() };
        let all: CpuSet = [CpuId(0), CpuId(1)].into_iter().collect();
        assert_eq!(host.default_placement(), (all.clone(), NodeId(1)), "unknown interface");
        let on =
            |node| Interface { name: "eth0".into(), node: Some(NodeId(node)), irqs: Vec::new(), mtu: None };
        host.interface = Some(on(1));
        assert_eq!(host.default_placement(), (CpuSet::one(CpuId(1)), NodeId(1)));
        host.interface = Some(on(0));
        assert_eq!(host.default_placement(), (all, NodeId(1)), "interface node without memory");
    }
}
