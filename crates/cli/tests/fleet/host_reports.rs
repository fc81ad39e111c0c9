//! Host reports for tests.

// No test program uses all of this.
#![allow(dead_code)]

use crate::support::Home;
use serde_json::Value;

const REPORT: &str = include_str!("../../../schema/tests/fixtures/host-report-1.json");

/// Time of measurement of a report, in seconds since 1970.
pub const MEASURED_AT: u64 = 1_795_000_000;

/// Returns the report of a host; its figures are those of the fixture times `factor`.
pub fn report(host: &str, machine_id: &str, at: u64, factor: f64) -> Value {
    let mut report: Value = serde_json::from_str(REPORT).expect("a report");
    report["host"] = host.into();
    report["machine_id"] = machine_id.into();
    report["started_at"] = at.into();
    report["finished_at"] = (at + 40).into();
    report["documents"][0]["record"]["measured_at"] = at.into();
    scale(&mut report["documents"][0], factor, false);
    report
}

/// Returns the model of a report, as `numaio model --json` prints it on that host.
pub fn model(host: &str, at: u64, factor: f64) -> Value {
    let mut model = report(host, "", at, factor)["documents"][0].take();
    model["record"]["machine"]["hostname"] = host.into();
    model
}

/// Scales all bandwidths of a document.
fn scale(value: &mut Value, factor: f64, is_bandwidth: bool) {
    match value {
        Value::Object(fields) => fields.iter_mut().for_each(|(name, value)| {
            scale(value, factor, is_bandwidth || name.contains("bytes_copied_per_s"));
        }),
        Value::Array(values) => values.iter_mut().for_each(|value| scale(value, factor, is_bandwidth)),
        Value::Number(number) if is_bandwidth && number.is_f64() => {
            *value = (number.as_f64().expect("a number") * factor).into();
        }
        _ => {}
    }
}

/// Writes reports of hosts `n1`, `n2` and so on into the directory `reports`.
pub fn write_reports(home: &Home, hosts: u32) {
    std::fs::create_dir_all(home.0.join("reports")).expect("a directory");
    for number in 1..=hosts {
        let factor = 1.0 + f64::from(number % 3) / 1000.0;
        let report = report(&format!("n{number}"), &format!("{number:032x}"), MEASURED_AT, factor);
        home.document(&format!("reports/n{number}.json"), &report);
    }
}
