//! Checks that a description is a valid machine.

use crate::spec::{BadSpec, DeviceSpec, IoRates, NodeSpec, PathSpec, SharingRule, Spec, SPEC_SCHEMA};
use numaio_machine::devices::{DeviceKind, PciAddress, Sriov};
use numaio_machine::ids::NodeId;
use numaio_machine::set::CpuSet;
use numaio_machine::sysfs::MAX_FILE_BYTES;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of nodes of Linux (`NODES_SHIFT` of 10).
const MAX_NODES: usize = 1024;
/// Maximum number of CPUs of Linux (`NR_CPUS` with `MAXSMP`).
const MAX_CPUS: u32 = 8192;
const MAX_DEVICES: usize = 1 << 16;
/// Maximum memory of a node, so that the sum of 1,024 nodes fits into 64 bits.
const MAX_MEMORY_BYTES: u64 = 1 << 53;
/// Width of a CPU's column in /proc/interrupts.
const BYTES_PER_COUNT: u64 = 11;
/// Maximum number of MSI-X vectors of a function.
const MAX_IRQS: u32 = 2048;

type CheckResult = Result<(), BadSpec>;

fn ensure(holds: bool, at: impl FnOnce() -> String, why: &str) -> CheckResult {
    match holds {
        true => Ok(()),
        false => Err(BadSpec { at: at(), why: why.to_owned() }),
    }
}

fn positive(number: f64, at: impl FnOnce() -> String) -> CheckResult {
    ensure(number.is_finite() && number > 0.0, at, "must be a positive number")
}

fn share(number: f64, at: &str) -> CheckResult {
    ensure((0.0..=1.0).contains(&number), || at.to_owned(), "must be from 0 to 1")
}

impl Spec {
    /// Checks the description: ids are unique, references are valid, each node with CPUs has a path
    /// to each node with memory, and numbers are in range.
    ///
    /// # Errors
    /// The first error.
    pub fn check(&self) -> CheckResult {
        ensure(self.schema == SPEC_SCHEMA, || "schema".to_owned(), "is not numaio/spec/1")?;
        let words =
            [&self.name, &self.architecture, &self.vendor, &self.product, &self.cpu_model, &self.kernel];
        let one_line = |text: &&String| !text.is_empty() && !text.chars().any(char::is_control);
        ensure(words.iter().all(one_line), || "names".to_owned(), "must be one line of text each")?;
        self.check_nodes()?;
        self.check_cpus()?;
        self.check_paths()?;
        self.check_devices()?;
        self.check_noise()?;
        self.check_conditions()
    }

    fn check_nodes(&self) -> CheckResult {
        let at = || "nodes".to_owned();
        ensure(!self.nodes.is_empty(), at, "must not be empty")?;
        ensure(self.nodes.len() <= MAX_NODES, at, "are more than 1024")?;
        ensure(self.nodes.windows(2).all(|pair| pair[0].id < pair[1].id), at, "must have ascending ids")?;
        for node in &self.nodes {
            let at = || format!("node {}", node.id);
            ensure(node.id.0 < MAX_NODES as u32, at, "has an id beyond 1023")?;
            ensure(node.free_bytes <= node.memory_bytes, at, "has more free memory than memory")?;
            ensure(node.memory_bytes <= MAX_MEMORY_BYTES, at, "has more than 8 PiB")?;
            ensure(!self.offline_nodes.contains(node.id), at, "is online and offline")?;
            check_pools(node)?;
            let known = ["DRAM", "HBM", "CXL", "PMEM"].contains(&node.memory_kind.as_str());
            ensure(known, at, "must have memory_kind DRAM, HBM, CXL or PMEM")?;
        }
        let square = self.distances.iter().all(|row| row.len() == self.nodes.len());
        let fits = self.distances.is_empty() || (self.distances.len() == self.nodes.len() && square);
        ensure(fits, || "distances".to_owned(), "must be empty or have a row and a column for each node")
    }

