//! Stored documents, read from files.

use crate::args::Common;
use crate::failure::{self, Failure};
use crate::store::{self, Kind};
use crate::{input, output};
use numaio_machine::topology::Identity;
use numaio_schema::{Document, PlanProblem, Provenance};
use serde::Deserialize;
use std::collections::VecDeque;
use std::iter;
use std::path::{Path, PathBuf};

/// Reads a document of any kind.
pub fn read(path: &Path) -> Result<Document, Failure> {
    let text = input::read_text(path)?;
    Document::from_json(&text).map_err(|error| failure::not_a_document(path, &text, &error))
}

/// Saved documents of one kind of a machine, newest first; no more of them is looked at than is taken.
///
/// Machines that are alike have one fingerprint, and may share a home. So what another host left is taken only where
/// nothing is saved of this one, as when its name changed, and that is said.
pub fn saved<'a>(
    common: &'a Common,
    kind: Kind,
    machine: &'a Identity,
) -> impl Iterator<Item = PathBuf> + 'a {
    let report = move |other: &str| {
        let name = kind.name();
        let what =
            format!("the saved {name} are of host {other}, which is alike: none are saved of this one");
        output::remark(common, &what);
    };
    let paths = store::saved(kind, &machine.fingerprint);
    this_host_first(paths, move |path| host_of(path, &machine.hostname), report)
}

/// The host that a document was measured on.
enum DocumentHost {
    /// This one, or it does not tell.
    This,
    /// Another one.
    Other(String),
    /// Whatever is there is no document.
    Unreadable,
}

/// What is a host's own, as it is come to; what is of others only if the end is reached without any, and that is said. What
/// cannot be read is nobody's: whoever reads it tells so.
fn this_host_first(
    paths: Vec<PathBuf>,
    host_of: impl Fn(&Path) -> DocumentHost,
    report: impl Fn(&str),
) -> impl Iterator<Item = PathBuf> {
    let mut paths = paths.into_iter();
    let (mut has_own, mut is_reported, mut others) = (false, false, VecDeque::new());
    iter::from_fn(move || {
        for path in paths.by_ref() {
            match host_of(&path) {
                DocumentHost::This => has_own = true,
                DocumentHost::Unreadable => {}
                DocumentHost::Other(host) => {
                    others.push_back((host, path));
                    continue;
                }
            }
            return Some(path);
        }
        let (host, path) = others.pop_front().filter(|_| !has_own)?;
        if !is_reported {
            report(&host);
        }
        is_reported = true;
        Some(path)
    })
}

/// No more is read of a document than its host.
fn host_of(path: &Path, hostname: &str) -> DocumentHost {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Measured {
        machine: Identity,
        record: Option<Box<Measured>>,
    }
    if hostname.is_empty() {
        return DocumentHost::This;
    }
    let text = input::read_text(path).unwrap_or_default();
    let Ok(stored) = serde_json::from_str::<Measured>(&text) else { return DocumentHost::Unreadable };
    let host = stored.record.map_or(stored.machine, |record| record.machine).hostname;
    match host.is_empty() || host == hostname {
        true => DocumentHost::This,
        false => DocumentHost::Other(host),
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// What is taken of documents whose names begin with their hosts; how many were looked at; whose they were said to be.
    fn taken(names: &[&str], most: usize) -> (Vec<String>, usize, Vec<String>) {
        let (looked, said) = (RefCell::new(0), RefCell::new(Vec::new()));
        let host_of = |path: &Path| {
            *looked.borrow_mut() += 1;
            match path.to_string_lossy().split_once('-') {
                Some(("own", _)) => DocumentHost::This,
                Some((host, _)) => DocumentHost::Other(host.to_owned()),
                None => DocumentHost::Unreadable,
            }
        };
        let paths = names.iter().map(PathBuf::from).collect();
        let found =
            this_host_first(paths, host_of, |other| said.borrow_mut().push(other.to_owned())).take(most);
        let found = found.map(|path| path.display().to_string()).collect();
        (found, looked.take(), said.take())
    }

    #[test]
    fn what_cannot_be_read_does_not_hide_what_another_host_left() {
        assert_eq!(
            taken(&["twin-2", "broken", "twin-1"], 9),
            (vec!["broken".into(), "twin-2".into(), "twin-1".into()], 3, vec!["twin".into()])
        );
        assert_eq!(taken(&["twin-2", "own-1", "broken"], 9).0, ["own-1", "broken"]);
        assert_eq!(taken(&[], 9), (Vec::new(), 0, Vec::new()));
    }

    #[test]
    fn no_more_is_looked_at_than_is_taken() {
        assert_eq!(
            taken(&["twin-9", "own-8", "own-7", "twin-6", "own-5"], 2),
            (vec!["own-8".into(), "own-7".into()], 3, Vec::new())
        );
    }
}
