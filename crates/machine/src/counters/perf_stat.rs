//! Output of `perf stat -j`.

use super::counter::Counter;
use serde_json::Value;

/// Largest number of events in the output.
const MAX_EVENTS: usize = 1024;

/// A line of `perf stat -j`.
#[derive(Debug, Clone, PartialEq)]
pub struct PerfStatCount {
    /// Name of the event, with its modifier.
    pub event: String,
    /// The count, which perf has scaled to the complete time, or why there is none.
    pub value: Result<f64, String>,
    /// Nanoseconds for which the event was counted, as perf reports them.
    pub running_ns: u64,
    /// Share of the time in which it was counted, from 0 to 1; 1 if perf does not report it.
    pub share: f64,
}

/// Returns names under which perf's event tables may have a counter, the newest CPUs first.
///
/// numaio asks perf for them only where it knows no code itself, as on newer CPUs than it knows.
pub fn perf_names(counter: Counter) -> &'static [&'static str] {
    match counter {
        Counter::StallCycles => &["cycle_activity.stalls_total", "stall_backend", "stalled-cycles-backend"],
        Counter::LocalDramLoads => {
            &["mem_load_l3_miss_retired.local_dram", "ls_dmnd_fills_from_sys.dram_io_near"]
        }
        Counter::RemoteDramLoads => {
            &["mem_load_l3_miss_retired.remote_dram", "ls_dmnd_fills_from_sys.dram_io_far"]
        }
        Counter::RemoteCacheLoads => {
            &["mem_load_l3_miss_retired.remote_fwd", "ls_dmnd_fills_from_sys.far_cache"]
        }
        Counter::SnoopResponses => &["core_snoop_response.miss", "core_snoop_response.rsp_ihiti"],
        Counter::Prefetches => &["l2_rqsts.hwpf_miss", "l2_rqsts.all_hwpf", "ls_hw_pf_dc_fills.all"],
        _ => &[],
    }
}

/// Parses the output of `perf stat -j` (tools/perf/Documentation/perf-stat.txt, "JSON FORMAT").
///
/// Lines that are not JSON objects with an event, such as warnings, are skipped. Versions of perf
/// differ in their fields, and write decimal commas in some locales.
pub fn parse_perf_stat(text: &str) -> Vec<PerfStatCount> {
    let lines = text.lines().map(str::trim).filter(|line| line.starts_with('{'));
    lines.filter_map(line).take(MAX_EVENTS).collect()
}

fn line(text: &str) -> Option<PerfStatCount> {
    let fields = match serde_json::from_str(text) {
        Ok(Value::Object(fields)) => fields,
        // A decimal comma outside of a string is not JSON.
        _ => match serde_json::from_str(&with_decimal_points(text)) {
            Ok(Value::Object(fields)) => fields,
            _ => return None,
        },
    };
    let event = fields.get("event")?.as_str()?.trim().to_owned();
    let value = match fields.get("counter-value")? {
        Value::String(text) => number(text).ok_or_else(|| text.trim_matches(['<', '>', ' ']).to_owned()),
        value => value.as_f64().ok_or_else(|| "no number".to_owned()),
    };
    let value = value.and_then(|value| match value >= 0.0 {
        true => Ok(value),
        false => Err("no number".to_owned()),
    });
    let running_ns = fields.get("event-runtime").and_then(Value::as_u64).unwrap_or(0);
    let share = fields.get("pcnt-running").map_or(Some(100.0), |share| match share {
        Value::String(text) => number(text),
        share => share.as_f64(),
    });
    let share = share.filter(|share| share.is_finite()).unwrap_or(100.0);
    Some(PerfStatCount { event, value, running_ns, share: (share / 100.0).clamp(0.0, 1.0) })
}

/// Parses a number with a decimal point or comma.
fn number(text: &str) -> Option<f64> {
    text.trim().replace(',', ".").parse().ok().filter(|value: &f64| value.is_finite())
}