    fn check_cpus(&self) -> CheckResult {
        let mut metadata = CpuSet::new();
        for node in &self.nodes {
            let at = || format!("node {}", node.id);
            ensure(node.cpus.iter().all(|cpu| cpu.0 < MAX_CPUS), at, "has a CPU beyond 8191")?;
            ensure(metadata.intersection(&node.cpus).is_empty(), at, "has a CPU of another node")?;
            let threads = node.threads_per_core as usize;
            ensure(threads > 0 && node.cpus.len() % threads == 0, at, "has a core with too few threads")?;
            metadata.extend(node.cpus.iter());
        }
        let at = || "offline_cpus".to_owned();
        ensure(self.offline_cpus.is_subset(&metadata), at, "has a CPU of no node")?;
        ensure(!self.online_cpus().is_empty(), at, "leaves no CPU online")?;
        ensure(!self.allowed_cpus().is_empty(), || "confinement.cpus".to_owned(), "leaves no CPU")?;
        ensure(!self.allowed_nodes().is_empty(), || "confinement.nodes".to_owned(), "leaves no memory")?;
        let cgroup = &self.confinement.cgroup;
        let path = cgroup == "/" || (cgroup.starts_with('/') && cgroup[1..].split('/').all(is_name));
        ensure(path, || "confinement.cgroup".to_owned(), "must be a path from the root")?;
        for (index, cache) in self.caches.iter().enumerate() {
            let whole = cache.bytes >= 1024 && cache.line_bytes > 0 && cache.ways > 0 && cache.level > 0;
            ensure(
                whole,
                || format!("caches[{index}]"),
                "must have a level, a size of 1 KiB or more, lines and ways",
            )?;
        }
        Ok(())
    }

    fn check_paths(&self) -> CheckResult {
        let mut links = BTreeSet::new();
        for link in &self.links {
            positive(link.bytes_per_s, || format!("link {}", link.name))?;
            ensure(links.insert(&link.name), || format!("link {}", link.name), "is listed twice")?;
        }
        let mut pairs = BTreeSet::new();
        for path in &self.paths {
            let at = || at_path(path);
            let PathSpec { load_bytes_per_s, store_bytes_per_s, core_bytes_per_s, latency_ns, .. } = *path;
            for number in [load_bytes_per_s, store_bytes_per_s, core_bytes_per_s, latency_ns] {
                positive(number, at)?;
            }
            let known = path.load_links.iter().chain(&path.store_links).all(|link| links.contains(link));
            ensure(known, at, "crosses an unknown link")?;
            ensure(pairs.insert((path.cpus, path.memory)), at, "is listed twice")?;
            ensure(
                self.node(path.cpus).is_some_and(|node| !node.cpus.is_empty()),
                at,
                "starts at a node without CPUs",
            )?;
            ensure(
                self.node(path.memory).is_some_and(|node| node.memory_bytes > 0),
                at,
                "ends at a node without memory",
            )?;
        }
        let wanted = self.cpu_nodes().count() * self.memory_nodes().count();
        ensure(
            pairs.len() == wanted,
            || "paths".to_owned(),
            "must connect each node with CPUs to each node with memory",
        )
    }

