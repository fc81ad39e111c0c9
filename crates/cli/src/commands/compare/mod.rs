//! `numaio compare`: comparison of the views of one target.

mod args;
mod baseline;
mod missing;
mod target;
mod view_set;

use super::measuring;
use crate::failure::Failure;
use crate::machine::Machine;
use crate::options::Common;
use crate::output::json;
use crate::store::{self, Kind};
use crate::{documents, output};
pub use args::CompareArgs;
use missing::SOURCES;
use numaio_machine::discover::discover;
use numaio_machine::ids::NodeId;
use numaio_machine::topology::{Identity, Topology};
use numaio_model::{ComparisonContext, ViewSubject};
use numaio_report::TextStyle;
use numaio_schema::{Comparison, Document};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use view_set::{Duplicates, ViewSet};

/// Runs `numaio compare`.
pub fn run(common: &Common, args: &CompareArgs) -> Result<ExitCode, Failure> {
    if let Some(path) = &args.baseline {
        return baseline::run(common, args, path);
    }
    let from = read(&args.from)?;
    let with = read(&args.with)?;
    let machine = Machine::pick(common)?;
    let topology = topology(&machine, common, &from);
    let identity = match (&topology, from.first()) {
        (Some(topology), _) => topology.identity.clone(),
        (None, Some((_, document))) => document.origin().identity(),
        (None, None) => Identity::default(),
    };
    let (target, devices) = target::choose(common, args, topology.as_ref(), &from)?;
    let fingerprint = identity.fingerprint.clone();
    let subject = ViewSubject { machine: &fingerprint, target, level: args.level.unwrap_or(LEVEL) };
    let mut views = ViewSet::new(subject, topology.as_ref()).with_level(args.level);
    match (args.from.is_empty(), &machine) {
        (false, _) => add_given(&mut views, &from, args.all, target)?,
        (true, Machine::Recorded(_)) => {}
        (true, _) => add_saved(common, &mut views, args.all, &identity)?,
    }
    let replay = matches!(machine, Machine::Recorded(_)) && args.from.is_empty();
    let save_comparison = measuring::should_save(
        &machine,
        args.no_save || !args.from.is_empty(),
        Kind::Comparison,
        &fingerprint,
    )?;
    if let Some(topology) = topology.as_ref().filter(|_| args.measure || replay) {
        missing::measure(common, args, &machine, topology, &mut views)?;
    }
    for (path, document) in &with {
        documents::check_hostname(path, document, &identity)?;
        if !views.add(path, document, Duplicates::Keep)? {
            return Err(no_view(path, target));
        }
    }
    missing::warn_missing(&mut views);
    let comparison = build_comparison(identity, target, devices, views)
        .map_err(|failure| failure.hint(hint_for_missing(args, &machine)))?;
    let saved = save_comparison.then(|| save(common, &comparison));
    print(common, args, &comparison)?;
    measuring::exit(saved)
}

/// Compares the views of a target in the topology and in documents of its machine.
pub fn of_documents(
    topology: &Topology,
    documents: &[Document],
    target: NodeId,
) -> Result<Comparison, Failure> {
    let identity = topology.identity.clone();
    let subject = ViewSubject { machine: &identity.fingerprint, target, level: LEVEL };
    let mut views = ViewSet::new(subject, Some(topology));
    for document in documents.iter().filter(|document| !matches!(document, Document::Comparison(_))) {
        views.add(Path::new(""), document, Duplicates::Drop)?;
    }
    let devices = topology.devices_on(target).map(|device| device.name()).collect();
    build_comparison(identity.clone(), target, devices, views)
}

/// Reads documents that contain views, newest first.
fn read(paths: &[PathBuf]) -> Result<Vec<(PathBuf, Document)>, Failure> {
    let mut documents = documents::read_of_one_machine(paths)?;
    for (path, document) in &documents {
        if matches!(document, Document::Comparison(_) | Document::Receipt(_)) {
            return Err(Failure::file(path, "the document has no views to compare").hint(
                "name documents that numaio model, stream or latency wrote with --json; \
                 numaio report shows a comparison",
            ));
        }
    }
    documents.sort_by_key(|(_, document)| std::cmp::Reverse(document.origin().time));
    Ok(documents)
}

/// Returns the hint how to obtain missing views.
fn hint_for_missing(args: &CompareArgs, machine: &Machine) -> &'static str {
    match machine {
        _ if !args.from.is_empty() => {
            "add documents of that machine: numaio latency, stream and model write them with --json"
        }
        Machine::Recorded(_) => "record the machine again, without --no-measure and --no-baselines",
        Machine::Copied(_) => "a copied tree contains no measurements; add documents by --from",
        Machine::Live(_) | Machine::Recording(_) => "numaio compare --measure takes missing measurements",
    }
}

