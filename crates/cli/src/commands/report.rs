//! `numaio report`: writes a report of documents.

use super::{fleet, placement, tape_documents};
use crate::failure::{self, Failure};
use crate::machine::Machine;
use crate::options::Common;
use crate::{documents, output};
use clap::{Args as ClapArgs, ValueEnum};
use numaio_linux::user_files;
use numaio_machine::discover::discover;
use numaio_machine::topology::Topology;
use numaio_model::ClassOptions;
use numaio_report::{Bundle, MachineDocuments};
use numaio_schema::{Document, TopologyDocument};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of `numaio report`.
#[derive(Debug, ClapArgs)]
pub struct ReportArgs {
    /// Documents to report, of one machine or several; default: the newest saved ones of this
    /// machine, or all on the tape of --machine
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Output file, directory, or - for standard output; default: a file such as
    /// numaio-report.html in the current directory
    #[arg(long, short, value_name = "DIR|FILE")]
    pub output: Option<PathBuf>,
    /// Format of the report; latex compiles with pdflatex, csv has a line per value, json contains
    /// the documents
    #[arg(long, value_name = "FORM", default_value = "html")]
    pub format: Format,
    /// Report every measurement, not only the newest of each kind
    #[arg(long)]
    pub all: bool,
    /// Report a fleet: as html its groups, hosts with findings, and a heat map of all hosts; as
    /// latex, markdown or csv the classes and medians of each group; as json the check
    #[arg(long, value_name = "DB", conflicts_with_all = ["files", "all"])]
    pub fleet: Option<PathBuf>,
}

/// Format of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Html,
    Latex,
    Csv,
    Markdown,
    Json,
}

impl Format {
    /// Returns the default file name.
    fn file_name(self) -> &'static str {
        match self {
            Self::Html => "numaio-report.html",
            Self::Latex => "numaio-report.tex",
            Self::Csv => "numaio-report.csv",
            Self::Markdown => "numaio-report.md",
            Self::Json => "numaio-report.json",
        }
    }
}

