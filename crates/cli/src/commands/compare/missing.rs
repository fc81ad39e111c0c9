//! What no document tells of the target: measured now, or said.

use super::collected::{self, Again, Collected};
use super::CompareArgs;
use crate::args::Common;
use crate::commands::{json, Measured};
use crate::documents;
use crate::failure::{self, Failure};
use crate::machine::Machine;
use crate::progress::Progress;
use crate::store::{self, Kind};
use numaio_linux::interrupt;
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::topology::Topology;
use numaio_measure::{
    campaign, latency, stream, CampaignError, Event, LatencyOptions, Options, Setting, StreamOptions,
};
use numaio_schema::Document;
use std::path::PathBuf;

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
    pub fn is_known(&self, found: &Collected) -> bool {
        self.names.iter().all(|name| found.knows(name))
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
    found: &mut Collected,
) -> Result<(), Failure> {
    for source in &SOURCES {
        if source.is_known(found) || interrupt::interrupted() {
            continue;
        }
        match measured(common, args, source.kind, machine, topology, found.target()) {
            Ok(document) => {
                let saved =
                    if machine.is_live() && !args.no_save { save(source.kind, &document)? } else { None };
                found.add(&saved.unwrap_or_default(), &document, Again::Replace)?;
            }
            Err(failure) if failure.code == failure::INTERRUPTED => return Err(failure),
            Err(failure) => found.warn(source.rule, source.missing(found.target(), &failure.message)),
        }
    }
    Ok(())
}

fn measured(
    common: &Common,
    args: &CompareArgs,
    kind: Kind,
    machine: &Machine,
    topology: &Topology,
    target: NodeId,
) -> Result<Document, Failure> {
    let (around, time_limit_s) = (NodeSet::one(target), args.time_limit);
    let rule = numaio_measure::Rule { time_limit_s, ..Default::default() };
    let run = |setting: &Setting, tell: &mut dyn FnMut(&Event)| match kind {
        Kind::Latency => {
            let options = LatencyOptions { around, rule, ..Default::default() };
            latency::run(setting, &options, tell).map(|record| Document::Latency(Box::new(record)))
        }
        Kind::Stream => {
            let options = StreamOptions { around, rule, ..Default::default() };
            stream::run(setting, &options, tell).map(|record| Document::Stream(Box::new(record)))
        }
        _ => {
            let options = Options { targets: around, time_limit_s, ..Default::default() };
            let record = campaign::run(setting, &options, tell)?;
            Ok(Document::Model(Box::new(numaio_model::fit(record, topology, Default::default()))))
        }
    };
    let setting = Measured { root: machine, probe: machine, topology, source: machine.source() };
    with_progress(common, setting, machine.time(), run)
}

/// Runs any campaign, with progress; Ctrl-C ends it early.
fn with_progress<R>(
    common: &Common,
    machine: Measured,
    now: u64,
    run: impl FnOnce(&Setting, &mut dyn FnMut(&Event)) -> Result<R, CampaignError>,
) -> Result<R, Failure> {
    interrupt::install().map_err(|error| Failure::new(format!("cannot watch for Ctrl-C: {error}")))?;
    let Measured { root, probe, topology, source } = machine;
    let setting = Setting { root, probe, topology, source, now, stop: &interrupt::interrupted };
    let progress = Progress::new(common);
    let record = run(&setting, &mut |event| progress.show(event));
    drop(progress);
    match record {
        Err(error) if interrupt::interrupted() => {
            Err(Failure { code: failure::INTERRUPTED, ..Failure::new(format!("interrupted: {error}")) })
        }
        record => Ok(record?),
    }
}

fn save(kind: Kind, document: &Document) -> Result<Option<PathBuf>, Failure> {
    let text = match document {
        Document::Model(model) => json(model)?,
        Document::Stream(record) => json(record)?,
        Document::Latency(record) => json(record)?,
        _ => return Ok(None),
    };
    let (machine, at) = (documents::machine_of(document), collected::measured_at(document));
    store::save(kind, &machine, at, &text).map(Some)
}

/// Says what no document tells, and what measures it.
pub fn say(found: &mut Collected) {
    for source in &SOURCES {
        let said = found.warnings.iter().any(|warning| warning.rule == source.rule);
        if !source.is_known(found) && !said {
            let how = format!("{} measures it", source.command);
            found.warn(source.rule, source.missing(found.target(), &how));
        }
    }
}
