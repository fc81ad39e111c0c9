//! Existing domains of libvirt with their placement replaced.
//!
//! What placement has no reason to change stays as it is, byte for byte.

use super::configuration_parts::{comment_lines, guest_topology};
use super::edit::{comment, Edits};
use super::libvirt::{cells, devices, huge_pages, memory_nodes, pins};
use numaio_machine::guests::{domain_children, parse_domain, DomainError, DomainSummary};
use numaio_machine::ids::CpuId;
use numaio_machine::set::{CpuSet, NodeSet};
use numaio_machine::topology::Topology;
use numaio_schema::{GuestPlacement, GuestPlan, GuestRequest, PlacedCell};
use roxmltree::Node;

/// Formats an existing domain with the placement of a guest. Everything else stays as it is.
///
/// # Errors
/// [`DomainError`]: the text is not a domain.
pub fn guest_domain_from(
    plan: &GuestPlan,
    index: usize,
    topology: &Topology,
    domain: &str,
) -> Result<String, DomainError> {
    let document = parse_domain(domain)?;
    let root = document.root_element();
    let (Some(request), Some(guest)) = (plan.requests.get(index), plan.guests.get(index)) else {
        return Ok(domain.to_owned());
    };
    let summary = DomainSummary::parse(domain)?;
    let edit = DomainEdit { root, summary: &summary, request, guest, topology };
    let mut edits = Edits::new(domain);
    let has_expanders = has_expanders(root);
    let can_expand = has_expandable_machine(root) && !has_expanders && guest.function.is_some();
    let mut more = Vec::new();
    if guest.cells.len() > 1 && guest.function.is_some() && !can_expand {
        more.push(match has_expanders {
            true => "the domain keeps its pcie-expander-bus controllers: check their guest nodes",
            false => "a pcie-expander-bus needs a q35 or virt machine: the guest does not see the node of its devices",
        });
    }
    let lines = comment_lines(plan, &more);
    edits.insert_before(root, &lines.iter().map(|line| comment(line)).collect::<String>());
    edit.cpus(&mut edits);
    edit.memory(&mut edits);
    edit.cells(&mut edits);
    let content = devices(guest, can_expand, first_free_controller(root));
    append_to(&mut edits, root, "devices", &content);
    Ok(edits.apply())
}

/// Returns whether the machine type has PCI Express and expander buses.
fn has_expandable_machine(root: Node) -> bool {
    let os = domain_children(root, "os").next();
    let kind = os.and_then(|os| domain_children(os, "type").next());
    let machine = kind.and_then(|kind| kind.attribute("machine")).unwrap_or_default();
    machine.contains("q35") || machine.starts_with("virt")
}

/// Returns whether the domain has expander buses already.
fn has_expanders(root: Node) -> bool {
    let devices = domain_children(root, "devices");
    let mut controllers = devices.flat_map(|devices| domain_children(devices, "controller"));
    controllers.any(|controller| controller.attribute("model") == Some("pcie-expander-bus"))
}

/// Returns the first number that no PCI controller has; `None` if the domain has no controllers or
/// addresses yet.
fn first_free_controller(root: Node) -> Option<usize> {
    let devices = domain_children(root, "devices").next()?;
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => usize::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    let is_pci = |node: &Node| node.attribute("type") == Some("pci");
    let elements = devices.descendants().filter(|node| node.is_element() && is_pci(node));
    let used = elements.filter_map(|node| match node.tag_name().name() {
        "controller" => node.attribute("index").and_then(number),
        // Addresses of the host are within <source>.
        "address" if node.parent().is_some_and(|parent| parent.tag_name().name() != "source") => {
            node.attribute("bus").and_then(number)
        }
        _ => None,
    });
    used.max().map(|highest| highest.saturating_add(1))
}

/// A placement that replaces that of a domain.
struct DomainEdit<'a, 'i> {
    root: Node<'a, 'i>,
    summary: &'a DomainSummary,
    request: &'a GuestRequest,
    guest: &'a GuestPlacement,
    topology: &'a Topology,
}

impl DomainEdit<'_, '_> {
    fn cpus(&self, edits: &mut Edits) {
        let (started, maximum) = (self.guest.vcpus().len(), self.maximum_vcpus());
        self.vcpu(edits, started, maximum);
        let shape = domain_children(self.root, "cpu").find_map(|cpu| domain_children(cpu, "topology").next());
        if let Some(shape) = shape.filter(|_| maximum != self.summary.maximum_vcpus as usize) {
            let (sockets, cores, threads) = guest_topology(self.guest, self.topology);
            edits.replace(
                shape,
                &format!("<topology sockets='{sockets}' dies='1' cores='{cores}' threads='{threads}'/>"),
            );
        }
        let io_threads = self.request.io_threads;
        if io_threads as usize > self.summary.io_thread_ids.len() {
            let element = format!("<iothreads>{io_threads}</iothreads>");
            match domain_children(self.root, "iothreads").next() {
                Some(node) => edits.replace(node, &element),
                None => edits.append(self.root, "domain", &format!("  {element}\n")),
            }
        }
        // libvirt rejects a pin of a thread that the domain does not have.
        remove_children(edits, self.root, "cputune", &["vcpupin", "emulatorpin", "iothreadpin"]);
        append_to(edits, self.root, "cputune", &pins(self.summary.io_threads(io_threads), self.guest));
    }

