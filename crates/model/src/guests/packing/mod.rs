//! Guests on the nodes of a host: an exact search for the best placement.
//!
//! A guest gets the fewest nodes that can hold it, its CPUs and memory on the same nodes. Compared
//! are first the least share of its demand that any guest gets (max-min), then the bandwidth of
//! all, then how near the nodes are to the devices.

mod cpus;
mod inputs;
mod instance;
mod search;
mod shortage;
mod simple_plans;
#[cfg(test)]
mod tests;
mod value;

use crate::placement::rank_nodes_among;
pub use inputs::{GuestPlanInputs, GuestTarget};
use instance::{CellShape, Choice, DeviceCapacity, GuestShape, Instance, NodeCapacity};
use numaio_machine::devices::PciAddress;
use numaio_machine::ids::NodeId;
use numaio_machine::set::{CpuSet, NodeSet};
use numaio_schema::{
    GuestBaseline, GuestHostNode, GuestPlacement, GuestPlanDevice, GuestPlanProof, GuestPlanValue,
    GuestRequest, PlacedDemand, PlannedFunction, RequestedCell,
};
use std::collections::BTreeMap;

/// Least share of a path, so that no time of a device is infinite.
const LEAST_SHARE: f64 = 1e-6;

/// Maximum number of guests of a plan.
const MAX_GUESTS: usize = 1000;

/// A plan of guests, without what depends on the user and the time.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedGuests {
    /// The nodes of the host.
    pub nodes: Vec<GuestHostNode>,
    /// The devices.
    pub devices: Vec<GuestPlanDevice>,
    /// The placement of each guest, in the order of the requests.
    pub guests: Vec<GuestPlacement>,
    /// The value of the placement.
    pub value: GuestPlanValue,
    /// An upper bound of all placements.
    pub bound: GuestPlanValue,
    /// Whether it is proven optimal.
    pub proof: GuestPlanProof,
    /// Partial placements examined.
    pub examined: u64,
    /// Simple plans.
    pub baselines: Vec<GuestBaseline>,
    /// Assumptions and compromises.
    pub notes: Vec<String>,
}

/// Error of planning guests.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GuestPlanError {
    /// No guest was named.
    #[error("no guest to place")]
    NoGuest,
    /// Too many guests.
    #[error("{0} guests: expected at most {MAX_GUESTS}")]
    TooManyGuests(usize),
    /// Guests of one name, which a plan cannot distinguish.
    #[error("several guests are named '{0}'")]
    SameName(String),
    /// A guest without CPUs or memory.
    #[error("guest '{name}' has no {what}")]
    Empty {
        /// Its name.
        name: String,
        /// The shortage.
        what: &'static str,
    },
    /// No nodes can hold a guest, even on an empty host.
    #[error("guest '{name}' does not fit: {shortage}")]
    TooLarge {
        /// Its name.
        name: String,
        /// The shortage of the host.
        shortage: String,
    },
    /// Each guest fits, but not all together.
    #[error("the guests do not fit together: {shortage}")]
    DoNotFit {
        /// The shortage of the host.
        shortage: String,
    },
    /// No virtual function is free.
    #[error("no virtual function of '{device}' is free for guest '{guest}'")]
    NoFunction {
        /// The device.
        device: String,
        /// The guest.
        guest: String,
    },
    /// A request names a device that is not among the targets.
    #[error("guest '{guest}' uses '{device}', which is not a device of the host")]
    UnknownDevice {
        /// The guest.
        guest: String,
        /// The device.
        device: String,
    },
}

