//! `numaio vm apply`: moves a running guest to its planned CPUs and nodes.

use super::observe::{self, Host};
use super::planning::{self, PlacingOptions};
use super::requests::{Requested, Targets};
use crate::failure::{self, Failure};
use crate::machine::Machine;
use crate::options::Common;
use crate::output::{self, json};
use crate::{input, receipts};
use clap::Args;
use numaio_linux::Kernel;
use numaio_machine::guests::{Guest, GuestDevice};
use numaio_machine::near::Handle;
use numaio_machine::units::format_size;
use numaio_place::{check_guest, guest_memory_changes, guest_thread_changes, GuestChangeError, GuestCheck};
use numaio_schema::{AppliedChange, GuestPlacement, GuestPlan, GuestStatus};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Prefix of the IDs of receipts of guests.
pub const RECEIPT_KIND: &str = "vm";

/// Arguments of `numaio vm apply`.
#[derive(Debug, Args)]
pub struct ApplyArgs {
    /// Name or process ID of a running guest
    #[arg(value_name = "NAME|PID")]
    pub guest: String,
    /// Move it near this device, path or host; may be repeated; default: the devices that it uses
    #[arg(long, value_name = "HANDLE")]
    pub near: Vec<Handle>,
    /// Read the placement from FILE, as written by numaio vm place --json or numaio vm plan --json;
    /// - for standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["near", "hyper_threads"])]
    pub plan: Option<PathBuf>,
    /// Pin vCPUs to hardware threads instead of cores
    #[arg(long)]
    pub hyper_threads: bool,
    /// Pin threads only, and leave the memory where it is
    #[arg(long)]
    pub threads_only: bool,
    /// Show the changes without applying them
    #[arg(long)]
    pub dry_run: bool,
    /// Print the guest after the changes as JSON
    #[arg(long, conflicts_with = "dry_run")]
    pub json: bool,
}

const PERMISSION_HINT: &str =
    "nothing was changed. Guests of other users require root, or CAP_SYS_NICE; those of libvirt require access to it";

/// Runs `numaio vm apply`.
pub fn run(common: &Common, args: &ApplyArgs) -> Result<ExitCode, Failure> {
    let kernel = receipts::live_kernel(common)?;
    let _lock = (!args.dry_run).then(|| receipts::lock(common));
    let machine = Machine::pick(common)?;
    let host = Host::read(common, &machine)?;
    let guest = observe::select(&machine, &args.guest)?;
    require_named_vcpus(&guest)?;
    let placement = match &args.plan {
        Some(path) => from_file(&host, path, &guest)?,
        None => planned(&host, &guest, args)?,
    };
    let status = describe(&host, guest)?;
    let changes = changes(&kernel, &status, &placement, args)?;
    if args.dry_run {
        return show_changes(&changes);
    }
    if changes.is_empty() {
        output::remark(common, &format!("guest '{}' is already where it should be", status.name));
    } else {
        let (id, count) = make_changes(common, &kernel, &host, changes)?;
        let (changes, them) = if count == 1 { ("change", "it") } else { ("changes", "them") };
        output::remark(common, &format!("made {count} {changes}; numaio undo {id} reverts {them}"));
    }
    verify(common, &host, &status, &placement, args)
}

/// Rejects a guest whose vCPU threads cannot be identified.
pub fn require_named_vcpus(guest: &Guest) -> Result<(), Failure> {
    match guest.has_unnamed_vcpus() {
        true => Err(change_failure(&GuestChangeError::UnnamedThreads { name: guest.name() })),
        false => Ok(()),
    }
}

/// Makes changes of a guest, and reports memory that stays; returns the ID of the receipt and the
/// number of changes.
pub fn make_changes(
    common: &Common,
    kernel: &Kernel,
    host: &Host,
    changes: Vec<AppliedChange>,
) -> Result<(String, usize), Failure> {
    let receipt = receipts::planned_receipt(kernel, &host.topology.identity.fingerprint, changes);
    let (id, done, report) = receipts::relocate_numbered(kernel, receipt, RECEIPT_KIND)
        .map_err(|error| receipts::apply_failure(error, PERMISSION_HINT))?;
    receipts::remark_left(common, &report);
    Ok((id, done.applied.len()))
}

/// Reads and describes a guest again.
///
/// # Errors
/// It has ended.
pub fn describe_again(host: &Host, pid: u32, start_time: u64, name: &str) -> Result<GuestStatus, Failure> {
    let guest = observe::read_again(host.machine, pid, start_time).ok_or_else(|| ended(name))?;
    describe(host, guest)
}

fn describe(host: &Host, guest: Guest) -> Result<GuestStatus, Failure> {
    let name = guest.name();
    host.describe(vec![guest]).pop().ok_or_else(|| ended(&name))
}

fn ended(name: &str) -> Failure {
    Failure::new(format!("guest '{name}' has ended")).hint("numaio vm list lists the guests")
}

