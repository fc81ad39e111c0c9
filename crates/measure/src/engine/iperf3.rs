//! iperf3: its arguments, and its JSON (`iperf3(1)`, `--json`; esnet/iperf, `iperf_api.c`).

use super::remote::{self, Figure};
use super::{version_of, CellRequest, Engine, RemoteEnd, VisitFigures};
use numaio_machine::probe::{Outcome, Probe, ProbeError};
use numaio_machine::workload::{Direction, StreamGroup, Workload};
use numaio_schema::IoEngine;
use serde::Deserialize;

const PROGRAM: &str = "iperf3";
/// Seconds at the beginning that do not count, in which TCP finds its window.
const OMIT_S: u32 = 1;

/// iperf3, one process for each group; its streams are the group's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Iperf3 {
    /// The other end.
    pub far: RemoteEnd,
}

impl Engine for Iperf3 {
    fn engine(&self) -> IoEngine {
        IoEngine::Iperf3
    }

    fn version(&self, probe: &dyn Probe) -> Result<String, ProbeError> {
        // `iperf 3.12 (cJSON 1.7.15)`
        let document = version_of(probe, PROGRAM, "--version")?;
        let version = document.trim_start_matches("iperf").trim();
        Ok(version.split(" (").next().unwrap_or(version).to_owned())
    }

    fn remedy(&self) -> Option<&'static str> {
        Some("apt-get install iperf3")
    }

    fn workload(&self, request: &CellRequest) -> Result<Workload, ProbeError> {
        // It counts in whole seconds.
        let seconds = request.window_ms.div_ceil(1000).max(1);
        let args = |group: &StreamGroup| args(&self.far.host, group, request.block_bytes, seconds);
        // One test, then it ends.
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

/// Of the document, what is read.
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

/// What the receiving end counted.
#[derive(Deserialize)]
struct Sum {
    seconds: f64,
    bytes: f64,
    bits_per_second: f64,
}

/// Percent of one CPU.
#[derive(Deserialize)]
struct Cpu {
    host_total: Option<f64>,
    remote_total: Option<f64>,
}

/// Reads what iperf3 printed: the bandwidth that the receiving end counted.
///
/// # Errors
/// Its own error if it failed; in words what is missing otherwise.
fn parse(stdout: &str) -> Result<Figure, String> {
    // Some builds print warnings before the document.
    let begin = stdout.find('{').ok_or("it printed no JSON")?;
    let mut documents = serde_json::Deserializer::from_str(&stdout[begin..]).into_iter::<Document>();
    let document = match documents.next() {
        Some(Ok(document)) => document,
        Some(Err(error)) if error.is_eof() => return Err("its JSON ends early".to_owned()),
        Some(Err(error)) => return Err(format!("its JSON cannot be read: {error}")),
        None => return Err("it printed no JSON".to_owned()),
    };
    if let Some(error) = document.error {
        return Err(error.trim_start_matches("error - ").to_owned());
    }
    let end = document.end.ok_or("its JSON has no end")?;
    let sum = end.sum_received.ok_or("its JSON does not tell what was received")?;
    if !(sum.bits_per_second > 0.0 && sum.bits_per_second.is_finite()) {
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
    fn the_receiving_ends_count_is_read() {
        let send = parse(SEND).expect("a measurement");
        assert_eq!(send.bytes_per_s, 10565317198.920631 / 8.0, "and not the sender's 10605699292");
        let cpu = send.cpu_ns.expect("a share of a CPU");
        assert!((cpu - 0.250581740 * 2.007469e9).abs() < 10.0, "{cpu}");
        assert!(send.cpu_ns_there.is_some() && send.bytes == 2651193344.0);
        assert_eq!(parse(REVERSE).expect("a measurement").bytes_per_s, 1316116756.2032235 / 8.0);
    }

    #[test]
    fn its_own_error_is_told() {
        assert_eq!(parse(REFUSED), Err("unable to connect to server: Connection refused".to_owned()));
        let warned = format!("warning: optimistic\n{SEND}");
        assert!(parse(&warned).is_ok());
        assert_eq!(parse("iperf3: no\n"), Err("it printed no JSON".to_owned()));
        assert_eq!(parse("{\"start\":{}}"), Err("its JSON has no end".to_owned()));
        let nothing = r#"{"end":{"sum_received":{"seconds":1,"bytes":0,"bits_per_second":0}}}"#;
        assert_eq!(parse(nothing), Err("nothing was received".to_owned()));
    }

    #[test]
    fn a_document_cut_anywhere_is_an_error() {
        for end in (0..SEND.trim_end().len()).filter(|end| SEND.is_char_boundary(*end)) {
            assert!(parse(&SEND[..end]).is_err(), "{end}");
        }
    }

    #[test]
    fn a_device_read_is_a_test_in_reverse() {
        let (cpus, memory) = (CpuSet::one(CpuId(0)), NodeId(0));
        let group = StreamGroup { cpus, memory, streams: 3, direction: Direction::Read };
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
