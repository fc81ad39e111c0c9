//! `numaio validate`: the copy model beside measured I/O, class by class.

use super::json;
use super::model::node_of_device;
use super::prediction_inputs::{self, engine, unique, KnownDocuments};
use crate::args::{node, percent, Common};
use crate::failure::Failure;
use crate::machine::Machine;
use crate::output;
use clap::Args;
use numaio_machine::ids::NodeId;
use numaio_model::{ClassOptions, ViewSubject};
use numaio_schema::{
    ClassRule, IoEngine, IoRecord, Model, Provenance, Quantity, StreamRecord, Validation, View, Warning,
    VALIDATION_SCHEMA,
};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, Args)]
pub struct ValidateArgs {
    /// Against measured I/O of this device: eth0, nvme0n1, mlx5_0; without it of all devices of the target
    #[arg(long, short, value_name = "DEV")]
    pub device: Option<String>,
    /// The target; without it the node of the device, or the one whose devices were measured last
    #[arg(long, short = 'k', value_name = "K", value_parser = node)]
    pub node: Option<NodeId>,
    /// Against measurements of this engine alone: disk, fio, tcp, iperf3, perftest, cuda, nvbandwidth
    #[arg(long, value_name = "ENGINE", value_parser = engine)]
    pub engine: Option<IoEngine>,
    /// Documents of one machine in place of those that are saved of this one
    ///
    /// Written by numaio model, bench, stream and topology with --json. Of several that measure the same the newest
    /// counts, and of models one that was interrupted only if there is no other.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub from: Vec<PathBuf>,
    /// How nodes are put into classes; without it as in the model
    #[arg(long, value_name = "RULE", value_parser = ["measured", "paper", "kmeans"])]
    pub classes: Option<String>,
    /// How far below a class's best its members may be, in percent; without it as in the model
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub level: Option<f64>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Write into FILE in place of standard output
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

pub fn run(common: &Common, args: &ValidateArgs) -> Result<ExitCode, Failure> {
    let machine = Machine::pick(common)?;
    let known = KnownDocuments::read(common, &machine, &args.from)?;
    let target = target(args, &known)?;
    let model = known.model_of(target).ok_or_else(|| {
        Failure::new(format!("no model of node {target} is known"))
            .hint(format!("numaio model --node {target} makes it"))
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

/// The node whose model is validated.
fn target(args: &ValidateArgs, known: &KnownDocuments) -> Result<NodeId, Failure> {
    let of_device = |name: &String| match (known.device(name)?.node, &known.topology) {
        (Some(node), _) => Ok(node),
        (None, Some(topology)) => node_of_device(topology, name),
        (None, None) => Err(Failure::new(format!("no document tells on which node {name} is"))
            .hint("name the target by --node K")),
    };
    match (args.node, &args.device) {
        (Some(node), _) => Ok(node),
        (None, Some(name)) => of_device(name),
        (None, None) => {
            let wanted = |record: &&IoRecord| args.engine.is_none_or(|engine| record.method.engine == engine);
            let newest = known.records.iter().filter(wanted).find_map(|record| record.device.node);
            newest.ok_or_else(|| known.nothing_measured(None, args.engine))
        }
    }
}

/// How nodes are put into classes on the whole page: as it is asked for, else as in the model.
fn rule(args: &ValidateArgs, model: &Model, target: NodeId) -> ClassOptions {
    let of_target = model.targets.iter().filter(|of_target| of_target.target == target);
    let own = of_target.flat_map(|it| &it.directions).next();
    let own = own.map_or(ClassOptions::default(), |it| ClassOptions { classes: it.rule, level: it.level });
    let classes = args.classes.as_ref().and_then(|name| name.parse::<ClassRule>().ok());
    ClassOptions { classes: classes.unwrap_or(own.classes), level: args.level.unwrap_or(own.level) }
}

/// The model with the classes that are asked for.
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
    let wanted = |record: &&IoRecord| {
        device.as_ref().is_none_or(|device| record.device.name == *device)
            && args.engine.is_none_or(|engine| record.method.engine == engine)
    };
    let mut measured: Vec<View> = Vec::new();
    let mut used: Vec<&IoRecord> = Vec::new();
    let mut record_of: Vec<&IoRecord> = Vec::new();
    for record in known.records.iter().filter(wanted) {
        let views = numaio_model::io_views(record, subject);
        let fresh: Vec<View> =
            views.into_iter().filter(|view| measured.iter().all(|other| other.name != view.name)).collect();
        if !fresh.is_empty() {
            used.push(record);
            record_of.extend(fresh.iter().map(|_| record));
            measured.extend(fresh);
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
        let what =
            "STREAM was not measured, so what it would have said is unknown: numaio stream measures it";
        warnings.push(Warning { rule: "missing-stream".to_owned(), what: what.to_owned() });
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

/// What else could have been believed: hop distance, and STREAM's copy from both sides, with its record.
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
