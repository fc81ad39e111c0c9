//! `numaio predict`: predicts the bandwidth of a device for streams of several nodes.

use super::prediction_inputs::{self, engine, measure_mixes, KnownDocuments, MixRequest};
use crate::failure::Failure;
use crate::load_args::{self, LoadList};
use crate::machine::Machine;
use crate::options::{integer, node, seconds, Common};
use crate::output;
use crate::output::json;
use clap::{Args, ValueEnum};
use numaio_machine::set::NodeSet;
use numaio_machine::topology::Topology;
use numaio_machine::workload::Direction;
use numaio_measure::io::local_nodes;
use numaio_model::{CapacityInputs, DeviceFit, LoadInputs, PredictError, MOST_STREAMS};
use numaio_schema::{
    IoEngine, IoPrediction, IoRecord, Load, LoadedPrediction, MixPrediction, NodeStreams, SuggestedMix,
    PREDICTION_SCHEMA,
};
use std::path::PathBuf;
use std::process::ExitCode;

/// Options of `numaio predict`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true).args(["mix", "best", "suggest"]))]
pub struct PredictArgs {
    /// Device, such as nvme0n1, eth0, cuda:0 or 0000:3b:00.0
    #[arg(long, short, value_name = "DEV")]
    pub device: String,
    /// Streams per node, with local buffers: 2:2,0:2 is two streams on node 2 and two on node 0
    #[arg(long, value_name = "NODE:STREAMS,...", value_delimiter = ',', value_parser = mix_part)]
    pub mix: Vec<NodeStreams>,
    /// Find the distribution of N streams over nodes whose predicted interval has the highest lower
    /// end
    #[arg(long, value_name = "N", value_parser = integer(1..=numaio_model::MAX_DISTRIBUTED_STREAMS))]
    pub best: Option<u32>,
    /// Name the mix whose measurement makes predictions most certain: of --mix, or of all mixes
    #[arg(long)]
    pub suggest: bool,
    /// Predict also what the mix keeps while N STREAM threads run on node K, with memory on node M
    /// (default: K)
    ///
    /// From I/O measured under other loads (numaio bench --load), else from the STREAM bandwidth of
    /// the nodes. With --measure: the mix is measured under this load.
    #[arg(long, value_name = "K:N[:M],...", requires = "mix", value_parser = load_args::list)]
    pub load: Option<LoadList>,
    /// Direction of the I/O, as seen from the device
    #[arg(long, value_name = "DIRECTION", default_value = "read")]
    pub direction: OneDirection,
    /// Use measurements by this engine: disk, fio, tcp, iperf3, perftest, cuda or nvbandwidth;
    /// default: the engine of the newest measurement
    #[arg(long, value_name = "ENGINE", value_parser = engine)]
    pub engine: Option<IoEngine>,
    /// Operation of the device, such as write or send for RDMA; default: the one measured first
    #[arg(long, value_name = "OPERATION")]
    pub operation: Option<String>,
    /// Use these documents of one machine instead of the saved ones of this machine
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub from: Vec<PathBuf>,
    /// Measure mixes that --suggest names, at most three, until the prediction is certain; then
    /// measure the mix, and print the prediction errors
    #[arg(long, requires = "mix", conflicts_with = "from")]
    pub measure: bool,
    /// With --measure: measure only the mix, not those that --suggest names
    #[arg(long, requires = "measure")]
    pub mix_only: bool,
    /// With --measure: length of one visit in milliseconds
    #[arg(long, value_name = "MS", default_value = "1000", value_parser = integer(50..=60_000))]
    pub window: u32,
    /// With --measure: time limit of each mix in seconds
    #[arg(long, value_name = "SECONDS", default_value = "300", value_parser = seconds)]
    pub seconds: f64,
    /// With --measure: write to PATH, a new file or a directory for one; by default nothing is
    /// written
    #[arg(long, value_name = "PATH", requires = "measure")]
    pub file: Option<PathBuf>,
    /// With --measure: write to DEV, the measured disk or volume; destroys all data on it
    #[arg(long, value_name = "DEV", requires = "measure", conflicts_with = "file")]
    pub i_know_this_destroys: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Write to FILE instead of standard output
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Do not save the measurement
    #[arg(long)]
    pub no_save: bool,
}