/// Replaces commas between digits outside of strings by points: `"a" : 1,50` becomes `"a" : 1.50`.
fn with_decimal_points(text: &str) -> String {
    let mut is_in_string = false;
    let characters: Vec<char> = text.chars().collect();
    let digit = |at: Option<usize>| at.and_then(|at| characters.get(at)).is_some_and(char::is_ascii_digit);
    let replaced = characters.iter().enumerate().map(|(at, character)| {
        is_in_string ^= *character == '"';
        let is_decimal = *character == ',' && digit(at.checked_sub(1)) && digit(Some(at + 1));
        if is_decimal && !is_in_string {
            '.'
        } else {
            *character
        }
    });
    replaced.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// perf 6.1 on a virtual machine without a PMU; `pcnt-running` is 100 for events that were not
    /// counted.
    const PERF_6_1: &str = r#"{"counter-value" : "50.000000", "unit" : "", "event" : "page-faults", "event-runtime" : 573784, "pcnt-running" : 100.00, "metric-value" : 0.000000, "metric-unit" : "(null)"}
{"counter-value" : "<not supported>", "unit" : "", "event" : "cycles", "event-runtime" : 0, "pcnt-running" : 100.00, "metric-value" : 0.000000, "metric-unit" : ""}
{"counter-value" : "0.827612", "unit" : "msec", "event" : "task-clock", "event-runtime" : 827612, "pcnt-running" : 100.00, "metric-value" : 0.008141, "metric-unit" : "CPUs utilized"}
"#;

    #[test]
    fn reads_output_of_perf_6_1() {
        let counts = parse_perf_stat(PERF_6_1);
        assert_eq!(counts.len(), 3);
        assert_eq!((counts[0].event.as_str(), &counts[0].value), ("page-faults", &Ok(50.0)));
        assert_eq!(counts[0].running_ns, 573_784);
        assert_eq!(counts[1].value, Err("not supported".to_owned()));
    }

    /// perf 6.8 and later: metrics as strings, and lines of a metric without a count.
    #[test]
    fn reads_multiplexed_counts_and_lines_of_metrics() {
        let text = concat!(
            "# started on Fri Nov 27 19:00:00 2026\n\n",
            r#"{"counter-value" : "123456.000000", "unit" : "", "event" : "LLC-loads:u", "event-runtime" : 400, "pcnt-running" : 40.12}"#,
            "\n",
            r#"{"metric-value" : "0.50", "metric-unit" : "insn per cycle"}"#,
            "\n",
            r#"{"counter-value" : "<not counted>", "unit" : "", "event" : "node-loads:u", "event-runtime" : 0, "pcnt-running" : 0.00}"#,
            "\n",
            r#"{"event" : "no count"}"#,
            "\n{\"counter-value\" : \"1\", \"event\" : 5}\n{broken\n[]\n",
        );
        let counts = parse_perf_stat(text);
        assert_eq!(counts.len(), 2, "{counts:?}");
        assert!((counts[0].share - 0.4012).abs() < 1e-9);
        assert_eq!((&counts[1].value, counts[1].share), (&Err("not counted".to_owned()), 0.0));
    }

    #[test]
    fn reads_decimal_commas() {
        let text = r#"{"counter-value" : "1234,000000", "unit" : "", "event" : "cs,x1,2", "event-runtime" : 573784, "pcnt-running" : 62,50, "metric-value" : 0,000000, "metric-unit" : "M/sec"}"#;
        let counts = parse_perf_stat(text);
        assert_eq!(counts.len(), 1);
        assert_eq!((counts[0].value.clone(), counts[0].share), (Ok(1234.0), 0.625));
        assert_eq!(counts[0].event, "cs,x1,2", "commas in strings are kept");
    }

    #[test]
    fn rejects_impossible_numbers() {
        let count = |value: &str, share: &str| {
            let text = format!(r#"{{"counter-value" : {value}, "event" : "e", "pcnt-running" : {share}}}"#);
            parse_perf_stat(&text).remove(0)
        };
        assert_eq!(count("\"inf\"", "50").value, Err("inf".to_owned()));
        assert!(count("-5", "50").value.is_err() && count("true", "50").value.is_err());
        assert_eq!((count("7", "1000").share, count("7", "\"x\"").share), (1.0, 1.0));
    }
}
