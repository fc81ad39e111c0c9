//! iperf3: arguments and JSON output (`iperf3(1)`, `--json`; esnet/iperf, `iperf_api.c`).

use super::remote::RemoteEnd;
use super::remote::{self, is_rate, Figure};
use super::tool::version_of;
use super::visit::{CellRequest, Engine, VisitFigures};
use numaio_machine::probe::{Outcome, Probe, ProbeError};
use numaio_machine::workload::{Direction, StreamGroup, Workload};
use numaio_schema::IoEngine;
use serde::Deserialize;

const PROGRAM: &str = "iperf3";
/// Initial seconds that do not count, in which TCP finds its window.
const OMIT_S: u32 = 1;

/// iperf3 with one process per group; its streams are those of the group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Iperf3 {
    /// Remote end.
    pub far: RemoteEnd,
    /// Congestion control of the streams at both ends; `None` for each machine's own.
    pub congestion: Option<String>,
}

impl Engine for Iperf3 {
    fn engine(&self) -> IoEngine {
        IoEngine::Iperf3
    }

    fn version(&self, probe: &dyn Probe) -> Result<String, ProbeError> {
        // `iperf 3.12 (cJSON 1.7.15)`
        let output = version_of(probe, PROGRAM, "--version")?;
        let version = output.trim_start_matches("iperf").trim();
        Ok(version.split(" (").next().unwrap_or(version).to_owned())
    }

    fn remedy(&self) -> Option<&'static str> {
        Some("apt-get install iperf3")
    }

    fn workload(&self, request: &CellRequest) -> Result<Workload, ProbeError> {
        // iperf3 counts full seconds.
        let seconds = request.window_ms.div_ceil(1000).max(1);
        let args = |group: &StreamGroup| {
            let mut args = args(&self.far.host, group, request.block_bytes, seconds);
            args.extend(self.congestion.iter().flat_map(|name| ["-C".to_owned(), name.clone()]));
            args
        };
        // Serve one test, then exit.
        let there = ["-s", "-1"].map(str::to_owned).to_vec();
        Ok(self.far.tool(request, PROGRAM, seconds + OMIT_S, args, there))
    }

    fn read(&self, outcome: &Outcome) -> Result<VisitFigures, ProbeError> {
        remote::read(PROGRAM, outcome, parse)
    }
}

fn args(host: &str, group: &StreamGroup, block_bytes: u64, seconds: u32) -> Vec<String> {
    let reverse = match group.direction {
        Direction::Write => "",
        Direction::Read => " -R",
    };
    let streams = group.streams;
    let line = format!(
        "-c {host} -p {{port}} -J -t {seconds} -O {OMIT_S} -i 0 -P {streams} -l {block_bytes}{reverse}"
    );
    line.split(' ').map(str::to_owned).collect()
}

/// Parsed part of the document.
#[derive(Deserialize)]
struct Document {
    error: Option<String>,
    end: Option<End>,
}

#[derive(Deserialize)]
struct End {
    sum_received: Option<Sum>,
    cpu_utilization_percent: Option<Cpu>,
}

/// Counters of the receiver.
#[derive(Deserialize)]
struct Sum {
    seconds: f64,
    bytes: f64,
    bits_per_second: f64,
}

/// Percentages of one CPU.
#[derive(Deserialize)]
struct Cpu {
    host_total: Option<f64>,
    remote_total: Option<f64>,
}

