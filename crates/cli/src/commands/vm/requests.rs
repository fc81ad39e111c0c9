//! Guests to place: running ones, domains in files, or new ones.

use super::observe::{self, Host};
use super::place_args::PlaceArgs;
use crate::commands::placement;
use crate::failure::Failure;
use crate::input;
use numaio_machine::devices::{Device, DeviceKind, PciAddress};
use numaio_machine::guests::{
    free_functions, DomainCell, DomainSummary, Guest, GuestDevice, GuestDeviceKind, GuestThread, ThreadRole,
};
use numaio_machine::ids::NodeId;
use numaio_machine::near::Handle;
use numaio_machine::set::CpuSet;
use numaio_machine::topology::Topology;
use numaio_model::{GuestTarget, TargetDevice};
use numaio_schema::{GuestDemand, GuestRequest, RequestedCell};
use std::collections::BTreeMap;
use std::path::Path;

/// Most CPUs of a thread that is pinned: those of one core.
const PINNED_CPUS: usize = 2;

/// Guests to place, with what they need of the host.
#[derive(Debug, Default)]
pub struct Requested {
    /// The requests.
    pub requests: Vec<GuestRequest>,
    /// Text of the domain of each request that was read from a file.
    pub domains: Vec<Option<String>>,
    /// Process ids of requested guests that are running.
    pub running: Vec<u32>,
    /// Their memory, by page size and node.
    pub released: BTreeMap<Option<u64>, BTreeMap<NodeId, u64>>,
}

impl Requested {
    fn add(&mut self, request: GuestRequest, domain: Option<String>) {
        self.requests.push(request);
        self.domains.push(domain);
    }

    /// Adds a running guest.
    pub fn add_running(&mut self, guest: &Guest) -> Result<(), Failure> {
        let request = of_running(guest)?;
        let memory = self.released.entry(request.huge_page_bytes).or_default();
        for (node, bytes) in guest.memory.as_ref().map(|memory| memory.bytes_on()).unwrap_or_default() {
            let sum = memory.entry(node).or_default();
            *sum = sum.saturating_add(bytes);
        }
        self.running.push(guest.pid);
        self.add(request, None);
        Ok(())
    }
}

/// Reads the guests that the arguments name.
pub fn read(host: &Host, args: &PlaceArgs) -> Result<Requested, Failure> {
    let mut requested = Requested::default();
    for name in &args.guests {
        if is_file(name) {
            let text = input::read_text(Path::new(name))?;
            let summary = DomainSummary::parse(&text).map_err(|error| {
                Failure::file(Path::new(name), error).hint("virsh dumpxml --inactive NAME writes a domain")
            })?;
            keeps_what_is_referred_to(&summary, args)?;
            requested.add(of_domain(&host.topology, &summary), Some(text));
        } else {
            observe::require_processes(host.machine)?;
            requested.add_running(&observe::select(host.machine, name)?)?;
        }
    }
    if args.guests.is_empty() {
        requested.add(new_guest(args)?, None);
    }
    for request in &mut requested.requests {
        request.vcpus = args.vcpus.unwrap_or(request.vcpus);
        request.memory_bytes = args.memory.unwrap_or(request.memory_bytes);
        request.io_threads = args.io_threads.unwrap_or(request.io_threads);
        request.huge_page_bytes = args.huge_pages.or(request.huge_page_bytes);
        let cells = request.cells.iter_mut();
        cells.for_each(|cell| cell.huge_page_bytes = args.huge_pages.or(cell.huge_page_bytes));
    }
    Ok(requested)
}

/// Returns whether an argument names a file: a path, or the name of an XML file.
fn is_file(name: &str) -> bool {
    name.contains('/') || name == "-" || name.ends_with(".xml")
}

fn new_guest(args: &PlaceArgs) -> Result<GuestRequest, Failure> {
    let (Some(vcpus), Some(memory_bytes)) = (args.vcpus, args.memory) else {
        return Err(Failure::usage("a new guest needs --vcpus and --memory")
            .hint("or name a running guest (numaio vm list) or the file of a libvirt domain"));
    };
    Ok(GuestRequest {
        name: args.name.clone(),
        vcpus,
        memory_bytes,
        io_threads: 0,
        huge_page_bytes: None,
        vcpu_ids: Vec::new(),
        cells: Vec::new(),
        demands: Vec::new(),
    })
}