/// Plans guests, deterministically.
///
/// # Errors
/// [`GuestPlanError`].
pub fn plan_guests(inputs: &GuestPlanInputs) -> Result<PlannedGuests, GuestPlanError> {
    check(inputs.requests)?;
    let cpu_nodes = cpus::cpu_nodes_by_memory(inputs.topology);
    let nodes: NodeSet = cpu_nodes.keys().copied().collect();
    let devices: Vec<GuestPlanDevice> =
        inputs.targets.iter().map(|target| device(inputs, target, &nodes)).collect();
    let slots = cpus::slots(inputs, &devices, &cpu_nodes);
    let kinds = kinds(inputs.requests);
    let mut instance = Instance {
        nodes: slots.keys().copied().collect(),
        capacity: node_capacity(inputs, &slots, &kinds),
        devices: devices.iter().map(|device| capacity(device, slots.keys().copied())).collect(),
        guests: shapes(inputs, &devices, &kinds)?,
        kinds,
        is_truncated: false,
    };
    let found = fit(&mut instance, inputs)?;
    let Some((numbers, value)) = found.best else {
        return Err(GuestPlanError::DoNotFit { shortage: shortage::of_all(&instance) });
    };
    let choices: Vec<&Choice> =
        instance.guests.iter().zip(&numbers).map(|(guest, number)| &guest.choices[*number]).collect();
    let mut guests = cpus::place(inputs, &instance, &choices, &slots);
    let shares = value::shares(&instance, &instance.guests, &choices).shares;
    for (shape, shares) in instance.guests.iter().zip(shares) {
        guests[shape.request].demands = demands(&devices, shape, &shares);
    }
    if inputs.functions {
        assign_functions(inputs, &mut guests)?;
    }
    let is_complete = !found.is_stopped && !instance.is_truncated;
    Ok(PlannedGuests {
        nodes: host_nodes(&instance, &slots),
        notes: notes(&cpu_nodes, &devices, &guests, &instance),
        baselines: simple_plans::baselines(&instance),
        devices,
        guests,
        value,
        bound: found.bound.unwrap_or(value),
        proof: if is_complete { GuestPlanProof::Optimal } else { GuestPlanProof::Gap },
        examined: found.examined,
    })
}

fn node_capacity(
    inputs: &GuestPlanInputs,
    slots: &BTreeMap<NodeId, Vec<CpuSet>>,
    kinds: &[Option<u64>],
) -> NodeCapacity {
    let of_kind = |kind: &Option<u64>| slots.keys().map(|node| memory(inputs, *node, *kind)).collect();
    NodeCapacity {
        cpus: slots.values().map(|slots| u32::try_from(slots.len()).unwrap_or(u32::MAX)).collect(),
        memory: kinds.iter().map(of_kind).collect(),
    }
}

fn check(requests: &[GuestRequest]) -> Result<(), GuestPlanError> {
    match requests.len() {
        0 => return Err(GuestPlanError::NoGuest),
        count if count > MAX_GUESTS => return Err(GuestPlanError::TooManyGuests(count)),
        _ => {}
    }
    let mut names: Vec<&str> = requests.iter().map(|request| request.name.as_str()).collect();
    names.sort_unstable();
    if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(GuestPlanError::SameName(pair[0].to_owned()));
    }
    let empty = |request: &GuestRequest| match (request.vcpus, request.memory_bytes) {
        (0, _) => Some("vCPUs"),
        (_, 0) => Some("memory"),
        _ => None,
    };
    match requests.iter().find_map(|request| Some((request, empty(request)?))) {
        Some((request, what)) => Err(GuestPlanError::Empty { name: request.name.clone(), what }),
        None => Ok(()),
    }
}

fn device(inputs: &GuestPlanInputs, target: &GuestTarget, nodes: &NodeSet) -> GuestPlanDevice {
    let subject = target.device.subject(inputs.topology);
    let ranking = rank_nodes_among(inputs.topology, subject, inputs.sources, nodes);
    GuestPlanDevice {
        device: target.device.device.clone(),
        pci: target.pci,
        node: target.device.node,
        bytes_per_s: target.device.bytes_per_s.filter(|rate| *rate > 0.0 && rate.is_finite()),
        basis: ranking.basis,
        nodes: ranking.nodes,
        expected: ranking.expected,
        irq_cpus: target.device.irq_cpus.clone(),
        free_functions: target.free_functions.clone(),
    }
}