/// The direction of I/O to predict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OneDirection {
    /// Memory to device
    Write,
    /// Device to memory
    Read,
}

impl OneDirection {
    fn direction(self) -> Direction {
        match self {
            Self::Write => Direction::Write,
            Self::Read => Direction::Read,
        }
    }
}

/// Parses `NODE:STREAMS`: `2:4` is four streams on node 2.
fn mix_part(text: &str) -> Result<NodeStreams, String> {
    let (node_text, streams) =
        text.split_once(':').ok_or_else(|| "expected NODE:STREAMS, such as 2:4".to_owned())?;
    let node = node(node_text)?;
    let invalid = || format!("expected from 1 to {MOST_STREAMS} streams");
    let streams = streams.parse().ok().filter(|number| (1..=MOST_STREAMS).contains(number));
    Ok(NodeStreams { node, streams: streams.ok_or_else(invalid)? })
}

/// Runs `numaio predict`.
pub fn run(common: &Common, args: &PredictArgs) -> Result<ExitCode, Failure> {
    let machine = Machine::pick(common)?;
    let known = KnownDocuments::read(common, &machine, &args.from)?;
    check_nodes(&known, &args.mix)?;
    let device = known.device(&args.device)?;
    let records = known.records_of(&device.name, args.engine);
    let engine = records.first().map(|record| record.method.engine);
    let records: Vec<&IoRecord> =
        records.into_iter().filter(|record| Some(record.method.engine) == engine).collect();
    if records.is_empty() {
        return Err(known.nothing_measured(Some(&device.name), args.engine));
    }
    let measured = match args.measure {
        true => measure(common, args, &machine, &known, &records)?,
        false => Vec::new(),
    };
    let (loaded, idle): (Vec<&IoRecord>, Vec<&IoRecord>) =
        measured.iter().partition(|record| !record.provenance.load.is_empty());
    let records: Vec<&IoRecord> = idle.into_iter().chain(records).collect();
    let of_device =
        |record: &&IoRecord| record.device.name == device.name && Some(record.method.engine) == engine;
    let loaded: Vec<&IoRecord> = loaded.into_iter().chain(known.loaded.iter().filter(of_device)).collect();
    let prediction = prediction(args, &known, &records, &loaded)?;
    print(common, args, &prediction)?;
    super::measuring::exit(None)
}

/// Expected relative deviation of a prediction below which no further mix is measured.
const CERTAIN: f64 = 0.015;
/// Most suggested mixes that are measured before the requested one.
const MOST_SUGGESTED: usize = 3;

/// Measures suggested mixes until the prediction is certain, and then the requested one. Returns
/// the records, newest first.
fn measure(
    common: &Common,
    args: &PredictArgs,
    machine: &Machine,
    known: &KnownDocuments,
    records: &[&IoRecord],
) -> Result<Vec<IoRecord>, Failure> {
    let (Some(topology), Some(reference)) = (&known.topology, records.first()) else {
        return Err(Failure::usage("--measure requires documents of this machine"));
    };
    let measure_one = |fit: &DeviceFit, mix: &[NodeStreams], load: &[Load]| {
        let request = MixRequest {
            reference,
            capacities: &fit.capacities,
            mixes: &[mix.to_vec()],
            file: args.file.as_deref(),
            destroys: args.i_know_this_destroys.as_deref(),
            load,
            save: !args.no_save,
            window_ms: args.window,
            time_limit_s: args.seconds,
        };
        measure_mixes(common, machine, topology, &request)
    };
    let mut measured_now: Vec<IoRecord> = Vec::new();
    loop {
        let all: Vec<&IoRecord> = measured_now.iter().chain(records.iter().copied()).collect();
        let fit = fit(args, known, &all)?;
        // Measure only mixes that can be predicted.
        let mix = numaio_model::predict(&fit, &args.mix).map_err(|error| prediction_failure(known, error))?;
        let suggested = match args.mix_only || measured_now.len() == MOST_SUGGESTED {
            true => None,
            false => {
                numaio_model::suggest_mix(&fit, &local_nodes(topology), &mix.streams, &measured(&fit, &all))
            }
        };
        let Some(suggested) = suggested.filter(|suggested| suggested.deviation_before > CERTAIN) else {
            measured_now.insert(0, measure_one(&fit, &mix.streams, loads(args))?);
            return Ok(measured_now);
        };
        let text = numaio_report::streams_text(&suggested.streams);
        output::remark(common, &format!("measuring {text} first"));
        measured_now.insert(0, measure_one(&fit, &suggested.streams, &[])?);
    }
}

