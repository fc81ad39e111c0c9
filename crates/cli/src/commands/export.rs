//! `numaio export`: writes measurements in the formats of other programs.

use super::tape_documents;
use crate::failure::Failure;
use crate::machine::Machine;
use crate::options::{node, Common};
use crate::output::json;
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

/// Options of `numaio export`.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Output format
    ///
    /// hwloc-xml: nodes, caches, devices and distances as hwloc XML (for lstopo -i), with every
    /// measured bandwidth and latency as memory attributes. hwloc-annotate: the same attributes as
    /// a shell script of hwloc-annotate commands. weights: weights for weighted interleave,
    /// computed from measured bandwidths.
    #[arg(long, value_name = "FORM", default_value = "hwloc-xml")]
    pub format: ExportFormat,
    /// Write to FILE instead of standard output
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Documents of numaio stream, latency and model; default: the newest saved ones of this
    /// machine, or all on the tape of --machine
    #[arg(value_name = "FILE")]
    pub documents: Vec<PathBuf>,
    /// Compute weights for the CPUs of node K, not for those that reach each memory fastest
    #[arg(long, short = 'k', value_name = "K", value_parser = node)]
    pub node: Option<NodeId>,
    /// Set the weights in the kernel (needs root), and save the previous ones for --undo
    #[arg(long, conflicts_with_all = ["output", "undo"])]
    pub apply: bool,
    /// Restore the weights from before --apply
    #[arg(long, conflicts_with_all = ["output", "documents", "node"])]
    pub undo: bool,
    /// Print the weights as JSON
    #[arg(long)]
    pub json: bool,
}

/// Output format of `numaio export`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    HwlocXml,
    HwlocAnnotate,
    Weights,
}

/// Topology and measurements of one machine.
#[derive(Default)]
struct ExportInputs {
    topology: Option<Topology>,
    stream: Option<StreamRecord>,
    latency: Option<LatencyRecord>,
    model: Option<Model>,
}

/// Runs `numaio export`.
pub fn run(common: &Common, args: &ExportArgs) -> Result<ExitCode, Failure> {
    let weights = args.format == ExportFormat::Weights;
    if !weights && (args.apply || args.undo || args.json || args.node.is_some()) {
        return Err(Failure::usage("--apply, --undo, --json and --node apply only to weights")
            .hint("add --format weights"));
    }
    if args.undo {
        return interleave::undo(common).map(|()| ExitCode::SUCCESS);
    }
    if let Some(path) = &args.output {
        output::check(path)?;
    }
    let inputs = read_inputs(common, args)?;
    let Some(topology) = &inputs.topology else { return Err(no_topology()) };
    let measured = MeasurementSet {
        stream: inputs.stream.as_ref(),
        latency: inputs.latency.as_ref(),
        model: inputs.model.as_ref(),
    };
    let is_empty = measured.stream.is_none() && measured.latency.is_none() && measured.model.is_none();
    if is_empty && args.format == ExportFormat::HwlocXml {
        output::remark(
            common,
            "no measurements of this machine are saved: the XML contains no memory attributes",
        );
    }
    let text = match args.format {
        ExportFormat::HwlocXml => numaio_report::hwloc_xml(topology, measured),
        ExportFormat::HwlocAnnotate if is_empty => {
            return Err(no_measurement("numaio latency or numaio stream"))
        }
        ExportFormat::HwlocAnnotate => numaio_report::hwloc_annotate(topology, measured),
        ExportFormat::Weights => weights_text(common, args, &inputs)?,
    };
    match &args.output {
        Some(path) => output::write(path, &text).map(drop)?,
        None => output::print(&text)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn weights_text(common: &Common, args: &ExportArgs, inputs: &ExportInputs) -> Result<String, Failure> {
    let Some(record) = &inputs.stream else { return Err(no_measurement("numaio stream")) };
    let of_gpus = inputs.topology.as_ref().map(|it| it.memory_nodes().difference(&it.data_nodes()));
    let of_gpus = of_gpus.unwrap_or_default();
    let weights =
        numaio_model::interleave_weights(record, args.node, &of_gpus).ok_or_else(|| match args.node {
            Some(node) => Failure::usage(format!("STREAM was not measured from the CPUs of node {node}"))
                .hint("run numaio stream without --per-core"),
            None => Failure::new("no STREAM measurement used all cores of a node")
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

/// Reads the requested documents, or else the newest saved ones or the tape of the machine.
fn read_inputs(common: &Common, args: &ExportArgs) -> Result<ExportInputs, Failure> {
    if args.documents.is_empty() {
        return read_machine(common);
    }
    let mut inputs = ExportInputs::default();
    let mut read = documents::read_of_one_machine(&args.documents)?;
    let fingerprint = read.first().map(|(_, document)| document.origin().fingerprint.to_owned());
    // A later document replaces earlier ones of the same kind.
    read.sort_by_key(|(_, document)| document.origin().time);
    for (path, document) in read {
        if !inputs.add(document) {
            return Err(Failure::file(&path, "the document contains nothing to export").hint(DOCUMENTS_HINT));
        }
    }
    if inputs.topology.is_none() {
        let topology = discover(&Machine::pick(common)?);
        let is_same = Some(&topology.identity.fingerprint) == fingerprint.as_ref();
        inputs.topology = Some(topology).filter(|_| is_same);
    }
    Ok(inputs)
}

/// Reads the newest exportable document of each kind. Unreadable ones are reported and skipped.
fn read_machine(common: &Common) -> Result<ExportInputs, Failure> {
    let machine = Machine::pick(common)?;
    let topology = discover(&machine);
    let mut inputs = ExportInputs::default();
    if let Machine::Recorded(_) = machine {
        for document in tape_documents::measure(common, &machine, &topology)? {
            inputs.add(document);
        }
    } else {
        for kind in [Kind::Model, Kind::Stream, Kind::Latency] {
            for path in documents::saved(common, kind, &topology.identity) {
                match documents::read(&path) {
                    Ok(document) => {
                        if inputs.add(document) {
                            break;
                        }
                    }
                    Err(failure) => output::remark(common, &format!("skipped {}", failure.message)),
                }
            }
        }
    }
    inputs.topology = Some(topology);
    Ok(inputs)
}

impl ExportInputs {
    /// Adds a document, or returns false if it contains nothing to export, such as STREAM by single
    /// cores, which do not reach the bandwidth of their node.
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

const DOCUMENTS_HINT: &str =
    "numaio topology, model, stream and latency write exportable documents with --json";

fn no_topology() -> Failure {
    Failure::new("the documents are from another machine, and none of them is its topology")
        .hint("add the output of numaio topology --json from that machine, or select its tape with --machine")
}

fn no_measurement(command: &str) -> Failure {
    Failure::new("there is no measurement to export").hint(format!("run {command} first"))
}