/// Parses the output of iperf3: the bandwidth counted by the receiver.
///
/// # Errors
/// The error of iperf3, or what is missing.
fn parse(stdout: &str) -> Result<Figure, String> {
    // Some builds print warnings before the document.
    let begin = stdout.find('{').ok_or("no JSON output")?;
    let mut documents = serde_json::Deserializer::from_str(&stdout[begin..]).into_iter::<Document>();
    let document = match documents.next() {
        Some(Ok(document)) => document,
        Some(Err(error)) if error.is_eof() => return Err("truncated JSON output".to_owned()),
        Some(Err(error)) => return Err(format!("invalid JSON output: {error}")),
        None => return Err("no JSON output".to_owned()),
    };
    if let Some(error) = document.error {
        return Err(error.trim_start_matches("error - ").to_owned());
    }
    let end = document.end.ok_or("no 'end' in JSON output")?;
    let sum = end.sum_received.ok_or("no 'sum_received' in JSON output")?;
    if !is_rate(sum.bits_per_second) || !is_rate(sum.seconds) {
        return Err("nothing was received".to_owned());
    }
    let ns = |percent: Option<f64>| {
        let ns = percent? / 100.0 * sum.seconds * 1e9;
        (ns >= 0.0 && ns.is_finite()).then_some(ns)
    };
    let cpu = end.cpu_utilization_percent;
    Ok(Figure {
        bytes_per_s: sum.bits_per_second / 8.0,
        bytes: sum.bytes,
        warm_up: f64::from(OMIT_S) / sum.seconds.max(1.0),
        cpu_ns: cpu.as_ref().and_then(|cpu| ns(cpu.host_total)),
        cpu_ns_there: cpu.as_ref().and_then(|cpu| ns(cpu.remote_total)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaio_machine::ids::{CpuId, NodeId};
    use numaio_machine::set::CpuSet;
    use proptest::prelude::*;

    const SEND: &str = include_str!("../../tests/captures/iperf3-3.12-send.json");
    const REVERSE: &str = include_str!("../../tests/captures/iperf3-3.12-reverse.json");
    const REFUSED: &str = include_str!("../../tests/captures/iperf3-3.12-refused.json");

    #[test]
    fn receivers_counters_are_used() {
        let send = parse(SEND).expect("a measurement");
        assert_eq!(send.bytes_per_s, 10565317198.920631 / 8.0, "and not the sender's 10605699292");
        let cpu = send.cpu_ns.expect("a share of a CPU");
        assert!((cpu - 0.250581740 * 2.007469e9).abs() < 10.0, "{cpu}");
        assert!(send.cpu_ns_there.is_some() && send.bytes == 2651193344.0);
        assert_eq!(parse(REVERSE).expect("a measurement").bytes_per_s, 1316116756.2032235 / 8.0);
    }

    #[test]
    fn iperf3_errors_are_reported() {
        assert_eq!(parse(REFUSED), Err("unable to connect to server: Connection refused".to_owned()));
        let warned = format!("warning: optimistic\n{SEND}");
        assert!(parse(&warned).is_ok());
        assert_eq!(parse("iperf3: no\n"), Err("no JSON output".to_owned()));
        assert_eq!(parse("{\"start\":{}}"), Err("no 'end' in JSON output".to_owned()));
        let nothing = r#"{"end":{"sum_received":{"seconds":1,"bytes":0,"bits_per_second":0}}}"#;
        assert_eq!(parse(nothing), Err("nothing was received".to_owned()));
    }

    #[test]
    fn truncated_document_is_an_error() {
        for end in (0..SEND.trim_end().len()).filter(|end| SEND.is_char_boundary(*end)) {
            assert!(parse(&SEND[..end]).is_err(), "{end}");
        }
    }

    #[test]
    fn device_read_is_a_reverse_test() {
        let (cpus, memory) = (CpuSet::one(CpuId(0)), NodeId(0));
        let group = StreamGroup { cpus, memory, streams: 3, direction: Direction::Read, device: 0 };
        let line = "-c h -p {port} -J -t 2 -O 1 -i 0 -P 3 -l 1024";
        assert_eq!(args("h", &group, 1024, 2).join(" "), format!("{line} -R"));
        let write = StreamGroup { direction: Direction::Write, ..group };
        assert_eq!(args("h", &write, 1024, 2).join(" "), line);
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(text in "\\PC*", at in 0..SEND.len(), byte in any::<u8>()) {
            drop(parse(&text));
            let mut bytes = SEND.as_bytes().to_vec();
            bytes[at] = byte;
            if let Ok(measured) = parse(&String::from_utf8_lossy(&bytes)) {
                prop_assert!(measured.bytes_per_s > 0.0 && measured.bytes_per_s.is_finite());
            }
        }
    }
}
