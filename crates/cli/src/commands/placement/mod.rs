//! Placement arguments and plans, shared by `place`, `run` and other commands.

mod devices;
mod plan_file;

pub use devices::{devices_of, find as find_device};
pub use plan_file::{parse_transfer, read, read_transfer};

use super::measuring::{self, MeasuredMachine};
use super::tape_io;
use crate::failure::Failure;
use crate::machine::Machine;
use crate::options::{integer, Common, Directions};
use crate::store::Kind;
use crate::{documents, input, output};
use clap::{Args, ValueEnum};
use numaio_machine::devices::Device;
use numaio_machine::interleave;
use numaio_machine::near::Handle;
use numaio_machine::topology::Topology;
use numaio_machine::units::{format_size, parse_size};
use numaio_measure::Options;
use numaio_model::{BandwidthEvidence, PlacementError, RankingSources};
use numaio_schema::{
    CoreOrder, CounterRecord, Document, IoRecord, MachineExpectation, Model, PlacementHint, PlacementPlan,
    PlacementRequest, PlacementTarget, PLACEMENT_SCHEMA,
};
use std::path::{Path, PathBuf};

/// Placement arguments.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Placement")]
pub struct PlacementArgs {
    /// Place the tasks near this device, path, host or process; may be repeated
    ///
    /// A device (eth0, nvme0n1, mlx5_0, 0000:3b:00.0, cuda:0), a path (/data/set1, file:NAME),
    /// another machine (host:NAME) or a process (pid:N). numaio near shows the devices behind a
    /// handle.
    #[arg(long, value_name = "HANDLE")]
    pub near: Vec<Handle>,
    /// Count the devices of this handle as transferring at the same time; may be repeated
    ///
    /// They share paths and links with those of --near. pid:N names the devices that a process uses
    /// now.
    #[arg(long, value_name = "HANDLE")]
    pub with: Vec<Handle>,
    /// Direction to optimize: write (memory to device), read (device to memory) or both
    #[arg(long, value_name = "DIRECTION", default_value = "both")]
    pub direction: Directions,
    /// Use all nodes of the best class, in proportion to their cores, instead of the best node
    /// first
    #[arg(long)]
    pub spread: bool,
    /// Number of tasks, each on separate cores; default: one program on all good cores
    #[arg(long, value_name = "N", value_parser = integer(0..=u32::MAX))]
    pub tasks: Option<u32>,
    /// Cores of each task
    #[arg(long, value_name = "N", default_value = "1", value_parser = integer(0..=u32::MAX), requires = "tasks")]
    pub cores: u32,
    /// Resource to optimize: bandwidth to the device, latency, or cpu (away from the device)
    #[arg(long, value_name = "HINT", default_value = "bandwidth")]
    pub hint: PlacementHint,
    /// Allocate memory only on the chosen nodes; allocations fail when they are full
    #[arg(long)]
    pub strict: bool,
    /// Interleave pages over all nodes with memory (DRAM, HBM, CXL), by the kernel's weights
    ///
    /// For programs that need more than the bandwidth of one node. numaio export --format weights
    /// --apply sets the weights from measured bandwidths. Kernels before Linux 6.9 interleave
    /// without weights.
    #[arg(long, conflicts_with = "strict")]
    pub weights: bool,
    /// Cores that come first on a machine with several kinds: fast or efficient
    #[arg(long, value_name = "KIND", default_value = "fast")]
    pub core_kind: CoreOrder,
    /// Keep each task within one last-level cache
    #[arg(long, value_name = "DOMAIN")]
    pub by: Option<CoreDomain>,
    /// Free memory that each task needs, for example 8G
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub needs: Option<u64>,
    /// Use the model in FILE instead of the newest saved, complete model of this machine
    #[arg(long, value_name = "FILE")]
    pub model: Option<PathBuf>,
}

/// A part of a node within which a task is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CoreDomain {
    /// Cores that share a last-level cache
    L3,
}

impl PlacementArgs {
    /// Returns the arguments that place one program near one handle.
    pub fn of(near: Handle, direction: Directions) -> Self {
        Self {
            near: vec![near],
            with: Vec::new(),
            direction,
            spread: false,
            tasks: None,
            cores: 1,
            hint: PlacementHint::Bandwidth,
            strict: false,
            weights: false,
            core_kind: CoreOrder::default(),
            by: None,
            needs: None,
            model: None,
        }
    }
}

