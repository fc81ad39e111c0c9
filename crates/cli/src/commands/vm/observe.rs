//! `numaio vm list` and `show`, and the guests of this host for other commands.

use crate::commands::placement;
use crate::documents;
use crate::failure::Failure;
use crate::machine::Machine;
use crate::options::Common;
use crate::output::{self, json};
use crate::store::Kind;
use clap::Args;
use numaio_linux::guest_monitor;
use numaio_machine::checkup::Symptom;
use numaio_machine::discover::discover;
use numaio_machine::guests::{self, guest_devices, GivenTopology, Guest, GuestDevice};
use numaio_machine::near::ResolveContext;
use numaio_machine::topology::Topology;
use numaio_model::MachineEvidence;
use numaio_schema::{GuestStatus, GuestsDocument, Model, GUESTS_SCHEMA};
use std::process::ExitCode;

/// Arguments of `numaio vm list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `numaio vm show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Name or process ID of a guest; self for this machine as a guest
    #[arg(value_name = "NAME|PID|self")]
    pub guest: String,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Name by which `show` selects this machine.
const SELF: &str = "self";

/// Runs `numaio vm list`.
pub fn list(common: &Common, args: &ListArgs) -> Result<ExitCode, Failure> {
    let machine = Machine::pick(common)?;
    require_processes(&machine)?;
    let host = Host::read(common, &machine)?;
    let guests = host.describe(all(&machine));
    let document = host.document(guests, GivenTopology::read(&machine, &host.topology));
    print(common, args.json, &document, numaio_report::guests_text)
}

/// Runs `numaio vm show`.
pub fn show(common: &Common, args: &ShowArgs) -> Result<ExitCode, Failure> {
    let machine = Machine::pick(common)?;
    let host = Host::read(common, &machine)?;
    let document = match args.guest.as_str() {
        SELF => {
            let given = GivenTopology::read(&machine, &host.topology).ok_or_else(|| {
                Failure::new("this machine is not a guest")
                    .hint("numaio vm list lists the guests that it runs")
            })?;
            host.document(Vec::new(), Some(given))
        }
        name => {
            require_processes(&machine)?;
            host.document(host.describe(vec![select(&machine, name)?]), None)
        }
    };
    print(common, args.json, &document, numaio_report::guest_text)
}

