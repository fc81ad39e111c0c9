//! Latency by perftest: `ib_write_lat`, `ib_read_lat` and `ib_send_lat` (linux-rdma/perftest,
//! `perftest_parameters.h`, `RESULT_FMT_LAT`).
//!
//! A write and a send are half of a round trip, a read is complete.

use super::perftest::{unable, words, Op, Perftest};
use super::remote::failure_text;
use super::tool::{failed, tool_outcome};
use super::visit::CellRequest;
use numaio_machine::probe::{Outcome, ProbeError, ToolExit};
use numaio_machine::workload::Workload;

/// Round trips of a run: perftest's default, stated because it differs between versions.
const ROUND_TRIPS: u32 = 1000;
/// Time for them beyond that of a window, in seconds.
const EXTRA_S: u32 = 60;

/// Latencies of one run in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LatencyFigures {
    /// Median, above 0.
    pub median_ns: f64,
    /// Minimum.
    pub min_ns: f64,
    /// 99th percentile.
    pub p99_ns: f64,
}

impl Op {
    /// Returns the program that measures latency.
    pub fn latency_program(self) -> &'static str {
        match self {
            Self::Write => "ib_write_lat",
            Self::Read => "ib_read_lat",
            Self::Send => "ib_send_lat",
        }
    }
}

impl Perftest {
    /// Creates the workload of a message size in one placement.
    ///
    /// # Errors
    /// [`ProbeError::Unsupported`] for a mix of streams.
    pub(crate) fn latency_workload(&self, request: &CellRequest) -> Result<Workload, ProbeError> {
        let [_] = request.groups else { return Err(unable("a mix of streams")) };
        let args = |end: usize| {
            let line = format!("-d {} -F -s {} -n {ROUND_TRIPS}", self.devices[end], request.block_bytes);
            match self.gids[end] {
                Some(gid) => format!("{line} -x {gid}"),
                None => line,
            }
        };
        let here = format!("{} -p {{port}} {}", args(0), self.far.host);
        let program = self.op.latency_program();
        Ok(self.far.tool(request, program, EXTRA_S, |_| words(&here), words(&args(1))))
    }

    /// Interprets the outcome of [`Self::latency_workload`].
    ///
    /// # Errors
    /// The tool's own error, at either end; otherwise what is missing.
    pub(crate) fn read_latency(&self, outcome: &Outcome) -> Result<(LatencyFigures, u64), ProbeError> {
        let program = self.op.latency_program();
        let outcome = tool_outcome(outcome)?;
        let output = outcome.processes.first().ok_or_else(|| failed(program, "no output".to_owned()))?;
        let figures = match output.exit {
            ToolExit::Status(0) => parse_latency(&output.stdout),
            ended => Err(failure_text(ended, output, outcome.peer_processes.first())),
        };
        Ok((figures.map_err(|why| failed(program, why))?, outcome.elapsed_ns))
    }
}

