//! `numaio irq`: CPUs that serve the interrupts and queues of devices.

use super::{placement, undo};
use crate::failure::{self, Failure};
use crate::machine::Machine;
use crate::options::Common;
use crate::output::json;
use crate::{output, receipts};
use clap::{Args, Subcommand};
use numaio_linux::Kernel;
use numaio_machine::conditions;
use numaio_machine::control::Change;
use numaio_machine::devices::Device;
use numaio_machine::discover::discover;
use numaio_machine::near::{resolve, Handle, ResolveContext};
use numaio_machine::set::CpuSet;
use numaio_machine::steering;
use numaio_machine::topology::Topology;
use numaio_place::irq::{plan, read_device, IrqRequest};
use numaio_schema::{AppliedChange, DeviceIrqs, IrqDocument, IRQ_SCHEMA};
use std::path::PathBuf;
use std::process::ExitCode;

/// Show, plan and set the CPUs that serve devices: interrupts, RPS, RFS and XPS.
#[derive(Debug, Args)]
pub struct IrqArgs {
    #[command(subcommand)]
    pub command: IrqCommand,
}

/// Subcommands of `numaio irq`.
#[derive(Debug, Subcommand)]
pub enum IrqCommand {
    /// Show the interrupts and queues of devices; default: all devices
    Show(ShowArgs),
    /// Show the changes that numaio irq apply would make, and why
    Plan(PlanArgs),
    /// Apply the changes; numaio irq undo reverts them
    ///
    /// Interrupts require root or CAP_DAC_OVERRIDE; RPS, RFS and XPS also require CAP_NET_ADMIN.
    /// Either all changes are applied or none. A receipt is written before the first change.
    Apply(ApplyArgs),
    /// Revert the changes of numaio irq apply; default: of all devices
    Undo(UndoArgs),
}

/// Arguments of `numaio irq show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Devices: a name, a PCI address, or another handle (see numaio near)
    #[arg(value_name = "DEV")]
    pub devices: Vec<Handle>,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Output options of the subcommands.
