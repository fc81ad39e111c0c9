//! Values of the options of `numaio fleet run`.

use clap::ValueEnum;
use numaio_fleet::launch::stored_run::TIME_LIMITS_S;

/// How hosts are reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LauncherChoice {
    /// One job of Slurm for each host
    Slurm,
    /// The system's ssh
    Ssh,
}

/// Which hosts share the limit of `--at-once`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LimitScope {
    /// All hosts
    Fleet,
    /// The hosts below each leaf switch of Slurm's topology
    Switch,
}

/// How reports arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReturnChoice {
    /// Hosts write them to the directory of the run, which all hosts share
    Shared,
    /// In the output of srun, which runs as long as its job
    Output,
}

/// Parses a time as sbatch does: `MINUTES`, `MINUTES:SECONDS`, `HOURS:MINUTES:SECONDS`,
/// `DAYS-HOURS[:MINUTES[:SECONDS]]`; returns seconds.
pub fn slurm_time(text: &str) -> Result<u32, String> {
    seconds_of(text)
        .and_then(|seconds| u32::try_from(seconds).ok())
        .filter(|seconds| TIME_LIMITS_S.contains(seconds))
        .ok_or_else(|| {
            "expected 10 seconds to 7 days as MINUTES, HOURS:MINUTES:SECONDS or DAYS-HOURS:MINUTES".to_owned()
        })
}

fn seconds_of(text: &str) -> Option<u64> {
    let (days, clock) = match text.split_once('-') {
        Some((days, clock)) => (Some(parse(days)?), clock),
        None => (None, text),
    };
    let fields: Vec<u64> = clock.split(':').map(parse).collect::<Option<_>>()?;
    let seconds = match (days, fields.as_slice()) {
        (None, [minutes]) => minutes * 60,
        (None, [minutes, seconds]) => minutes * 60 + seconds,
        (_, [hours, minutes, seconds]) => hours * 3600 + minutes * 60 + seconds,
        (Some(_), [hours]) => hours * 3600,
        (Some(_), [hours, minutes]) => hours * 3600 + minutes * 60,
        _ => return None,
    };
    Some(days.unwrap_or(0) * 86_400 + seconds)
}

/// Parses digits; few enough that sums do not overflow.
fn parse(text: &str) -> Option<u64> {
    let is_number = (1..=9).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_sbatch() {
        for (text, seconds) in [
            ("30", 1800),
            ("1:30", 90),
            ("0:10", 10),
            ("1:00:05", 3605),
            ("1-2", 93_600),
            ("0-1:30", 5400),
            ("1-0:0:1", 86_401),
        ] {
            assert_eq!(slurm_time(text), Ok(seconds), "{text}");
        }
        for text in ["", "0", "0:9", "8-0", "x", "1:2:3:4", "-1", "1-", "999999999999", "+5"] {
            assert!(slurm_time(text).is_err(), "{text}");
        }
    }
}