/// Parses the table of one message size. Its times are microseconds with two decimals.
///
/// # Errors
/// What is missing.
pub fn parse_latency(stdout: &str) -> Result<LatencyFigures, String> {
    let mut lines = stdout.lines().map(str::trim).skip_while(|line| !line.starts_with("#bytes"));
    let head = lines.next().ok_or("no table in its output")?;
    // Column names contain blanks.
    let head = head.replace("99% percentile", "p99");
    let column = |name: &str| head.split_ascii_whitespace().position(|column| column == name);
    let columns = ["t_typical[usec]", "t_min[usec]", "p99[usec]"].map(column);
    let [Some(typical), Some(min), Some(p99)] = columns else {
        return Err("missing column in table".to_owned());
    };
    // Warnings about CPU frequencies may precede the row.
    let row = lines.find(|line| line.starts_with(|c: char| c.is_ascii_digit())).ok_or("empty table")?;
    let fields: Vec<Option<f64>> = row.split_ascii_whitespace().map(|field| field.parse().ok()).collect();
    let nanoseconds = |at: usize| {
        let value = fields.get(at).copied().flatten().map(|us: f64| us * 1e3);
        value.filter(|ns| ns.is_finite() && *ns >= 0.0)
    };
    let [Some(median_ns), Some(min_ns), Some(p99_ns)] = [typical, min, p99].map(nanoseconds) else {
        return Err(format!("no figures in table row {row:?}"));
    };
    match median_ns > 0.0 {
        true => Ok(LatencyFigures { median_ns, min_ns, p99_ns }),
        false => Err("nothing was measured".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::remote::RemoteEnd;
    use super::*;
    use numaio_machine::ids::{CpuId, NodeId};
    use numaio_machine::probe::{ToolOutcome, ToolOutput};
    use numaio_machine::set::CpuSet;
    use numaio_machine::workload::{Direction, StreamGroup};
    use proptest::prelude::*;

    /// In the format of perftest 6 (`RESULT_FMT_LAT`, `REPORT_FMT_LAT`).
    const TABLE: &str = " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    \
        t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] \n\
        Conflicting CPU frequency values detected: 2400.0 != 1873.4. CPU Frequency is not max.\n \
        2       1000          1.76           6.12         1.79     \t       1.80        \t0.06\t\t1.88    \t\t6.12   \n";

    fn engine() -> Perftest {
        Perftest {
            far: RemoteEnd { peer: "192.0.2.1:7".into(), host: "192.0.2.1".into(), places: Vec::new() },
            op: Op::Send,
            devices: ["mlx5_0".into(), "mlx5_1".into()],
            gids: [None, Some(3)],
        }
    }

    #[test]
    fn parses_the_table_and_reports_missing_figures() {
        let parsed = parse_latency(TABLE).expect("figures");
        let rounded = [parsed.median_ns, parsed.min_ns, parsed.p99_ns].map(f64::round);
        assert_eq!(rounded, [1790.0, 1760.0, 1880.0]);
        assert_eq!(parse_latency(""), Err("no table in its output".to_owned()));
        let without = |from: &str, to: &str| parse_latency(&TABLE.replace(from, to));
        assert_eq!(without("t_typical", "t_other"), Err("missing column in table".to_owned()));
        assert_eq!(without("1.79", "0.00"), Err("nothing was measured".to_owned()));
        assert!(without("1.79", "inf").is_err_and(|why| why.contains("no figures")));
        let head = TABLE.lines().next().expect("a header");
        assert_eq!(parse_latency(head), Err("empty table".to_owned()));
    }

    #[test]
    fn both_ends_get_matching_arguments() {
        let (cpus, memory) = (CpuSet::one(CpuId(0)), NodeId(0));
        let group = StreamGroup { cpus, memory, streams: 1, direction: Direction::Write, device: 0 };
        let request = CellRequest {
            groups: std::slice::from_ref(&group),
            block_bytes: 64,
            operation: Some("send"),
            depth: 1,
            window_ms: 500,
            slices: 5,
            most_bytes: None,
        };
        let Ok(Workload::Tool(tool)) = engine().latency_workload(&request) else { panic!("no tool") };
        let here = "-d mlx5_0 -F -s 64 -n 1000 -p {port} 192.0.2.1";
        assert_eq!((tool.program.as_str(), tool.processes[0].args.join(" ").as_str()), ("ib_send_lat", here));
        assert_eq!(tool.peer.expect("a peer").args.join(" "), "-d mlx5_1 -F -s 64 -n 1000 -x 3");
    }

    #[test]
    fn failed_program_is_reported_with_its_message() {
        let output = ToolOutput {
            exit: ToolExit::Status(1),
            stdout: String::new(),
            stderr: " Unable to find the Infiniband/RoCE device\n".into(),
            cpu_ns: 0,
        };
        let outcome =
            Outcome::Tool(ToolOutcome { processes: vec![output], elapsed_ns: 1, peer_processes: Vec::new() });
        let why = engine().read_latency(&outcome).expect_err("a failure").to_string();
        assert_eq!(why, "ib_send_lat: exit status 1: Unable to find the Infiniband/RoCE device");
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(text in "\\PC*", at in 0..TABLE.len(), byte in any::<u8>()) {
            drop(parse_latency(&text));
            drop(parse_latency(&format!("#bytes t_min[usec] t_typical[usec] 99% percentile[usec]\n{text}")));
            let mut bytes = TABLE.as_bytes().to_vec();
            bytes[at] = byte;
            if let Ok(figures) = parse_latency(&String::from_utf8_lossy(&bytes)) {
                prop_assert!(figures.median_ns > 0.0 && figures.median_ns.is_finite());
            }
        }
    }
}
