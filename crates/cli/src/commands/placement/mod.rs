//! What `place` and `run` share: what to be near, and the plan that follows.

mod devices;
mod plan_file;

pub use devices::devices_of;
pub use plan_file::{read, read_transfer};

use super::measuring::{self, MeasuredMachine};
use crate::args::{Common, Directions};
use crate::failure::Failure;
use crate::machine::Machine;
use crate::store::Kind;
use crate::{documents, input, output};
use clap::Args;
use numaio_machine::interleave;
use numaio_machine::near::Handle;
use numaio_machine::topology::Topology;
use numaio_machine::units::{format_size, parse_size};
use numaio_measure::Options;
use numaio_model::PlacementError;
use numaio_schema::{Document, Model, PlacementHint, PlacementPlan, PlacementRequest, PLACEMENT_SCHEMA};
use std::path::{Path, PathBuf};

/// What to be near, and how.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Placement")]
pub struct PlacementArgs {
    /// What the tasks are to be near; may be repeated
    ///
    /// A device (eth0, nvme0n1, mlx5_0, 0000:3b:00.0, cuda:0), a path (/data/set1, file:NAME), another machine
    /// (host:NAME) or a process (pid:N); numaio near shows what each leads to.
    #[arg(long, value_name = "HANDLE")]
    pub near: Vec<Handle>,
    /// The direction that matters: write (memory to device), read (device to memory) or both
    #[arg(long, value_name = "DIRECTION", default_value = "both")]
    pub direction: Directions,
    /// Use all nodes of the best class, in proportion to their cores, in place of the best node first
    #[arg(long)]
    pub spread: bool,
    /// Place this many tasks, each on cores of its own; without it one program gets all good cores
    #[arg(long, value_name = "N")]
    pub tasks: Option<u32>,
    /// Cores of each task
    #[arg(long, value_name = "N", default_value = "1", requires = "tasks")]
    pub cores: u32,
    /// What the tasks want most: bandwidth to the device, latency, or cpu (away from the device)
    #[arg(long, value_name = "HINT", default_value = "bandwidth")]
    pub hint: PlacementHint,
    /// Memory on the chosen nodes or none: fail where it does not suffice
    #[arg(long)]
    pub strict: bool,
    /// Pages in turn on all nodes with memory (DRAM, HBM, CXL), by the kernel's weights: for programs wider than one
    /// node's bandwidth
    ///
    /// numaio export --format weights --apply sets the weights by measured bandwidths. Kernels before Linux 6.9
    /// interleave without weights.
    #[arg(long, conflicts_with = "strict")]
    pub weights: bool,
    /// Memory that each task needs, as in 8G: nodes must have it free
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub needs: Option<u64>,
    /// A model in place of the newest that is saved of this machine and not interrupted
    #[arg(long, value_name = "FILE")]
    pub model: Option<PathBuf>,
}

impl PlacementArgs {
    /// One program near one thing.
    pub fn of(near: Handle, direction: Directions) -> Self {
        Self {
            near: vec![near],
            direction,
            spread: false,
            tasks: None,
            cores: 1,
            hint: PlacementHint::Bandwidth,
            strict: false,
            weights: false,
            needs: None,
            model: None,
        }
    }
}

