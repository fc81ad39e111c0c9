//! The problem of this machine, or of a recorded one.

use super::PlanArgs;
use crate::args::Common;
use crate::commands::placement;
use crate::failure::Failure;
use crate::machine::Machine;
use crate::store::Kind;
use crate::{documents, output};
use numaio_machine::discover::discover;
use numaio_machine::ids::NodeId;
use numaio_machine::topology::Topology;
use numaio_model::{PlanProblemError, PlanRequest, TargetDevice};
use numaio_schema::{Document, IoRecord, Model, Objective, PlanNic, PlanProblem, PlanStorage, Transfer};
use std::path::PathBuf;

/// Puts together what was asked for and what is known of the machine.
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
    numaio_model::plan_problem(&topology, request, &models, &measured).map_err(|why| {
        let failure = Failure::new(&why);
        match why {
            PlanProblemError::UnknownBandwidth(device) => failure.hint(format!(
                "give it by --capacity {device}=SIZE (bytes per second), or measure it by numaio bench"
            )),
            PlanProblemError::NoNode { .. } => Failure::usage(why).hint("numaio topology lists the nodes"),
        }
    })
}

/// Storage with its bytes; those of a handle that leads to several devices are spread evenly over them.
fn storage(args: &PlanArgs, machine: &Machine, topology: &Topology) -> Result<Vec<PlanStorage>, Failure> {
    let mut storage: Vec<PlanStorage> = Vec::new();
    for (handle, bytes) in &args.data {
        let devices = placement::devices_of(machine, topology, handle)?;
        let counted = devices.len() as u64;
        for (index, device) in devices.iter().enumerate() {
            let rest = if index == 0 { bytes % counted } else { 0 };
            let bytes = bytes / counted + rest;
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

/// What must be known of a device: its node, and how much it can move.
fn device_facts(args: &PlanArgs, device: &TargetDevice) -> Result<(String, NodeId, Option<f64>), Failure> {
    let node = device.node.ok_or_else(|| {
        Failure::new(format!("the node of {} is not known", device.device))
            .hint("write the problem down (docs/internals/planning.md shows the form), and give it by --file")
    })?;
    let given = args.capacity.iter().find(|(name, _)| *name == device.device);
    let bytes_per_s = given.map(|(_, rate)| *rate as f64).or(device.bytes_per_s);
    Ok((device.device.clone(), node, bytes_per_s))
}

/// A capacity of a device that the transfer does not use is a slip of the pen.
fn check_capacities(args: &PlanArgs, storage: &[PlanStorage], nics: &[PlanNic]) -> Result<(), Failure> {
    let devices: Vec<&str> =
        storage.iter().map(|it| it.device.as_str()).chain(nics.iter().map(|it| it.device.as_str())).collect();
    match args.capacity.iter().find(|(name, _)| !devices.contains(&name.as_str())) {
        Some((name, _)) => {
            Err(Failure::usage(format!("--capacity {name}: the transfer uses no such device"))
                .hint(format!("it uses {}", devices.join(", "))))
        }
        None => Ok(()),
    }
}

/// I/O that was measured on this machine, the newest first.
fn measured(common: &Common, topology: &Topology) -> Vec<IoRecord> {
    let read = |path: PathBuf| match documents::read(&path) {
        Ok(Document::Io(record)) => Some(*record),
        Ok(_) => None,
        Err(failure) => {
            output::remark(common, &format!("{} is passed over", failure.message));
            None
        }
    };
    documents::saved(common, Kind::Io, &topology.identity).filter_map(read).collect()
}
