//! `numaio place`: placement of tasks near devices, as text or as input of other programs.

use super::placement::{self, PlacementArgs};
use crate::failure::Failure;
use crate::machine::Machine;
use crate::options::Common;
use crate::output;
use crate::output::json;
use clap::{Args, ValueEnum};
use numaio_machine::discover::discover;
use numaio_machine::topology::Topology;
use numaio_report::forms;
use numaio_schema::PlacementPlan;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `numaio place`.
#[derive(Debug, Args)]
pub struct PlaceArgs {
    #[command(flatten)]
    pub near: PlacementArgs,
    /// Read the plan from FILE, as written by numaio place --json or numaio plan --json; - for
    /// standard input
    ///
    /// A plan of a transfer becomes one program: on each memory node it gets a core for each thread
    /// of the plan.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["near", "direction", "spread", "tasks", "cores", "hint", "strict", "needs", "model", "weights", "core_kind", "by"])]
    pub plan: Option<PathBuf>,
    /// Show how each handle was resolved to its device
    #[arg(long)]
    pub explain: bool,
    /// Output format
    #[arg(long, value_name = "FORM", default_value = "text")]
    pub format: Form,
    /// Print JSON: a plan for numaio run --plan; same as --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// Write to FILE instead of standard output
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Output format of a placement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// Readable text
    Text,
    /// Plan for numaio run --plan
    Json,
    /// Commands for numactl(8)
    Numactl,
    /// Drop-ins for systemd services
    Systemd,
    /// Batch script for sbatch
    Slurm,
    /// Options of docker run and podman run
    Docker,
    /// Pod, and the kubelet settings that it requires
    Kubernetes,
    /// Elements of a libvirt domain
    Libvirt,
    /// Environment variables for OpenMP programs
    Openmp,
    /// Rankfile for Open MPI, and options for Hydra
    Mpi,
    /// Job file for fio
    Fio,
}

/// Runs `numaio place`.
pub fn run(common: &Common, args: &PlaceArgs) -> Result<ExitCode, Failure> {
    let machine = Machine::pick(common)?;
    let topology = discover(&machine);
    let plan = match &args.plan {
        Some(path) => placement::read(&machine, &topology, path)?,
        None => placement::plan(common, &machine, &topology, &args.near)?,
    };
    let text = render(common, args, &topology, &plan)?;
    match &args.output {
        Some(path) => output::write(path, &text).map(|_| ())?,
        None => output::print(&text)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn render(
    common: &Common,
    args: &PlaceArgs,
    topology: &Topology,
    plan: &PlacementPlan,
) -> Result<String, Failure> {
    let form = if args.json { Form::Json } else { args.format };
    Ok(match form {
        Form::Text => numaio_report::placement_text(plan, args.explain, &output::style(common)),
        Form::Json => json(plan)?,
        Form::Numactl => {
            // On standard error: the lines prefix commands.
            forms::numactl_notes(plan).iter().for_each(|note| output::remark(common, note));
            forms::numactl(plan)
        }
        Form::Systemd => forms::systemd(plan),
        Form::Slurm => forms::slurm(plan),
        Form::Docker => forms::docker(plan),
        Form::Kubernetes => forms::kubernetes(plan, topology),
        Form::Libvirt => forms::libvirt(plan, topology),
        Form::Openmp => forms::openmp(plan),
        Form::Mpi => forms::mpi(plan),
        Form::Fio => forms::fio(plan),
    })
}
