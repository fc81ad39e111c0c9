//! What a report was made of, read from its JSON.

use crate::support::Home;
use numaio_schema::{Comparison, Document, LatencyRecord, Model, StreamRecord, View};

/// Documents of all machines of a report.
#[derive(Debug, Default)]
pub struct Told {
    pub models: Vec<Model>,
    pub streams: Vec<StreamRecord>,
    pub latencies: Vec<LatencyRecord>,
    pub comparisons: Vec<Comparison>,
    pub views: Vec<View>,
}

/// The documents that a report with these arguments tells of.
pub fn told(home: &Home, args: &[&str]) -> Told {
    let json = home.run(&[&["report", "-q", "--format", "json", "-o", "-"], args].concat()).ok();
    let bundle: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let mut told = Told::default();
    for machine in bundle["machines"].as_array().expect("machines") {
        for document in machine["documents"].as_array().expect("documents") {
            match Document::from_json(&document.to_string()).expect("a document") {
                Document::Model(it) => told.models.push(*it),
                Document::Stream(it) => told.streams.push(*it),
                Document::Latency(it) => told.latencies.push(*it),
                Document::Comparison(it) => told.comparisons.push(*it),
                Document::View(it) => told.views.push(*it),
                _ => {}
            }
        }
    }
    told
}

/// A report in a form, with nothing on standard error.
pub fn report(home: &Home, format: &str, args: &[&str]) -> String {
    home.run(&[&["report", "-q", "--format", format, "-o", "-"], args].concat()).ok()
}

/// Whether a text is this number, as exactly as its digits tell.
pub fn shows(text: &str, value: f64) -> bool {
    let decimals = text.split_once('.').map_or(0, |(_, decimals)| decimals.len() as i32);
    let number: f64 = text.parse().unwrap_or(f64::NAN);
    (number - value).abs() <= 0.5001 * 10f64.powi(-decimals) && (number - value).abs() <= 0.02 * value
}
