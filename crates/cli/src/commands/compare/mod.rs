//! `numaio compare`: views of one target beside each other.

mod missing;
mod target;
mod view_set;

use super::json;
use super::measuring;
use crate::args::{node, percent, seconds, Common};
use crate::failure::Failure;
use crate::machine::Machine;
use crate::store::{self, Kind};
use crate::{documents, output};
use clap::Args;
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

#[derive(Debug, Args)]
pub struct CompareArgs {
    /// The target; without it the first node that has devices
    #[arg(long, short = 'k', value_name = "K", value_parser = node, conflicts_with = "device")]
    pub node: Option<NodeId>,
    /// The target is the node of this device: eth0, nvme0n1, mlx5_0, 0000:3b:00.0
    #[arg(long, short, value_name = "DEV")]
    pub device: Option<String>,
    /// Documents of one machine in place of those that are saved of this one
    ///
    /// Written by numaio model, stream, latency and topology with --json. Of several that measure the same the
    /// newest counts.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub from: Vec<PathBuf>,
    /// Further views beside the others: documents of the form numaio/view/1, or measurements
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub with: Vec<PathBuf>,
    /// Every document, not only the newest of each kind
    #[arg(long)]
    pub all: bool,
    /// Measure what is missing
    #[arg(long, conflicts_with = "from")]
    pub measure: bool,
    /// Time to spend on each measurement that is missing, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "300", value_parser = seconds)]
    pub time_limit: f64,
    /// How far below a class's best its members may be, in percent
    #[arg(long, value_name = "PERCENT", default_value = "10", value_parser = percent)]
    pub level: f64,
    /// Show every pair of nodes that a view puts in the wrong order, not only the worst
    #[arg(long)]
    pub all_pairs: bool,
    /// Show number of measurements, interval and drift of every figure
    #[arg(long, conflicts_with = "json")]
    pub stats: bool,
    /// Print JSON: what is saved, with number, interval and drift of every figure
    #[arg(long)]
    pub json: bool,
    /// Do not save what is measured and compared
    #[arg(long)]
    pub no_save: bool,
}

pub fn run(common: &Common, args: &CompareArgs) -> Result<ExitCode, Failure> {
    let from = read(&args.from)?;
    let with = read(&args.with)?;
    let machine = Machine::pick(common)?;
    let topology = topology(&machine, common, &from);
    let identity = match (&topology, from.first()) {
        (Some(topology), _) => topology.identity.clone(),
        (None, Some((_, document))) => documents::identity(document),
        (None, None) => Identity::default(),
    };
    let (target, devices) = target::choose(common, args, topology.as_ref(), &from)?;
    let fingerprint = identity.fingerprint.clone();
    let subject = ViewSubject { machine: &fingerprint, target, level: args.level };
    let mut found = ViewSet::new(subject, topology.as_ref());
    match (args.from.is_empty(), &machine) {
        (false, _) => add_given(&mut found, &from, args.all, target)?,
        (true, Machine::Recorded(_)) => {}
        (true, _) => add_saved(common, &mut found, args.all, &identity)?,
    }
    let replay = matches!(machine, Machine::Recorded(_)) && args.from.is_empty();
    let keep = measuring::should_save(
        &machine,
        args.no_save || !args.from.is_empty(),
        Kind::Comparison,
        &fingerprint,
    )?;
    if let Some(topology) = topology.as_ref().filter(|_| args.measure || replay) {
        missing::measure(common, args, &machine, topology, &mut found)?;
    }
    for (path, document) in &with {
        if !found.add(path, document, Duplicates::Keep)? {
            return Err(no_view(path, target));
        }
    }
    missing::warn_missing(&mut found);
    let comparison = build_comparison(identity, target, devices, found)
        .map_err(|failure| failure.hint(hint_for_missing(args, &machine)))?;
    let saved = keep.then(|| save(common, &comparison));
    print(common, args, &comparison)?;
    measuring::exit(saved)
}

/// Views of a target that a machine and documents about it hold, beside each other.
pub fn of_documents(
    topology: &Topology,
    documents: &[Document],
    target: NodeId,
) -> Result<Comparison, Failure> {
    let identity = topology.identity.clone();
    let subject = ViewSubject { machine: &identity.fingerprint, target, level: LEVEL };
    let mut found = ViewSet::new(subject, Some(topology));
    for document in documents.iter().filter(|document| !matches!(document, Document::Comparison(_))) {
        found.add(Path::new(""), document, Duplicates::Drop)?;
    }
    let devices = topology.devices_on(target).map(|device| device.name()).collect();
    build_comparison(identity.clone(), target, devices, found)
}