/// Makes the plan that was asked for.
pub fn plan(
    common: &Common,
    machine: &Machine,
    topology: &Topology,
    args: &PlacementArgs,
) -> Result<PlacementPlan, Failure> {
    if args.near.is_empty() {
        return Err(Failure::usage("nothing to be near was named")
            .hint("name a device by --near, as in --near eth0; numaio topology lists them"));
    }
    let request = PlacementRequest {
        near: args.near.iter().map(ToString::to_string).collect(),
        tasks: args.tasks,
        cores_per_task: args.cores,
        direction: args.direction.one(),
        spread: args.spread,
        hint: args.hint,
        strict: args.strict,
        weights: args.weights,
    };
    let mut near = Vec::new();
    for handle in &args.near {
        near.extend(devices_of(machine, topology, handle)?);
    }
    let models = models(common, machine, topology, args.model.as_deref())?;
    let models: Vec<&Model> = models.iter().collect();
    let chosen =
        numaio_model::choose_placement(topology, &near, &models, &request).map_err(placement_failure)?;
    let mut plan = PlacementPlan {
        schema: PLACEMENT_SCHEMA.to_owned(),
        numaio: env!("CARGO_PKG_VERSION").to_owned(),
        made_at: machine.time(),
        machine: topology.identity.clone(),
        source: machine.source(),
        request,
        targets: chosen.targets,
        tasks: chosen.tasks,
        reasons: chosen.reasons,
        rejected: chosen.rejected,
        compromises: chosen.compromises,
    };
    check_free_memory(topology, args, &mut plan)?;
    plan.compromises.extend(Some(args.weights).filter(|asked| *asked).and_then(|_| weights_note(machine)));
    Ok(plan)
}

fn placement_failure(why: PlacementError) -> Failure {
    let failure = Failure::new(&why);
    match why {
        PlacementError::TooManyTasks { .. } => failure
            .hint("ask for fewer --tasks or --cores, or widen the cpuset or container that this runs in"),
        PlacementError::NoTasks(..) | PlacementError::NoTarget => Failure::usage(&why),
        PlacementError::NoNode => failure.hint("widen the cpuset or container that this runs in"),
    }
}

/// Checks that memory suffices: an error if the place is strict, said otherwise.
fn check_free_memory(
    topology: &Topology,
    args: &PlacementArgs,
    plan: &mut PlacementPlan,
) -> Result<(), Failure> {
    let Some(each) = args.needs else { return Ok(()) };
    for node in topology.memory_nodes().iter() {
        let here = plan.tasks.iter().filter(|task| task.memory.nodes.contains(node));
        let wanted: u64 = here.map(|task| each / task.memory.nodes.len().max(1) as u64).sum();
        let memory = topology.node(node).and_then(|node| node.memory);
        let free = memory.map_or(0, |memory| memory.free_bytes.saturating_add(memory.reclaimable_bytes));
        if wanted <= free {
            continue;
        }
        let what = format!(
            "node {node} has {} free, and the tasks there need {}",
            format_size(free),
            format_size(wanted)
        );
        if args.strict {
            return Err(Failure::new(what).hint("leave out --strict, ask for fewer tasks, or use --spread"));
        }
        plan.compromises.push(format!("{what}: what does not fit goes to other nodes"));
    }
    Ok(())
}

/// What is to say of the kernel's weights; nothing if some node has more than another.
fn weights_note(machine: &Machine) -> Option<String> {
    let weights = match interleave::read(machine) {
        None => {
            return Some(
                "this kernel has no weighted interleave: pages lie in turn, alike on all nodes".to_owned(),
            )
        }
        Some(interleave) => interleave.weights,
    };
    let first = weights.values().next()?;
    (weights.len() > 1 && weights.values().all(|weight| weight == first)).then(|| {
        "the kernel's weights are alike for all nodes: numaio export --format weights --apply sets those that were \
         measured"
            .to_owned()
    })
}

/// Models of this machine: the one given, those that are saved, or what a tape holds.
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
                format!("it is a model of machine {found}, and this is {fingerprint}"),
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
            Err(failure) => output::remark(common, &format!("{} is passed over", failure.message)),
        }
    }
    if models.is_empty() && matches!(machine, Machine::Recorded(_)) {
        models.extend(model_from_tape(common, machine, topology));
    }
    Ok(models)
}

/// The model that a tape holds, if copies are on it.
fn model_from_tape(common: &Common, machine: &Machine, topology: &Topology) -> Option<Model> {
    let now = machine.time();
    let setting = MeasuredMachine { root: machine, probe: machine, topology, source: machine.source() };
    let asked = Options { targets: topology.cpu_nodes(), seed: now, ..Options::default() };
    let quiet = Common { quiet: true, ..common.clone() };
    let record = measuring::measure(&quiet, setting, now, &asked).ok()?;
    Some(numaio_model::fit(record, topology, numaio_model::ClassOptions::default()))
}