    fn check_devices(&self) -> CheckResult {
        ensure(self.devices.len() <= MAX_DEVICES, || "devices".to_owned(), "are too many")?;
        let mut metadata: BTreeMap<PciAddress, DeviceKind> = BTreeMap::new();
        let mut names = BTreeSet::new();
        for device in &self.devices {
            let at = || format!("device {}", device.pci);
            let bridge = |above| metadata.get(&above) == Some(&DeviceKind::Bridge);
            ensure(device.under.is_none_or(bridge), at, "must come after the bridge above it")?;
            ensure(metadata.insert(device.pci, device.kind).is_none(), at, "is listed twice")?;
            ensure(device.node.is_none_or(|node| self.node(node).is_some()), at, "is on an unknown node")?;
            ensure(device.irqs <= MAX_IRQS, at, "has more than 2048 interrupts")?;
            ensure(device.names.iter().all(|name| is_name(name)), at, "has a name that is not a file name")?;
            ensure(device.names.iter().all(|name| names.insert(name)), at, "has the name of another device")?;
            ensure(device.driver.as_deref().is_none_or(is_name), at, "has a driver that is not a file name")?;
            ensure(!device.model.chars().any(char::is_control), at, "has a model of several lines")?;
            if let Some(io) = &device.io {
                check_rates(&io.write, self.nodes.len(), at)?;
                check_rates(&io.read, self.nodes.len(), at)?;
            }
            if let Some(link) = device.link {
                positive(link.max_gt_per_s, at)?;
                ensure(
                    link.gt_per_s.is_finite() && link.gt_per_s >= 0.0,
                    at,
                    "has a link without a valid speed",
                )?;
            }
        }
        let irqs: u64 = self.devices.iter().map(|device| u64::from(device.irqs)).sum();
        let table = irqs * self.online_cpus().len() as u64 * BYTES_PER_COUNT;
        ensure(
            table < MAX_FILE_BYTES as u64,
            || "devices".to_owned(),
            "have more interrupts than /proc/interrupts can list",
        )?;
        self.devices.iter().try_for_each(|device| check_sriov(device, &metadata))
    }

    fn check_noise(&self) -> CheckResult {
        let noise = &self.noise;
        share(noise.sample, "noise.sample")?;
        share(noise.run, "noise.run")?;
        share(noise.glitch_probability, "noise.glitch_probability")?;
        if noise.glitch_probability > 0.0 {
            positive(noise.glitch_factor, || "noise.glitch_factor".to_owned())?;
        }
        let slow = noise.drift_per_hour.is_finite() && noise.drift_per_hour.abs() <= 1.0;
        ensure(slow, || "noise.drift_per_hour".to_owned(), "must be from -1 to 1")?;
        for levels in &noise.bimodal {
            share(levels.probability, "noise.bimodal")?;
            positive(levels.factor, || "noise.bimodal".to_owned())?;
        }
        for pages in &noise.misplaced {
            share(pages.share, "noise.misplaced")?;
            let with_memory = |id: NodeId| self.node(id).is_some_and(|node| node.memory_bytes > 0);
            let both = with_memory(pages.node) && with_memory(pages.found_on);
            ensure(both, || "noise.misplaced".to_owned(), "names a node without memory")?;
        }
        Ok(())
    }

    fn check_conditions(&self) -> CheckResult {
        let conditions = &self.conditions;
        share(conditions.stolen, "conditions.stolen")?;
        let cost = (0.0..1.0).contains(&conditions.balancing_cost);
        ensure(cost, || "conditions.balancing_cost".to_owned(), "must be from 0 to below 1")?;
        let known = ["always", "madvise", "never"].contains(&conditions.transparent_huge_pages.as_str());
        ensure(known, || "conditions.transparent_huge_pages".to_owned(), "must be always, madvise or never")?;
        ensure(
            conditions.governor.as_deref().is_none_or(is_name),
            || "conditions.governor".to_owned(),
            "must be a word",
        )?;
        let (lowest, highest) = conditions.frequency_mhz;
        ensure(lowest <= highest, || "conditions.frequency_mhz".to_owned(), "must be ascending")?;
        for load in &conditions.other_load {
            let at = || "conditions.other_load".to_owned();
            ensure(load.cpus.is_subset(&self.online_cpus()), at, "runs on a CPU that is not online")?;
            let nodes = [load.flow.source, load.flow.sink];
            let with_memory = |id: &NodeId| self.node(*id).is_some_and(|node| node.memory_bytes > 0);
            ensure(nodes.iter().all(with_memory), at, "copies from or to a node without memory")?;
        }
        Ok(())
    }
}

