//! perftest: `ib_write_bw`, `ib_read_bw` and `ib_send_bw` (linux-rdma/perftest,
//! `perftest_parameters.h`).
//!
//! Parses the table on standard output, which all versions print. Newer ones support JSON, but only
//! into a file.

use super::remote::RemoteEnd;
use super::remote::{self, is_rate, split_operation, Figure};
use super::tool::version_of;
use super::visit::{CellRequest, Engine, VisitFigures};
use numaio_machine::probe::{Outcome, Probe, ProbeError};
use numaio_machine::workload::{Direction, Workload};
use numaio_schema::IoEngine;

/// An RDMA operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// The local end writes the remote memory.
    Write,
    /// The local end reads the remote memory.
    Read,
    /// The local end sends, the remote end receives.
    Send,
}

impl Op {
    /// All operations.
    pub const ALL: [Self; 3] = [Self::Write, Self::Read, Self::Send];

    /// Returns the name in options and documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
            Self::Send => "send",
        }
    }

    /// Returns the program.
    pub fn program(self) -> &'static str {
        match self {
            Self::Write => "ib_write_bw",
            Self::Read => "ib_read_bw",
            Self::Send => "ib_send_bw",
        }
    }

    /// Returns the direction of data through the local device.
    pub fn direction(self) -> Direction {
        match self {
            Self::Write | Self::Send => Direction::Write,
            Self::Read => Direction::Read,
        }
    }
}

/// perftest with one process per group; the group's streams are its queue pairs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Perftest {
    /// Remote end.
    pub far: RemoteEnd,
    /// Operation of all cells.
    pub op: Op,
    /// Local and remote RDMA device.
    pub devices: [String; 2],
    /// Local and remote GID index; none for perftest's choice.
    pub gids: [Option<u32>; 2],
}

impl Engine for Perftest {
    fn engine(&self) -> IoEngine {
        IoEngine::Perftest
    }

    fn version(&self, probe: &dyn Probe) -> Result<String, ProbeError> {
        let output = version_of(probe, self.op.program(), "--version")?;
        Ok(output.trim_start_matches("Version:").trim().to_owned())
    }

    fn remedy(&self) -> Option<&'static str> {
        Some("apt-get install perftest")
    }

    fn workload(&self, request: &CellRequest) -> Result<Workload, ProbeError> {
        let other = |name: &str| name != self.op.name();
        let [group] = request.groups else { return Err(unable("a mix of streams")) };
        if group.direction != self.op.direction() || split_operation(request.operation).0.is_some_and(other) {
            return Err(unable("another direction or operation"));
        }
        // perftest counts full seconds.
        let seconds = request.window_ms.div_ceil(1000).max(1);
        let args = |end: usize| {
            let (device, bytes, queues) = (&self.devices[end], request.block_bytes, group.streams);
            // -F: changes of CPU frequency are reported by our own warnings.
            let mut line = format!("-d {device} -F --report_gbits -s {bytes} -q {queues} -D {seconds}");
            if let Some(gid) = self.gids[end] {
                line.push_str(&format!(" -x {gid}"));
            }
            line
        };
        let here = format!("{} -p {{port}} {}", args(0), self.far.host);
        Ok(self.far.tool(request, self.op.program(), seconds, |_| words(&here), words(&args(1))))
    }

    fn read(&self, outcome: &Outcome) -> Result<VisitFigures, ProbeError> {
        remote::read(self.op.program(), outcome, parse)
    }
}

/// Splits a command line without quotes.
pub(super) fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

pub(super) fn unable(what: &str) -> ProbeError {
    ProbeError::Unsupported { feature: format!("{what} with perftest") }
}

/// Parses the table of one message size.
///
/// # Errors
/// What is missing.
fn parse(stdout: &str) -> Result<Figure, String> {
    let mut lines = stdout.lines().map(str::trim).skip_while(|line| !line.starts_with("#bytes"));
    let head = lines.next().ok_or("no table in its output")?;
    let unit = unit(head).ok_or_else(|| format!("unknown unit in table header {head:?}"))?;
    // Column names contain blanks, and units in brackets.
    let head = head.replace("BW peak", "peak").replace("BW average", "average");
    let column = |name: &str| head.split_ascii_whitespace().position(|column| column.starts_with(name));
    let columns = [column("#bytes"), column("#iterations"), column("average"), column("MsgRate")];
    let [Some(bytes), Some(count), Some(average), Some(rate)] = columns else {
        return Err("missing column in table".to_owned());
    };
    let row = lines.next().ok_or("empty table")?;
    let fields: Vec<Option<f64>> = row.split_ascii_whitespace().map(|field| field.parse().ok()).collect();
    let field = |at: usize| fields.get(at).copied().flatten().filter(|value: &f64| value.is_finite());
    let figures = [field(bytes), field(count), field(average), field(rate)];
    let [Some(bytes), Some(count), Some(average), Some(rate)] = figures else {
        return Err(format!("no figures in table row {row:?}"));
    };
    let bytes_per_s = finer(average, unit, bytes, rate);
    if !is_rate(bytes_per_s) {
        return Err("nothing was measured".to_owned());
    }
    // perftest reports no CPU time, and its process spends most of it before and after.
    Ok(Figure { bytes_per_s, bytes: bytes * count, warm_up: 0.0, cpu_ns: None, cpu_ns_there: None })
}

