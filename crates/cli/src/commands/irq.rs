//! `numaio irq`: which CPUs serve devices, and which should.

use super::{json, placement, undo};
use crate::args::Common;
use crate::failure::{self, Failure};
use crate::machine::Machine;
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

/// Show, plan and set which CPUs serve devices: their interrupts, and packets by RPS, RFS and XPS.
#[derive(Debug, Args)]
pub struct IrqArgs {
    #[command(subcommand)]
    pub what: IrqCommand,
}

#[derive(Debug, Subcommand)]
pub enum IrqCommand {
    /// Show interrupts and queues of devices as they are now; of all devices if none is named
    Show(ShowArgs),
    /// Show what numaio irq apply would change, and why; nothing is changed
    Plan(PlanArgs),
    /// Change it; numaio irq undo takes it back
    ///
    /// It needs rights to the files of root (root, or CAP_DAC_OVERRIDE) for interrupts, and CAP_NET_ADMIN too for
    /// RPS, RFS and XPS. All is changed or nothing. A receipt is kept from before the first change.
    Apply(ApplyArgs),
    /// Take back what apply changed; of all devices if none is named
    Undo(UndoArgs),
}

#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Devices: a name, a PCI address, or what else numaio near takes
    #[arg(value_name = "DEV")]
    pub devices: Vec<Handle>,
    #[command(flatten)]
    pub form: FormArgs,
}

#[derive(Debug, Args)]
pub struct FormArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Write into FILE (- for standard output)
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct PlanArgs {
    /// Devices: a name, a PCI address, or what else numaio near takes
    #[arg(value_name = "DEV", required = true)]
    pub devices: Vec<Handle>,
    /// Leave the CPUs of this plan to its tasks; numaio place --json writes such a file
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,
    /// Use receive flow steering too: packets go where their reader runs. It holds for the whole machine
    #[arg(long)]
    pub rfs: bool,
    #[command(flatten)]
    pub form: FormArgs,
}

#[derive(Debug, Args)]
pub struct ApplyArgs {
    #[command(flatten)]
    pub plan: PlanArgs,
    /// Show what would be changed, and change nothing; the same as numaio irq plan
    #[arg(long)]
    pub dry_run: bool,
    /// Go on although irqbalance runs, which may move the interrupts again
    #[arg(long)]
    pub despite_irqbalance: bool,
}

#[derive(Debug, Args)]
pub struct UndoArgs {
    /// Devices, by a name, a PCI address, or the name under which they were changed
    #[arg(value_name = "DEV")]
    pub devices: Vec<String>,
}

pub fn run(common: &Common, args: &IrqArgs) -> Result<ExitCode, Failure> {
    match &args.what {
        IrqCommand::Show(args) => {
            let machine = Machine::pick(common)?;
            let (_, document) = inspect(&machine, &args.devices)?;
            print(common, &args.form, &document)
        }
        IrqCommand::Plan(args) => {
            print(common, &args.form, &planned_document(&Machine::pick(common)?, args)?)
        }
        IrqCommand::Apply(args) if args.dry_run => {
            print(common, &args.plan.form, &planned_document(&Machine::pick(common)?, &args.plan)?)
        }
        IrqCommand::Apply(args) => apply(common, args),
        IrqCommand::Undo(args) => undo_devices(common, &args.devices),
    }
}

fn print(common: &Common, form: &FormArgs, document: &IrqDocument) -> Result<ExitCode, Failure> {
    let text = match form.json {
        true => json(document)?,
        false => numaio_report::irq_text(document, &output::style(common)),
    };
    match &form.output {
        Some(path) => drop(output::write(path, &text)?),
        None => output::print(&text)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The devices as they are.
fn inspect(machine: &Machine, handles: &[Handle]) -> Result<(Topology, IrqDocument), Failure> {
    let topology = discover(machine);
    let devices = match handles {
        [] => topology.devices.iter().filter(|it| it.moves_data() && !it.irqs.is_empty()).collect(),
        handles => resolve_devices(machine, &topology, handles)?,
    };
    // Of two controllers of one name each is told, changed and taken back alone.
    let of = |device: &Device| DeviceIrqs {
        device: device.distinct_name(&topology.devices),
        ..read_device(machine, device)
    };
    let document = IrqDocument {
        schema: IRQ_SCHEMA.to_owned(),
        numaio: env!("CARGO_PKG_VERSION").to_owned(),
        machine: topology.identity.fingerprint.clone(),
        irqbalance: conditions::read(machine).irqbalance,
        sock_flow_entries: steering::sock_flow_entries(machine),
        devices: devices.into_iter().map(of).collect(),
        plan: None,
    };
    Ok((topology, document))
}

/// The devices that handles lead to, each once; every one has interrupts.
fn resolve_devices<'a>(
    machine: &Machine,
    topology: &'a Topology,
    handles: &[Handle],
) -> Result<Vec<&'a Device>, Failure> {
    let ground = ResolveContext { root: machine, locate: machine, topology };
    let mut found: Vec<&Device> = Vec::new();
    for handle in handles {
        let resolved = resolve(ground, handle);
        if resolved.devices.is_empty() {
            return Err(failure::unresolved(&resolved));
        }
        for device in resolved.devices.iter().filter_map(|near| topology.devices.get(near.index)) {
            if device.irqs.is_empty() {
                return Err(without_interrupts(device));
            }
            if !found.iter().any(|other| other.path == device.path) {
                found.push(device);
            }
        }
    }
    Ok(found)
}

