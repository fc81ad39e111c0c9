//! perftest: `ib_write_bw`, `ib_read_bw` and `ib_send_bw` (linux-rdma/perftest, `perftest_parameters.h`).
//!
//! The table on standard output is read, which all versions print. Newer ones can write JSON too, but into a file only.

use super::Measured;
use numaio_machine::workload::Direction;

/// The programs.
pub const PROGRAMS: [&str; 3] = ["ib_write_bw", "ib_read_bw", "ib_send_bw"];

/// An operation of RDMA.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// This end writes the other's memory.
    Write,
    /// This end reads the other's memory.
    Read,
    /// This end sends, the other receives.
    Send,
}

impl Op {
    /// All operations.
    pub const ALL: [Self; 3] = [Self::Write, Self::Read, Self::Send];

    /// The name in options and documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
            Self::Send => "send",
        }
    }

    /// The program.
    pub fn program(self) -> &'static str {
        match self {
            Self::Write => PROGRAMS[0],
            Self::Read => PROGRAMS[1],
            Self::Send => PROGRAMS[2],
        }
    }

    /// Which way data goes through this end's device.
    pub fn direction(self) -> Direction {
        match self {
            Self::Write | Self::Send => Direction::Write,
            Self::Read => Direction::Read,
        }
    }
}

/// A test as both ends are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Test<'a> {
    /// The other host.
    pub host: &'a str,
    /// The device here, and there.
    pub device: [&'a str; 2],
    /// Index of the GID; none for perftest's choice.
    pub gid: Option<u32>,
    /// Queue pairs.
    pub queues: u32,
    /// Bytes of a message.
    pub block_bytes: u64,
    /// Seconds that it lasts.
    pub seconds: u32,
}

impl Test<'_> {
    /// Arguments of the end that starts the test, with `{port}` for the other end's port.
    pub fn args(&self) -> Vec<String> {
        let mut args = self.alike(self.device[0]);
        args.extend(["-p".to_owned(), "{port}".to_owned(), self.host.to_owned()]);
        args
    }

    /// Arguments of the other end.
    pub fn args_there(&self) -> Vec<String> {
        self.alike(self.device[1])
    }

    /// Milliseconds after which it hangs.
    pub fn time_limit_ms(&self) -> u32 {
        self.seconds.saturating_mul(1000).saturating_add(30_000)
    }

    fn alike(&self, device: &str) -> Vec<String> {
        let Self { gid, queues, block_bytes, seconds, .. } = self;
        // -F: a CPU whose frequency changes is told by our own findings.
        let mut line = format!("-d {device} -F --report_gbits -s {block_bytes} -q {queues} -D {seconds}");
        if let Some(gid) = gid {
            line.push_str(&format!(" -x {gid}"));
        }
        line.split(' ').map(str::to_owned).collect()
    }
}

/// Reads the table that perftest printed: one line of one message size.
///
/// # Errors
/// In words what is missing.
pub fn parse(stdout: &str) -> Result<Measured, String> {
    let mut lines = stdout.lines().map(str::trim).skip_while(|line| !line.starts_with("#bytes"));
    let head = lines.next().ok_or("it printed no table")?;
    let unit = unit(head).ok_or_else(|| format!("the unit of its table is not known: {head:?}"))?;
    // Names of columns have blanks in them, and units in brackets.
    let head = head.replace("BW peak", "peak").replace("BW average", "average");
    let column = |name: &str| head.split_ascii_whitespace().position(|column| column.starts_with(name));
    let columns = [column("#bytes"), column("average"), column("MsgRate")];
    let [Some(bytes), Some(average), Some(rate)] = columns else {
        return Err("its table lacks a column".to_owned());
    };
    let row = lines.next().ok_or("its table is empty")?;
    let fields: Vec<Option<f64>> = row.split_ascii_whitespace().map(|field| field.parse().ok()).collect();
    let field = |at: usize| fields.get(at).copied().flatten().filter(|value: &f64| value.is_finite());
    let (Some(bytes), Some(average), Some(rate)) = (field(bytes), field(average), field(rate)) else {
        return Err(format!("its table has no figures: {row:?}"));
    };
    let bytes_per_s = finer(average, unit, bytes, rate);
    if bytes_per_s <= 0.0 || !bytes_per_s.is_finite() {
        return Err("it measured nothing".to_owned());
    }
    Ok(Measured { bytes_per_s, cpu_ns_per_byte: None, cpu_ns_per_byte_there: None })
}