/// Plans the guest near the requested devices, or near those that it uses.
fn planned(host: &Host, guest: &Guest, args: &ApplyArgs) -> Result<GuestPlacement, Failure> {
    let devices = host.devices(guest);
    let mut requested = Requested::default();
    requested.add_running(guest)?;
    let mut targets = Targets::new(host, &devices);
    let mut demands = Vec::new();
    for handle in &args.near {
        demands.extend(targets.add(host, handle, None)?);
    }
    if args.near.is_empty() {
        let located = devices.iter().filter(|device: &&GuestDevice| device.node.is_some());
        demands.extend(located.filter_map(|device| targets.add_used(host, device)));
    }
    if demands.is_empty() {
        return Err(Failure::usage(format!("guest '{}' uses no device with a known node", guest.name()))
            .hint("name the device that it should be near: --near eth0"));
    }
    requested.requests[0].demands = demands;
    let guests = observe::all(host.machine);
    let options = PlacingOptions { hardware_threads: args.hyper_threads, functions: false };
    let mut plan = planning::plan(host, &guests, &requested, &targets, options)?;
    Ok(plan.guests.remove(0))
}

/// Reads the placement of a guest from a plan of this machine.
fn from_file(host: &Host, path: &Path, guest: &Guest) -> Result<GuestPlacement, Failure> {
    let text = input::read_text(path)?;
    let plan = GuestPlan::from_json(&text).map_err(|error| failure::not_a_document(path, &text, &error))?;
    let (found, own) = (&plan.machine.fingerprint, &host.topology.identity.fingerprint);
    if found != own {
        return Err(Failure::file(
            path,
            format!("the plan is for machine {found}, not for this machine {own}"),
        )
        .hint("numaio vm place plans this machine"));
    }
    let name = guest.name();
    plan.guests.into_iter().find(|placed| placed.name == name).ok_or_else(|| {
        Failure::file(path, format!("the plan has no guest '{name}'"))
            .hint("plan the guest by its name: numaio vm place NAME --near HANDLE --json")
    })
}

/// Returns the error of planning changes, with a hint.
pub fn change_failure(error: &GuestChangeError) -> Failure {
    let failure = Failure::new(error);
    match error {
        GuestChangeError::OtherSize { .. } => failure.hint("plan the guest again"),
        GuestChangeError::UnnamedThreads { .. } => failure.hint(
            "start QEMU with -name NAME,debug-threads=on, or with a monitor that is free: -qmp \
             unix:PATH,server=on,wait=off",
        ),
    }
}

fn changes(
    kernel: &Kernel,
    status: &GuestStatus,
    placement: &GuestPlacement,
    args: &ApplyArgs,
) -> Result<Vec<AppliedChange>, Failure> {
    let mut changes = guest_thread_changes(status, placement).map_err(|error| change_failure(&error))?;
    if !args.threads_only {
        let moves = guest_memory_changes(kernel, status, placement).map_err(|why| {
            Failure::new(format!("cannot move the memory of guest '{}': {why}", status.name)).hint(
                "numaio vm place writes a configuration for its next start; --threads-only pins its threads now",
            )
        })?;
        changes.extend(moves);
    }
    Ok(changes)
}

fn show_changes(changes: &[AppliedChange]) -> Result<ExitCode, Failure> {
    // A guest's name is the text of its user.
    let line = |applied: &AppliedChange| numaio_transfer::line::sanitize(&applied.change.to_string()) + "\n";
    let lines: String = changes.iter().map(line).collect();
    output::print(if lines.is_empty() { "nothing to change\n" } else { &lines })?;
    Ok(ExitCode::SUCCESS)
}

/// Reads the guest again, and reports how much of it is in place.
fn verify(
    common: &Common,
    host: &Host,
    before: &GuestStatus,
    placement: &GuestPlacement,
    args: &ApplyArgs,
) -> Result<ExitCode, Failure> {
    let after = describe_again(host, before.pid, before.start_time, &before.name)?;
    let check = check_guest(&after, placement);
    output::remark(common, &check_text(&check));
    if args.json {
        output::print(&json(&host.document(vec![after], None))?)?;
    }
    let is_in_place = check.threads == check.all_threads && (args.threads_only || is_memory_in_place(&check));
    Ok(if is_in_place { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Share of memory that must be in place; the rest are pages of the hypervisor itself.
const IN_PLACE: f64 = 0.95;

/// Returns whether the memory of a guest is on its nodes.
pub fn is_memory_in_place(check: &GuestCheck) -> bool {
    match (check.bytes, check.all_bytes) {
        (Some(bytes), Some(all)) => bytes as f64 >= IN_PLACE * all as f64,
        _ => true,
    }
}

/// Describes how much of a guest is in place.
pub fn check_text(check: &GuestCheck) -> String {
    let threads = format!("{} of {} threads are on their CPUs", check.threads, check.all_threads);
    match (check.bytes, check.all_bytes) {
        (Some(bytes), Some(all)) => {
            format!("{threads}, {} of {} of memory on its nodes", format_size(bytes), format_size(all))
        }
        _ => threads,
    }
}