/// Returns the requested loads.
fn loads(args: &PredictArgs) -> &[Load] {
    args.load.as_ref().map_or(&[], |list| &list.0)
}

/// Returns the mixes that were measured in the direction of a fit.
fn measured(fit: &DeviceFit, records: &[&IoRecord]) -> Vec<Vec<NodeStreams>> {
    numaio_model::measured_mixes(records, &fit.capacities)
}

/// Suggests a mix to measure among the nodes whose streams can have local buffers.
fn suggest(
    args: &PredictArgs,
    known: &KnownDocuments,
    records: &[&IoRecord],
    fit: &DeviceFit,
) -> Result<SuggestedMix, Failure> {
    let nodes = match &known.topology {
        Some(topology) => local_nodes(topology),
        None => fit.capacities.nodes.iter().map(|node| node.node).collect(),
    };
    let suggested = numaio_model::suggest_mix(fit, &nodes, &args.mix, &measured(fit, records));
    suggested.ok_or_else(|| {
        Failure::new("no mix to suggest: fewer than two nodes were measured, or all mixes were")
            .hint("measure every node with numaio bench --exhaustive")
    })
}

/// Rejects a mix with a node that the machine does not have.
fn check_nodes(known: &KnownDocuments, mix: &[NodeStreams]) -> Result<(), Failure> {
    let Some(topology) = &known.topology else { return Ok(()) };
    let nodes = topology.memory_nodes();
    match mix.iter().find(|mix_part| !nodes.contains(mix_part.node)) {
        Some(mix_part) => Err(Failure::usage(format!(
            "there is no node {} with memory; nodes with memory: {nodes}",
            mix_part.node
        ))),
        None => Ok(()),
    }
}

/// Computes the capacities of the device from its measurements.
fn fit(args: &PredictArgs, known: &KnownDocuments, records: &[&IoRecord]) -> Result<DeviceFit, Failure> {
    let node = records.first().and_then(|record| record.device.node);
    let link = known.find_device(&args.device).and_then(|device| device.link);
    let inputs = CapacityInputs {
        records,
        model: node.and_then(|node| known.model_of(node)),
        link_bytes_per_s: link.map(|link| link.bytes_per_s()).filter(|bytes_per_s| *bytes_per_s > 0.0),
        direction: args.direction.direction(),
        operation: args.operation.as_deref(),
        memory_only: &memory_only(known),
    };
    numaio_model::capacities(&inputs, &args.mix).map_err(|error| {
        let hint = format!("--direction {} may have been measured", other_direction(args.direction));
        Failure::new(error.to_string().replace("the device", &args.device)).hint(hint)
    })
}

/// Returns the nodes with memory and without CPUs.
fn memory_only(known: &KnownDocuments) -> NodeSet {
    known.topology.as_ref().map(Topology::memory_only_nodes).unwrap_or_default()
}

fn other_direction(direction: OneDirection) -> &'static str {
    match direction {
        OneDirection::Write => "read",
        OneDirection::Read => "write",
    }
}

/// Converts an error of the predictor, with a hint.
fn prediction_failure(known: &KnownDocuments, error: PredictError) -> Failure {
    let failure = Failure::new(&error);
    match error {
        PredictError::NotMeasured { node, .. } if memory_only(known).contains(node) => failure.hint(format!(
            "node {node} has no CPUs; measure it with numaio bench disk --cpu-nodes K --memory-nodes {node}"
        )),
        PredictError::NotMeasured { .. } => failure
            .hint("measure every node with numaio bench --exhaustive, or classify nodes with numaio model"),
        PredictError::LoadUnknown { .. } => failure
            .hint("run numaio stream, or measure the device under another load with numaio bench --load K:N"),
        PredictError::NoStreams | PredictError::TooMany { .. } => Failure::usage(error),
        PredictError::NothingMeasured { .. } => failure,
    }
}

