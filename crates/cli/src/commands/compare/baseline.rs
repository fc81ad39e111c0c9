//! `numaio compare --baseline`: one host now, compared with an earlier measurement of it.

use super::args::{CompareArgs, PREVIOUS};
use crate::documents;
use crate::failure::Failure;
use crate::options::Common;
use crate::output::{self, json};
use crate::store::Kind;
use numaio_machine::discover::discover;
use numaio_machine::topology::Identity;
use numaio_model::{document_changes, DocumentChanges};
use numaio_schema::{BaselineComparison, ComparedDocuments, Document, BASELINE_SCHEMA};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Kinds of documents with figures.
const KINDS: [Kind; 4] = [Kind::Model, Kind::Stream, Kind::Latency, Kind::Io];

/// Maximum number of saved documents of each kind to search for an earlier measurement.
const MOST_SAVED: usize = 50;

/// Runs `numaio compare --baseline`.
pub fn run(common: &Common, args: &CompareArgs, baseline: &Path) -> Result<ExitCode, Failure> {
    if common.machine.is_some() || common.sysroot.is_some() {
        return Err(Failure::usage("--baseline compares saved documents of this host, or those of --from"));
    }
    let from = documents::read_of_one_machine(&args.from)?;
    let from: Vec<Document> = from.into_iter().map(|(_, document)| document).collect();
    let identity = match from.first() {
        Some(first) => first.origin().identity(),
        None => discover(&crate::machine::Machine::pick(common)?).identity,
    };
    let earlier = match baseline == Path::new(PREVIOUS) {
        true => None,
        false => Some(read_baseline(baseline, &identity)?),
    };
    let mut comparison = BaselineComparison {
        schema: BASELINE_SCHEMA.to_owned(),
        numaio: env!("CARGO_PKG_VERSION").to_owned(),
        machine: identity.clone(),
        documents: Vec::new(),
        classes: Vec::new(),
        figures: Vec::new(),
        compared: 0,
    };
    for kind in KINDS {
        let mut candidates = candidates(common, kind, &identity, &from)?;
        candidates.extend(earlier.iter().filter(|document| document.kind().folder() == Some(kind)).cloned());
        let is_given = earlier.is_some();
        if let Some((before, after, changes)) = newest_pair(&candidates, is_given) {
            add(&mut comparison, before, after, changes);
        }
    }
    comparison.figures.sort_by(|a, b| a.gain().total_cmp(&b.gain()));
    if comparison.documents.is_empty() {
        return Err(Failure::new("nothing to compare: no two measurements have a figure in common").hint(
            "numaio model, stream, latency and bench save their results; measure twice, or name a file with \
             --baseline FILE",
        ));
    }
    output::print(&match args.json {
        true => json(&comparison)?,
        false => numaio_report::baseline_text(&comparison, &output::style(common)),
    })?;
    Ok(ExitCode::from(u8::from(comparison.has_changes())))
}

fn read_baseline(path: &Path, identity: &Identity) -> Result<Document, Failure> {
    let document = documents::read(path)?;
    documents::check_host(path, &document, identity)?;
    Ok(document)
}

/// Returns the documents of one kind, newest first: those of `--from`, or the saved ones.
fn candidates(
    common: &Common,
    kind: Kind,
    identity: &Identity,
    from: &[Document],
) -> Result<Vec<Document>, Failure> {
    let mut candidates: Vec<Document> = match from {
        [] => {
            let paths: Vec<PathBuf> = documents::saved(common, kind, identity).take(MOST_SAVED).collect();
            paths.iter().map(|path| documents::read(path)).collect::<Result<_, _>>()?
        }
        given => given.iter().filter(|document| document.kind().folder() == Some(kind)).cloned().collect(),
    };
    candidates.sort_by_key(|document| std::cmp::Reverse(document.origin().time));
    Ok(candidates)
}

/// Returns the newest document with the first earlier one that has a figure in common; with a given
/// baseline, which is the last, only that one.
fn newest_pair(documents: &[Document], is_given: bool) -> Option<(&Document, &Document, DocumentChanges)> {
    let (newest, rest) = documents.split_first()?;
    let rest = if is_given { &rest[rest.len().saturating_sub(1)..] } else { rest };
    rest.iter()
        .map(|before| (before, newest, document_changes(before, newest)))
        .find(|(_, _, changes)| changes.compared > 0)
}

fn add(comparison: &mut BaselineComparison, before: &Document, after: &Document, changes: DocumentChanges) {
    comparison.documents.push(ComparedDocuments {
        kind: after.kind().title().to_owned(),
        before_at: before.origin().time.unwrap_or(0),
        after_at: after.origin().time.unwrap_or(0),
    });
    comparison.classes.extend(changes.classes);
    comparison.figures.extend(changes.figures);
    comparison.compared += changes.compared;
}
