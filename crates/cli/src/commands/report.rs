//! `numaio report`: documents to a report that people hand around.

use super::tape_documents;
use crate::args::Common;
use crate::failure::{self, Failure};
use crate::machine::Machine;
use crate::{documents, output};
use clap::{Args as ClapArgs, ValueEnum};
use numaio_machine::discover::discover;
use numaio_machine::topology::Topology;
use numaio_model::ClassOptions;
use numaio_report::{Bundle, MachineDocuments};
use numaio_schema::{Document, TopologyDocument};
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, ClapArgs)]
pub struct ReportArgs {
    /// Documents to report, of one machine or several; without them the newest saved ones of this machine, or
    /// all that the tape of --machine holds
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Where to write: a file, a folder, or - for standard output; without it numaio-report.html here
    #[arg(long, short, value_name = "DIR|FILE")]
    pub output: Option<PathBuf>,
    /// Form of the report; latex compiles by pdflatex, csv has a line for each figure, json is the documents
    /// themselves
    #[arg(long, value_name = "FORM", default_value = "html")]
    pub format: Format,
    /// Every measurement, and not only the newest of each thing
    #[arg(long)]
    pub all: bool,
}

/// Form of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Html,
    Latex,
    Csv,
    Markdown,
    Json,
}

impl Format {
    /// The name of the file where only a folder is given.
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

pub fn run(common: &Common, args: &ReportArgs) -> Result<ExitCode, Failure> {
    let mut bundle = match args.files.as_slice() {
        [] => of_machine(common)?,
        files => of_files(common, files)?,
    };
    let to = place(args)?;
    if !args.all {
        bundle.keep_newest();
    }
    let text = match args.format {
        Format::Html => numaio_report::html(&bundle, common.unit),
        Format::Latex => numaio_report::latex(&bundle, common.unit),
        Format::Csv => numaio_report::csv(&bundle).map_err(Failure::new)?,
        Format::Markdown => numaio_report::markdown(&bundle, common.unit),
        Format::Json => super::json(&bundle.to_json().map_err(Failure::new)?)?,
    };
    if output::write(&to, &text)? {
        output::remark(common, &format!("the report is in {}", to.display()));
    }
    Ok(ExitCode::SUCCESS)
}

/// Where the report goes, which can be written to.
fn place(args: &ReportArgs) -> Result<PathBuf, Failure> {
    let name = args.format.file_name();
    let path = match &args.output {
        Some(path) if path.is_dir() || path.as_os_str().to_string_lossy().ends_with('/') => {
            fs::create_dir_all(path).map_err(|error| failure::cannot_write(path, &error))?;
            path.join(name)
        }
        Some(path) => path.clone(),
        None => PathBuf::from(name),
    };
    output::check(&path)?;
    Ok(path)
}

/// What is known of the machine that the options name: saved documents of this one, everything on a tape.
fn of_machine(common: &Common) -> Result<Bundle, Failure> {
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
        output::remark(common, "no measurement is in the report; numaio model measures and saves one");
    }
    Ok(bundle)
}

fn add_topology(bundle: &mut Bundle, machine: &Machine, topology: &Topology) -> Result<(), Failure> {
    let document = TopologyDocument::with_time(topology.clone(), machine.seen_at());
    bundle.add(Document::Topology(Box::new(document))).map_err(Failure::new)
}

/// Adds everything that this machine's measurements of earlier days left, also under another host's name. One that cannot
/// be read is said and passed over, so that it does not keep the others from being reported.
fn add_saved(common: &Common, topology: &Topology, bundle: &mut Bundle) {
    use crate::store::Kind;
    let kinds = [Kind::Model, Kind::Stream, Kind::Latency, Kind::Io, Kind::Comparison];
    for path in kinds.into_iter().flat_map(|kind| documents::saved(common, kind, &topology.identity)) {
        let added = documents::read(&path).and_then(|document| {
            let document = with_classes(bundle, document);
            bundle.add_as(document, &topology.identity).map_err(|error| Failure::file(&path, error))
        });
        if let Err(failure) = added {
            output::remark(common, &format!("passed over: {}", failure.message));
        }
    }
}

/// Documents that were named. A machine named beside them adds its topology, and no file may be of another.
fn of_files(common: &Common, files: &[PathBuf]) -> Result<Bundle, Failure> {
    let read = files.iter().map(|path| Ok((path, documents::read(path)?)));
    let mut documents: Vec<(&PathBuf, Document)> = read.collect::<Result<_, Failure>>()?;
    let mut bundle = Bundle::default();
    let named = common.machine.is_some() || common.sysroot.is_some();
    if named {
        let machine = Machine::pick(common)?;
        add_topology(&mut bundle, &machine, &discover(&machine))?;
    }
    // Topologies first: a record's classes want to know packages and devices. Last what tells no host: whether
    // several machines are alike is known then.
    documents.sort_by_key(|(_, document)| {
        (documents::identity(document).hostname.is_empty(), !matches!(document, Document::Topology(_)))
    });
    for (path, document) in documents {
        let document = with_classes(&bundle, document);
        bundle.add(document).map_err(|error| Failure::file(path, error))?;
        if let [wanted, other, ..] = bundle.machines.as_slice() {
            if named {
                let host = |machine: &MachineDocuments| match machine.hostname.as_str() {
                    "" => String::new(),
                    host => format!(", host {host:?}"),
                };
                return Err(Failure::file(
                    path,
                    format!(
                        "it is of machine {:?}{}, and the machine named is {:?}{}",
                        other.fingerprint,
                        host(other),
                        wanted.fingerprint,
                        host(wanted)
                    ),
                )
                .hint("leave --machine and --sysroot out to report several machines"));
            }
        }
    }
    Ok(bundle)
}

/// A document that can be added; of a record without classes the model by the usual rule.
fn with_classes(bundle: &Bundle, document: Document) -> Document {
    let Document::Record(record) = document else { return document };
    let fingerprint = &record.provenance.machine.fingerprint;
    let machine = bundle.machines.iter().find(|machine| machine.fingerprint == *fingerprint);
    let topology = machine.and_then(|machine| machine.topology.clone()).unwrap_or_default();
    Document::Model(Box::new(numaio_model::fit(*record, &topology, ClassOptions::default())))
}
