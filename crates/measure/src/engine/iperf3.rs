//! iperf3: its arguments, and its JSON (`iperf3(1)`, `--json`; esnet/iperf, `iperf_api.c`).

use super::Measured;
use numaio_machine::workload::Direction;
use serde::Deserialize;

/// The program.
pub const PROGRAM: &str = "iperf3";
/// Seconds at the beginning that do not count, in which TCP finds its window.
const OMIT_S: u32 = 1;

/// A test as both ends are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Test<'a> {
    /// The other host.
    pub host: &'a str,
    /// Device write: this end sends.
    pub direction: Direction,
    /// Connections.
    pub streams: u32,
    /// Bytes of each write and read.
    pub block_bytes: u64,
    /// Seconds that count.
    pub seconds: u32,
}

impl Test<'_> {
    /// Arguments of the end that starts the test, with `{port}` for the other end's port.
    pub fn args(&self) -> Vec<String> {
        let Self { host, direction, streams, block_bytes, seconds } = self;
        let line = format!(
            "-c {host} -p {{port}} -J -t {seconds} -O {OMIT_S} -i 0 -P {streams} -l {block_bytes}{}",
            match direction {
                Direction::Write => "",
                Direction::Read => " -R",
            }
        );
        line.split(' ').map(str::to_owned).collect()
    }

    /// Arguments of the other end: one test, then it ends.
    pub fn args_there() -> Vec<String> {
        ["-s", "-1"].map(str::to_owned).to_vec()
    }

    /// Milliseconds after which it hangs.
    pub fn time_limit_ms(&self) -> u32 {
        (self.seconds + OMIT_S).saturating_mul(1000).saturating_add(20_000)
    }
}

/// Of the document, what is read.
#[derive(Deserialize)]
struct Said {
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
pub fn parse(stdout: &str) -> Result<Measured, String> {
    // Some builds print warnings before the document.
    let begin = stdout.find('{').ok_or("it printed no JSON")?;
    let mut documents = serde_json::Deserializer::from_str(&stdout[begin..]).into_iter::<Said>();
    let said = match documents.next() {
        Some(Ok(said)) => said,
        Some(Err(error)) if error.is_eof() => return Err("its JSON ends early".to_owned()),
        Some(Err(error)) => return Err(format!("its JSON cannot be read: {error}")),
        None => return Err("it printed no JSON".to_owned()),
    };
    if let Some(error) = said.error {
        return Err(error.trim_start_matches("error - ").to_owned());
    }
    let end = said.end.ok_or("its JSON has no end")?;
    let sum = end.sum_received.ok_or("its JSON does not tell what was received")?;
    if !(sum.bits_per_second > 0.0 && sum.bits_per_second.is_finite()) {
        return Err("nothing was received".to_owned());
    }
    let ns_per_byte = |percent: Option<f64>| {
        let ns = percent? / 100.0 * sum.seconds * 1e9 / sum.bytes;
        (ns >= 0.0 && ns.is_finite()).then_some(ns)
    };
    let cpu = end.cpu_utilization_percent;
    Ok(Measured {
        bytes_per_s: sum.bits_per_second / 8.0,
        cpu_ns_per_byte: cpu.as_ref().and_then(|cpu| ns_per_byte(cpu.host_total)),
        cpu_ns_per_byte_there: cpu.as_ref().and_then(|cpu| ns_per_byte(cpu.remote_total)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SEND: &str = include_str!("../../tests/captures/iperf3-3.12-send.json");
    const REVERSE: &str = include_str!("../../tests/captures/iperf3-3.12-reverse.json");
    const REFUSED: &str = include_str!("../../tests/captures/iperf3-3.12-refused.json");

    #[test]
    fn the_receiving_ends_count_is_read() {
        let send = parse(SEND).expect("a measurement");
        assert_eq!(send.bytes_per_s, 10565317198.920631 / 8.0, "and not the sender's 10605699292");
        let cpu = send.cpu_ns_per_byte.expect("a share of a CPU");
        assert!((cpu - 0.2505817 * 2.007469e9 / 2651193344.0).abs() < 1e-6, "{cpu}");
        assert!(send.cpu_ns_per_byte_there.is_some());
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
    fn both_ends_agree_on_the_test() {
        let test = Test { host: "h", direction: Direction::Read, streams: 3, block_bytes: 1024, seconds: 2 };
        assert_eq!(test.args().join(" "), "-c h -p {port} -J -t 2 -O 1 -i 0 -P 3 -l 1024 -R");
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