/// Checks a node's huge pages and firmware figures.
fn check_pools(node: &NodeSpec) -> CheckResult {
    let at = || format!("node {}", node.id);
    for pool in &node.huge_pages {
        let size = pool.page_bytes.is_power_of_two() && pool.page_bytes >= 1024 && pool.free <= pool.total;
        let fits = pool.total.checked_mul(pool.page_bytes).is_some_and(|bytes| bytes <= node.memory_bytes);
        ensure(size && fits, at, "has huge pages of an invalid size, or more than its memory")?;
    }
    let figures = node.access.iter().flat_map(|access| [access.read_bytes_per_s, access.write_bytes_per_s]);
    figures.flatten().try_for_each(|figure| positive(figure, at))
}

fn check_rates(rates: &IoRates, nodes: usize, at: impl Fn() -> String) -> CheckResult {
    ensure(rates.nodes.len() == nodes, &at, "must have a rate for each node")?;
    let mut figures = rates.nodes.iter().chain([&rates.cap]).chain(&rates.stream);
    figures.try_for_each(|figure| positive(*figure, &at))?;
    let share = rates.stalls.is_none_or(|share| (0.0..=0.25).contains(&share));
    ensure(share, &at, "stalls for a share of the time that is not from 0 to 0.25")?;
    check_rule(&rates.sharing, nodes, 0, &at)
}

/// Maximum depth of rules that consist of rules.
const MAX_RULE_DEPTH: u32 = 4;

fn check_rule(rule: &SharingRule, nodes: usize, depth: u32, at: &dyn Fn() -> String) -> CheckResult {
    let each = |figures: &[f64]| {
        ensure(figures.len() == nodes, at, "must have a figure of its sharing rule for each node")?;
        figures.iter().try_for_each(|figure| positive(*figure, at))
    };
    let of_rules = |rules: &[SharingRule]| {
        ensure(depth < MAX_RULE_DEPTH, at, "has sharing rules that are nested too deeply")?;
        ensure(rules.len() == 2, at, "must combine two sharing rules")?;
        rules.iter().try_for_each(|rule| check_rule(rule, nodes, depth + 1, at))
    };
    match rule {
        SharingRule::Bytes | SharingRule::BytesByStreams => Ok(()),
        SharingRule::TimeByStreams { factor } | SharingRule::Requests { factor } => positive(*factor, at),
        SharingRule::TimeByNodes { factor, weights } => {
            positive(*factor, at)?;
            if weights.is_empty() {
                Ok(())
            } else {
                each(weights)
            }
        }
        SharingRule::SharedLink { nodes: behind, bytes_per_s } => {
            ensure(behind.iter().all(|node| *node < nodes), at, "has a link of a node that does not exist")?;
            positive(*bytes_per_s, at)
        }
        SharingRule::InFlight { requests, latency_s } => {
            positive(*requests, at)?;
            each(latency_s)
        }
        SharingRule::Cores { cores, core_bytes_per_s } => {
            positive(*cores, at)?;
            each(core_bytes_per_s)
        }
        SharingRule::Copies { bytes_per_s, copies } => {
            positive(*bytes_per_s, at)?;
            each(copies)
        }
        SharingRule::Both { rules } => of_rules(rules),
        SharingRule::Blend { share, rules } => {
            ensure((0.0..=1.0).contains(share), at, "has a share of a rule that is not from 0 to 1")?;
            of_rules(rules)
        }
    }
}

fn check_sriov(device: &DeviceSpec, metadata: &BTreeMap<PciAddress, DeviceKind>) -> CheckResult {
    let known = match &device.sriov {
        Some(Sriov::Physical { functions, .. }) => {
            functions.iter().all(|function| metadata.contains_key(function))
        }
        Some(Sriov::Virtual { physical_function: of }) => metadata.contains_key(of),
        None => true,
    };
    ensure(known, || format!("device {}", device.pci), "refers to an unknown virtual or physical function")
}

fn at_path(path: &PathSpec) -> String {
    format!("path from CPUs of {} to memory of {}", path.cpus, path.memory)
}

/// Whether a text is a valid file name.
fn is_name(text: &str) -> bool {
    let plain = |c: char| !c.is_control() && c != '/';
    !matches!(text, "" | "." | "..") && text.len() <= 255 && text.chars().all(plain)
}