/// Rejects a change of a domain that would contradict its other parts.
fn keeps_what_is_referred_to(summary: &DomainSummary, args: &PlaceArgs) -> Result<(), Failure> {
    let refuse = |option: &str, why: &str| {
        Err(Failure::usage(format!("cannot apply {option} to guest '{}': {why}", summary.name))
            .hint("change the domain first (virsh edit), or omit the option"))
    };
    let vcpus = args.vcpus.filter(|count| *count as usize != summary.vcpu_ids.len());
    if let Some(element) = vcpus.and(summary.refers_to_vcpus) {
        return refuse("--vcpus", &format!("its {element} refers to single vCPUs"));
    }
    if args.memory.is_some_and(|bytes| bytes != summary.memory_bytes) {
        if !summary.cells.is_empty() {
            return refuse("--memory", "its <numa> divides the memory among guest nodes");
        }
        if summary.has_memory_devices {
            return refuse("--memory", "its memory includes memory devices");
        }
    }
    if args.io_threads.is_some_and(|count| (count as usize) < summary.io_thread_ids.len()) {
        return refuse("--io-threads", "its devices may use the I/O threads that it has");
    }
    Ok(())
}

fn of_domain(topology: &Topology, summary: &DomainSummary) -> GuestRequest {
    let huge = |bytes: Option<u64>| bytes.filter(|bytes| is_huge(topology, *bytes));
    let cell = |cell: &DomainCell| RequestedCell {
        vcpu_ids: cell.vcpu_ids.clone(),
        memory_bytes: cell.memory_bytes,
        huge_page_bytes: huge(cell.huge_page_bytes),
    };
    let mut cells: Vec<RequestedCell> = summary.cells.iter().map(cell).collect();
    if cells.is_empty() && summary.has_memory_devices {
        // Each memory device is on one node.
        cells.push(RequestedCell {
            vcpu_ids: summary.vcpu_ids.clone(),
            memory_bytes: summary.memory_bytes,
            huge_page_bytes: huge(summary.huge_page_bytes),
        });
    }
    let count_from_0 = (0u32..).zip(&summary.vcpu_ids).all(|(number, id)| number == *id);
    GuestRequest {
        name: summary.name.clone(),
        vcpus: u32::try_from(summary.vcpu_ids.len()).unwrap_or(u32::MAX),
        memory_bytes: summary.memory_bytes,
        io_threads: u32::try_from(summary.io_thread_ids.len()).unwrap_or(u32::MAX),
        huge_page_bytes: huge(summary.huge_page_bytes),
        vcpu_ids: if count_from_0 { Vec::new() } else { summary.vcpu_ids.clone() },
        cells,
        demands: Vec::new(),
    }
}

/// Returns whether pages of this size are reserved: a domain may also state the size of ordinary
/// pages, which have no pool and at most 64 KiB.
fn is_huge(topology: &Topology, bytes: u64) -> bool {
    const LARGEST_ORDINARY: u64 = 64 << 10;
    let mut pools = topology.nodes.iter().flat_map(|node| &node.huge_pages);
    bytes > LARGEST_ORDINARY || pools.any(|pool| pool.page_bytes == bytes)
}

/// Describes a running guest by its threads and memory; what they do not show is configured.
pub fn of_running(guest: &Guest) -> Result<GuestRequest, Failure> {
    let is_one = |thread: &&GuestThread| matches!(thread.role, ThreadRole::Vcpu { .. });
    let threads = u32::try_from(guest.threads.iter().filter(is_one).count()).ok();
    let vcpus = threads.filter(|count| *count > 0).max(guest.configuration.vcpus);
    let regions = guest.memory.iter().flat_map(|memory| &memory.regions);
    let mapped = regions.clone().fold(0u64, |sum, region| sum.saturating_add(region.bytes));
    let memory = guest.configuration.memory_bytes.or(Some(mapped).filter(|bytes| *bytes > 0));
    let page = regions.map(|region| region.page_bytes).max().filter(|bytes| *bytes > 4096);
    let unknown = |what: &str| {
        Failure::new(format!("the {what} of guest '{}' is unknown", guest.name()))
            .hint("run as root, or state it with --vcpus and --memory")
    };
    Ok(GuestRequest {
        name: guest.name(),
        vcpus: vcpus.ok_or_else(|| unknown("number of vCPUs"))?,
        memory_bytes: memory.ok_or_else(|| unknown("memory"))?,
        io_threads: u32::try_from(guest.configuration.io_threads.len()).unwrap_or(u32::MAX),
        huge_page_bytes: page,
        vcpu_ids: Vec::new(),
        cells: Vec::new(),
        demands: Vec::new(),
    })
}

