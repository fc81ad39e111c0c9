//! `numaio validate`: compares the copy model with measured I/O, class by class.

use super::prediction_inputs::{self, engine, unique, KnownDocuments};
use crate::device_arguments::node_of_device;
use crate::failure::Failure;
use crate::machine::Machine;
use crate::options::{node, percent, Common};
use crate::output;
use crate::output::json;
use clap::Args;
use numaio_machine::ids::NodeId;
use numaio_model::{ClassOptions, ViewSubject};
use numaio_schema::{
    ClassRule, IoEngine, IoRecord, Model, Provenance, Quantity, StreamRecord, Validation, View, Warning,
    VALIDATION_SCHEMA,
};
use std::path::PathBuf;
use std::process::ExitCode;

/// Options of `numaio validate`.
#[derive(Debug, Args)]
pub struct ValidateArgs {
    /// Validate by measured I/O of this device, for example eth0, nvme0n1 or mlx5_0; default: all
    /// devices of the target
    #[arg(long, short, value_name = "DEV")]
    pub device: Option<String>,
    /// Target node; default: the node of the device, or the one whose devices were measured last
    #[arg(long, short = 'k', value_name = "K", value_parser = node)]
    pub node: Option<NodeId>,
    /// Use only measurements of this engine: disk, fio, tcp, iperf3, perftest, cuda, nvbandwidth
    #[arg(long, value_name = "ENGINE", value_parser = engine)]
    pub engine: Option<IoEngine>,
    /// Use these documents of one machine instead of the saved ones of this machine
    ///
    /// numaio model, bench, stream and topology write them with --json. Of several that measure the
    /// same, the newest counts. An interrupted model counts only if there is no other.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub from: Vec<PathBuf>,
    /// Rule by which nodes are classified; default: that of the model
    #[arg(long, value_name = "RULE", value_parser = ["measured", "paper", "kmeans"])]
    pub classes: Option<String>,
    /// Largest difference of a class's members from its best, in percent; default: that of the
    /// model
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub level: Option<f64>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Write to FILE instead of standard output
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Runs `numaio validate`.
pub fn run(common: &Common, args: &ValidateArgs) -> Result<ExitCode, Failure> {
    let machine = Machine::pick(common)?;
    let known = KnownDocuments::read(common, &machine, &args.from)?;
    let target = target(args, &known)?;
    let model = known.model_of(target).ok_or_else(|| {
        Failure::new(format!("found no model of node {target}"))
            .hint(format!("numaio model --node {target} measures it"))
    })?;
    let rule = rule(args, model, target);
    let model = reclassify(args, model, &known, rule);
    let subject = ViewSubject { machine: &known.machine.fingerprint, target, level: rule.level };
    let validation = validation(args, &known, &model, &subject)?;
    let text = match args.json {
        true => json(&validation)?,
        false => numaio_report::validation_text(&validation, &output::style(common)),
    };
    match &args.output {
        Some(path) => output::write(path, &text).map(|_| ())?,
        None => output::print(&text)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the node whose model is validated.
fn target(args: &ValidateArgs, known: &KnownDocuments) -> Result<NodeId, Failure> {
    let of_device = |name: &String| match (known.device(name)?.node, &known.topology) {
        (Some(node), _) => Ok(node),
        (None, Some(topology)) => node_of_device(topology, name),
        (None, None) => Err(Failure::new(format!("no document contains the node of '{name}'"))
            .hint("specify the target by --node K")),
    };
    match (args.node, &args.device) {
        (Some(node), _) => Ok(node),
        (None, Some(name)) => of_device(name),
        (None, None) => {
            let is_selected =
                |record: &&IoRecord| args.engine.is_none_or(|engine| record.method.engine == engine);
            let newest = known.records.iter().filter(is_selected).find_map(|record| record.device.node);
            newest.ok_or_else(|| known.nothing_measured(None, args.engine))
        }
    }
}

/// Returns the classification options: the requested ones, or those of the model.
fn rule(args: &ValidateArgs, model: &Model, target: NodeId) -> ClassOptions {
    let of_target = model.targets.iter().filter(|of_target| of_target.target == target);
    let in_model = of_target.flat_map(|it| &it.directions).next();
    let in_model =
        in_model.map_or(ClassOptions::default(), |it| ClassOptions { classes: it.rule, level: it.level });
    let classes = args.classes.as_ref().and_then(|name| name.parse::<ClassRule>().ok());
    ClassOptions { classes: classes.unwrap_or(in_model.classes), level: args.level.unwrap_or(in_model.level) }
}

/// Classifies the model again if options request it.
fn reclassify(args: &ValidateArgs, model: &Model, known: &KnownDocuments, rule: ClassOptions) -> Model {
    if args.classes.is_none() && args.level.is_none() {
        return model.clone();
    }
    match &known.topology {
        Some(topology) => numaio_model::fit(model.record.clone(), topology, rule),
        None => numaio_model::refit(model.clone(), rule),
    }
}

fn validation(
    args: &ValidateArgs,
    known: &KnownDocuments,
    model: &Model,
    subject: &ViewSubject,
) -> Result<Validation, Failure> {
    let device = args.device.as_ref().map(|name| known.device(name)).transpose()?.map(|device| device.name);
    let is_selected = |record: &&IoRecord| {
        device.as_ref().is_none_or(|device| record.device.name == *device)
            && args.engine.is_none_or(|engine| record.method.engine == engine)
    };
    let mut measured: Vec<View> = Vec::new();
    let mut used: Vec<&IoRecord> = Vec::new();
    let mut record_of: Vec<&IoRecord> = Vec::new();
    for record in known.records.iter().filter(is_selected) {
        let views = numaio_model::io_views(record, subject);
        let new_views: Vec<View> =
            views.into_iter().filter(|view| measured.iter().all(|other| other.name != view.name)).collect();
        if !new_views.is_empty() {
            used.push(record);
            record_of.extend(new_views.iter().map(|_| record));
            measured.extend(new_views);
        }
    }
    let (baselines, stream) = baselines(known, subject);
    let mut directions = numaio_model::validate(model, subject, &measured, &baselines);
    for (view, record) in measured.iter().zip(record_of) {
        numaio_model::note_represented(&mut directions, view, record);
    }
    if directions.is_empty() {
        return Err(known.nothing_measured(device.as_deref(), args.engine));
    }
    let provenances = || {
        let model = std::iter::once(("copy model", &model.record.provenance));
        let streams = stream.iter().map(|record| ("STREAM", &record.provenance));
        model.chain(used.iter().map(|record| ("I/O", &record.provenance))).chain(streams)
    };
    let devices: Vec<&str> = used.iter().map(|record| record.device.name.as_str()).collect();
    let newest = provenances().map(|(_, provenance): (_, &Provenance)| provenance.measured_at).max();
    let mut warnings = prediction_inputs::incomplete(model, subject.target);
    warnings.extend(prediction_inputs::warnings(provenances()));
    if stream.is_none() {
        let message = "STREAM was not measured, so it cannot be compared; numaio stream measures it";
        warnings.push(Warning { rule: "missing-stream".to_owned(), message: message.to_owned() });
    }
    Ok(Validation {
        schema: VALIDATION_SCHEMA.to_owned(),
        numaio: env!("CARGO_PKG_VERSION").to_owned(),
        machine: known.machine.clone(),
        measured_at: newest.unwrap_or(0),
        target: subject.target,
        devices: unique(&devices).into_iter().map(str::to_owned).collect(),
        directions,
        warnings,
    })
}

/// Returns the views to compare with: hop distance, and STREAM copy from both sides, with its
/// record.
fn baselines<'a>(known: &'a KnownDocuments, subject: &ViewSubject) -> (Vec<View>, Option<&'a StreamRecord>) {
    let mut baselines: Vec<View> =
        known.topology.iter().flat_map(|topology| numaio_model::slit_views(topology, subject)).collect();
    let copies = |record: &StreamRecord| -> Vec<View> {
        let views = numaio_model::stream_views(record, subject).into_iter();
        views.filter(|view| view.quantity == Quantity::BytesPerS && view.name.contains("copy")).collect()
    };
    let found =
        known.streams.iter().map(|record| (record, copies(record))).find(|(_, views)| !views.is_empty());
    let stream = found.map(|(record, views)| {
        baselines.extend(views);
        record
    });
    (baselines, stream)
}
