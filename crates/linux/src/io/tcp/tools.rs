//! Server processes of network benchmark tools: a few allowed programs with a few allowed options.

use super::protocol::ToolRequest;
use crate::tool::RunningTool;
use numaio_machine::ids::NodeId;
use numaio_machine::probe::{ProbeError, ToolOutput};
use numaio_machine::set::CpuSet;
use numaio_machine::sysfs::{Sysfs, SysfsExt};
use numaio_machine::workload::ToolProcess;
use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

/// Maximum number of processes of a request.
const MAX_PROCESSES: u32 = 64;
/// Maximum time limit of a request, in milliseconds.
const MAX_MS: u32 = 3_600_000;
/// Time limit until a process listens.
const START_LIMIT: Duration = Duration::from_secs(10);
/// Time for processes to exit by themselves after their clients; they print their results.
const END_LIMIT: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Attempts, with another port each, if another process takes the free port.
const TRIES: u32 = 3;
/// Bytes kept of stdout and of stderr of a process; expected output is far shorter.
const MAX_OUTPUT_BYTES: usize = 32 << 10;

/// Options of an iperf3 server, without those that write files or daemonize.
const IPERF3: AllowedOptions =
    AllowedOptions { flags: &["-s", "-1", "-4", "-6", "-J", "--forceflush"], valued: &[] };

/// Options of perftest that both ends need.
const PERFTEST: AllowedOptions = AllowedOptions {
    flags: &["-F", "-R", "-b", "-a", "--report_gbits"],
    valued: &["-d", "-i", "-x", "-s", "-q", "-D", "-n", "-m", "-t", "-c", "-S"],
};

/// Programs that a client may start, with their allowed options.
const PROGRAMS: [(&str, AllowedOptions); 7] = [
    ("iperf3", IPERF3),
    ("ib_write_bw", PERFTEST),
    ("ib_read_bw", PERFTEST),
    ("ib_send_bw", PERFTEST),
    ("ib_write_lat", PERFTEST),
    ("ib_read_lat", PERFTEST),
    ("ib_send_lat", PERFTEST),
];

/// Allowed options of a program.
struct AllowedOptions {
    /// Options without a value.
    flags: &'static [&'static str],
    /// Options with a value.
    valued: &'static [&'static str],
}

/// Processes started for a client.
pub struct ToolServers {
    running: Vec<(u16, RunningTool)>,
}

impl ToolServers {
    /// Starts all processes and waits until each listens.
    ///
    /// # Errors
    /// [`ProbeError::Refused`] if a program or option is not allowed, or a process does not listen;
    /// [`ProbeError::Unsupported`] if the program is not installed.
    pub fn start(root: &dyn Sysfs, tool: &ToolRequest) -> Result<Self, ProbeError> {
        let refused =
            |why: String| ProbeError::Refused { call: format!("start {}", tool.program), reason: why };
        check_allowed(tool).map_err(refused)?;
        let (cpus, memory) =
            tool.placement.clone().map_or((CpuSet::new(), None), |(cpus, node)| (cpus, Some(node)));
        let mut running = Vec::new();
        for _ in 0..tool.processes {
            running.push(start(root, tool, &cpus, memory)?);
        }
        Ok(Self { running })
    }

    /// Returns the ports in the order of the processes.
    pub fn ports(&self) -> Vec<u16> {
        self.running.iter().map(|(port, _)| *port).collect()
    }

    /// Waits for the processes to exit, terminates the others and returns their output.
    pub fn end(&mut self) -> Vec<ToolOutput> {
        let patience = Instant::now() + END_LIMIT;
        while self.running.iter_mut().any(|(_, tool)| tool.ended().is_none()) && Instant::now() < patience {
            thread::sleep(POLL_INTERVAL);
        }
        let mut tools: Vec<RunningTool> = self.running.drain(..).map(|(_, tool)| tool).collect();
        RunningTool::end_all(&mut tools);
        tools.into_iter().map(|tool| truncated(tool.stop_and_collect())).collect()
    }
}

fn truncated(mut output: ToolOutput) -> ToolOutput {
    for text in [&mut output.stdout, &mut output.stderr] {
        let end = (0..=MAX_OUTPUT_BYTES.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
        text.truncate(end.unwrap_or(0));
    }
    output
}

/// Checks that a client may start this tool.
fn check_allowed(tool: &ToolRequest) -> Result<(), String> {
    let Some((_, options)) = PROGRAMS.iter().find(|(program, _)| *program == tool.program) else {
        let known = PROGRAMS.map(|(program, _)| program).join(", ");
        return Err(format!("expected one of {known}"));
    };
    if tool.processes == 0 || tool.processes > MAX_PROCESSES {
        return Err(format!("{} processes, expected 1 to {MAX_PROCESSES}", tool.processes));
    }
    if tool.time_limit_ms > MAX_MS {
        return Err(format!("time limit of {} ms, expected at most {MAX_MS} ms", tool.time_limit_ms));
    }
    let mut args = tool.args.iter();
    while let Some(arg) = args.next() {
        let valued = options.valued.contains(&arg.as_str());
        if !valued && !options.flags.contains(&arg.as_str()) {
            return Err(format!("option '{arg}' is not allowed"));
        }
        if valued && !args.next().is_some_and(|value| is_plain_value(value)) {
            return Err(format!("option '{arg}' needs a number or device name"));
        }
    }
    Ok(())
}

/// Whether a value is a number or device name.
fn is_plain_value(value: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b':');
    (1..=64).contains(&value.len()) && value.bytes().all(plain)
}

