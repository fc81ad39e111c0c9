//! What no document tells of the target: measured now, or said.

use super::collected::{self, Again, Collected};
use super::CompareArgs;
use crate::args::Common;
use crate::commands::{json, Measured};
use crate::documents;
use crate::failure::{self, Failure};
use crate::machine::Machine;
use crate::store::{self, Kind};
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::topology::Topology;
use numaio_measure::Options;
use numaio_model::Rule;
use numaio_schema::Document;
use std::path::PathBuf;

/// What measures a kind of view.
pub struct Source {
    /// Where its documents are kept.
    pub kind: Kind,
    /// How the names of its views begin.
    pub beginning: &'static str,
    /// Its name for people.
    title: &'static str,
    /// The command that measures it.
    command: &'static str,
}

/// What can be measured, in the order in which it is.
pub const SOURCES: [Source; 3] = [
    Source { kind: Kind::Latency, beginning: "latency-", title: "latency", command: "numaio latency" },
    Source { kind: Kind::Stream, beginning: "stream-", title: "STREAM", command: "numaio stream" },
    Source { kind: Kind::Model, beginning: "copy-", title: "the copy model", command: "numaio model" },
];

impl Source {
    /// Rule of the warning that it is missing.
    fn rule(&self) -> String {
        format!("missing-{}", self.beginning.trim_end_matches('-'))
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
        if found.knows(source.beginning) || numaio_linux::interrupt::interrupted() {
            continue;
        }
        match measured(common, source.kind, machine, topology, found.target()) {
            Ok(Some(document)) => {
                let saved =
                    if machine.is_live() && !args.no_save { save(source.kind, &document)? } else { None };
                found.add(&saved.unwrap_or_default(), &document, Again::Keep)?;
            }
            Ok(None) => {}
            Err(failure) if failure.code == failure::INTERRUPTED => return Err(failure),
            Err(failure) => found.warn(&source.rule(), source.missing(found.target(), &failure.message)),
        }
    }
    Ok(())
}

fn measured(
    common: &Common,
    kind: Kind,
    machine: &Machine,
    topology: &Topology,
    target: NodeId,
) -> Result<Option<Document>, Failure> {
    let setting = Measured { root: machine, probe: machine, topology, source: machine.source() };
    match kind {
        Kind::Model => {
            let options = Options { targets: NodeSet::one(target), ..Options::default() };
            let record = super::super::measure(common, setting, machine.time(), &options)?;
            Ok(Some(Document::Model(Box::new(numaio_model::fit(record, topology, Rule::default())))))
        }
        _ => Ok(None),
    }
}

fn save(kind: Kind, document: &Document) -> Result<Option<PathBuf>, Failure> {
    let text = match document {
        Document::Model(model) => json(model)?,
        _ => return Ok(None),
    };
    let (machine, at) = (documents::machine_of(document), collected::measured_at(document));
    store::save(kind, &machine, at, &text).map(Some)
}

/// Says what no document tells, and what measures it.
pub fn say(found: &mut Collected) {
    for source in &SOURCES {
        let said = found.warnings.iter().any(|warning| warning.rule == source.rule());
        if !found.knows(source.beginning) && !said {
            let how = format!("{} measures it", source.command);
            found.warn(&source.rule(), source.missing(found.target(), &how));
        }
    }
}
