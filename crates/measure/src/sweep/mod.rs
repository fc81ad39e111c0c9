//! Sweep campaign: a program of the user, bound to each pair of CPUs and memory node, after
//! Braithwaite et al. (2012, section 3.2.3).

mod figure;

pub use figure::{Figure, FigureError};

use crate::cells::choose_cpus;
use crate::engine::{failed, VisitFigures};
use crate::options::{CampaignError, Threads};
use crate::pairs::{distance, Pairs};
use crate::rounds::{self, Measured, NodeCell, Rule, StopReason, VisitOutcome, Visits};
use crate::setting::{Event, Setting};
use crate::warnings::{self, WarningContext};
use numaio_machine::ids::NodeId;
use numaio_machine::probe::{ProbeError, ProbeExt};
use numaio_machine::set::{CpuSet, NodeSet};
use numaio_machine::topology::Topology;
use numaio_machine::workload::{Placement, ProgramWorkload, Workload};
use numaio_schema::{
    BuildFigure, Quantity, SweepCell, SweepClasses, SweepMethod, SweepRecord, SweepScope, Warning,
    SWEEP_SCHEMA,
};

/// Options of a sweep.
#[derive(Debug, Clone)]
pub struct SweepOptions {
    /// Name of the sweep.
    pub name: String,
    /// Builds of the program with their arguments; at least one.
    pub builds: Vec<Vec<String>>,
    /// The figure of a run.
    pub figure: Figure,
    /// Quantity of the figures.
    pub quantity: Quantity,
    /// Unit of scores and costs, for displays.
    pub unit: String,
    /// Factor from the program's unit to that of the record.
    pub scale: f64,
    /// CPUs of a cell.
    pub scope: SweepScope,
    /// Limits pairs to those with one of these nodes, its row and its column; every pair if empty.
    pub around: NodeSet,
    /// Time limit of one run, in seconds.
    pub run_limit_s: f64,
    /// Stopping rule.
    pub rule: Rule,
}

/// Measures the selected pairs. Pairs that cannot be measured record the reason.
///
/// # Errors
/// [`CampaignError`] if no pair has a result. After an interrupt, the record contains the
/// measurements so far and is marked incomplete.
pub fn run(
    setting: &Setting,
    options: &SweepOptions,
    report: &mut dyn FnMut(&Event),
) -> Result<SweepRecord, CampaignError> {
    let topology = setting.topology;
    let pairs = Pairs::new(topology, &options.around)?;
    let places = places(topology, &pairs, options.scope)?;
    let mut warnings = left_out(topology, &options.around);
    let before = setting.conditions();
    let runs = runs(&places, options);
    let tasks = runs.iter().map(|run| run.task(Workload::Program, alike(run, topology, options))).collect();
    let visit = |_: usize, workload: &Workload| visit(setting, options, workload);
    let visits = Visits { visit: &visit, is_exhausted: &|| false };
    let finished = rounds::run_by(setting, &options.rule, tasks, 0, &visits, report);
    if let Some(why) = finished.nothing() {
        return Err(nothing(why));
    }
    let after = setting.conditions();
    let nodes = topology.memory_nodes().len();
    warnings.extend(warnings::of_conditions(&before, &after, finished.busy_mhz, nodes));
    let time_is_up = finished.stop_reason == Some(StopReason::TimeLimit);
    warnings.extend(reading_warnings(&finished.measured, &runs, options, time_is_up));
    let method = method(options, finished.rounds(&options.rule));
    let is_interrupted = finished.stop_reason == Some(StopReason::Interrupt);
    let cells = best_builds(topology, &places, finished.measured, options);
    let complete = !is_interrupted && cells.iter().all(|cell| cell.figure.settled);
    let provenance = setting.provenance((before, after), warnings, complete);
    let classes = SweepClasses::default();
    Ok(SweepRecord { schema: SWEEP_SCHEMA.to_owned(), provenance, method, cells, classes })
}

