//! `numaio vm`: virtual machines of a host: where they run, where they should run, and moving them.

mod apply;
mod bench;
mod guest_numaio;
pub mod observe;
mod place;
mod place_args;
mod plan_file;
mod planning;
mod requests;

use crate::failure::Failure;
use crate::options::Common;
use clap::{Args, Subcommand};
pub use plan_file::parse as parse_guests;
use std::process::ExitCode;

/// Show, place and move virtual machines near their devices.
#[derive(Debug, Args)]
pub struct VmArgs {
    #[command(subcommand)]
    pub command: VmCommand,
}

/// Subcommands of `numaio vm`.
#[derive(Debug, Subcommand)]
pub enum VmCommand {
    /// List the guests of this host: nodes of their vCPUs and memory, and their devices
    ///
    /// Guests of QEMU, with or without libvirt, Cloud Hypervisor and Firecracker are read from
    /// their processes. Only root can read the memory and devices of other users' guests.
    ///
    /// Exit status: 1 if a guest is remote from its memory or devices.
    List(observe::ListArgs),
    /// Show the threads, memory and devices of a guest, what is remote, and what that costs
    ///
    /// With self, show the topology that this machine was given as a guest, and what it cannot find
    /// out about its host.
    ///
    /// Exit status: 1 if a guest is remote from its memory or devices.
    Show(observe::ShowArgs),
    /// Choose CPUs and nodes for guests near a device, and write their configuration
    ///
    /// GUEST is the name or process ID of a running guest, or a file with a libvirt domain in XML.
    /// Without GUEST, --vcpus and --memory describe a new one. Several guests are packed on the
    /// host.
    Place(Box<place_args::PlaceArgs>),
    /// Move a running guest: pin its threads, and move its memory; numaio undo reverts it
    ///
    /// Guests of libvirt are pinned by virsh, others by the kernel. Memory that a device of the
    /// host writes into cannot be moved. A receipt is written before the first change, and the
    /// result is verified.
    Apply(apply::ApplyArgs),
    /// Measure a guest's network with its vCPUs and memory near the device and far from it
    ///
    /// Moves the running guest to each combination of the best and the worst node for its vCPUs and
    /// its memory, runs numaio bench net in the guest by ssh, and moves it back. Each move is
    /// verified. A killed run is undone by numaio undo.
    Bench(Box<bench::BenchArgs>),
    /// Plan many guests on the nodes of this host, and compare with simple plans
    Plan(place_args::PlanArgs),
}

/// Runs `numaio vm`.
pub fn run(common: &Common, args: &VmArgs) -> Result<ExitCode, Failure> {
    match &args.command {
        VmCommand::List(args) => observe::list(common, args),
        VmCommand::Show(args) => observe::show(common, args),
        VmCommand::Place(args) => place::run(common, args),
        VmCommand::Apply(args) => apply::run(common, args),
        VmCommand::Bench(args) => bench::run(common, args),
        VmCommand::Plan(args) => place::plan(common, args),
    }
}
