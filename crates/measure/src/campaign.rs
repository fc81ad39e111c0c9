//! Copy campaign: Algorithm 1 of Li et al. (ICPP 2013), in rounds.

use crate::cells::Target;
use crate::options::{CampaignError, Options};
use crate::rounds::{self, Finished, Measured, NodeCell, StopReason};
use crate::setting::{Event, Setting};
use crate::sizes::caches_assumed;
use crate::trial::{self, Trial};
use crate::warnings::{self, WarningContext};
use numaio_machine::ids::NodeId;
use numaio_machine::probe::ProbeError;
use numaio_machine::topology::Topology;
use numaio_machine::units::format_size;
use numaio_machine::workload::{CopyLoop, CopyWorkload, Flow, Pages, Sampling, Workload};
use numaio_schema::{Cell, Method, Reading, Record, Visit, Warning, RECORD_SCHEMA};

/// Measures every target. Cells that cannot be measured record the reason.
///
/// # Errors
/// [`CampaignError`] if no cell has a result. After an interrupt, the record contains the
/// measurements so far and is marked incomplete.
pub fn run(
    setting: &Setting,
    options: &Options,
    report: &mut dyn FnMut(&Event),
) -> Result<Record, CampaignError> {
    let (targets, mut warnings) = prepare(setting.topology, options)?;
    let before = setting.conditions();
    let trial = choose_loop(setting, options, &targets).map_err(CampaignError::Nothing)?;
    report(&Event::LoopChosen(trial.chosen));
    let copies = copies(setting.topology, options, &targets, &trial);
    let tasks = copies.iter().map(|copy| copy.task(Workload::Copy, alike(copy, setting.topology))).collect();
    let mut finished = rounds::run(setting, &options.rule(), tasks, trial.elapsed_ns, report);
    if let Some(why) = finished.nothing() {
        return Err(CampaignError::Nothing(why));
    }
    let after = setting.conditions();
    let nodes = setting.topology.memory_nodes().len();
    let complete = finished.complete() && warnings_allow(&warnings);
    warnings.extend(warnings::of_conditions(&before, &after, finished.busy_mhz, nodes));
    let context = WarningContext {
        quantity: "bandwidth",
        time_is_up: finished.stop_reason == Some(StopReason::TimeLimit),
        wanted_huge: options.pages == Pages::Transparent,
    };
    let name = |index: usize| copies[index].workload.flow.to_string();
    warnings.extend(warnings::of_readings(&finished.measured, &name, &context));
    let method = method(options, &targets, &trial, &finished);
    let measured = std::mem::take(&mut finished.measured);
    let cells =
        copies.into_iter().zip(measured).map(|(copy, measured)| measured_cell(copy, measured)).collect();
    let provenance = setting.provenance((before, after), warnings, complete);
    Ok(Record { schema: RECORD_SCHEMA.to_owned(), provenance, method, cells })
}

/// Tries copy loops on the first node that can be a target, regardless of the requested ones, so
/// that a tape of all targets contains the trial of each. If that node cannot be measured, tries
/// the requested targets.
fn choose_loop(
    setting: &Setting,
    options: &Options,
    targets: &[Target],
) -> Result<Trial<CopyLoop>, ProbeError> {
    let topology = setting.topology;
    let first = topology.cpu_nodes().iter().find_map(|node| Target::new(topology, node, options).ok());
    let first = first.filter(|first| !targets.contains(first));
    trial::first_that_works(
        first.iter().chain(targets).map(|place| trial::copy(setting.probe, topology, place, options)),
    )
}

/// Returns whether no requested target was left out, which would make the record incomplete.
fn warnings_allow(warnings: &[Warning]) -> bool {
    warnings.iter().all(|warning| warning.rule != "target-left-out")
}