#[derive(Debug, Args)]
pub struct OutputArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Write to FILE (- for standard output)
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Arguments of `numaio irq plan`.
#[derive(Debug, Args)]
pub struct PlanArgs {
    /// Devices: a name, a PCI address, or another handle (see numaio near)
    #[arg(value_name = "DEV", required = true)]
    pub devices: Vec<Handle>,
    /// Reserve the CPUs of this plan for its tasks; numaio place --json writes plans
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,
    /// Also use receive flow steering (RFS), which serves packets on the CPU of their reader;
    /// affects the complete machine
    #[arg(long)]
    pub rfs: bool,
    /// Also divide received packets (RSS) among one queue of each serving core, so that queues
    /// whose interrupts stay elsewhere get none
    #[arg(long)]
    pub rss: bool,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `numaio irq apply`.
#[derive(Debug, Args)]
pub struct ApplyArgs {
    #[command(flatten)]
    pub plan: PlanArgs,
    /// Show the changes without applying them; same as numaio irq plan
    #[arg(long)]
    pub dry_run: bool,
    /// Apply the changes although irqbalance is running and may move the interrupts again
    #[arg(long)]
    pub despite_irqbalance: bool,
}

/// Arguments of `numaio irq undo`.
#[derive(Debug, Args)]
pub struct UndoArgs {
    /// Devices: a name, a PCI address, or the name at the time of the change
    #[arg(value_name = "DEV")]
    pub devices: Vec<String>,
}

/// Runs `numaio irq`.
pub fn run(common: &Common, args: &IrqArgs) -> Result<ExitCode, Failure> {
    match &args.command {
        IrqCommand::Show(args) => {
            let machine = Machine::pick(common)?;
            let (_, document) = inspect(&machine, &args.devices)?;
            print(common, &args.output, &document)
        }
        IrqCommand::Plan(args) => {
            print(common, &args.output, &planned_document(&Machine::pick(common)?, args)?)
        }
        IrqCommand::Apply(args) if args.dry_run => {
            print(common, &args.plan.output, &planned_document(&Machine::pick(common)?, &args.plan)?)
        }
        IrqCommand::Apply(args) => apply(common, args),
        IrqCommand::Undo(args) => undo_devices(common, &args.devices),
    }
}

fn print(common: &Common, output_args: &OutputArgs, document: &IrqDocument) -> Result<ExitCode, Failure> {
    let text = match output_args.json {
        true => json(document)?,
        false => numaio_report::irq_text(document, &output::style(common)),
    };
    match &output_args.output {
        Some(path) => drop(output::write(path, &text)?),
        None => output::print(&text)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads the current state of devices; without handles, of all that move data.
fn inspect(machine: &Machine, handles: &[Handle]) -> Result<(Topology, IrqDocument), Failure> {
    let topology = discover(machine);
    let devices = match handles {
        [] => topology.devices.iter().filter(|it| it.moves_data() && !it.irqs.is_empty()).collect(),
        handles => resolve_devices(machine, &topology, handles)?,
    };
    // Controllers with equal names need distinct ones, to be shown, changed and reverted
    // separately.
    let device_irqs = |device: &Device| DeviceIrqs {
        device: device.distinct_name(&topology.devices),
        ..read_device(machine, machine, device)
    };
    let document = IrqDocument {
        schema: IRQ_SCHEMA.to_owned(),
        numaio: env!("CARGO_PKG_VERSION").to_owned(),
        machine: topology.identity.fingerprint.clone(),
        irqbalance: conditions::read(machine).irqbalance,
        sock_flow_entries: steering::sock_flow_entries(machine),
        devices: devices.into_iter().map(device_irqs).collect(),
        plan: None,
    };
    Ok((topology, document))
}

/// Resolves handles to distinct devices. A device without interrupts is an error.
fn resolve_devices<'a>(
    machine: &Machine,
    topology: &'a Topology,
    handles: &[Handle],
) -> Result<Vec<&'a Device>, Failure> {
    let context = ResolveContext { root: machine, locate: machine, topology };
    let mut found: Vec<&Device> = Vec::new();
    for handle in handles {
        let resolved = resolve(context, handle);
        if resolved.devices.is_empty() {
            return Err(failure::unresolved(&resolved));
        }
        for device in resolved.carrying().filter_map(|near| topology.devices.get(near.index)) {
            if device.irqs.is_empty() {
                return Err(no_interrupts(device));
            }
            if !found.iter().any(|other| other.path == device.path) {
                found.push(device);
            }
        }
    }
    Ok(found)
}

fn no_interrupts(device: &Device) -> Failure {
    let failure = Failure::new(format!("device '{}' has no interrupts", device.name()));
    match (&device.driver, device.pci) {
        (None, Some(_)) => failure.hint("no driver is bound to it: load the driver, and retry"),
        (_, None) => failure.hint("it is not a PCI device: name its controller, which has the interrupts"),
        _ => failure
            .hint("many drivers allocate interrupts only while the interface is up: set it up by ip link, and retry"),
    }
}

fn planned_document(machine: &Machine, args: &PlanArgs) -> Result<IrqDocument, Failure> {
    let (topology, mut document) = inspect(machine, &args.devices)?;
    let tasks = match &args.plan {
        Some(path) => placement::read(machine, &topology, path)?
            .tasks
            .iter()
            .flat_map(|task| task.cpus.iter().collect::<Vec<_>>())
            .collect(),
        None => CpuSet::new(),
    };
    let request = IrqRequest {
        tasks,
        isolated: topology.isolated_cpus(),
        flow_steering: args.rfs,
        receive_scaling: args.rss,
        node: None,
    };
    document.plan = Some(plan(&topology, &document.devices, document.sock_flow_entries, &request));
    Ok(document)
}

fn apply(common: &Common, args: &ApplyArgs) -> Result<ExitCode, Failure> {
    let kernel = receipts::live_kernel(common)?;
    let _lock = receipts::lock(common);
    let mut document = planned_document(&Machine::pick(common)?, &args.plan)?;
    let changes = document.plan.as_mut().map(|plan| std::mem::take(&mut plan.changes)).unwrap_or_default();
    if changes.is_empty() {
        output::remark(common, "nothing to change: numaio irq plan shows the reasons");
        return Ok(ExitCode::SUCCESS);
    }
    check_irqbalance(common, args.despite_irqbalance, document.irqbalance, &changes)?;
    let (changes, unmovable) = numaio_place::without_unmovable(&kernel, changes)
        .map_err(|error| receipts::apply_failure(error, PERMISSION_HINT))?;
    for irq in unmovable {
        output::remark(
            common,
            &format!(
                "skipped interrupt {irq}: the kernel manages its affinity, or its controller does not support a change"
            ),
        );
    }
    if changes.is_empty() {
        return Err(Failure::new("none of these interrupts can be moved").hint(
            "the kernel spreads managed interrupts over all CPUs; tasks on a CPU use the queue of that CPU",
        ));
    }
    let mut receipt = receipts::planned_receipt(&kernel, &document.machine, changes);
    receipt.devices = document.devices.iter().map(|device| device.device.clone()).collect();
    let (id, done) = receipts::apply_irq(&kernel, receipt)
        .map_err(|error| receipts::apply_failure(error, PERMISSION_HINT))?;
    let count = done.applied.len();
    output::remark(common, &format!("changed {count} settings; numaio undo {id} reverts them"));
    let machine = Machine::Live(kernel);
    let (_, after) = inspect(&machine, &args.plan.devices)?;
    print(common, &args.plan.output, &after)
}

/// Hint with the privileges that changes require.
pub const PERMISSION_HINT: &str =
    "nothing was changed. Interrupts require root or CAP_DAC_OVERRIDE, packet steering also CAP_NET_ADMIN. \
    Containers mount /proc and /sys read-only: run as root on the host";

/// Rejects changes of interrupts that irqbalance would undo.
pub fn check_irqbalance(
    common: &Common,
    despite_irqbalance: bool,
    irqbalance: Option<bool>,
    changes: &[AppliedChange],
) -> Result<(), Failure> {
    let moves = changes.iter().any(|applied| matches!(applied.change, Change::IrqAffinity { .. }));
    match irqbalance {
        Some(true) if moves && !despite_irqbalance => {
            let banned = numaio_report::irqbalance_ban(changes);
            Err(Failure::new("irqbalance is running and would move these interrupts again").hint(format!(
                "exclude them ({banned} in /etc/default/irqbalance or /etc/sysconfig/irqbalance, then restart it) \
                 or stop irqbalance; if it must run, pass --despite-irqbalance"
            )))
        }
        None if moves => {
            output::remark(
                common,
                "cannot determine whether irqbalance is running; it would move the interrupts again",
            );
            Ok(())
        }
        _ => Ok(()),
    }
}

fn undo_devices(common: &Common, devices: &[String]) -> Result<ExitCode, Failure> {
    let kernel: Kernel = receipts::live_kernel(common)?;
    let _lock = receipts::lock(common);
    let all = receipts::all(common, &kernel)?;
    let topology = discover(&kernel);
    let matches_device = |stored: &receipts::StoredReceipt, device: &String| {
        stored.names_device(device, &topology)
            || !all.iter().any(|stored| stored.names_device(device, &topology))
                && stored.may_name_device(device, &topology)
    };
    if let Some(device) =
        devices.iter().find(|device| !all.iter().any(|stored| matches_device(stored, device)))
    {
        return Err(Failure::new(format!("no changes of numaio to device '{device}' are in force"))
            .hint("numaio undo --list shows changes in force"));
    }
    let mut chosen = all
        .iter()
        .rev()
        .filter(|stored| {
            !stored.receipt.devices.is_empty()
                && (devices.is_empty() || devices.iter().any(|device| matches_device(stored, device)))
        })
        .peekable();
    if chosen.peek().is_none() {
        output::remark(common, "no changes of interrupts to undo on this machine");
    }
    undo::undo_each(common, &kernel, chosen, &all)?;
    Ok(ExitCode::SUCCESS)
}