/// Documents that hold views, the newest first.
fn read(paths: &[PathBuf]) -> Result<Vec<(PathBuf, Document)>, Failure> {
    let mut read = documents::read_of_one_machine(paths)?;
    for (path, document) in &read {
        if matches!(document, Document::Comparison(_) | Document::Receipt(_)) {
            return Err(Failure::file(path, "it holds nothing to compare").hint(
                "numaio report shows a comparison; what numaio model, stream and latency write with --json is compared",
            ));
        }
    }
    read.sort_by_key(|(_, document)| std::cmp::Reverse(documents::measured_at(document)));
    Ok(read)
}

/// How to come by what is missing.
fn hint_for_missing(args: &CompareArgs, machine: &Machine) -> &'static str {
    match machine {
        _ if !args.from.is_empty() => {
            "add documents of that machine: numaio latency, stream and model write them with --json"
        }
        Machine::Recorded(_) => "record the machine anew, without --no-measure and --no-baselines",
        Machine::Copied(_) => {
            "a copied tree tells what is stated; --from adds documents of what was measured"
        }
        Machine::Live(_) | Machine::Recording(_) => "numaio compare --measure measures what is missing",
    }
}

/// The machine as it is seen, or as a document among those given holds it; none if they are of another one.
fn topology(machine: &Machine, common: &Common, from: &[(PathBuf, Document)]) -> Option<Topology> {
    let given = from.iter().find_map(|(_, document)| match document {
        Document::Topology(document) => Some(document.topology.clone()),
        _ => None,
    });
    let named = common.machine.is_some() || common.sysroot.is_some();
    given.filter(|_| !named).or_else(|| {
        let seen = discover(machine);
        let is_it = match from.first() {
            Some((_, first)) if !named => documents::machine_of(first) == seen.identity.fingerprint,
            _ => true,
        };
        is_it.then_some(seen)
    })
}

/// Documents that were given.
fn add_given(
    found: &mut ViewSet,
    from: &[(PathBuf, Document)],
    all: bool,
    target: NodeId,
) -> Result<(), Failure> {
    let duplicates = if all { Duplicates::Keep } else { Duplicates::Drop };
    for (path, document) in from {
        let has_views = found.add(path, document, duplicates)?;
        if !has_views && !matches!(document, Document::Topology(_)) {
            return Err(no_view(path, target));
        }
    }
    Ok(())
}

fn no_view(path: &Path, target: NodeId) -> Failure {
    Failure::file(path, format!("it holds no view of node {target}"))
        .hint("a measurement by single cores is no view; --node chooses another target")
}

/// How far below a class's best its members may be, where nobody chooses.
const LEVEL: f64 = 0.1;

/// Saved documents of each kind that are looked at, the newest first.
const MOST_SAVED: usize = 50;

/// The newest saved document of each kind that tells of the target, older ones for views that it lacks; or all
/// of them.
fn add_saved(common: &Common, found: &mut ViewSet, all: bool, machine: &Identity) -> Result<(), Failure> {
    let duplicates = if all { Duplicates::Keep } else { Duplicates::Drop };
    for source in &SOURCES {
        for path in documents::saved(common, source.kind, machine).take(MOST_SAVED) {
            if source.is_known(found) && !all {
                break;
            }
            found.add(&path, &documents::read(&path)?, duplicates)?;
        }
    }
    // Of I/O there may be a device and an engine in each document.
    for path in documents::saved(common, Kind::Io, machine).take(MOST_SAVED) {
        found.add(&path, &documents::read(&path)?, duplicates)?;
    }
    Ok(())
}

fn build_comparison(
    machine: Identity,
    target: NodeId,
    devices: Vec<String>,
    found: ViewSet,
) -> Result<Comparison, Failure> {
    let views = found.views();
    if views.len() < 2 {
        let what = views.first().map_or("nothing is".to_owned(), |view| format!("only {} is", view.title));
        let why: Vec<String> = found.warnings.iter().map(|warning| warning.what.clone()).collect();
        return Err(Failure::new(format!(
            "there is nothing to compare: {what} known of node {target}; {}",
            why.join("; ")
        )));
    }
    let ViewSet { warnings, measured_at, .. } = found;
    let numaio = env!("CARGO_PKG_VERSION").to_owned();
    let about = ComparisonContext { numaio, machine, measured_at, target, devices, warnings };
    Ok(numaio_model::compare(about, views))
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
