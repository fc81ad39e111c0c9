//! Measurements of the target that no document contains: taken now, or reported as missing.

use super::args::CompareArgs;
use super::view_set::{Duplicates, ViewSet};
use crate::commands::measuring::{self, MeasuredMachine};
use crate::failure::{self, Failure};
use crate::machine::Machine;
use crate::options::Common;
use crate::store::Kind;
use numaio_linux::interrupt;
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::topology::Topology;
use numaio_measure::{LatencyOptions, Options, Rule, StreamOptions};
use numaio_schema::Document;
use std::path::Path;

/// A measurement that yields views.
pub struct ViewSource {
    /// Kind of its saved documents.
    pub kind: Kind,
    /// Prefixes of the names of its views; a complete set has a view for each prefix.
    pub names: &'static [&'static str],
    /// Rule name of the warning about its absence.
    rule: &'static str,
    /// Name in messages.
    title: &'static str,
    /// Command that measures it.
    command: &'static str,
}

/// Measurements that `--measure` takes, in this order.
pub const SOURCES: [ViewSource; 3] = [
    ViewSource {
        kind: Kind::Latency,
        names: &["latency-"],
        rule: "missing-latency",
        title: "latency",
        command: "numaio latency",
    },
    ViewSource {
        kind: Kind::Stream,
        names: &["stream-"],
        rule: "missing-stream",
        title: "STREAM",
        command: "numaio stream",
    },
    ViewSource {
        kind: Kind::Model,
        names: &["copy-write", "copy-read"],
        rule: "missing-model",
        title: "the copy model",
        command: "numaio model",
    },
];

impl ViewSource {
    /// Returns whether all of its views are in the set.
    pub fn is_complete(&self, views: &ViewSet) -> bool {
        self.names.iter().all(|prefix| views.has_view(prefix))
    }

    fn missing(&self, target: NodeId, reason: &str) -> String {
        format!("{} is missing for node {target}: {reason}", self.title)
    }
}

/// Takes the measurements that no document contains. A failure becomes a warning of the comparison,
/// which then uses the other views.
pub fn measure(
    common: &Common,
    args: &CompareArgs,
    machine: &Machine,
    topology: &Topology,
    views: &mut ViewSet,
) -> Result<(), Failure> {
    for source in &SOURCES {
        if source.is_complete(views) || interrupt::interrupted() {
            continue;
        }
        match measure_source(common, args, source.kind, machine, topology, views.target()) {
            Ok(document) => {
                if machine.is_live() && !args.no_save {
                    save(common, source.kind, &document, topology)?;
                }
                views.add(Path::new(""), &document, Duplicates::Replace)?;
            }
            Err(failure) if failure.code == failure::INTERRUPTED => return Err(failure),
            Err(failure) => views.warn(source.rule, source.missing(views.target(), &failure.message)),
        }
    }
    Ok(())
}

/// Measures the row and the column of the target in the matrix.
fn measure_source(
    common: &Common,
    args: &CompareArgs,
    kind: Kind,
    machine: &Machine,
    topology: &Topology,
    target: NodeId,
) -> Result<Document, Failure> {
    let (around, time_limit_s, now) = (NodeSet::one(target), args.time_limit, machine.time());
    let rule = Rule { time_limit_s, seed: now, ..Rule::default() };
    let measured = MeasuredMachine::idle(machine, topology);
    Ok(match kind {
        Kind::Latency => {
            let options = LatencyOptions { around, rule, ..LatencyOptions::default() };
            let record = measuring::measure_latency(common, measured, now, &options)?;
            Document::Latency(Box::new(record))
        }
        Kind::Stream => {
            let options = StreamOptions { around, rule, ..StreamOptions::default() };
            let record = measuring::measure_stream(common, measured, now, &options)?;
            Document::Stream(Box::new(record))
        }
        _ => {
            let options = Options { targets: around, time_limit_s, seed: now, ..Options::default() };
            let record = measuring::measure(common, measured, now, &options)?;
            let model = numaio_model::fit(record, topology, numaio_model::ClassOptions::default());
            Document::Model(Box::new(model))
        }
    })
}

fn save(common: &Common, kind: Kind, document: &Document, topology: &Topology) -> Result<(), Failure> {
    let Some(provenance) = document.origin().provenance else { return Ok(()) };
    measuring::save(common, kind, provenance, document, topology)
}

/// Adds a warning for each missing measurement, with the command that takes it.
pub fn warn_missing(views: &mut ViewSet) {
    for source in &SOURCES {
        let is_warned = views.warnings.iter().any(|warning| warning.rule == source.rule);
        if !source.is_complete(views) && !is_warned {
            let reason = format!("{} measures it", source.command);
            views.warn(source.rule, source.missing(views.target(), &reason));
        }
    }
}