/// Why a program that does not exist has no figure.
const NO_SUCH_PROGRAM: &str = "no such program";

/// Returns the error if no cell has a figure.
fn nothing(why: ProbeError) -> CampaignError {
    match why {
        ProbeError::Refused { call: program, reason: why } if why == NO_SUCH_PROGRAM => {
            CampaignError::ProgramNotFound { program }
        }
        why => CampaignError::Nothing(why),
    }
}

/// CPUs and memory of a cell.
struct Place {
    cpu_node: NodeId,
    cpus: CpuSet,
    memory: NodeId,
}

/// Returns the cells: every selected pair of a node's CPUs, or of one of its cores, and a memory
/// node.
fn places(topology: &Topology, pairs: &Pairs, scope: SweepScope) -> Result<Vec<Place>, CampaignError> {
    let mut places = Vec::new();
    for cpu_node in pairs.cpu_nodes.iter() {
        let sets = match scope {
            SweepScope::Pairs => vec![choose_cpus(topology, cpu_node, Threads::HardwareThreads)?],
            SweepScope::Cores => {
                choose_cpus(topology, cpu_node, Threads::Cores)?.iter().map(CpuSet::one).collect()
            }
        };
        for cpus in sets {
            let wanted = pairs.memory_nodes.iter().filter(|memory| pairs.wants(cpu_node, *memory));
            places.extend(wanted.map(|memory| Place { cpu_node, cpus: cpus.clone(), memory }));
        }
    }
    match places.is_empty() {
        true => Err(CampaignError::NoTarget),
        false => Ok(places),
    }
}

/// Returns warnings about CPUs and memory that this process may not use.
fn left_out(topology: &Topology, around: &NodeSet) -> Vec<Warning> {
    let mut found = Vec::new();
    let mut warn = |what: String| found.push(Warning { rule: "left-out".to_owned(), message: what });
    let is_wanted = |node: NodeId| around.is_empty() || around.contains(node);
    let offline = topology.cpus.iter().filter(|cpu| !cpu.online).map(|cpu| cpu.id);
    let offline: CpuSet = offline.collect();
    if !offline.is_empty() {
        warn(format!("CPUs {offline} are left out: they are offline"));
    }
    for node in topology.nodes.iter().filter(|node| is_wanted(node.id)) {
        let unusable = node.cpus.difference(&topology.usable_cpus(node.id));
        if !unusable.is_empty() {
            warn(format!("CPUs {unusable} of node {} are left out: this process may not use them", node.id));
        }
        if node.has_memory() && !node.memory_allowed {
            warn(format!("memory of node {} is left out: this process may not use it", node.id));
        }
    }
    found
}

/// Returns the runs: each build in each place, builds of a place in a row.
fn runs(places: &[Place], options: &SweepOptions) -> Vec<NodeCell<ProgramWorkload>> {
    let time_limit_ms = (options.run_limit_s * 1000.0).ceil().clamp(1.0, f64::from(u32::MAX)) as u32;
    let of_place = |place: &Place| {
        let run = |command: &Vec<String>| NodeCell {
            cpu_node: place.cpu_node,
            workload: ProgramWorkload {
                command: command.clone(),
                placement: Placement { cpus: place.cpus.clone() },
                memory: place.memory,
                time_limit_ms,
            },
            impossible: None,
        };
        options.builds.iter().map(run).collect::<Vec<_>>()
    };
    places.iter().flat_map(of_place).collect()
}

/// Returns the key of comparable runs: build and SLIT distance.
fn alike(run: &NodeCell<ProgramWorkload>, topology: &Topology, options: &SweepOptions) -> Option<(u32, u32)> {
    let (cpu_node, memory) = (run.cpu_node, run.workload.memory);
    let build = options.builds.iter().position(|command| *command == run.workload.command)?;
    // Cores of one node should be equal on its local memory, too.
    let comparable = cpu_node != memory || options.scope == SweepScope::Cores;
    let distance = distance(topology, cpu_node, memory).filter(|_| comparable)?;
    Some((build as u32, distance))
}