/// Computes the requested plan.
///
/// # Errors
/// [`Failure`]: an unresolved handle, an invalid model, or tasks that do not fit.
pub fn plan(
    common: &Common,
    machine: &Machine,
    topology: &Topology,
    args: &PlacementArgs,
) -> Result<PlacementPlan, Failure> {
    if args.near.is_empty() {
        return Err(Failure::usage("--near is missing")
            .hint("name a device, for example --near eth0; numaio topology lists them"));
    }
    let request = PlacementRequest {
        near: args.near.iter().map(ToString::to_string).collect(),
        tasks: args.tasks,
        cores_per_task: args.cores,
        with: args.with.iter().map(ToString::to_string).collect(),
        direction: args.direction.one(),
        spread: args.spread,
        hint: args.hint,
        strict: args.strict,
        weights: args.weights,
        core_order: args.core_kind,
        by_cache: args.by.is_some(),
    };
    let mut near = Vec::new();
    for handle in &args.near {
        near.extend(devices_of(machine, topology, handle)?);
    }
    let models = models(common, machine, topology, args.model.as_deref())?;
    let models: Vec<&Model> = models.iter().collect();
    let counters = factors(common, topology);
    let io = tape_io::measured(common, machine, topology)?;
    let records: Vec<&IoRecord> = io.iter().collect();
    let beside = devices_beside(machine, topology, &args.with)?;
    let latencies = latencies(common, topology);
    let latencies: Vec<&Document> = latencies.iter().collect();
    let sources = RankingSources {
        models: &models,
        records: &records,
        beside: &beside,
        latencies: &latencies,
        counters: counters.as_ref(),
    };
    let chosen =
        numaio_model::choose_placement(topology, &near, sources, &request).map_err(placement_failure)?;
    let mut plan = PlacementPlan {
        schema: PLACEMENT_SCHEMA.to_owned(),
        numaio: env!("CARGO_PKG_VERSION").to_owned(),
        created_at: machine.time(),
        machine: topology.identity.clone(),
        source: machine.source(),
        request,
        targets: chosen.targets,
        tasks: chosen.tasks,
        reasons: chosen.reasons,
        rejected: chosen.rejected,
        compromises: chosen.compromises,
    };
    plan.reasons.extend(interrupt_notes(common, topology, &plan));
    check_free_memory(topology, args, &mut plan)?;
    if args.weights {
        plan.compromises.extend(weights_note(machine));
    }
    Ok(plan)
}

/// Returns the devices of handles that transfer at the same time.
///
/// # Errors
/// [`Failure`]: a handle does not resolve to a device.
fn devices_beside<'a>(
    machine: &Machine,
    topology: &'a Topology,
    handles: &[Handle],
) -> Result<Vec<&'a Device>, Failure> {
    let mut found = Vec::new();
    for handle in handles {
        let names = devices_of(machine, topology, handle)?;
        let is_named = |device: &&Device| names.iter().any(|near| device.has_name(&near.device));
        found.extend(topology.devices.iter().filter(is_named));
    }
    Ok(found)
}

/// Most saved latencies of a kind that are read, newest first: those of a device may be older.
const MAX_LATENCIES: usize = 16;

/// Returns the saved latencies of this machine: of register reads, messages and loads.
fn latencies(common: &Common, topology: &Topology) -> Vec<Document> {
    let kinds = [Kind::Mmio, Kind::Ping, Kind::Latency].into_iter();
    let paths = kinds.flat_map(|kind| documents::saved(common, kind, &topology.identity).take(MAX_LATENCIES));
    paths.filter_map(|path| documents::read(&path).ok()).collect()
}

/// Returns notes about the devices whose interrupts were measured where they are.
fn interrupt_notes(common: &Common, topology: &Topology, plan: &PlacementPlan) -> Vec<String> {
    let records = documents::saved_io(common, Kind::Interrupts, &topology.identity);
    let nodes = plan.tasks.iter().flat_map(|task| task.cpu_nodes.iter()).collect();
    let device =
        |target: &PlacementTarget| topology.devices.iter().find(|device| device.has_name(&target.device));
    let devices = plan.targets.iter().filter_map(device);
    devices.flat_map(|device| numaio_model::interrupt_notes(topology, &records, device, &nodes)).collect()
}

fn placement_failure(error: PlacementError) -> Failure {
    let failure = Failure::new(&error);
    match error {
        PlacementError::TooManyTasks { .. } => {
            failure.hint("request fewer --tasks or --cores, or allow more CPUs in the cpuset or container")
        }
        PlacementError::NoTasks(..) | PlacementError::NoTarget => Failure::usage(&error),
        PlacementError::NoNode => failure.hint("allow more nodes in the cpuset or container"),
    }
}

