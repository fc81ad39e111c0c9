//! `numaio vm place` and `plan`: nodes for guests, and configurations that put them there.

use super::observe::{self, Host};
use super::place_args::{FunctionChoice, GuestForm, PlaceArgs, PlanArgs, PlanOutputArgs};
use super::plan_file::{self, GuestEntry};
use super::planning::{self, PlacingOptions};
use super::requests::{self, Requested, Targets};
use crate::commands::placement;
use crate::failure::Failure;
use crate::machine::Machine;
use crate::options::Common;
use crate::output::{self, json};
use crate::receipts;
use numaio_machine::control::Change;
use numaio_machine::devices::{PciAddress, Sriov};
use numaio_machine::guests::{Guest, GuestDevice};
use numaio_machine::near::Handle;
use numaio_schema::{AppliedChange, GuestPlan, GuestRequest};
use std::path::Path;
use std::process::ExitCode;

/// Runs `numaio vm place`.
pub fn run(common: &Common, args: &PlaceArgs) -> Result<ExitCode, Failure> {
    if let Some(count) = args.create_vfs {
        create_functions(common, &args.near, count)?;
    }
    let machine = Machine::pick(common)?;
    let mut host = Host::read(common, &machine)?;
    use_model(common, &mut host, args.model.as_deref())?;
    let guests = running_guests(&machine);
    let mut requested = requests::read(&host, args)?;
    let mut targets = Targets::new(&host, &used_devices(&host, &guests));
    for handle in &args.near {
        let demands = targets.add(&host, handle, None)?;
        requested.requests.iter_mut().for_each(|request| request.demands.extend(demands.clone()));
    }
    let options = PlacingOptions {
        hardware_threads: args.output.hyper_threads,
        functions: args.vf == FunctionChoice::Auto,
    };
    let plan = planning::plan(&host, &guests, &requested, &targets, options)?;
    write(common, &args.output, &host, &plan, &requested.domains)
}

/// Runs `numaio vm plan`.
pub fn plan(common: &Common, args: &PlanArgs) -> Result<ExitCode, Failure> {
    let file = plan_file::read(&args.file)?;
    let machine = Machine::pick(common)?;
    let mut host = Host::read(common, &machine)?;
    use_model(common, &mut host, args.model.as_deref())?;
    let guests = running_guests(&machine);
    let mut targets = Targets::new(&host, &used_devices(&host, &guests));
    let mut requested = Requested::default();
    for entry in file.guest {
        requested.requests.push(request(&host, &mut targets, entry)?);
        requested.domains.push(None);
    }
    let options = PlacingOptions {
        hardware_threads: args.output.hyper_threads,
        functions: args.vf == FunctionChoice::Auto,
    };
    let plan = planning::plan(&host, &guests, &requested, &targets, options)?;
    write(common, &args.output, &host, &plan, &requested.domains)
}

fn request(host: &Host, targets: &mut Targets, entry: GuestEntry) -> Result<GuestRequest, Failure> {
    let mut demands = Vec::new();
    for device in &entry.device {
        let bandwidth = device.bandwidth.map(|bytes| bytes as f64);
        demands.extend(targets.add(host, &device.near, bandwidth)?);
    }
    Ok(GuestRequest {
        name: entry.name,
        vcpus: entry.vcpus,
        memory_bytes: entry.memory,
        io_threads: entry.io_threads,
        huge_page_bytes: entry.huge_pages,
        vcpu_ids: Vec::new(),
        cells: Vec::new(),
        demands,
    })
}

fn use_model(common: &Common, host: &mut Host, path: Option<&Path>) -> Result<(), Failure> {
    if path.is_some() {
        host.models = placement::models(common, host.machine, &host.topology, path)?;
    }
    Ok(())
}

/// Returns the running guests; none of a recorded machine.
fn running_guests(machine: &Machine) -> Vec<Guest> {
    match observe::require_processes(machine) {
        Ok(()) => observe::all(machine),
        Err(_) => Vec::new(),
    }
}