/// Returns the topology that a given document contains, else the discovered one; `None` if the
/// documents belong to another machine.
fn topology(machine: &Machine, common: &Common, from: &[(PathBuf, Document)]) -> Option<Topology> {
    let given = from.iter().find_map(|(_, document)| match document {
        Document::Topology(document) => Some(document.topology.clone()),
        _ => None,
    });
    let named = common.machine.is_some() || common.sysroot.is_some();
    given.filter(|_| !named).or_else(|| {
        let discovered = discover(machine);
        let same_machine = match from.first() {
            Some((_, first)) if !named => first.origin().fingerprint == discovered.identity.fingerprint,
            _ => true,
        };
        same_machine.then_some(discovered)
    })
}

/// Adds the documents of `--from`.
fn add_given(
    views: &mut ViewSet,
    from: &[(PathBuf, Document)],
    all: bool,
    target: NodeId,
) -> Result<(), Failure> {
    let duplicates = if all { Duplicates::Keep } else { Duplicates::Drop };
    for (path, document) in from {
        let has_views = views.add(path, document, duplicates)?;
        if !has_views && !matches!(document, Document::Topology(_)) {
            return Err(no_view(path, target));
        }
    }
    Ok(())
}

fn no_view(path: &Path, target: NodeId) -> Failure {
    Failure::file(path, format!("the document has no view of node {target}"))
        .hint("choose another target by --node; measurements by single cores are not compared")
}

/// Tolerance of a class without `--level`.
const LEVEL: f64 = 0.1;

/// Limit of saved documents read of each kind, newest first.
const MOST_SAVED: usize = 50;

/// Adds saved documents of each kind, newest first, until the views are complete; with `all`, all
/// of them.
fn add_saved(common: &Common, views: &mut ViewSet, all: bool, machine: &Identity) -> Result<(), Failure> {
    let duplicates = if all { Duplicates::Keep } else { Duplicates::Drop };
    for source in &SOURCES {
        for path in documents::saved(common, source.kind, machine).take(MOST_SAVED) {
            if source.is_complete(views) && !all {
                break;
            }
            views.add(&path, &documents::read(&path)?, duplicates)?;
        }
    }
    // Each document may have another load.
    for kind in [Kind::Model, Kind::Stream, Kind::Latency, Kind::Io] {
        for path in documents::saved_under_load(kind, machine).take(MOST_SAVED) {
            views.add(&path, &documents::read(&path)?, duplicates)?;
        }
    }
    // Each document may cover another program, or another device and engine.
    for kind in [Kind::Sweep, Kind::Counters, Kind::Io, Kind::Ping, Kind::Mmio] {
        for path in documents::saved(common, kind, machine).take(MOST_SAVED) {
            views.add(&path, &documents::read(&path)?, duplicates)?;
        }
    }
    Ok(())
}

fn build_comparison(
    machine: Identity,
    target: NodeId,
    devices: Vec<String>,
    set: ViewSet,
) -> Result<Comparison, Failure> {
    let views = set.views();
    if views.len() < 2 {
        let available = views.first().map_or("no view".to_owned(), |view| format!("only {}", view.title));
        let reasons: Vec<String> = set.warnings.iter().map(|warning| warning.message.clone()).collect();
        return Err(Failure::new(format!(
            "nothing to compare: {available} is available for node {target}; {}",
            reasons.join("; ")
        )));
    }
    let ViewSet { warnings, measured_at, .. } = set;
    let numaio = env!("CARGO_PKG_VERSION").to_owned();
    let context = ComparisonContext { numaio, machine, measured_at, target, devices, warnings };
    Ok(numaio_model::compare(context, views))
}

fn save(common: &Common, comparison: &Comparison) -> Result<(), Failure> {
    let (fingerprint, at) = (&comparison.machine.fingerprint, comparison.measured_at);
    let path = store::save(Kind::Comparison, fingerprint, at, &json(comparison)?)?;
    output::remark(common, &format!("the comparison is saved in {}", path.display()));
    Ok(())
}

fn print(common: &Common, args: &CompareArgs, comparison: &Comparison) -> Result<(), Failure> {
    let style = TextStyle { stats: args.stats, ..output::style(common) };
    output::print(&match args.json {
        true => json(comparison)?,
        false => numaio_report::comparison_text(comparison, &style, args.all_pairs),
    })
}
