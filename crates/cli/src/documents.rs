//! Stored documents, read from files.

use crate::args::Common;
use crate::failure::{self, Failure};
use crate::store::{self, Kind};
use crate::{input, output};
use numaio_machine::topology::Identity;
use numaio_schema::{Document, PlanProblem, Provenance};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// Reads a document of any kind.
pub fn read(path: &Path) -> Result<Document, Failure> {
    let text = input::text(path)?;
    Document::from_json(&text).map_err(|error| failure::no_document(path, &text, &error))
}

/// Saved documents of one kind of a machine, newest first.
///
/// Machines that are alike have one fingerprint, and may share a home. So what another host left is taken only where
/// nothing is saved of this one, as when its name changed, and that is said.
pub fn saved(common: &Common, kind: Kind, machine: &Identity) -> Vec<PathBuf> {
    let paths = store::saved(kind, &machine.fingerprint);
    if machine.hostname.is_empty() {
        return paths;
    }
    let hosts: Vec<Option<String>> = paths.iter().map(|path| host(path)).collect();
    let is_own = |host: &Option<String>| host.as_ref().is_none_or(|host| *host == machine.hostname);
    let other = hosts.iter().flatten().find(|host| **host != machine.hostname);
    let all = paths.into_iter().zip(&hosts);
    match other {
        Some(other) if !hosts.iter().any(is_own) => {
            let name = kind.name();
            let what =
                format!("the saved {name} are of host {other}, which is alike: none are saved of this one");
            output::remark(common, &what);
            all.map(|(path, _)| path).collect()
        }
        _ => all.filter(|(_, host)| is_own(host)).map(|(path, _)| path).collect(),
    }
}

/// The host that a document was measured on, if it tells. No more is read of it than that.
fn host(path: &Path) -> Option<String> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Measured {
        machine: Identity,
        record: Option<Box<Measured>>,
    }
    let told: Measured = serde_json::from_str(&input::text(path).ok()?).ok()?;
    let machine = told.record.map_or(told.machine, |record| record.machine);
    Some(machine.hostname).filter(|host| !host.is_empty())
}

/// Reads documents, all of one machine.
pub fn read_of_one_machine(paths: &[PathBuf]) -> Result<Vec<(PathBuf, Document)>, Failure> {
    let mut documents: Vec<(PathBuf, Document)> = Vec::new();
    for path in paths {
        let document = read(path)?;
        if let Some((first_path, first)) = documents.first() {
            if machine_of(first) != machine_of(&document) {
                let (found, wanted) = (machine_name(&document), machine_name(first));
                let what = format!("it is of {found}; {} is of {wanted}", first_path.display());
                return Err(
                    Failure::file(path, what).hint("numaio report takes documents of several machines")
                );
            }
        }
        documents.push((path.clone(), document));
    }
    Ok(documents)
}

/// What was measured, in a word, and where it comes from; none of what was not measured.
pub fn provenance(document: &Document) -> Option<(&'static str, &Provenance)> {
    match document {
        Document::Model(model) => Some(("copy model", &model.record.provenance)),
        Document::Record(record) => Some(("copy model", &record.provenance)),
        Document::Stream(record) => Some(("STREAM", &record.provenance)),
        Document::Latency(record) => Some(("latency", &record.provenance)),
        Document::Io(record) => Some(("I/O", &record.provenance)),
        _ => None,
    }
}

/// Seconds since 1970 at which a document was measured or seen; 0 if it does not tell.
pub fn measured_at(document: &Document) -> u64 {
    match document {
        Document::Topology(document) => document.seen_at.unwrap_or(0),
        Document::View(view) => view.measured_at.unwrap_or(0),
        _ => provenance(document).map_or(0, |(_, provenance)| provenance.measured_at),
    }
}

/// The machine that a document is about, as far as it tells.
pub fn identity(document: &Document) -> Identity {
    match (document, provenance(document)) {
        (Document::Topology(document), _) => document.topology.identity.clone(),
        (Document::Comparison(comparison), _) => comparison.machine.clone(),
        (_, Some((_, provenance))) => provenance.machine.clone(),
        _ => Identity { fingerprint: machine_of(document), ..Identity::default() },
    }
}

/// The machine that a document is about, for people: `machine 02ed3230ea9f1989, HP ProLiant DL585 G7 (dl585)`.
pub fn machine_name(document: &Document) -> String {
    let identity = identity(document);
    let Identity { fingerprint, .. } = &identity;
    format!("machine {fingerprint}, {}", numaio_report::machine_name(&identity))
}

/// Fingerprint of the machine that a document is about.
pub fn machine_of(document: &Document) -> String {
    match document {
        Document::Topology(document) => document.topology.identity.fingerprint.clone(),
        Document::Record(record) => record.provenance.machine.fingerprint.clone(),
        Document::Model(model) => model.record.provenance.machine.fingerprint.clone(),
        Document::Stream(record) => record.provenance.machine.fingerprint.clone(),
        Document::Latency(record) => record.provenance.machine.fingerprint.clone(),
        Document::Io(record) => record.provenance.machine.fingerprint.clone(),
        Document::View(view) => view.machine.clone(),
        Document::Comparison(comparison) => comparison.machine.fingerprint.clone(),
        Document::Validation(validation) => validation.machine.fingerprint.clone(),
        Document::Prediction(prediction) => prediction.machine.fingerprint.clone(),
        Document::Placement(plan) => plan.machine.fingerprint.clone(),
        Document::Receipt(receipt) => receipt.machine.clone(),
        Document::PlanProblem(problem) => fingerprint(problem),
        Document::Plan(plan) => fingerprint(&plan.problem),
    }
}

/// Fingerprint of the machine that a problem was made from; empty of none.
fn fingerprint(problem: &PlanProblem) -> String {
    problem.machine.as_ref().map(|machine| machine.fingerprint.clone()).unwrap_or_default()
}