fn without_interrupts(device: &Device) -> Failure {
    let failure = Failure::new(format!("{} has no interrupts of its own", device.name()));
    match (&device.driver, device.pci) {
        (None, Some(_)) => failure.hint("no driver is bound to it: load one, and look again"),
        (_, None) => failure.hint("it is not on PCI: its interrupts are those of the controller it hangs on"),
        _ => failure
            .hint("an interface that is down has none with many drivers: ip link set it up, and look again"),
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
    let request = IrqRequest { tasks, isolated: steering::isolated_cpus(machine), flow_steering: args.rfs };
    document.plan = Some(plan(&topology, &document.devices, document.sock_flow_entries, &request));
    Ok(document)
}

fn apply(common: &Common, args: &ApplyArgs) -> Result<ExitCode, Failure> {
    let kernel = receipts::live_kernel(common)?;
    let _lock = receipts::lock(common);
    let mut document = planned_document(&Machine::pick(common)?, &args.plan)?;
    let changes = document.plan.as_mut().map(|plan| std::mem::take(&mut plan.changes)).unwrap_or_default();
    if changes.is_empty() {
        output::remark(common, "nothing is to change: run numaio irq plan for the reasons");
        return Ok(ExitCode::SUCCESS);
    }
    check_irqbalance(common, args, &document, &changes)?;
    let (changes, unmovable) = numaio_place::without_unmovable(&kernel, changes)
        .map_err(|error| receipts::apply_failure(error, PERMISSION_HINT))?;
    for irq in unmovable {
        output::remark(
            common,
            &format!("interrupt {irq} is left where it is: the kernel manages it for its driver, or its controller moves none"),
        );
    }
    if changes.is_empty() {
        return Err(Failure::new("none of these interrupts can be moved").hint(
            "the kernel spreads managed interrupts over all CPUs by itself; tasks on a CPU use the queue of that CPU",
        ));
    }
    let mut receipt = receipts::planned_receipt(&kernel, &document.machine, changes);
    receipt.devices = document.devices.iter().map(|device| device.device.clone()).collect();
    let (id, done) = receipts::apply_irq(&kernel, receipt)
        .map_err(|error| receipts::apply_failure(error, PERMISSION_HINT))?;
    let count = done.applied.len();
    output::remark(common, &format!("{count} settings are changed; numaio undo {id} takes them back"));
    let machine = Machine::Live(kernel);
    let (_, after) = inspect(&machine, &args.plan.devices)?;
    print(common, &args.plan.form, &after)
}

/// What changing interrupts and steering needs.
const PERMISSION_HINT: &str = "nothing is changed. Interrupts need rights to the files of root (root, or CAP_DAC_OVERRIDE), packet steering \
    CAP_NET_ADMIN too, and a container sees /proc and /sys for reading only: run as root on the host";

/// Two masters of the same interrupts are one too many.
fn check_irqbalance(
    common: &Common,
    args: &ApplyArgs,
    document: &IrqDocument,
    changes: &[AppliedChange],
) -> Result<(), Failure> {
    let moves = changes.iter().any(|applied| matches!(applied.change, Change::IrqAffinity { .. }));
    match document.irqbalance {
        Some(true) if moves && !args.despite_irqbalance => {
            let banned = numaio_report::irqbalance_ban(changes);
            Err(Failure::new("irqbalance runs, and would move these interrupts again within seconds").hint(format!(
                "tell it to leave them alone ({banned} in /etc/default/irqbalance or /etc/sysconfig/irqbalance, and \
                 restart it) or stop it, and give --despite-irqbalance if it still runs"
            )))
        }
        None if moves => {
            output::remark(
                common,
                "whether irqbalance runs is not to be seen here; it would move interrupts again",
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
        return Err(Failure::new(format!("numaio changed nothing about {device} that is still in force"))
            .hint("numaio undo --list shows what was changed"));
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
        output::remark(common, "there are no changes of interrupts to take back on this machine");
    }
    undo::undo_each(common, &kernel, chosen, &all)?;
    Ok(ExitCode::SUCCESS)
}