fn prediction(
    args: &PredictArgs,
    known: &KnownDocuments,
    records: &[&IoRecord],
    loaded_records: &[&IoRecord],
) -> Result<IoPrediction, Failure> {
    let fit = fit(args, known, records)?;
    let loaded = args.load.is_some().then(|| under_load(args, known, &fit, loaded_records)).transpose()?;
    let mix = match args.mix.is_empty() {
        true => None,
        false => {
            Some(numaio_model::predict(&fit, &args.mix).map_err(|error| prediction_failure(known, error))?)
        }
    };
    let best = args.best.map(|streams| numaio_model::best_mix(&fit, streams));
    let best = best.transpose().map_err(|error| prediction_failure(known, error))?;
    let add_measurement =
        |mix: MixPrediction| match numaio_model::find_measured_mix(records, &fit.capacities, &mix.streams) {
            Some(reading) => numaio_model::with_measurement(mix, reading),
            None => mix,
        };
    let (mix, best) = (mix.map(add_measurement), best.map(add_measurement));
    let suggested = args.suggest.then(|| suggest(args, known, records, &fit)).transpose()?;
    let newest = records.iter().map(|record| record.provenance.measured_at).max();
    Ok(IoPrediction {
        schema: PREDICTION_SCHEMA.to_owned(),
        numaio: env!("CARGO_PKG_VERSION").to_owned(),
        machine: known.machine.clone(),
        measured_at: newest.unwrap_or(0),
        capacities: fit.capacities,
        mix,
        best,
        loaded,
        suggested,
        warnings: prediction_inputs::warnings(records.iter().map(|record| ("I/O", &record.provenance))),
    })
}

/// Predicts the mix beside the loads, with what was measured under them.
fn under_load(
    args: &PredictArgs,
    known: &KnownDocuments,
    fit: &DeviceFit,
    loaded: &[&IoRecord],
) -> Result<LoadedPrediction, Failure> {
    check_loads(known, loads(args))?;
    let measured = numaio_model::find_mix_under_load(loaded, &fit.capacities, &args.mix, loads(args));
    // The mix itself is not learned from, so that its error is that of a prediction.
    let is_other = |record: &&&IoRecord| {
        !numaio_model::is_under(record, loads(args))
            || numaio_model::find_measured_mix(&[**record], &fit.capacities, &args.mix).is_none()
    };
    let others: Vec<&IoRecord> = loaded.iter().filter(is_other).copied().collect();
    let inputs = LoadInputs { loads: loads(args), loaded: &others, streams: &known.streams };
    let mut predicted = numaio_model::predict_under_load(fit, &args.mix, &inputs)
        .map_err(|error| prediction_failure(known, error))?;
    if let Some(reading) = measured {
        predicted.mix = numaio_model::with_measurement(predicted.mix, reading);
    }
    Ok(predicted)
}

/// Rejects loads on nodes that the machine does not have.
fn check_loads(known: &KnownDocuments, loads: &[Load]) -> Result<(), Failure> {
    let Some(topology) = &known.topology else { return Ok(()) };
    let (with_cpus, with_memory) = (topology.cpu_nodes(), topology.memory_nodes());
    for load in loads {
        let Load::Stream { cpu_node, memory_node, .. } = load else { continue };
        if !with_cpus.contains(*cpu_node) {
            let message = format!("there is no node {cpu_node} with CPUs; nodes with CPUs: {with_cpus}");
            return Err(Failure::usage(message));
        }
        if !with_memory.contains(*memory_node) {
            let message =
                format!("there is no node {memory_node} with memory; nodes with memory: {with_memory}");
            return Err(Failure::usage(message));
        }
    }
    Ok(())
}

fn print(common: &Common, args: &PredictArgs, prediction: &IoPrediction) -> Result<(), Failure> {
    let text = match args.json {
        true => json(prediction)?,
        false => numaio_report::prediction_text(prediction, &output::style(common)),
    };
    match &args.output {
        Some(path) => output::write(path, &text).map(|_| ()),
        None => output::print(&text),
    }
}