/// Bytes a second of one unit. What old versions call MB are 2^20 bytes, as MiB of new ones.
fn unit(head: &str) -> Option<f64> {
    let average = head.split("BW average[").nth(1)?;
    match average.split_once(']')?.0 {
        "Gb/sec" => Some(1e9 / 8.0),
        "MB/sec" | "MiB/sec" => Some(f64::from(1 << 20)),
        _ => None,
    }
}

/// Bandwidth is printed with two decimals, messages in millions a second with six: what has more digits counts.
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
    use proptest::prelude::*;

    const WRITE: &str = include_str!("../../tests/captures/ib_write_bw-6.06.txt");
    const READ: &str = include_str!("../../tests/captures/ib_read_bw-6.06.txt");
    const SEND: &str = include_str!("../../tests/captures/ib_send_bw-6.06.txt");
    const SERVER: &str = include_str!("../../tests/captures/ib_send_bw-6.06-server.txt");

    #[test]
    fn the_table_of_each_program_is_read() {
        let rate = |text: &str| parse(text).expect("a table").bytes_per_s;
        assert_eq!(rate(WRITE), 0.001239 * 1e6 * 65536.0, "0.65 Gb/sec would be coarser");
        let rough = |text: &str, gbit: f64| (rate(text) * 8.0 / 1e9 - gbit).abs() < 0.006;
        assert!(rough(READ, 0.55) && rough(SEND, 0.71) && rough(SERVER, 0.71), "{}", rate(READ));
    }

    #[test]
    fn large_figures_are_read_from_the_bandwidth() {
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
    fn a_service_level_may_stand_between() {
        let text =
            " #bytes    #sl      #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n \
            65536 3 1000 0.00 12.50 0.000000\n";
        assert_eq!(parse(text).map(|measured| measured.bytes_per_s), Ok(12.5e9 / 8.0));
    }

    #[test]
    fn what_is_missing_is_told() {
        assert_eq!(parse(""), Err("it printed no table".to_owned()));
        let head = WRITE.split(" 65536").next().expect("a table");
        assert_eq!(parse(head), Err("its table is empty".to_owned()));
        let rule = format!("{head}{}\n", "-".repeat(80));
        assert!(parse(&rule).is_err_and(|why| why.contains("no figures")));
        let zero = WRITE.replace("0.65", "0.00").replace("0.001239", "0.000000");
        assert_eq!(parse(&zero), Err("it measured nothing".to_owned()));
    }

    #[test]
    fn both_ends_agree_on_the_test() {
        let test = Test {
            host: "192.0.2.1",
            device: ["mlx5_0", "mlx5_1"],
            gid: Some(3),
            queues: 2,
            block_bytes: 65536,
            seconds: 1,
        };
        let there = "-d mlx5_1 -F --report_gbits -s 65536 -q 2 -D 1 -x 3";
        assert_eq!(test.args_there().join(" "), there);
        assert_eq!(test.args().join(" "), there.replace("mlx5_1", "mlx5_0") + " -p {port} 192.0.2.1");
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(text in "\\PC*", at in 0..WRITE.len(), byte in any::<u8>()) {
            drop(parse(&text));
            drop(parse(&format!("#bytes BW average[Gb/sec] MsgRate\n{text}")));
            let mut bytes = WRITE.as_bytes().to_vec();
            bytes[at] = byte;
            if let Ok(measured) = parse(&String::from_utf8_lossy(&bytes)) {
                prop_assert!(measured.bytes_per_s > 0.0 && measured.bytes_per_s.is_finite());
            }
        }
    }
}
