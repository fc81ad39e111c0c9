//! Reads the documents of a report from its JSON format.

use crate::support::Home;
use numaio_schema::{Comparison, Document, LatencyRecord, Model, StreamRecord, View};

/// Documents of all machines of a report, by kind.
#[derive(Debug, Default)]
pub struct ReportDocuments {
    pub models: Vec<Model>,
    pub streams: Vec<StreamRecord>,
    pub latencies: Vec<LatencyRecord>,
    pub comparisons: Vec<Comparison>,
    pub views: Vec<View>,
}

/// Reads the documents of a report with these arguments.
pub fn read_documents(home: &Home, args: &[&str]) -> ReportDocuments {
    let json = home.run(&[&["report", "-q", "--format", "json", "-o", "-"], args].concat()).ok();
    let bundle: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let mut documents = ReportDocuments::default();
    for machine in bundle["machines"].as_array().expect("machines") {
        for document in machine["documents"].as_array().expect("documents") {
            match Document::from_json(&document.to_string()).expect("a document") {
                Document::Model(it) => documents.models.push(*it),
                Document::Stream(it) => documents.streams.push(*it),
                Document::Latency(it) => documents.latencies.push(*it),
                Document::Comparison(it) => documents.comparisons.push(*it),
                Document::View(it) => documents.views.push(*it),
                _ => {}
            }
        }
    }
    documents
}

/// Runs `numaio report` with a format, and returns its standard output.
pub fn report(home: &Home, format: &str, args: &[&str]) -> String {
    home.run(&[&["report", "-q", "--format", format, "-o", "-"], args].concat()).ok()
}

/// Returns whether a text is this number, rounded to its digits.
pub fn shows(text: &str, value: f64) -> bool {
    let decimals = text.split_once('.').map_or(0, |(_, decimals)| decimals.len() as i32);
    let number: f64 = text.parse().unwrap_or(f64::NAN);
    (number - value).abs() <= 0.5001 * 10f64.powi(-decimals) && (number - value).abs() <= 0.02 * value
}