fn start(
    root: &dyn Sysfs,
    tool: &ToolRequest,
    cpus: &CpuSet,
    memory: Option<NodeId>,
) -> Result<(u16, RunningTool), ProbeError> {
    let refused = |why: String| ProbeError::Refused { call: format!("start {}", tool.program), reason: why };
    let mut why = String::new();
    for _ in 0..TRIES {
        let port = free_port().map_err(|error| refused(error.to_string()))?;
        let mut args = tool.args.clone();
        args.extend(["-p".to_owned(), port.to_string()]);
        let process = ToolProcess { args, cpus: cpus.clone(), memory };
        let mut running = RunningTool::start(&tool.program, &process)?;
        match wait_until_it_listens(root, &mut running, port) {
            true => return Ok((port, running)),
            false => why = failure_output(running.stop_and_collect()),
        }
    }
    Err(refused(why))
}

/// Returns a currently free port.
fn free_port() -> std::io::Result<u16> {
    TcpListener::bind("[::]:0").or_else(|_| TcpListener::bind("0.0.0.0:0"))?.local_addr().map(|at| at.port())
}

/// Waits for the listening socket without connecting, which would count as the client's connection.
fn wait_until_it_listens(root: &dyn Sysfs, running: &mut RunningTool, port: u16) -> bool {
    let deadline = Instant::now() + START_LIMIT;
    while running.ended().is_none() && Instant::now() < deadline {
        let tables =
            ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| root.optional(table).unwrap_or_default());
        if tables.iter().any(|table| listens(table, port)) {
            return true;
        }
        thread::sleep(POLL_INTERVAL);
    }
    false
}

/// Whether a table of sockets contains a listener (`Documentation/networking/proc_net_tcp.rst`).
fn listens(table: &str, port: u16) -> bool {
    const LISTEN: &str = "0A";
    table.lines().skip(1).any(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let (local, state) = (fields.next(), fields.nth(1));
        let at = local.and_then(|local| local.rsplit_once(':')).map(|(_, port)| port);
        state == Some(LISTEN) && at.and_then(|at| u16::from_str_radix(at, 16).ok()) == Some(port)
    })
}

/// Returns the last line of a tool's output, usually the reason of its exit.
fn failure_output(output: ToolOutput) -> String {
    let last =
        |text: &str| text.lines().rev().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned);
    last(&output.stderr)
        .or_else(|| last(&output.stdout))
        .unwrap_or_else(|| "the process does not listen".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(program: &str, args: &[&str]) -> ToolRequest {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        ToolRequest { program: program.to_owned(), args, processes: 1, placement: None, time_limit_ms: 1000 }
    }

    #[test]
    fn only_allowed_programs_and_options_are_started() {
        assert_eq!(check_allowed(&tool("iperf3", &["-s", "-1"])), Ok(()));
        assert_eq!(check_allowed(&tool("ib_write_bw", &["-d", "mlx5_0", "-s", "65536", "-F"])), Ok(()));
        let refused = [
            ("sh", &["-c", "true"][..]),
            ("/bin/sh", &[]),
            ("iperf3", &["-s", "--logfile", "x"]),
            ("iperf3", &["-s", "-D"]),
            ("ib_write_bw", &["--out_json_file=x"]),
            ("ib_write_bw", &["-d"]),
            ("ib_write_bw", &["-d", ""]),
            ("ib_write_bw", &["-d", "../x"]),
            ("ib_write_bw", &["-d", "-F"]),
        ];
        for (program, args) in refused {
            assert!(check_allowed(&tool(program, args)).is_err(), "{program} {args:?}");
        }
        let many =
            |processes, time_limit_ms| ToolRequest { processes, time_limit_ms, ..tool("iperf3", &["-s"]) };
        for tool in [many(0, 1), many(MAX_PROCESSES + 1, 1), many(1, MAX_MS + 1)] {
            assert!(check_allowed(&tool).is_err(), "{tool:?}");
        }
    }

    #[test]
    fn finds_listeners_in_the_kernel_table() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n   \
            0: 00000000:1451 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1\n   \
            1: 0100007F:9C40 0100007F:1451 01 00000000:00000000 00:00000000 00000000     0        0 2 1\n";
        assert!(listens(table, 0x1451));
        assert!(!listens(table, 0x9C40), "an established connection");
        assert!(!listens(table, 0x0A) && !listens("", 1) && !listens("\n:\n0: x:y z 0A", 1));
        let long = ToolOutput {
            exit: numaio_machine::probe::ToolExit::Status(0),
            stdout: "ä".repeat(MAX_OUTPUT_BYTES),
            stderr: String::new(),
            cpu_ns: 0,
        };
        assert_eq!(truncated(long).stdout.len(), MAX_OUTPUT_BYTES);
    }
}