fn used_devices(host: &Host, guests: &[Guest]) -> Vec<GuestDevice> {
    guests.iter().flat_map(|guest| host.devices(guest)).collect()
}

/// Writes a plan in the requested format. `domains` holds the domain of each guest from a file.
fn write(
    common: &Common,
    args: &PlanOutputArgs,
    host: &Host,
    plan: &GuestPlan,
    domains: &[Option<String>],
) -> Result<ExitCode, Failure> {
    let topology = &host.topology;
    let text = match if args.json { GuestForm::Json } else { args.format } {
        GuestForm::Text => numaio_report::guest_plan_text(plan, &output::style(common)),
        GuestForm::Json => json(plan)?,
        GuestForm::Libvirt => {
            let domain = |(index, domain): (usize, &Option<String>)| match domain {
                Some(text) => numaio_report::guest_domain_from(plan, index, topology, text),
                None => Ok(numaio_report::guest_domain(plan, index, topology)),
            };
            let domains: Result<Vec<String>, _> = domains.iter().enumerate().map(domain).collect();
            domains.map_err(Failure::new)?.join("\n")
        }
        GuestForm::Qemu => numaio_report::guest_qemu(plan, topology),
        GuestForm::Kubevirt => numaio_report::guest_kubevirt(plan, topology),
        GuestForm::Openstack => numaio_report::guest_openstack(plan, topology),
        GuestForm::Proxmox => numaio_report::guest_proxmox(plan, topology),
    };
    match &args.output {
        Some(path) => drop(output::write(path, &text)?),
        None => output::print(&text)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Enables virtual functions of the first device with support, with a receipt. Functions that are
/// enabled already stay as they are.
fn create_functions(common: &Common, near: &[Handle], count: u32) -> Result<(), Failure> {
    let kernel = receipts::live_kernel(common)?;
    let _lock = receipts::lock(common);
    let machine = Machine::pick(common)?;
    let host = Host::read(common, &machine)?;
    let (function, total, enabled) = physical_function(&host, near)?;
    if enabled > 0 {
        output::remark(common, &format!("{function} has {enabled} virtual functions already"));
        return Ok(());
    }
    if count > total {
        return Err(Failure::usage(format!(
            "cannot enable {count} virtual functions of '{function}': it supports {total}"
        )));
    }
    let change = |count| Change::VirtualFunctions { function, count };
    let applied = vec![AppliedChange { change: change(count), inverse: change(0) }];
    let receipt = receipts::planned_receipt(&kernel, &host.topology.identity.fingerprint, applied);
    let (id, _) =
        receipts::apply_numbered(&kernel, receipt, super::apply::RECEIPT_KIND).map_err(|error| {
            receipts::apply_failure(
                error,
                "run as root on the host, with an IOMMU enabled and SR-IOV enabled in the firmware",
            )
        })?;
    output::remark(
        common,
        &format!("enabled {count} virtual functions of {function}; numaio undo {id} removes them"),
    );
    Ok(())
}

/// Returns the first physical function behind the handles, with its supported and enabled virtual
/// functions.
fn physical_function(host: &Host, near: &[Handle]) -> Result<(PciAddress, u32, usize), Failure> {
    for handle in near {
        for target in placement::devices_of(host.machine, &host.topology, handle)? {
            let device = host.topology.devices.iter().find(|device| device.has_name(&target.device));
            let found = device.and_then(|device| match &device.sriov {
                Some(Sriov::Physical { total, functions }) => Some((device.pci?, *total, functions.len())),
                _ => None,
            });
            if let Some(found) = found {
                return Ok(found);
            }
        }
    }
    let names: Vec<String> = near.iter().map(ToString::to_string).collect();
    Err(Failure::new(format!("{} has no SR-IOV", names.join(", ")))
        .hint("numaio topology lists the devices with virtual functions"))
}
