//! Plans from files, as places on this machine.

use super::devices;
use crate::failure::Failure;
use crate::input;
use crate::machine::Machine;
use numaio_machine::topology::Topology;
use numaio_model::{PlacementChoice, TargetDevice};
use numaio_schema::{Document, PlacementPlan, PlacementRequest, Plan, PLACEMENT_SCHEMA};
use std::collections::BTreeSet;
use std::path::Path;

/// Where plans come from.
const PLANS: &str = "numaio place --json and numaio plan --json write such files";

/// A plan from a file, if it is this machine's: of tasks as it stands there, of a transfer as one program on the
/// cores of its threads.
pub fn read(machine: &Machine, topology: &Topology, path: &Path) -> Result<PlacementPlan, Failure> {
    let text = input::read_text(path)?;
    let plan = match Document::from_json(&text) {
        Ok(Document::Placement(plan)) => *plan,
        Ok(Document::Plan(plan)) => place_transfer(machine, topology, path, &plan)?,
        Ok(_) => return Err(Failure::file(path, "it is a document of numaio, and no plan").hint(PLANS)),
        Err(error) => return Err(Failure::file(path, error).hint(PLANS)),
    };
    check_machine(topology, path, &plan.machine.fingerprint)?;
    check_places(topology, path, &plan)?;
    Ok(plan)
}

/// The plan of a transfer from a file, if it holds on this machine, and the places of its threads here.
pub fn read_transfer(
    machine: &Machine,
    topology: &Topology,
    path: &Path,
) -> Result<(Plan, PlacementPlan), Failure> {
    let hint = "numaio plan --json writes such files";
    let text = input::read_text(path).map_err(|failure| failure.hint(hint))?;
    let plan = match Document::from_json(&text) {
        Ok(Document::Plan(plan)) => *plan,
        Ok(_) => return Err(Failure::file(path, "it is no plan of a transfer").hint(hint)),
        Err(error) => return Err(Failure::file(path, error).hint(hint)),
    };
    let places = place_transfer(machine, topology, path, &plan)?;
    check_places(topology, path, &places)?;
    Ok((plan, places))
}

fn check_machine(topology: &Topology, path: &Path, found: &str) -> Result<(), Failure> {
    let here = &topology.identity.fingerprint;
    match found == here {
        true => Ok(()),
        false => Err(Failure::file(path, format!("it is a plan for machine {found}, and this is {here}")).hint(
            "a plan holds on the machine, and the shape of it, for which it was made: make it anew by numaio place or plan",
        )),
    }
}

fn check_places(topology: &Topology, path: &Path, plan: &PlacementPlan) -> Result<(), Failure> {
    let stale = |what: String| {
        Err(Failure::file(path, format!("it is stale: {what}")).hint("make it anew by numaio place"))
    };
    let usable = |cpu| topology.cpu(cpu).is_some_and(|cpu| cpu.online && cpu.allowed);
    let unusable = plan.tasks.iter().flat_map(|task| task.cpus.iter()).find(|cpu| !usable(*cpu));
    if let Some(cpu) = unusable {
        return stale(format!("CPU {cpu} is offline, or not ours to use"));
    }
    let mut nodes = plan.tasks.iter().flat_map(|task| task.memory.nodes.iter());
    let usable = |node| topology.node(node).is_some_and(|node| node.memory.is_some() && node.memory_allowed);
    match nodes.find(|node| !usable(*node)) {
        Some(node) => stale(format!("node {node} has no memory that is ours to use")),
        None => Ok(()),
    }
}

/// The places of a transfer's plan. A problem that was written by hand names no machine; its nodes are this one's.
fn place_transfer(
    machine: &Machine,
    topology: &Topology,
    path: &Path,
    plan: &Plan,
) -> Result<PlacementPlan, Failure> {
    let hint = "make it anew by numaio plan --json";
    numaio_model::check_plan(plan).map_err(|error| Failure::file(path, error).hint(hint))?;
    let identity = plan.problem.machine.as_ref().unwrap_or(&topology.identity);
    check_machine(topology, path, &identity.fingerprint)?;
    let names = device_names(plan);
    let near: Vec<TargetDevice> = names.iter().filter_map(|name| devices::find(topology, name)).collect();
    let PlacementChoice { targets, tasks, reasons, rejected, mut compromises } =
        numaio_model::place_plan(topology, plan, &near)
            .map_err(|error| Failure::file(path, error).hint(hint))?;
    if plan.problem.machine.is_none() {
        compromises.push("the plan names no machine: its nodes are taken for this one's".to_owned());
    }
    let missing = names.iter().filter(|name| near.iter().all(|near| near.device != **name));
    compromises.extend(missing.map(|name| format!("this machine has no device {name:?} of the plan")));
    Ok(PlacementPlan {
        schema: PLACEMENT_SCHEMA.to_owned(),
        numaio: plan.numaio.clone(),
        made_at: machine.time(),
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

/// Devices that the plan uses.
fn device_names(plan: &Plan) -> BTreeSet<String> {
    let pools = plan.pools();
    pools.fills.into_iter().chain(pools.drains).flat_map(|pool| pool.devices).collect()
}
