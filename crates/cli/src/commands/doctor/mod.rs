//! `numaio doctor`: what on this machine costs I/O bandwidth, and what to do.

mod programs;

use super::{json, placement, tape_io};
use crate::args::Common;
use crate::failure::{self, Failure};
use crate::machine::Machine;
use crate::store::Kind;
use crate::{documents, output};
use clap::Args;
use numaio_machine::checkup::{self, Symptom};
use numaio_machine::conditions::{self, Conditions};
use numaio_machine::discover::discover;
use numaio_machine::near::{resolve, Handle, ResolveContext};
use numaio_machine::topology::Topology;
use numaio_model::MachineEvidence;
use numaio_schema::{Diagnosis, Document, IoRecord, Model, DIAGNOSIS_SCHEMA};
use std::path::PathBuf;
use std::process::ExitCode;

/// Show what on this machine costs I/O bandwidth, and what to do.
///
/// Looks at the topology, links, interrupts and queues, settings of the kernel, memory of each node, control groups, the
/// IOMMU, and programs that are remote to their devices. Each finding has what was seen and where, what it costs by the
/// saved model or measured I/O (never by guess: where nothing was measured, it says what to run), and the command that
/// mends it, with what takes that back. The dearest stand first. Nothing is changed.
///
/// Exit status: 0 nothing was found, or notes alone; 1 a warning or a problem was found, or it failed; 2 wrong usage.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Only what concerns this device: a name, a PCI address, or what else numaio near takes; may be repeated
    #[arg(long, short, value_name = "DEV")]
    pub device: Vec<Handle>,
    /// A model in place of those that are saved of this machine
    #[arg(long, value_name = "FILE")]
    pub model: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Write into FILE (- for standard output)
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

pub fn run(common: &Common, args: &DoctorArgs) -> Result<ExitCode, Failure> {
    let machine = Machine::pick(common)?;
    if let Some(path) = &args.output {
        output::check(path)?;
    }
    let topology = discover(&machine);
    let devices = requested(&machine, &topology, &args.device)?;
    let conditions = conditions::read(&machine);
    let models = placement::models(common, &machine, &topology, args.model.as_deref())?;
    let io = measured_io(common, &machine, &topology)?;
    let mut unseen = unseen(&machine, &topology, &conditions, &models);
    let mut symptoms = checkup::check(&machine, &topology, &conditions);
    symptoms.extend(spanning_stacks(&machine, &topology));
    if machine.is_live() {
        symptoms.extend(programs::find_remote_programs(&machine, &topology, &models, &mut unseen));
    }
    if !devices.is_empty() {
        symptoms = numaio_model::filter_by_devices(symptoms, &topology, &devices);
    }
    let known = MachineEvidence { topology: &topology, models: &models, io: &io };
    let name =
        |index: &usize| topology.devices.get(*index).map(|device| device.distinct_name(&topology.devices));
    let diagnosis = Diagnosis {
        schema: DIAGNOSIS_SCHEMA.to_owned(),
        numaio: env!("CARGO_PKG_VERSION").to_owned(),
        machine: topology.identity.clone(),
        source: machine.source(),
        seen_at: machine.seen_at(),
        devices: devices.iter().filter_map(name).collect(),
        findings: numaio_model::diagnose(&known, symptoms),
        unseen,
    };
    let text = match args.json {
        true => json(&diagnosis)?,
        false => numaio_report::doctor_text(&diagnosis, &output::style(common)),
    };
    match &args.output {
        Some(path) => drop(output::write(path, &text)?),
        None => output::print(&text)?,
    }
    Ok(if diagnosis.has_faults() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Indices of the devices that handles lead to, each once.
fn requested(machine: &Machine, topology: &Topology, handles: &[Handle]) -> Result<Vec<usize>, Failure> {
    let mut found: Vec<usize> = Vec::new();
    for handle in handles {
        let resolved = resolve(ResolveContext { root: machine, locate: machine, topology }, handle);
        if resolved.devices.is_empty() {
            return Err(failure::unresolved(&resolved));
        }
        found.extend(resolved.devices.iter().map(|near| near.index));
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// Bonds, RAIDs and volumes that span sockets.
fn spanning_stacks(machine: &Machine, topology: &Topology) -> Vec<Symptom> {
    let ground = ResolveContext { root: machine, locate: machine, topology };
    let stacks = checkup::stacks(machine);
    stacks.iter().filter_map(|stack| checkup::split_stack(topology, &resolve(ground, stack))).collect()
}

/// Measured I/O that is saved of this machine, newest first; before it what a tape holds.
fn measured_io(common: &Common, machine: &Machine, topology: &Topology) -> Result<Vec<IoRecord>, Failure> {
    let mut records = tape_io::records(common, machine, topology)?;
    for path in documents::saved(common, Kind::Io, &topology.identity) {
        match documents::read(&path) {
            Ok(Document::Io(record)) => records.push(*record),
            Ok(_) => {}
            Err(failure) => output::remark(common, &format!("{} is passed over", failure.message)),
        }
    }
    Ok(records)
}

/// What cannot be looked at, whatever is found.
fn unseen(machine: &Machine, topology: &Topology, conditions: &Conditions, models: &[Model]) -> Vec<String> {
    let mut unseen = Vec::new();
    if models.is_empty() && topology.memory_nodes().len() > 1 {
        unseen.push(
            "What misplaced buffers cost: there is no model of this machine; numaio model makes one."
                .to_owned(),
        );
    }
    if conditions.irqbalance.is_none() {
        unseen.push(
            "Whether irqbalance runs: not all processes can be seen here, as in a container.".to_owned(),
        );
    }
    match machine {
        Machine::Live(_) | Machine::Recording(_) => {}
        Machine::Recorded(_) => unseen.push(
            "Running programs: nothing runs on a recorded machine; and of settings what was recorded of them.".to_owned(),
        ),
        Machine::Copied(_) => unseen.push("Running programs: nothing runs on a copied tree of files.".to_owned()),
    }
    unseen
}
