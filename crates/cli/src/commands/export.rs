//! `numaio export`: what was measured, for other programs.

use super::{json, tape_documents};
use crate::args::{node, Common};
use crate::failure::Failure;
use crate::machine::Machine;
use crate::store::Kind;
use crate::{documents, interleave, output};
use clap::{Args, ValueEnum};
use numaio_machine::discover::discover;
use numaio_machine::ids::NodeId;
use numaio_machine::topology::Topology;
use numaio_report::MeasurementSet;
use numaio_schema::{Document, LatencyRecord, Model, StreamRecord, StreamScope};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, Args)]
pub struct ExportArgs {
    /// What to write
    ///
    /// hwloc-xml: nodes, caches, devices and distances as hwloc XML, which lstopo -i draws, with every measured
    /// bandwidth and latency as memory attributes. hwloc-annotate: the same attributes as a shell script of
    /// hwloc-annotate commands. weights: the weights of weighted interleave that measured bandwidths imply.
    #[arg(long, value_name = "FORM", default_value = "hwloc-xml")]
    pub format: Form,
    /// Write to FILE instead of standard output
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Documents of numaio stream, latency and model; without them the newest saved of this machine, or all that
    /// the tape of --machine holds
    #[arg(value_name = "FILE")]
    pub documents: Vec<PathBuf>,
    /// Weights as seen from the CPUs of node K, not from those that reach each memory fastest
    #[arg(long, short = 'k', value_name = "K", value_parser = node)]
    pub node: Option<NodeId>,
    /// Set the weights in the kernel (needs root); a receipt is kept for --undo
    #[arg(long, conflicts_with_all = ["output", "undo"])]
    pub apply: bool,
    /// Take back what --apply set
    #[arg(long, conflicts_with_all = ["output", "documents", "node"])]
    pub undo: bool,
    /// Print weights as JSON
    #[arg(long)]
    pub json: bool,
}

/// What can be exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Form {
    HwlocXml,
    HwlocAnnotate,
    Weights,
}

/// What was measured on one machine.
#[derive(Default)]
struct Found {
    topology: Option<Topology>,
    stream: Option<StreamRecord>,
    latency: Option<LatencyRecord>,
    model: Option<Model>,
}

pub fn run(common: &Common, args: &ExportArgs) -> Result<ExitCode, Failure> {
    let weights = args.format == Form::Weights;
    if !weights && (args.apply || args.undo || args.json || args.node.is_some()) {
        return Err(Failure::usage("--apply, --undo, --json and --node are about weights")
            .hint("add --format weights"));
    }
    if args.undo {
        return interleave::undo(common).map(|()| ExitCode::SUCCESS);
    }
    if let Some(path) = &args.output {
        output::check(path)?;
    }
    let found = found(common, args)?;
    let Some(topology) = &found.topology else { return Err(no_topology()) };
    let measured = MeasurementSet {
        stream: found.stream.as_ref(),
        latency: found.latency.as_ref(),
        model: found.model.as_ref(),
    };
    let nothing = measured.stream.is_none() && measured.latency.is_none() && measured.model.is_none();
    if nothing && args.format == Form::HwlocXml {
        output::remark(
            common,
            "nothing measured on this machine is saved: the XML holds no memory attributes",
        );
    }
    let text = match args.format {
        Form::HwlocXml => numaio_report::hwloc_xml(topology, measured),
        Form::HwlocAnnotate if nothing => return Err(nothing_measured("numaio latency or numaio stream")),
        Form::HwlocAnnotate => numaio_report::hwloc_annotate(topology, measured),
        Form::Weights => weights_text(common, args, &found)?,
    };
    match &args.output {
        Some(path) => output::write(path, &text).map(drop)?,
        None => output::print(&text)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn weights_text(common: &Common, args: &ExportArgs, found: &Found) -> Result<String, Failure> {
    let Some(record) = &found.stream else { return Err(nothing_measured("numaio stream")) };
    let weights = numaio_model::interleave_weights(record, args.node).ok_or_else(|| match args.node {
        Some(node) => Failure::usage(format!("STREAM was not measured from the CPUs of node {node}"))
            .hint("run numaio stream, and without --per-core"),
        None => Failure::new("STREAM was not measured by all cores of a node")
            .hint("run numaio stream without --per-core"),
    })?;
    let now = interleave::current_weights(common, &weights)?;
    if args.apply {
        interleave::apply(common, &weights)?;
    }
    match args.json {
        true => json(&weights),
        false => Ok(numaio_report::interleave_text(&weights, now.as_ref(), &output::style(common))),
    }
}

/// Documents named, or the newest that are saved of the machine, or what its tape holds; and the machine.
fn found(common: &Common, args: &ExportArgs) -> Result<Found, Failure> {
    if args.documents.is_empty() {
        return of_machine(common);
    }
    let mut found = Found::default();
    let mut read = documents::read_of_one_machine(&args.documents)?;
    let fingerprint = read.first().map(|(_, document)| documents::machine_of(document));
    // Of several of a kind the newest, which comes last, stays.
    read.sort_by_key(|(_, document)| documents::measured_at(document));
    for (path, document) in read {
        if !found.add(document) {
            return Err(Failure::file(&path, "it holds nothing to export").hint(KINDS));
        }
    }
    if found.topology.is_none() {
        let topology = discover(&Machine::pick(common)?);
        found.topology = Some(topology).filter(|it| Some(&it.identity.fingerprint) == fingerprint.as_ref());
    }
    Ok(found)
}

/// Of each kind the newest document that tells something. One that cannot be read is said and passed over.
fn of_machine(common: &Common) -> Result<Found, Failure> {
    let machine = Machine::pick(common)?;
    let topology = discover(&machine);
    let mut found = Found::default();
    if let Machine::Recorded(_) = machine {
        for document in tape_documents::measure(common, &machine, &topology)? {
            found.add(document);
        }
    } else {
        for kind in [Kind::Model, Kind::Stream, Kind::Latency] {
            for path in documents::saved(common, kind, &topology.identity) {
                match documents::read(&path) {
                    Ok(document) => {
                        if found.add(document) {
                            break;
                        }
                    }
                    Err(failure) => output::remark(common, &format!("passed over: {}", failure.message)),
                }
            }
        }
    }
    found.topology = Some(topology);
    Ok(found)
}

impl Found {
    /// Takes what can be exported; false if that is nothing. A core alone does not get a node's bandwidth.
    fn add(&mut self, document: Document) -> bool {
        match document {
            Document::Topology(document) => self.topology = Some(document.topology),
            Document::Stream(record) if record.method.scope != StreamScope::Core => {
                self.stream = Some(*record)
            }
            Document::Latency(record) => self.latency = Some(*record),
            Document::Model(model) => self.model = Some(*model),
            _ => return false,
        }
        true
    }
}

const KINDS: &str = "numaio topology, model, stream and latency write such documents with --json";

fn no_topology() -> Failure {
    Failure::new("the documents are of another machine than this one, and its topology is not among them")
        .hint("add the file that numaio topology --json wrote on that machine, or name its tape by --machine")
}

fn nothing_measured(command: &str) -> Failure {
    Failure::new("there is nothing measured on this machine to export").hint(format!("run {command} first"))
}
