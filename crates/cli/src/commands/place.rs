//! `numaio place`: where tasks should run, as a plan that a person can read and other programs can use.

use super::json;
use super::placement::{self, PlacementArgs};
use crate::args::Common;
use crate::failure::Failure;
use crate::machine::Machine;
use crate::output;
use clap::{Args, ValueEnum};
use numaio_machine::discover::discover;
use numaio_machine::topology::Topology;
use numaio_report::forms;
use numaio_schema::PlacementPlan;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, Args)]
pub struct PlaceArgs {
    #[command(flatten)]
    pub near: PlacementArgs,
    /// Places from a plan: of a transfer, as numaio plan --json writes it, or of tasks; - for standard input
    ///
    /// Of the plan of a transfer one program gets, on each memory node, as many cores as the plan runs threads there.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["near", "direction", "spread", "tasks", "cores", "hint", "strict", "needs", "model", "weights"])]
    pub plan: Option<PathBuf>,
    /// Show how each handle led to its device
    #[arg(long)]
    pub explain: bool,
    /// Form of the output
    #[arg(long, value_name = "FORM", default_value = "text")]
    pub format: Form,
    /// Print JSON: a plan for numaio run --plan; the same as --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// Write into FILE in place of standard output
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Forms in which places can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// For people
    Text,
    /// The plan, for numaio run --plan
    Json,
    /// Commands for numactl(8)
    Numactl,
    /// Drop-ins for services
    Systemd,
    /// A batch script for sbatch
    Slurm,
    /// Options of docker run, and of podman
    Docker,
    /// A pod, and how kubelet must be set for it
    Kubernetes,
    /// Elements of a virtual machine's domain
    Libvirt,
    /// Environment of OpenMP programs
    Openmp,
    /// A rankfile of Open MPI, and what Hydra takes
    Mpi,
    /// A job file of fio
    Fio,
}

pub fn run(common: &Common, args: &PlaceArgs) -> Result<ExitCode, Failure> {
    let machine = Machine::pick(common)?;
    let topology = discover(&machine);
    let plan = match &args.plan {
        Some(path) => placement::read(&machine, &topology, path)?,
        None => placement::plan(common, &machine, &topology, &args.near)?,
    };
    let text = text(common, args, &topology, &plan)?;
    match &args.output {
        Some(path) => output::write(path, &text).map(|_| ())?,
        None => output::print(&text)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn text(
    common: &Common,
    args: &PlaceArgs,
    topology: &Topology,
    plan: &PlacementPlan,
) -> Result<String, Failure> {
    let form = if args.json { Form::Json } else { args.format };
    Ok(match form {
        Form::Text => numaio_report::placement_text(plan, args.explain, &output::style(common)),
        Form::Json => json(plan)?,
        Form::Numactl => forms::numactl(plan),
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