/// Runs the program once.
fn visit(setting: &Setting, options: &SweepOptions, workload: &Workload) -> Result<VisitOutcome, ProbeError> {
    let Workload::Program(program) = workload else { return Err(ProbeError::OtherOutcome) };
    let outcome = setting.probe.program(program).map_err(|error| match error {
        ProbeError::Unsupported { feature: what } => failed(&what, NO_SUCH_PROGRAM.to_owned()),
        error => error,
    })?;
    let figure = options.figure.read(program.program(), &outcome)? * options.scale;
    let figures = VisitFigures {
        groups: vec![vec![figure]],
        elapsed_ns: outcome.elapsed_ns,
        residency: outcome.residency,
        ..VisitFigures::default()
    };
    VisitOutcome::from_figures(&figures).with_figure(workload)
}

/// Returns the cells, each with its best build.
fn best_builds(
    topology: &Topology,
    places: &[Place],
    measured: Vec<Measured>,
    options: &SweepOptions,
) -> Vec<SweepCell> {
    let mut measured = measured.into_iter();
    let mut cells = Vec::new();
    for place in places {
        let mut builds: Vec<BuildFigure> = (0..)
            .zip(measured.by_ref().take(options.builds.len()))
            .map(|(build, measured)| BuildFigure { build, figure: measured.reading })
            .collect();
        let best = best(&builds, options.quantity);
        let BuildFigure { build, figure } = builds.remove(best);
        cells.push(SweepCell {
            cpu_node: place.cpu_node,
            memory_node: place.memory,
            placement: Placement { cpus: place.cpus.clone() },
            same_package: place.cpu_node == place.memory
                || topology.neighbors(place.cpu_node).contains(place.memory),
            build,
            figure,
            other_builds: builds,
        });
    }
    cells
}

/// Returns the index of the best build; the first one if none has a figure.
fn best(builds: &[BuildFigure], quantity: Quantity) -> usize {
    let quality = |index: &usize| {
        let median = builds[*index].figure.median();
        median.map_or(f64::NEG_INFINITY, |median| if quantity.more_is_better() { median } else { -median })
    };
    // The first of equal ones.
    (0..builds.len()).rev().max_by(|a, b| quality(a).total_cmp(&quality(b))).unwrap_or(0)
}

fn reading_warnings(
    measured: &[Measured],
    runs: &[NodeCell<ProgramWorkload>],
    options: &SweepOptions,
    time_is_up: bool,
) -> Vec<Warning> {
    let name = |index: usize| {
        let (run, several) = (&runs[index], options.builds.len() > 1);
        let build = if several { format!("{} ", run.workload.program()) } else { String::new() };
        let (cpus, memory) = (&run.workload.placement.cpus, run.workload.memory);
        match options.scope {
            SweepScope::Pairs => format!("{build}by node {} on {memory}", run.cpu_node),
            SweepScope::Cores => format!("{build}by CPU {cpus} on {memory}"),
        }
    };
    let context = WarningContext { quantity: "the figure", time_is_up, wanted_huge: false };
    let mut found = warnings::of_readings(measured, &name, &context);
    for warning in found.iter_mut().filter(|warning| warning.rule == "residency-unchecked") {
        warning.message =
            "the nodes of pages were not checked in all runs: the program exited before, or the kernel does not \
             report them"
                .to_owned();
    }
    found
}

fn method(options: &SweepOptions, rounds: numaio_schema::Rounds) -> SweepMethod {
    SweepMethod {
        name: options.name.clone(),
        builds: options.builds.clone(),
        figure: options.figure.source().clone(),
        quantity: options.quantity,
        unit: options.unit.clone(),
        scope: options.scope,
        run_limit_s: options.run_limit_s,
        rounds,
    }
}