    /// Returns the maximum number of virtual CPUs: as before, unless their number was changed.
    fn maximum_vcpus(&self) -> usize {
        let (before, started) = (self.summary.vcpu_ids.len(), self.guest.vcpus().len());
        let maximum = self.summary.maximum_vcpus as usize;
        match started == before || before < maximum {
            true => maximum.max(started),
            false => started,
        }
    }

    /// Edits `<vcpu>`, if it places the domain or its number changes.
    fn vcpu(&self, edits: &mut Edits, started: usize, maximum: usize) {
        let element = domain_children(self.root, "vcpu").next();
        let places = element.is_some_and(|node| {
            node.attribute("cpuset").is_some() || node.attribute("placement") == Some("auto")
        });
        let is_same =
            started == self.summary.vcpu_ids.len() && maximum == self.summary.maximum_vcpus as usize;
        if is_same && !places && started == maximum {
            return;
        }
        // CPUs of virtual CPUs that are plugged later, which have no pin.
        let cpuset = match started < maximum {
            true => {
                let pinned = self.guest.vcpus().into_iter().flat_map(|pinned| pinned.cpus.iter());
                let nodes: NodeSet = pinned.filter_map(|cpu| self.topology.cpu(cpu)?.node).collect();
                let of_nodes = nodes.iter().map(|node| self.topology.usable_cpus(node));
                let cpus = of_nodes.fold(CpuSet::new(), |all, cpus| all.union(&cpus));
                format!(" cpuset='{cpus}' current='{started}'")
            }
            false => String::new(),
        };
        let text = format!("<vcpu placement='static'{cpuset}>{maximum}</vcpu>");
        match element {
            Some(node) => edits.replace(node, &text),
            None => edits.append(self.root, "domain", &format!("  {text}\n")),
        }
    }

    fn memory(&self, edits: &mut Edits) {
        let (request, summary) = (self.request, self.summary);
        // The size of ordinary pages, which a domain may state, is none of a request.
        let differs = |wanted: Option<u64>, stated| wanted.is_some() && wanted != stated;
        let mut cells = request.cells.iter().zip(&summary.cells);
        let has_other_pages = differs(request.huge_page_bytes, summary.huge_page_bytes)
            || cells.any(|(wanted, stated)| differs(wanted.huge_page_bytes, stated.huge_page_bytes));
        // Guest nodes state their memory themselves.
        let has_other_amount = request.memory_bytes != summary.memory_bytes || has_other_pages;
        if has_other_amount && request.cells.is_empty() {
            self.amounts(edits);
        }
        remove_children(edits, self.root, "numatune", &["memory", "memnode"]);
        append_to(edits, self.root, "numatune", &memory_nodes(self.guest));
        if has_other_pages {
            remove_children(edits, self.root, "memoryBacking", &["hugepages"]);
            append_to(edits, self.root, "memoryBacking", &huge_pages(request));
        }
    }

    /// Edits the amount of memory, and that at the start if it was all memory or would exceed it.
    fn amounts(&self, edits: &mut Edits) {
        let bytes = self.guest.memory_bytes();
        let change = |edits: &mut Edits, node: Node| {
            edits.replace_content(node, &[("unit", "KiB")], &bytes.div_ceil(1024).to_string());
        };
        domain_children(self.root, "memory").for_each(|node| change(edits, node));
        let follows = |current: u64| current >= self.summary.memory_bytes || current > bytes;
        if self.summary.current_memory_bytes.is_some_and(follows) {
            domain_children(self.root, "currentMemory").for_each(|node| change(edits, node));
        }
    }

    /// Adds guest nodes to a domain that is divided. A domain keeps those that it has.
    fn cells(&self, edits: &mut Edits) {
        let count = self.guest.cells.len() as u32;
        if count < 2 || !self.request.cells.is_empty() {
            return;
        }
        let started: Vec<u32> = self.guest.vcpus().iter().map(|pinned| pinned.vcpu).collect();
        let maximum = self.maximum_vcpus() as u32;
        let later: Vec<u32> = (0..maximum).filter(|id| !started.contains(id)).collect();
        let list = |cell: &PlacedCell| {
            let index = self.guest.cells.iter().position(|other| other == cell).unwrap_or(0);
            let later = later.iter().skip(index).step_by(count as usize).copied();
            let all = cell.vcpus.iter().map(|pinned| pinned.vcpu).chain(later);
            all.map(CpuId).collect::<CpuSet>().to_string()
        };
        append_to(edits, self.root, "cpu", &cells(self.guest, self.topology, list));
    }
}

fn remove_children(edits: &mut Edits, root: Node, parent: &str, names: &[&str]) {
    for parent in domain_children(root, parent) {
        let is_named = |node: &Node| node.is_element() && names.contains(&node.tag_name().name());
        parent.children().filter(is_named).for_each(|node| edits.remove(node));
    }
}

/// Appends to a child of the domain, which is created if it is missing.
fn append_to(edits: &mut Edits, root: Node, name: &str, content: &str) {
    if content.is_empty() {
        return;
    }
    let existing = domain_children(root, name).next();
    match existing {
        Some(node) => edits.append(node, name, content),
        None => edits.append(root, "domain", &format!("  <{name}>\n{content}  </{name}>\n")),
    }
}