/// Prepares the measurable targets, with a warning for each other one; fails if there are none.
fn prepare(topology: &Topology, options: &Options) -> Result<(Vec<Target>, Vec<Warning>), CampaignError> {
    let mut targets = Vec::new();
    let mut warnings = Vec::new();
    let mut first_error = None;
    for node in options.targets.iter() {
        match Target::new(topology, node, options) {
            Ok(target) => {
                if target.cache_assumed {
                    warnings.push(caches_assumed(node));
                }
                if target.possibly_cached {
                    let size = format_size(target.bytes_per_thread);
                    let what = format!(
                        "node {node}: buffers of {size} per thread are smaller than four times the last-level \
                         cache, so values may be those of the cache"
                    );
                    warnings.push(Warning { rule: "possibly-cached".into(), message: what });
                }
                targets.push(target);
            }
            Err(error) => {
                let what = format!("node {node} is left out: {error}");
                warnings.push(Warning { rule: "target-left-out".into(), message: what });
                first_error.get_or_insert(error);
            }
        }
    }
    if targets.is_empty() {
        return Err(first_error.unwrap_or(CampaignError::NoTarget));
    }
    Ok((targets, warnings))
}

/// Returns the cells of all targets.
fn copies(
    topology: &Topology,
    options: &Options,
    targets: &[Target],
    trial: &Trial<CopyLoop>,
) -> Vec<NodeCell<CopyWorkload>> {
    let allowed = |node: &NodeId| topology.node(*node).is_some_and(|node| node.memory_allowed);
    let nodes = topology.memory_nodes().iter().filter(allowed).collect();
    let copy = |target: &Target, flow: Flow| {
        let sampling = match options.repetitions {
            Some(count) => Sampling::Repetitions { count },
            None => trial::one_sweep(target.bytes_of_all(), trial.per_s),
        };
        let workload = target.workload(flow, trial.chosen, options.pages, sampling);
        NodeCell { cpu_node: target.node, workload, impossible: None }
    };
    let copies = targets.iter().flat_map(|target| {
        target.flows(&nodes, &options.directions).into_iter().map(move |flow| copy(target, flow))
    });
    copies.collect()
}

/// Returns the key of comparable cells: device write or read, and SLIT distance; none for the
/// local cell.
fn alike(copy: &NodeCell<CopyWorkload>, topology: &Topology) -> Option<(u32, u32)> {
    let (target, flow) = (copy.cpu_node, copy.workload.flow);
    let write = flow.sink == target;
    let other = if write { flow.source } else { flow.sink };
    let distance = topology.distances.as_ref()?.between(target, other)?;
    (other != target).then_some((u32::from(write), distance))
}

fn measured_cell(copy: NodeCell<CopyWorkload>, measured: Measured) -> Cell {
    let Reading { visits, summary, settled, failure } = measured.reading;
    let visits = visits.into_iter().map(|visit| Visit {
        round: visit.round,
        bytes_copied_per_s: visit.median,
        min_bytes_copied_per_s: visit.min,
        max_bytes_copied_per_s: visit.max,
        samples: visit.samples,
        start_skew_ns: visit.start_skew_ns,
        residency: visit.residency,
        excluded: visit.excluded,
    });
    Cell {
        target: copy.cpu_node,
        flow: copy.workload.flow,
        placement: copy.workload.placement,
        visits: visits.collect(),
        bytes_copied_per_s: summary,
        settled,
        failure,
    }
}

fn method(options: &Options, targets: &[Target], trial: &Trial<CopyLoop>, finished: &Finished) -> Method {
    let rounds = finished.rounds(&options.rule());
    Method {
        copy_loop: trial.chosen,
        trials: trial::loop_trials(&trial.trials),
        c_library: trial.c_library.clone(),
        bus_bytes_per_byte: trial.chosen.bus_bytes_per_byte(),
        bytes_per_thread: targets.iter().map(|target| (target.node, target.bytes_per_thread)).collect(),
        pages: options.pages,
        repetitions: options.repetitions,
        precision: rounds.precision,
        time_limit_s: rounds.time_limit_s,
        elapsed_s: rounds.elapsed_s,
        seed: rounds.seed,
        rounds: rounds.rounds,
    }
}
