//! What no document tells of the target: measured now, or said.

use super::view_set::{Duplicates, ViewSet};
use super::CompareArgs;
use crate::args::Common;
use crate::commands::measuring::{self, MeasuredMachine};
use crate::failure::{self, Failure};
use crate::machine::Machine;
use crate::store::Kind;
use numaio_linux::interrupt;
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::topology::Topology;
use numaio_measure::{LatencyOptions, Options, Rule, StreamOptions};
use numaio_schema::Document;
use std::path::Path;

/// What measures a kind of view.
pub struct Source {
    /// Where its documents are kept.
    pub kind: Kind,
    /// How the names of its views begin; all of them are wanted.
    pub names: &'static [&'static str],
    /// Rule of the warning that it is missing.
    rule: &'static str,
    /// Its name for people.
    title: &'static str,
    /// The command that measures it.
    command: &'static str,
}

/// What can be measured, in the order in which it is.
pub const SOURCES: [Source; 3] = [
    Source {
        kind: Kind::Latency,
        names: &["latency-"],
        rule: "missing-latency",
        title: "latency",
        command: "numaio latency",
    },
    Source {
        kind: Kind::Stream,
        names: &["stream-"],
        rule: "missing-stream",
        title: "STREAM",
        command: "numaio stream",
    },
    Source {
        kind: Kind::Model,
        names: &["copy-write", "copy-read"],
        rule: "missing-model",
        title: "the copy model",
        command: "numaio model",
    },
];

impl Source {
    /// Whether all of its views are known.
    pub fn is_known(&self, found: &ViewSet) -> bool {
        self.names.iter().all(|name| found.has_view(name))
    }

    fn missing(&self, target: NodeId, why: &str) -> String {
        format!("{} is missing for node {target}: {why}", self.title)
    }
}

/// Measures what no document tells. What fails is said among the warnings, and what is there is compared.
pub fn measure(
    common: &Common,
    args: &CompareArgs,
    machine: &Machine,
    topology: &Topology,
    found: &mut ViewSet,
) -> Result<(), Failure> {
    for source in &SOURCES {
        if source.is_known(found) || interrupt::interrupted() {
            continue;
        }
        match measure_source(common, args, source.kind, machine, topology, found.target()) {
            Ok(document) => {
                if machine.is_live() && !args.no_save {
                    save(common, source.kind, &document, topology)?;
                }
                found.add(Path::new(""), &document, Duplicates::Replace)?;
            }
            Err(failure) if failure.code == failure::INTERRUPTED => return Err(failure),
            Err(failure) => found.warn(source.rule, source.missing(found.target(), &failure.message)),
        }
    }
    Ok(())
}

/// Measures the row and the column of the target.
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
    let setting = MeasuredMachine { root: machine, probe: machine, topology, source: machine.source() };
    Ok(match kind {
        Kind::Latency => {
            let options = LatencyOptions { around, rule, ..LatencyOptions::default() };
            let record = measuring::measure_latency(common, setting, now, &options)?;
            Document::Latency(Box::new(record))
        }
        Kind::Stream => {
            let options = StreamOptions { around, rule, ..StreamOptions::default() };
            let record = measuring::measure_stream(common, setting, now, &options)?;
            Document::Stream(Box::new(record))
        }
        _ => {
            let options = Options { targets: around, time_limit_s, seed: now, ..Options::default() };
            let record = measuring::measure(common, setting, now, &options)?;
            let model = numaio_model::fit(record, topology, numaio_model::ClassOptions::default());
            Document::Model(Box::new(model))
        }
    })
}

fn save(common: &Common, kind: Kind, document: &Document, topology: &Topology) -> Result<(), Failure> {
    match document {
        Document::Latency(record) => measuring::save(common, kind, &record.provenance, record, topology),
        Document::Stream(record) => measuring::save(common, kind, &record.provenance, record, topology),
        Document::Model(model) => measuring::save(common, kind, &model.record.provenance, model, topology),
        _ => Ok(()),
    }
}

/// Says what no document tells, and what measures it.
pub fn warn_missing(found: &mut ViewSet) {
    for source in &SOURCES {
        let is_warned = found.warnings.iter().any(|warning| warning.rule == source.rule);
        if !source.is_known(found) && !is_warned {
            let how = format!("{} measures it", source.command);
            found.warn(source.rule, source.missing(found.target(), &how));
        }
    }
}