/// Devices that guests use, each once.
#[derive(Default)]
pub struct Targets {
    /// The devices.
    pub devices: Vec<GuestTarget>,
    /// Virtual functions that running guests use.
    used: Vec<PciAddress>,
}

impl Targets {
    /// Starts with the virtual functions that these devices of guests are.
    pub fn new(host: &Host, devices: &[GuestDevice]) -> Self {
        let owned = devices.iter().filter(|device| device.kind == GuestDeviceKind::Passthrough);
        let address = |device: &GuestDevice| host.topology.devices.get(device.index?)?.pci;
        Self { devices: Vec::new(), used: owned.filter_map(address).collect() }
    }

    /// Adds the devices behind a handle; returns a demand for each. `bytes_per_s` is divided among
    /// them by their bandwidth.
    pub fn add(
        &mut self,
        host: &Host,
        handle: &Handle,
        bytes_per_s: Option<f64>,
    ) -> Result<Vec<GuestDemand>, Failure> {
        let found = placement::devices_of(host.machine, &host.topology, handle)?;
        let total: Option<f64> = found.iter().map(|device| device.bytes_per_s).sum();
        let count = found.len() as f64;
        let mut demands = Vec::new();
        for device in found {
            let share = match (device.bytes_per_s, total.filter(|total| *total > 0.0)) {
                (Some(own), Some(total)) => own / total,
                _ => 1.0 / count,
            };
            demands.push(GuestDemand {
                device: device.device.clone(),
                bytes_per_s: bytes_per_s.map(|rate| rate * share),
            });
            self.insert(host, device);
        }
        Ok(demands)
    }

    /// Adds a device that a running guest uses; returns the demand.
    pub fn add_used(&mut self, host: &Host, used: &GuestDevice) -> Option<GuestDemand> {
        let device = host.topology.devices.get(used.index?)?;
        let name = device.distinct_name(&host.topology.devices);
        let target = placement::find_device(&host.topology, &name)?;
        let node = target.node.or(used.node);
        self.insert(host, TargetDevice { node, ..target });
        Some(GuestDemand { device: name, bytes_per_s: None })
    }

    fn insert(&mut self, host: &Host, device: TargetDevice) {
        if self.devices.iter().any(|known| known.device.device == device.device) {
            return;
        }
        let found = host.topology.devices.iter().find(|found| found.has_name(&device.device));
        let free = |found: &Device| free_functions(host.machine, &host.topology, found, &self.used);
        self.devices.push(GuestTarget {
            pci: found.and_then(|found| found.pci),
            network: found.is_some_and(|found| found.kind == DeviceKind::Network),
            free_functions: found.map(free).unwrap_or_default(),
            device,
        });
    }
}

/// Returns the CPUs to which threads of other guests are pinned.
pub fn occupied(topology: &Topology, guests: &[Guest], running: &[u32]) -> CpuSet {
    let is_pinned = |cpus: &&CpuSet| {
        let node = cpus.first().and_then(|cpu| topology.cpu(cpu)?.node);
        let of_node = node.map(|node| topology.usable_cpus(node).len()).unwrap_or(0);
        // On a node of two CPUs, a thread that may use both is not pinned.
        cpus.len() <= PINNED_CPUS && cpus.len() < of_node
    };
    let others = guests.iter().filter(|guest| !running.contains(&guest.pid));
    let allowed = others.flat_map(Guest::vcpus).filter_map(|thread| thread.allowed.as_ref());
    allowed.filter(is_pinned).fold(CpuSet::new(), |all, cpus| all.union(cpus))
}