/// Returns the bytes per second of a unit. "MB" of old versions are 2^20 bytes, as "MiB" of new
/// ones.
fn unit(head: &str) -> Option<f64> {
    let average = head.split("BW average[").nth(1)?;
    match average.split_once(']')?.0 {
        "Gb/sec" => Some(1e9 / 8.0),
        "MB/sec" | "MiB/sec" => Some(f64::from(1 << 20)),
        _ => None,
    }
}

/// Selects the more precise figure: bandwidth has two decimals, millions of messages per second
/// six.
fn finer(average: f64, unit: f64, bytes: f64, rate: f64) -> f64 {
    let (average_off, rate_off) = (0.005 / average, 0.000_000_5 / rate);
    if rate_off < average_off {
        rate * 1e6 * bytes
    } else {
        average * unit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaio_machine::ids::{CpuId, NodeId};
    use numaio_machine::set::CpuSet;
    use numaio_machine::workload::StreamGroup;
    use proptest::prelude::*;

    const WRITE: &str = include_str!("../../tests/captures/ib_write_bw-6.06.txt");
    const READ: &str = include_str!("../../tests/captures/ib_read_bw-6.06.txt");
    const SEND: &str = include_str!("../../tests/captures/ib_send_bw-6.06.txt");
    const SERVER: &str = include_str!("../../tests/captures/ib_send_bw-6.06-server.txt");

    #[test]
    fn parses_the_table_of_each_program() {
        let rate = |text: &str| parse(text).expect("a table").bytes_per_s;
        assert_eq!(rate(WRITE), 0.001239 * 1e6 * 65536.0, "0.65 Gb/sec would be coarser");
        let rough = |text: &str, gbit: f64| (rate(text) * 8.0 / 1e9 - gbit).abs() < 0.006;
        assert!(rough(READ, 0.55) && rough(SEND, 0.71) && rough(SERVER, 0.71), "{}", rate(READ));
    }

    #[test]
    fn large_figures_use_the_bandwidth_column() {
        let table = |unit: &str, average: &str| {
            format!(
                " #bytes     #iterations    BW peak[{unit}]    BW average[{unit}]   MsgRate[Mpps]\n \
                 1048576      1000             0.00               {average}   \t\t   0.000023\n"
            )
        };
        let rate = |text: String| parse(&text).map(|measured| measured.bytes_per_s);
        assert_eq!(rate(table("Gb/sec", "197.25")), Ok(197.25e9 / 8.0));
        assert_eq!(rate(table("MB/sec", "72.94")), Ok(72.94 * 1048576.0));
        assert_eq!(rate(table("MiB/sec", "72.94")), Ok(72.94 * 1048576.0));
        assert!(rate(table("furlong", "72.94")).is_err());
        assert!(rate(table("Gb/sec", "NaN")).is_err() && rate(table("Gb/sec", "inf")).is_err());
    }

    #[test]
    fn service_level_column_is_accepted() {
        let text =
            " #bytes    #sl      #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n \
            65536 3 1000 0.00 12.50 0.000000\n";
        assert_eq!(parse(text).map(|measured| measured.bytes_per_s), Ok(12.5e9 / 8.0));
    }

    #[test]
    fn missing_figures_are_reported() {
        assert_eq!(parse(""), Err("no table in its output".to_owned()));
        let head = WRITE.split(" 65536").next().expect("a table");
        assert_eq!(parse(head), Err("empty table".to_owned()));
        let rule = format!("{head}{}\n", "-".repeat(80));
        assert!(parse(&rule).is_err_and(|why| why.contains("no figures")));
        let zero = WRITE.replace("0.65", "0.00").replace("0.001239", "0.000000");
        assert_eq!(parse(&zero), Err("nothing was measured".to_owned()));
    }

    #[test]
    fn both_ends_get_matching_arguments() {
        let engine = Perftest {
            far: RemoteEnd { peer: "192.0.2.1:7".into(), host: "192.0.2.1".into(), places: Vec::new() },
            op: Op::Write,
            devices: ["mlx5_0".into(), "mlx5_1".into()],
            gids: [Some(3), None],
        };
        let (cpus, memory) = (CpuSet::one(CpuId(0)), NodeId(0));
        let group = StreamGroup { cpus, memory, streams: 2, direction: Direction::Write, device: 0 };
        let request = CellRequest {
            groups: std::slice::from_ref(&group),
            block_bytes: 65536,
            operation: Some("write"),
            depth: 1,
            window_ms: 1000,
            slices: 1,
            most_bytes: None,
        };
        let Ok(Workload::Tool(tool)) = engine.workload(&request) else { panic!("no tool") };
        let alike = "-F --report_gbits -s 65536 -q 2 -D 1";
        let here = format!("-d mlx5_0 {alike} -x 3 -p {{port}} 192.0.2.1");
        assert_eq!((tool.program.as_str(), tool.processes[0].args.join(" ")), ("ib_write_bw", here));
        assert_eq!(tool.peer.expect("a peer").args.join(" "), format!("-d mlx5_1 {alike}"));
        let read = StreamGroup { direction: Direction::Read, ..group.clone() };
        assert!(
            engine.workload(&CellRequest { groups: &[read], ..request }).is_err(),
            "a write is not a device read"
        );
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(text in "\\PC*", at in 0..WRITE.len(), byte in any::<u8>()) {
            drop(parse(&text));
            drop(parse(&format!("#bytes #iterations BW average[Gb/sec] MsgRate\n{text}")));
            let mut bytes = WRITE.as_bytes().to_vec();
            bytes[at] = byte;
            if let Ok(measured) = parse(&String::from_utf8_lossy(&bytes)) {
                prop_assert!(measured.bytes_per_s > 0.0 && measured.bytes_per_s.is_finite());
            }
        }
    }
}
