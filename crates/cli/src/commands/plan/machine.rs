//! Builds the planning problem of this machine or of a tape.

use super::args::PlanArgs;
use crate::commands::placement;
use crate::failure::Failure;
use crate::machine::Machine;
use crate::options::Common;
use crate::store::Kind;
use crate::{documents, output};
use numaio_machine::discover::discover;
use numaio_machine::ids::NodeId;
use numaio_machine::topology::Topology;
use numaio_model::{PlanProblemError, PlanRequest, TargetDevice};
use numaio_schema::{Document, IoRecord, Model, Objective, PlanNic, PlanProblem, PlanStorage, Transfer};
use std::path::PathBuf;

/// Builds the problem from the arguments and the properties of the machine.
///
/// # Errors
/// [`Failure`]: an unresolved handle, an unknown bandwidth, or an unknown node.
pub fn problem(common: &Common, args: &PlanArgs) -> Result<PlanProblem, Failure> {
    let machine = Machine::pick(common)?;
    let topology = discover(&machine);
    let storage = storage(args, &machine, &topology)?;
    let nics = nics(args, &machine, &topology)?;
    check_capacities(args, &storage, &nics)?;
    let request = PlanRequest {
        direction: if args.receive { Transfer::Receive } else { Transfer::Send },
        objective: Objective::default(),
        threads_per_node: args.threads_per_node,
        no_threads_on: args.no_threads_on.clone(),
        reserved: args.reserve.clone(),
        storage,
        nics,
        thread_bytes_per_s: args.thread_bandwidth.map(|rate| rate as f64),
    };
    let models = placement::models(common, &machine, &topology, None)?;
    let models: Vec<&Model> = models.iter().collect();
    let measured = measured(common, &topology);
    let measured: Vec<&IoRecord> = measured.iter().collect();
    numaio_model::plan_problem(&topology, request, &models, &measured).map_err(|error| {
        let failure = Failure::new(&error);
        match error {
            PlanProblemError::UnknownBandwidth(device) => failure.hint(format!(
                "set --capacity {device}=SIZE (bytes per second), or measure the device by numaio bench"
            )),
            PlanProblemError::NoNode { .. } => Failure::usage(error).hint("numaio topology lists the nodes"),
        }
    })
}

/// Returns storage with its bytes. If a handle resolves to several devices, they share its bytes
/// evenly.
fn storage(args: &PlanArgs, machine: &Machine, topology: &Topology) -> Result<Vec<PlanStorage>, Failure> {
    let mut storage: Vec<PlanStorage> = Vec::new();
    for (handle, bytes) in &args.data {
        let devices = placement::devices_of(machine, topology, handle)?;
        let count = devices.len() as u64;
        for (index, device) in devices.iter().enumerate() {
            let rest = if index == 0 { bytes % count } else { 0 };
            let bytes = bytes / count + rest;
            let (device, node, bytes_per_s) = device_facts(args, device)?;
            match storage.iter_mut().find(|it| it.device == device) {
                Some(it) => it.bytes = it.bytes.saturating_add(bytes),
                None => storage.push(PlanStorage { device, node, bytes, bytes_per_s }),
            }
        }
    }
    Ok(storage)
}

fn nics(args: &PlanArgs, machine: &Machine, topology: &Topology) -> Result<Vec<PlanNic>, Failure> {
    let mut nics: Vec<PlanNic> = Vec::new();
    for handle in &args.nic {
        for device in placement::devices_of(machine, topology, handle)? {
            let (device, node, bytes_per_s) = device_facts(args, &device)?;
            if !nics.iter().any(|nic| nic.device == device) {
                nics.push(PlanNic { device, node, bytes_per_s });
            }
        }
    }
    Ok(nics)
}

/// Returns the name, node and bandwidth of a device. Only the bandwidth may be unknown.
fn device_facts(args: &PlanArgs, device: &TargetDevice) -> Result<(String, NodeId, Option<f64>), Failure> {
    let node = device.node.ok_or_else(|| {
        Failure::new(format!("the node of '{}' is unknown", device.device))
            .hint("write the problem to a file (see docs/internals/planning.md), and pass it by --file")
    })?;
    let given = args.capacity.iter().find(|(name, _)| *name == device.device);
    let bytes_per_s = given.map(|(_, rate)| *rate as f64).or(device.bytes_per_s);
    Ok((device.device.clone(), node, bytes_per_s))
}

/// Rejects the capacity of a device that the transfer does not use, which is probably a typing
/// error.
fn check_capacities(args: &PlanArgs, storage: &[PlanStorage], nics: &[PlanNic]) -> Result<(), Failure> {
    let devices: Vec<&str> =
        storage.iter().map(|it| it.device.as_str()).chain(nics.iter().map(|it| it.device.as_str())).collect();
    match args.capacity.iter().find(|(name, _)| !devices.contains(&name.as_str())) {
        Some((name, _)) => Err(Failure::usage(format!(
            "invalid device '{name}' for --capacity: the transfer does not use it"
        ))
        .hint(format!("it uses {}", devices.join(", ")))),
        None => Ok(()),
    }
}

/// Reads the I/O measurements of this machine, newest first.
fn measured(common: &Common, topology: &Topology) -> Vec<IoRecord> {
    let read = |path: PathBuf| match documents::read(&path) {
        Ok(Document::Io(record)) => Some(*record),
        Ok(_) => None,
        Err(failure) => {
            output::remark(common, &format!("skipped {}", failure.message));
            None
        }
    };
    documents::saved(common, Kind::Io, &topology.identity).filter_map(read).collect()
}