/// Runs `numaio report`.
pub fn run(common: &Common, args: &ReportArgs) -> Result<ExitCode, Failure> {
    if let Some(store) = &args.fleet {
        return report_fleet(common, args, store);
    }
    let mut bundle = match args.files.as_slice() {
        [] => read_machine(common)?,
        files => read_files(common, files)?,
    };
    let path = output_path(args)?;
    if !args.all {
        bundle.keep_newest();
    }
    for machine in &mut bundle.machines {
        if let Some(topology) = &machine.topology {
            machine.expected = placement::expectation(topology, &machine.models, &machine.ios);
        }
    }
    let text = match args.format {
        Format::Html => numaio_report::html(&bundle, common.unit),
        Format::Latex => numaio_report::latex(&bundle, common.unit),
        Format::Csv => numaio_report::csv(&bundle).map_err(Failure::new)?,
        Format::Markdown => numaio_report::markdown(&bundle, common.unit),
        Format::Json => output::json(&bundle.to_json().map_err(Failure::new)?)?,
    };
    if output::write(&path, &text)? {
        output::remark(common, &format!("wrote the report to '{}'", path.display()));
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes the report of a fleet.
fn report_fleet(common: &Common, args: &ReportArgs, store: &Path) -> Result<ExitCode, Failure> {
    let path = output_path(args)?;
    let text = match args.format {
        Format::Html => fleet::page(store, common.unit)?,
        Format::Json => output::json(&fleet::check_of(store)?)?,
        Format::Latex => numaio_report::fleet_latex(&fleet::summary_of(store)?, common.unit),
        Format::Markdown => numaio_report::fleet_markdown(&fleet::summary_of(store)?, common.unit),
        Format::Csv => numaio_report::fleet_csv(&fleet::summary_of(store)?).map_err(Failure::new)?,
    };
    if output::write(&path, &text)? {
        output::remark(common, &format!("wrote the report to '{}'", path.display()));
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the path of the report, after a check that it is writable.
fn output_path(args: &ReportArgs) -> Result<PathBuf, Failure> {
    let name = args.format.file_name();
    let path = match &args.output {
        Some(path) if path.is_dir() || path.as_os_str().to_string_lossy().ends_with('/') => {
            user_files::create_directory(path, 0o777).map_err(|error| failure::cannot_write(path, &error))?;
            path.join(name)
        }
        Some(path) => path.clone(),
        None => PathBuf::from(name),
    };
    output::check(&path)?;
    Ok(path)
}

/// Reads the saved documents of this machine, or everything on the tape of the selected one.
fn read_machine(common: &Common) -> Result<Bundle, Failure> {
    let machine = Machine::pick(common)?;
    let topology = discover(&machine);
    let mut bundle = Bundle::default();
    add_topology(&mut bundle, &machine, &topology)?;
    match &machine {
        Machine::Recorded(_) => {
            for document in tape_documents::measure(common, &machine, &topology)? {
                bundle.add(document).map_err(Failure::new)?;
            }
        }
        Machine::Live(_) | Machine::Recording(_) => add_saved(common, &topology, &mut bundle),
        Machine::Copied(_) => {}
    }
    if bundle.machines.iter().all(|machine| machine.provenances().is_empty()) {
        output::remark(common, "the report contains no measurements; numaio model measures and saves some");
    }
    Ok(bundle)
}

/// Adds the topology of a machine.
fn add_topology(bundle: &mut Bundle, machine: &Machine, topology: &Topology) -> Result<(), Failure> {
    let document = TopologyDocument::with_time(topology.clone(), machine.observed_at());
    bundle.add(Document::Topology(Box::new(document))).map_err(Failure::new)
}

/// Adds all saved documents of this machine, also those saved under another host name. Unreadable
/// ones are reported and skipped.
fn add_saved(common: &Common, topology: &Topology, bundle: &mut Bundle) {
    use crate::store::Kind;
    let kinds = [
        Kind::Model,
        Kind::Stream,
        Kind::Sweep,
        Kind::Latency,
        Kind::Io,
        Kind::Aggregate,
        Kind::Ping,
        Kind::Mmio,
        Kind::Comparison,
    ];
    for path in kinds.into_iter().flat_map(|kind| documents::saved(common, kind, &topology.identity)) {
        let added = documents::read(&path).and_then(|document| {
            let document = with_classes(bundle, document);
            bundle.add_as(document, &topology.identity).map_err(|error| Failure::file(&path, error))
        });
        if let Err(failure) = added {
            output::remark(common, &format!("skipped {}", failure.message));
        }
    }
}

/// Reads the requested documents. A machine selected by an option adds its topology, and rejects
/// documents of other machines.
fn read_files(common: &Common, files: &[PathBuf]) -> Result<Bundle, Failure> {
    let read = files.iter().map(|path| Ok((path, documents::read(path)?)));
    let mut documents: Vec<(&PathBuf, Document)> = read.collect::<Result<_, Failure>>()?;
    let mut bundle = Bundle::default();
    let is_selected = common.machine.is_some() || common.sysroot.is_some();
    if is_selected {
        let machine = Machine::pick(common)?;
        add_topology(&mut bundle, &machine, &discover(&machine))?;
    }
    // Add topologies first: the classes of a record need packages and devices. Add documents
    // without a host name last: they can only be assigned when all machines are known.
    documents.sort_by_key(|(_, document)| {
        (
            document.origin().machine.is_none_or(|machine| machine.hostname.is_empty()),
            !matches!(document, Document::Topology(_)),
        )
    });
    for (path, document) in documents {
        let document = with_classes(&bundle, document);
        bundle.add(document).map_err(|error| Failure::file(path, error))?;
        if let [selected, other, ..] = bundle.machines.as_slice() {
            if is_selected {
                let host = |machine: &MachineDocuments| match machine.hostname.as_str() {
                    "" => String::new(),
                    host => format!(" (host '{host}')"),
                };
                return Err(Failure::file(
                    path,
                    format!(
                        "the document is of machine '{}'{}, but the selected machine is '{}'{}",
                        other.fingerprint,
                        host(other),
                        selected.fingerprint,
                        host(selected)
                    ),
                )
                .hint("omit --machine and --sysroot to report several machines"));
            }
        }
    }
    Ok(bundle)
}

/// Converts a record to a model with the default classes; other documents stay as they are.
fn with_classes(bundle: &Bundle, document: Document) -> Document {
    let Document::Record(record) = document else { return document };
    let fingerprint = &record.provenance.machine.fingerprint;
    let machine = bundle.machines.iter().find(|machine| machine.fingerprint == *fingerprint);
    let topology = machine.and_then(|machine| machine.topology.clone()).unwrap_or_default();
    Document::Model(Box::new(numaio_model::fit(*record, &topology, ClassOptions::default())))
}
