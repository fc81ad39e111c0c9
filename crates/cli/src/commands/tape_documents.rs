//! Replays all measurements of a tape.

use super::measuring::{self, MeasuredMachine};
use super::{compare, tape_io};
use crate::failure::{self, Failure};
use crate::machine::Machine;
use crate::options::Common;
use crate::output;
use numaio_machine::topology::Topology;
use numaio_measure::{LatencyOptions, Options, Rule, StreamOptions};
use numaio_schema::Document;

/// Replays copies of every target, STREAM copy, idle latency and I/O, and compares the views of
/// each node with devices. Reports what the tape does not contain.
pub fn measure(common: &Common, machine: &Machine, topology: &Topology) -> Result<Vec<Document>, Failure> {
    let setting = MeasuredMachine::idle(machine, topology);
    let now = machine.time();
    let rule = Rule { seed: now, ..Rule::default() };
    let copies = Options { targets: topology.cpu_nodes(), seed: now, ..Options::default() };
    let classes = numaio_model::ClassOptions::default();
    let model = measuring::measure(common, setting.clone(), now, &copies)
        .map(|record| Document::Model(Box::new(numaio_model::fit(record, topology, classes))));
    let stream_options = StreamOptions { rule, ..StreamOptions::default() };
    let stream = measuring::measure_stream(common, setting.clone(), now, &stream_options)
        .map(|record| Document::Stream(Box::new(record)));
    let latency_options = LatencyOptions { rule, ..LatencyOptions::default() };
    let latency = measuring::measure_latency(common, setting, now, &latency_options)
        .map(|record| Document::Latency(Box::new(record)));
    let mut documents = Vec::new();
    for (name, document) in [("copies", model), ("STREAM", stream), ("latency", latency)] {
        match document {
            Ok(document) => documents.push(document),
            Err(failure) if failure.code == failure::INTERRUPTED => return Err(failure),
            Err(failure) => {
                output::remark(common, &format!("the tape contains no {name}: {}", failure.message))
            }
        }
    }
    let io = tape_io::records(common, machine, topology)?;
    documents.extend(io.into_iter().map(|record| Document::Io(Box::new(record))));
    documents.extend(stored(machine));
    for target in topology.device_nodes().iter() {
        // Without measurements there is nothing to compare.
        let comparison = compare::of_documents(topology, &documents, target).ok();
        documents.extend(comparison.map(|comparison| Document::Comparison(Box::new(comparison))));
    }
    Ok(documents)
}

/// Returns the recorded sweeps of programs, which name their builds, and the measurements of
/// several devices, of network latencies and of registers, which name their devices.
fn stored(machine: &Machine) -> Vec<Document> {
    let stored = machine.tape().into_iter().flat_map(|tape| &tape.documents);
    let read = |(document, _): &(serde_json::Value, _)| Document::from_json(&document.to_string()).ok();
    stored
        .filter_map(read)
        .filter(|document| {
            matches!(
                document,
                Document::Sweep(_) | Document::Ping(_) | Document::Aggregate(_) | Document::Mmio(_)
            )
        })
        .collect()
}
