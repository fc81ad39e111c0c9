//! Reads plans from files as placements on this machine.

use super::devices;
use crate::failure::Failure;
use crate::input;
use crate::machine::Machine;
use numaio_machine::topology::Topology;
use numaio_model::{PlacementChoice, TargetDevice};
use numaio_schema::{Document, PlacementPlan, PlacementRequest, Plan, PLACEMENT_SCHEMA};
use std::collections::BTreeSet;
use std::path::Path;

/// Hint for files that are not plans.
const PLAN_HINT: &str = "numaio place --json and numaio plan --json write plans";

/// Reads a plan of this machine: of tasks as stored, of a transfer as one program on the cores of
/// its threads.
///
/// # Errors
/// [`Failure`]: an unreadable or stale plan, or a plan of another machine.
pub fn read(machine: &Machine, topology: &Topology, path: &Path) -> Result<PlacementPlan, Failure> {
    let text = input::read_text(path)?;
    let plan = match Document::from_json(&text) {
        Ok(Document::Placement(plan)) => *plan,
        Ok(Document::Plan(plan)) => place_transfer(machine, topology, path, &plan)?,
        Ok(_) => return Err(Failure::file(path, "the document is not a plan").hint(PLAN_HINT)),
        Err(error) => return Err(Failure::file(path, error).hint(PLAN_HINT)),
    };
    check_machine(topology, path, &plan.machine.fingerprint)?;
    check_tasks(topology, path, &plan)?;
    Ok(plan)
}

/// Where plans of transfers come from.
const TRANSFER_HINT: &str = "numaio plan --json writes plans of transfers";

/// Reads the plan of a transfer on this machine, with the placement of its threads.
///
/// # Errors
/// [`Failure`]: an unreadable or stale plan, or a plan of another machine.
pub fn read_transfer(
    machine: &Machine,
    topology: &Topology,
    path: &Path,
) -> Result<(Plan, PlacementPlan), Failure> {
    let text = input::read_text(path).map_err(|failure| failure.hint(TRANSFER_HINT))?;
    parse_transfer(machine, topology, (path, &text))
}

/// Parses the plan of a transfer on this machine; `path` is where it comes from, for errors.
///
/// # Errors
/// As [`read_transfer`].
pub fn parse_transfer(
    machine: &Machine,
    topology: &Topology,
    (path, text): (&Path, &str),
) -> Result<(Plan, PlacementPlan), Failure> {
    let hint = TRANSFER_HINT;
    let plan = match Document::from_json(text) {
        Ok(Document::Plan(plan)) => *plan,
        Ok(_) => return Err(Failure::file(path, "the document is not a plan of a transfer").hint(hint)),
        Err(error) => return Err(Failure::file(path, error).hint(hint)),
    };
    let placement = place_transfer(machine, topology, path, &plan)?;
    check_tasks(topology, path, &placement)?;
    Ok((plan, placement))
}

fn check_machine(topology: &Topology, path: &Path, found: &str) -> Result<(), Failure> {
    let here = &topology.identity.fingerprint;
    match found == here {
        true => Ok(()),
        false => Err(Failure::file(
            path,
            format!("it is a plan for machine {found}, not for this machine {here}"),
        )
        .hint(
            "a plan is valid only for an unchanged machine: create it again by numaio place or numaio plan",
        )),
    }
}

fn check_tasks(topology: &Topology, path: &Path, plan: &PlacementPlan) -> Result<(), Failure> {
    let stale = |reason: String| {
        Err(Failure::file(path, format!("the plan is stale: {reason}"))
            .hint("create it again by numaio place or numaio plan"))
    };
    let usable = |cpu| topology.cpu(cpu).is_some_and(|cpu| cpu.online && cpu.allowed);
    let unusable = plan.tasks.iter().flat_map(|task| task.cpus.iter()).find(|cpu| !usable(*cpu));
    if let Some(cpu) = unusable {
        return stale(format!("CPU {cpu} is offline or not allowed"));
    }
    let mut nodes = plan.tasks.iter().flat_map(|task| task.memory.nodes.iter());
    let usable = |node| topology.node(node).is_some_and(|node| node.has_memory() && node.memory_allowed);
    match nodes.find(|node| !usable(*node)) {
        Some(node) => stale(format!("node {node} has no allowed memory")),
        None => Ok(()),
    }
}

/// Returns the placement of a transfer's plan. A manually written problem may omit the machine;
/// then its nodes are those of this machine.
fn place_transfer(
    machine: &Machine,
    topology: &Topology,
    path: &Path,
    plan: &Plan,
) -> Result<PlacementPlan, Failure> {
    let hint = "create it again by numaio plan --json";
    numaio_model::check_plan(plan).map_err(|error| Failure::file(path, error).hint(hint))?;
    let identity = plan.problem.machine.as_ref().unwrap_or(&topology.identity);
    check_machine(topology, path, &identity.fingerprint)?;
    let names = device_names(plan);
    let near: Vec<TargetDevice> = names.iter().filter_map(|name| devices::find(topology, name)).collect();
    let PlacementChoice { targets, tasks, reasons, rejected, mut compromises } =
        numaio_model::place_plan(topology, plan, &near)
            .map_err(|error| Failure::file(path, error).hint(hint))?;
    if plan.problem.machine.is_none() {
        compromises
            .push("the plan names no machine: its nodes are interpreted as nodes of this machine".to_owned());
    }
    let missing = names.iter().filter(|name| near.iter().all(|near| near.device != **name));
    compromises.extend(missing.map(|name| format!("device '{name}' of the plan is not on this machine")));
    Ok(PlacementPlan {
        schema: PLACEMENT_SCHEMA.to_owned(),
        numaio: plan.numaio.clone(),
        created_at: machine.time(),
        machine: topology.identity.clone(),
        source: machine.source(),
        request: PlacementRequest {
            near: names.into_iter().collect(),
            spread: true,
            ..PlacementRequest::default()
        },
        targets,
        tasks,
        reasons,
        rejected,
        compromises,
    })
}

/// Returns the names of the devices that the plan uses.
fn device_names(plan: &Plan) -> BTreeSet<String> {
    let pools = plan.pools();
    pools.fills.into_iter().chain(pools.drains).flat_map(|pool| pool.devices).collect()
}