/// Checks that the nodes have enough free memory. A lack is an error of a strict plan, else a
/// compromise.
fn check_free_memory(
    topology: &Topology,
    args: &PlacementArgs,
    plan: &mut PlacementPlan,
) -> Result<(), Failure> {
    let Some(each) = args.needs else { return Ok(()) };
    for node in topology.memory_nodes().iter() {
        let here = plan.tasks.iter().filter(|task| task.memory.nodes.contains(node));
        let needed: u64 = here.map(|task| each / task.memory.nodes.len().max(1) as u64).sum();
        let memory = topology.node(node).and_then(|node| node.memory);
        let free = memory.map_or(0, |memory| memory.free_bytes.saturating_add(memory.reclaimable_bytes));
        if needed <= free {
            continue;
        }
        let lack =
            format!("node {node} has {} free, but its tasks need {}", format_size(free), format_size(needed));
        if args.strict {
            return Err(Failure::new(lack).hint("omit --strict, request fewer tasks, or use --spread"));
        }
        plan.compromises.push(format!("{lack}: other nodes hold the rest"));
    }
    Ok(())
}

/// Returns a note if the kernel has no weights, or equal ones.
fn weights_note(machine: &Machine) -> Option<String> {
    let weights = match interleave::read(machine) {
        None => {
            return Some(
                "this kernel has no weighted interleave: pages are distributed evenly over all nodes"
                    .to_owned(),
            )
        }
        Some(interleave) => interleave.weights,
    };
    let first = weights.values().next()?;
    (weights.len() > 1 && weights.values().all(|weight| weight == first)).then(|| {
        "the kernel's weights are equal for all nodes: numaio export --format weights --apply sets measured \
         weights"
            .to_owned()
    })
}

/// Returns the models of this machine: the given file, else the saved models, else the model of a
/// tape.
///
/// # Errors
/// [`Failure`]: the given file is not a model of this machine.
pub fn models(
    common: &Common,
    machine: &Machine,
    topology: &Topology,
    given: Option<&Path>,
) -> Result<Vec<Model>, Failure> {
    let fingerprint = &topology.identity.fingerprint;
    if let Some(path) = given {
        let text = input::read_text(path)?;
        let model =
            Model::from_json(&text).map_err(|error| crate::failure::not_a_model(path, &text, &error))?;
        let found = &model.record.provenance.machine.fingerprint;
        if found != fingerprint {
            return Err(Failure::file(
                path,
                format!("the model belongs to machine {found}, not to this machine {fingerprint}"),
            )
            .hint("numaio model measures this machine"));
        }
        return Ok(vec![model]);
    }
    let mut models = Vec::new();
    for path in documents::saved(common, Kind::Model, &topology.identity) {
        match documents::read(&path) {
            Ok(Document::Model(model)) => models.push(*model),
            Ok(_) => {}
            Err(failure) => output::remark(common, &format!("skipped {}", failure.message)),
        }
    }
    if models.is_empty() && matches!(machine, Machine::Recorded(_)) {
        models.extend(model_from_tape(common, machine, topology));
    }
    Ok(models)
}

/// Returns what the devices of a machine can transfer, by its models and measured I/O, newest
/// first.
pub fn expectation(topology: &Topology, models: &[Model], io: &[IoRecord]) -> MachineExpectation {
    let (models, records): (Vec<&Model>, Vec<&IoRecord>) = (models.iter().collect(), io.iter().collect());
    numaio_model::expect_machine(BandwidthEvidence { topology, models: &models, records: &records })
}

/// Returns the newest saved counts of this machine, without load, that have scheduling factors.
pub fn factors(common: &Common, topology: &Topology) -> Option<CounterRecord> {
    let saved = documents::saved(common, Kind::Counters, &topology.identity);
    let read = |path: PathBuf| match documents::read(&path) {
        Ok(Document::Counters(record)) => Some(*record),
        _ => None,
    };
    let is_usable =
        |record: &CounterRecord| record.factors.basis.is_some() && record.provenance.is_fit_for_placement();
    saved.filter_map(read).find(is_usable)
}

/// Fits a model to the copies on a tape, if it contains any.
fn model_from_tape(common: &Common, machine: &Machine, topology: &Topology) -> Option<Model> {
    let now = machine.time();
    let measured = MeasuredMachine::idle(machine, topology);
    let options = Options { targets: topology.cpu_nodes(), seed: now, ..Options::default() };
    let quiet = Common { quiet: true, ..common.clone() };
    let record = measuring::measure(&quiet, measured, now, &options).ok()?;
    Some(numaio_model::fit(record, topology, numaio_model::ClassOptions::default()))
}
