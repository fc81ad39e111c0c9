//! `numaio doctor`: finds causes of low I/O bandwidth on this machine.

mod programs;

use super::{placement, tape_io, vm};
use crate::failure::{self, Failure};
use crate::machine::Machine;
use crate::options::Common;
use crate::output::json;
use crate::store::Kind;
use crate::{documents, output};
use clap::Args;
use numaio_machine::checkup::{self, Symptom};
use numaio_machine::conditions::{self, Conditions};
use numaio_machine::discover::discover;
use numaio_machine::near::{resolve, Handle, ResolveContext};
use numaio_machine::topology::Topology;
use numaio_model::MachineEvidence;
use numaio_report::Detail;
use numaio_schema::{DiagnosedFinding, Diagnosis, Model, DIAGNOSIS_SCHEMA};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Report what reduces I/O bandwidth on this machine, and how to fix it.
///
/// Checks topology, links, interrupts and queues, kernel settings, memory per node, control groups,
/// the IOMMU, and programs that are remote to their devices. Each finding has its evidence and
/// source, its cost, the fix and how to undo it. The most costly finding is first. Nothing is
/// changed.
///
/// The cost comes from measured I/O or the saved model. Without these it is unknown, and the
/// finding names the command that measures it.
///
/// Exit status: 0 no findings, or only notes; 1 a warning or problem was found, or the command
/// failed; 2 wrong usage.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Report only findings about this device (any handle of numaio near, such as a name or PCI
    /// address); may be repeated
    #[arg(long, short, value_name = "DEV")]
    pub device: Vec<Handle>,
    /// Use the model in FILE instead of the saved models of this machine
    #[arg(long, value_name = "FILE")]
    pub model: Option<PathBuf>,
    /// Print a line for each finding
    #[arg(long, conflicts_with = "json")]
    pub brief: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Write to FILE (- for standard output)
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Runs `numaio doctor`.
pub fn run(common: &Common, args: &DoctorArgs) -> Result<ExitCode, Failure> {
    let machine = Machine::pick(common)?;
    if let Some(path) = &args.output {
        output::check(path)?;
    }
    let topology = discover(&machine);
    let conditions = conditions::read(&machine);
    let scope = Scope { devices: &args.device, model: args.model.as_deref() };
    let diagnosis = diagnose(common, &machine, &topology, &conditions, &scope)?;
    let text = match args.json {
        true => json(&diagnosis)?,
        false => numaio_report::doctor_text(&diagnosis, Detail::of(args.brief), &output::style(common)),
    };
    match &args.output {
        Some(path) => drop(output::write(path, &text)?),
        None => output::print(&text)?,
    }
    Ok(if diagnosis.has_faults() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The subject of a diagnosis.
#[derive(Debug, Default)]
pub struct Scope<'a> {
    /// Handles of devices; all devices if empty.
    pub devices: &'a [Handle],
    /// File of a model to use instead of the saved ones.
    pub model: Option<&'a Path>,
}

/// Diagnoses a machine and its running programs.
pub fn diagnose(
    common: &Common,
    machine: &Machine,
    topology: &Topology,
    conditions: &Conditions,
    scope: &Scope<'_>,
) -> Result<Diagnosis, Failure> {
    let devices = resolve_devices(machine, topology, scope.devices)?;
    let models = placement::models(common, machine, topology, scope.model)?;
    let io = tape_io::measured(common, machine, topology)?;
    let interrupts = documents::saved_io(common, Kind::Interrupts, &topology.identity);
    let expected = placement::expectation(topology, &models, &io);
    let evidence = MachineEvidence { topology, models: &models, io: &io, interrupts: &interrupts };
    let mut not_checked = not_checked(machine, topology, conditions, &models);
    let mut symptoms = checkup::check(machine, topology, conditions);
    symptoms.extend(spanning_stacks(machine, topology));
    if machine.is_live() {
        let (of_guests, guests) = vm::observe::symptoms(machine, &evidence);
        symptoms.extend(of_guests);
        symptoms.extend(programs::find_remote_programs(
            machine,
            topology,
            &expected,
            &guests,
            &mut not_checked,
        ));
    }
    if !devices.is_empty() {
        symptoms = numaio_model::filter_by_devices(symptoms, topology, &devices);
    }
    let verdict = || numaio_report::verdict(topology, &expected);
    let name =
        |index: &usize| topology.devices.get(*index).map(|device| device.distinct_name(&topology.devices));
    Ok(Diagnosis {
        schema: DIAGNOSIS_SCHEMA.to_owned(),
        numaio: env!("CARGO_PKG_VERSION").to_owned(),
        machine: topology.identity.clone(),
        source: machine.source(),
        observed_at: machine.observed_at(),
        devices: devices.iter().filter_map(name).collect(),
        verdict: devices.is_empty().then(verdict).flatten(),
        findings: numaio_model::diagnose(&evidence, symptoms),
        not_checked,
    })
}

/// Diagnoses all devices of a machine, without its running programs, whose I/O needs time to
/// measure.
pub fn diagnose_machine(
    common: &Common,
    machine: &Machine,
    topology: &Topology,
    models: &[Model],
) -> Result<Vec<DiagnosedFinding>, Failure> {
    let mut symptoms = checkup::check(machine, topology, &conditions::read(machine));
    symptoms.extend(spanning_stacks(machine, topology));
    let io = tape_io::measured(common, machine, topology)?;
    let interrupts = documents::saved_io(common, Kind::Interrupts, &topology.identity);
    let evidence = MachineEvidence { topology, models, io: &io, interrupts: &interrupts };
    Ok(numaio_model::diagnose(&evidence, symptoms))
}

/// Resolves handles to the indices of their devices, without duplicates.
fn resolve_devices(
    machine: &Machine,
    topology: &Topology,
    handles: &[Handle],
) -> Result<Vec<usize>, Failure> {
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

/// Finds bonds, RAIDs and volumes that span sockets.
fn spanning_stacks(machine: &Machine, topology: &Topology) -> Vec<Symptom> {
    let context = ResolveContext { root: machine, locate: machine, topology };
    let stacks = checkup::stacks(machine);
    stacks.iter().filter_map(|stack| checkup::split_stack(topology, &resolve(context, stack))).collect()
}

/// Lists what numaio could not check, and why.
fn not_checked(
    machine: &Machine,
    topology: &Topology,
    conditions: &Conditions,
    models: &[Model],
) -> Vec<String> {
    let mut items = Vec::new();
    if models.is_empty() && topology.memory_nodes().len() > 1 {
        items.push(
            "Cost of misplaced buffers: this machine has no saved model; numaio model measures one."
                .to_owned(),
        );
    }
    if conditions.irqbalance.is_none() {
        items.push("Whether irqbalance runs: not all processes are visible, as in a container.".to_owned());
    }
    match machine {
        Machine::Live(_) | Machine::Recording(_) => {}
        Machine::Recorded(_) => items.push(
            "Running programs, and settings that were not recorded: the machine is a recording.".to_owned(),
        ),
        Machine::Copied(_) => items.push("Running programs: the machine is a copied file tree.".to_owned()),
    }
    items
}