/// Sizes of huge pages that the requests use; `None` for ordinary pages.
fn kinds(requests: &[GuestRequest]) -> Vec<Option<u64>> {
    let of_cells = requests.iter().flat_map(|request| &request.cells).map(|cell| cell.huge_page_bytes);
    let mut kinds: Vec<Option<u64>> =
        requests.iter().map(|request| request.huge_page_bytes).chain(of_cells).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

/// Returns the memory that guests may have on a node.
fn memory(inputs: &GuestPlanInputs, id: NodeId, kind: Option<u64>) -> u64 {
    let Some(node) = inputs.topology.node(id) else { return 0 };
    let released = inputs.released.get(&kind).and_then(|nodes| nodes.get(&id)).copied().unwrap_or(0);
    let free = match kind {
        None => node.memory.map_or(0, |memory| memory.free_bytes.saturating_add(memory.reclaimable_bytes)),
        Some(bytes) => {
            let pool = node.huge_pages.iter().find(|pool| pool.page_bytes == bytes);
            pool.map_or(0, |pool| pool.free.saturating_mul(bytes))
        }
    };
    free.saturating_add(released)
}

fn capacity(device: &GuestPlanDevice, nodes: impl Iterator<Item = NodeId>) -> DeviceCapacity {
    let all = device.bytes_per_s.unwrap_or(f64::INFINITY);
    let ranked = |node: NodeId| device.nodes.iter().find(|ranked| ranked.node == node);
    let (mut paths, mut ranks) = (Vec::new(), Vec::new());
    for node in nodes {
        let found = ranked(node);
        // An unknown bandwidth limits nothing, whatever the share.
        let share = found.and_then(|ranked| ranked.of_best).filter(|_| all.is_finite());
        paths.push(share.map_or(all, |share| all * share.max(LEAST_SHARE)));
        ranks.push(found.map_or(device.nodes.len() as f64 + 1.0, |ranked| f64::from(ranked.rank)));
    }
    DeviceCapacity { bytes_per_s: all, paths, ranks }
}

fn shapes(
    inputs: &GuestPlanInputs,
    devices: &[GuestPlanDevice],
    kinds: &[Option<u64>],
) -> Result<Vec<GuestShape>, GuestPlanError> {
    let shape = |(index, request): (usize, &GuestRequest)| {
        let demand = |demand: &numaio_schema::GuestDemand| {
            let device = devices.iter().position(|device| device.device == demand.device);
            let device = device.ok_or_else(|| GuestPlanError::UnknownDevice {
                guest: request.name.clone(),
                device: demand.device.clone(),
            })?;
            let wanted = demand.bytes_per_s.or(devices[device].bytes_per_s).filter(|wanted| *wanted > 0.0);
            Ok((device, wanted))
        };
        let kind_of = |page: Option<u64>| kinds.iter().position(|kind| *kind == page).unwrap_or(0);
        let cell = |cell: &RequestedCell| CellShape {
            vcpus: u32::try_from(cell.vcpu_ids.len()).unwrap_or(u32::MAX),
            memory: in_pages(cell.memory_bytes, cell.huge_page_bytes),
            kind: kind_of(cell.huge_page_bytes),
        };
        Ok(GuestShape {
            request: index,
            vcpus: request.vcpus,
            memory: in_pages(request.memory_bytes, request.huge_page_bytes),
            kind: kind_of(request.huge_page_bytes),
            cells: request.cells.iter().map(cell).collect(),
            demands: request.demands.iter().map(demand).collect::<Result<_, _>>()?,
            choices: Vec::new(),
            is_like_previous: false,
        })
    };
    inputs.requests.iter().enumerate().map(shape).collect()
}

/// Rounds memory up to complete pages.
fn in_pages(bytes: u64, page: Option<u64>) -> u64 {
    bytes.checked_next_multiple_of(page.unwrap_or(1).max(1)).unwrap_or(bytes)
}

/// Searches with the fewest nodes for each guest, and with more if they do not fit together.
fn fit(instance: &mut Instance, inputs: &GuestPlanInputs) -> Result<search::Found, GuestPlanError> {
    let (wanted, available) = (|guest: &GuestShape| u64::from(guest.vcpus), |cpus: &u32| u64::from(*cpus));
    let is_too_much =
        instance.guests.iter().map(wanted).sum::<u64>() > instance.capacity.cpus.iter().map(available).sum();
    let mut found = None;
    for more in 0..instance.nodes.len().max(1) {
        instance.choose(more).map_err(|index| {
            let guest = &instance.guests[index];
            GuestPlanError::TooLarge {
                name: inputs.requests[guest.request].name.clone(),
                shortage: shortage::of_guest(instance, guest),
            }
        })?;
        if is_too_much {
            break;
        }
        let result = search::search(instance, simple_plans::known(instance), search::MAX_EXAMINED);
        let is_done = result.best.is_some() || result.is_stopped;
        found = Some(result);
        if is_done {
            break;
        }
    }
    found.ok_or_else(|| GuestPlanError::DoNotFit { shortage: shortage::of_all(instance) })
}

fn host_nodes(instance: &Instance, slots: &BTreeMap<NodeId, Vec<CpuSet>>) -> Vec<GuestHostNode> {
    let node = |(index, (node, slots)): (usize, (&NodeId, &Vec<CpuSet>))| GuestHostNode {
        node: *node,
        cpus: slots.iter().fold(CpuSet::new(), |all, cpus| all.union(cpus)),
        memory_bytes: instance.capacity.memory.iter().map(|kind| kind[index]).max().unwrap_or(0),
    };
    slots.iter().enumerate().map(node).collect()
}

fn demands(devices: &[GuestPlanDevice], shape: &GuestShape, shares: &[f64]) -> Vec<PlacedDemand> {
    let demand = |((device, wanted), share): (&(usize, Option<f64>), &f64)| PlacedDemand {
        device: devices[*device].device.clone(),
        wanted_bytes_per_s: *wanted,
        share: *share,
    };
    shape.demands.iter().zip(shares).map(demand).collect()
}

/// Assigns free virtual functions in the order of the requests.
fn assign_functions(inputs: &GuestPlanInputs, guests: &mut [GuestPlacement]) -> Result<(), GuestPlanError> {
    let mut taken: Vec<PciAddress> = Vec::new();
    for (request, guest) in inputs.requests.iter().zip(guests) {
        let Some(demand) = request.demands.first() else { continue };
        let target = inputs.targets.iter().find(|target| target.device.device == demand.device);
        let free = target.and_then(|target| {
            let address = target.free_functions.iter().find(|address| !taken.contains(address))?;
            Some((target, *address))
        });
        let Some((target, address)) = free else {
            return Err(GuestPlanError::NoFunction {
                device: demand.device.clone(),
                guest: request.name.clone(),
            });
        };
        taken.push(address);
        let of_function = |device: &&numaio_machine::devices::Device| device.pci == Some(address);
        let function = inputs.topology.devices.iter().find(of_function);
        guest.function = Some(PlannedFunction {
            address,
            physical_function: target.device.device.clone(),
            node: function.and_then(|device| device.locality.node).or(target.device.node),
            network: target.network,
        });
    }
    Ok(())
}

fn notes(
    cpu_nodes: &BTreeMap<NodeId, NodeSet>,
    devices: &[GuestPlanDevice],
    guests: &[GuestPlacement],
    instance: &Instance,
) -> Vec<String> {
    let mut notes = Vec::new();
    for device in devices {
        if device.node.is_none() {
            notes.push(format!("the node of {} is unknown: all nodes rank equally", device.device));
        } else if device.nodes.iter().all(|node| node.of_best.is_none()) && device.nodes.len() > 1 {
            notes.push(format!(
                "{}: by topology alone; without a model this is a guess (numaio model measures it)",
                device.device
            ));
        }
        if device.bytes_per_s.is_none() {
            notes.push(format!("the bandwidth of {} is unknown: it limits no guest", device.device));
        }
    }
    let sharing: Vec<&str> =
        guests.iter().filter(|guest| guest.shares_cpus).map(|guest| guest.name.as_str()).collect();
    if !sharing.is_empty() {
        notes.push(format!(
            "the hypervisor of {} shares the CPUs of its vCPUs, since no other core of its node is left",
            sharing.join(", ")
        ));
    }
    if instance.is_truncated {
        notes.push("some sets of nodes were not considered: there are too many".to_owned());
    }
    let is_used = |node: &NodeId| guests.iter().flat_map(|guest| &guest.cells).any(|cell| cell.node == *node);
    for (node, users) in cpu_nodes.iter().filter(|(node, _)| is_used(node)) {
        let others = users.difference(&NodeSet::one(*node));
        if !others.is_empty() {
            notes.push(format!(
                "{} without memory: guests on their CPUs use the memory of node {node}",
                numaio_machine::set::format_nodes(&others)
            ));
        }
    }
    let without = cpu_nodes.len() - instance.nodes.len();
    if without > 0 {
        notes.push(format!("{without} nodes have no free CPU"));
    }
    notes
}