fn print(
    common: &Common,
    as_json: bool,
    document: &GuestsDocument,
    text: fn(&GuestsDocument, &numaio_report::TextStyle) -> String,
) -> Result<ExitCode, Failure> {
    let text = if as_json { json(document)? } else { text(document, &output::style(common)) };
    output::print(&text)?;
    let is_faulty = document.guests.iter().any(GuestStatus::has_faults);
    Ok(if is_faulty { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Rejects a tape, which records no processes.
pub fn require_processes(machine: &Machine) -> Result<(), Failure> {
    match machine {
        Machine::Live(_) | Machine::Copied(_) => Ok(()),
        _ => Err(Failure::usage("a recorded machine has no running guests")
            .hint("omit --machine to examine this machine")),
    }
}

/// A host with what its guests are compared with.
pub struct Host<'a> {
    pub machine: &'a Machine,
    pub topology: Topology,
    pub models: Vec<Model>,
    pub io: Vec<numaio_schema::IoRecord>,
}

impl<'a> Host<'a> {
    /// Reads the host and its saved measurements.
    pub fn read(common: &Common, machine: &'a Machine) -> Result<Self, Failure> {
        let topology = discover(machine);
        let models = placement::models(common, machine, &topology, None)?;
        let io = documents::saved_io(common, Kind::Io, &topology.identity);
        Ok(Self { machine, topology, models, io })
    }

    /// Returns the devices that a guest uses.
    pub fn devices(&self, guest: &Guest) -> Vec<GuestDevice> {
        guest_devices(context(self.machine, &self.topology), guest)
    }

    /// Describes guests, with the cost of what is remote.
    pub fn describe(&self, guests: Vec<Guest>) -> Vec<GuestStatus> {
        let evidence =
            MachineEvidence { topology: &self.topology, models: &self.models, io: &self.io, interrupts: &[] };
        let describe = |guest: Guest| {
            let devices = self.devices(&guest);
            numaio_model::guest_status(&evidence, guest, devices)
        };
        guests.into_iter().map(describe).collect()
    }

    /// Returns the document of guests.
    pub fn document(&self, guests: Vec<GuestStatus>, given: Option<GivenTopology>) -> GuestsDocument {
        GuestsDocument {
            schema: GUESTS_SCHEMA.to_owned(),
            numaio: env!("CARGO_PKG_VERSION").to_owned(),
            machine: self.topology.identity.clone(),
            observed_at: self.machine.observed_at(),
            given,
            guests,
        }
    }
}

fn context<'a>(machine: &'a Machine, topology: &'a Topology) -> ResolveContext<'a> {
    ResolveContext { root: machine, locate: machine, topology }
}

/// Returns all guests, by process id. Monitors are queried for threads without names.
pub fn all(machine: &Machine) -> Vec<Guest> {
    let mut found = guests::all(machine);
    found.iter_mut().for_each(|guest| query_monitor(machine, guest));
    found
}

/// Identifies the threads of a guest by its monitor. libvirt occupies those of its guests, and
/// names their threads.
fn query_monitor(machine: &Machine, guest: &mut Guest) {
    if !machine.is_live() || guest.configuration.libvirt || !guest.has_unnamed_vcpus() {
        return;
    }
    let absolute = |path: &&String| path.starts_with('/');
    let monitors: Vec<String> = guest.configuration.monitors.iter().filter(absolute).cloned().collect();
    for path in monitors {
        match guest_monitor::query_threads(&path) {
            Ok(lines) => return guest.apply_monitor(&guests::parse_threads(&lines)),
            Err(error) => output::detail(format_args!("monitor {path}: {error}")),
        }
    }
}

/// Finds the guest with a name or process id.
///
/// # Errors
/// [`Failure`]: no such guest, or several of the name.
pub fn select(machine: &Machine, name: &str) -> Result<Guest, Failure> {
    let mut found: Vec<Guest> = guests::all(machine);
    let pid: Option<u32> = name.parse().ok();
    let is_it = |guest: &Guest| Some(guest.pid) == pid || guest.name() == name;
    let names: Vec<String> = found.iter().map(|guest| format!("{} ({})", guest.name(), guest.pid)).collect();
    found.retain(is_it);
    // A process id wins over a guest that is named like one.
    if let Some(index) = found.iter().position(|guest| Some(guest.pid) == pid) {
        found = vec![found.swap_remove(index)];
    }
    match found.len() {
        1 => {
            let mut guest = found.remove(0);
            query_monitor(machine, &mut guest);
            Ok(guest)
        }
        0 => {
            let failure = Failure::usage(format!("guest '{name}' not found"));
            Err(match names.as_slice() {
                [] => failure.hint("no visible process runs a guest"),
                names => failure.hint(format!("guests: {}", names.join(", "))),
            })
        }
        count => {
            let pids: Vec<String> = found.iter().map(|guest| guest.pid.to_string()).collect();
            Err(Failure::usage(format!("{count} guests are named '{name}'"))
                .hint(format!("select one by its process ID: {}", pids.join(", "))))
        }
    }
}

/// Returns the symptoms of all guests for `numaio doctor`, and the process ids of the guests.
pub fn symptoms(machine: &Machine, evidence: &MachineEvidence) -> (Vec<Symptom>, Vec<u32>) {
    let guests = all(machine);
    let of_guest = |guest: &Guest| {
        let devices = guest_devices(context(machine, evidence.topology), guest);
        numaio_model::remote_symptoms(evidence, guest, &devices)
    };
    (guests.iter().flat_map(of_guest).collect(), guests.iter().map(|guest| guest.pid).collect())
}

/// Reads a guest again, after a change.
pub fn read_again(machine: &Machine, pid: u32, start_time: u64) -> Option<Guest> {
    let mut guest = guests::read(machine, pid).ok().flatten()?;
    query_monitor(machine, &mut guest);
    (guest.start_time == start_time).then_some(guest)
}
