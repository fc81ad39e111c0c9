//! Domains of libvirt in XML (libvirt.org, "Domain XML format").

use super::configuration::numbers;
use super::option_text::size;
use roxmltree::{Document, Node, ParsingOptions};

/// Maximum size of a domain's text; those of libvirt have some kilobytes.
const MAX_DOMAIN_BYTES: usize = 512 << 10;
/// Maximum number of its elements, attributes and texts.
const MAX_DOMAIN_NODES: u32 = 100_000;
/// Maximum nesting of its elements, since the parser recurses; those of libvirt are about ten deep.
const MAX_DOMAIN_DEPTH: usize = 100;
/// Maximum number of virtual CPUs of a domain; QEMU has a limit of some thousands.
const MAX_VCPUS: u32 = 1 << 14;
/// Maximum number of I/O threads of a domain.
const MAX_IO_THREADS: u32 = 1 << 12;

/// Why a text is not a domain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DomainError {
    /// Larger than the limit.
    #[error("a domain of more than {MAX_DOMAIN_BYTES} bytes")]
    TooLarge,
    /// Elements nested deeper than the limit.
    #[error("elements nested more than {MAX_DOMAIN_DEPTH} deep")]
    TooDeep,
    /// Not well-formed, or with a document type.
    #[error("invalid XML: {0}")]
    Malformed(String),
    /// Another kind of document.
    #[error("expected the element <domain>, found <{0}>")]
    NotADomain(String),
    /// A required element is missing or has an unexpected value.
    #[error("the element <{0}> is missing or has an unexpected value")]
    BadElement(&'static str),
    /// Guest nodes without consecutive numbers, which libvirt refuses.
    #[error("guest nodes must be numbered from 0 without gaps")]
    CellNumbers,
    /// Neither the domain nor its guest nodes state their memory.
    #[error("the domain states no memory: expected <memory>, or guest nodes with their memory")]
    NoMemory,
}

/// The parts of a domain that a placement needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainSummary {
    /// Its name.
    pub name: String,
    /// Numbers of the virtual CPUs that it starts with, in order.
    pub vcpu_ids: Vec<u32>,
    /// Maximum number of virtual CPUs; those beyond the started ones are plugged later.
    pub maximum_vcpus: u32,
    /// Memory in bytes, with its memory devices.
    pub memory_bytes: u64,
    /// Memory in bytes that it starts with, if stated; the rest is in its balloon.
    pub current_memory_bytes: Option<u64>,
    /// Numbers of its I/O threads, in order.
    pub io_thread_ids: Vec<u32>,
    /// Size of its huge pages; `None` without. Those of guest nodes may differ.
    pub huge_page_bytes: Option<u64>,
    /// Its guest nodes by number; empty without.
    pub cells: Vec<DomainCell>,
    /// Whether it has memory devices, which cannot be divided among nodes.
    pub has_memory_devices: bool,
    /// The element that refers to single virtual CPUs, so that their number cannot change.
    pub refers_to_vcpus: Option<&'static str>,
}

/// A guest node of a domain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DomainCell {
    /// Numbers of its virtual CPUs that the domain starts with, in order.
    pub vcpu_ids: Vec<u32>,
    /// Memory in bytes, with its memory devices.
    pub memory_bytes: u64,
    /// Size of its huge pages; `None` without.
    pub huge_page_bytes: Option<u64>,
}

/// Parses a domain within limits of size and number of nodes. Document types are rejected, so that
/// no entity expands.
///
/// # Errors
/// [`DomainError`].
pub fn parse_domain(text: &str) -> Result<Document<'_>, DomainError> {
    if text.len() > MAX_DOMAIN_BYTES {
        return Err(DomainError::TooLarge);
    }
    if depth(text) > MAX_DOMAIN_DEPTH {
        return Err(DomainError::TooDeep);
    }
    let options = ParsingOptions { allow_dtd: false, nodes_limit: MAX_DOMAIN_NODES };
    let document = Document::parse_with_options(text, options)
        .map_err(|error| DomainError::Malformed(error.to_string()))?;
    match document.root_element().tag_name().name() {
        "domain" => Ok(document),
        other => Err(DomainError::NotADomain(other.chars().take(80).collect())),
    }
}

/// Returns the greatest nesting of elements, without checking that the text is well-formed.
fn depth(text: &str) -> usize {
    let (mut depth, mut deepest) = (0usize, 0);
    let mut rest = text;
    while let Some(start) = rest.find('<') {
        rest = &rest[start..];
        let skipped = [("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>"), ("<!", ">"), ("</", ">")]
            .into_iter()
            .find(|(open, _)| rest.starts_with(open));
        let end = match skipped {
            Some((open, close)) => rest[open.len()..].find(close).map(|at| open.len() + at + close.len()),
            None => tag_end(rest),
        };
        let Some(end) = end else { break };
        let tag = &rest[..end];
        match skipped {
            Some(("</", _)) => depth = depth.saturating_sub(1),
            None if !tag.ends_with("/>") => depth += 1,
            _ => {}
        }
        deepest = deepest.max(depth);
        rest = &rest[end..];
    }
    deepest
}

/// Returns the end of a start tag, which may contain `>` within quotes.
fn tag_end(text: &str) -> Option<usize> {
    let mut quote = None;
    for (index, byte) in text.bytes().enumerate() {
        match (quote, byte) {
            (None, b'>') => return Some(index + 1),
            (None, b'\'' | b'"') => quote = Some(byte),
            (Some(open), _) if open == byte => quote = None,
            _ => {}
        }
    }
    None
}

/// Returns the child elements of a name.
pub fn domain_children<'a, 'i: 'a>(
    node: Node<'a, 'i>,
    name: &'a str,
) -> impl Iterator<Item = Node<'a, 'i>> + 'a {
    node.children().filter(move |child| child.is_element() && child.tag_name().name() == name)
}

impl DomainSummary {
    /// Reads the summary of a domain, with the defaults of libvirt.
    ///
    /// # Errors
    /// [`DomainError`].
    pub fn parse(text: &str) -> Result<Self, DomainError> {
        let document = parse_domain(text)?;
        let root = document.root_element();
        let child = |name: &'static str| domain_children(root, name).next();
        let name = child("name").and_then(|node| node.text()).map(str::trim).filter(|name| !name.is_empty());
        let name = name.ok_or(DomainError::BadElement("name"))?.to_owned();
        let (vcpu_ids, maximum_vcpus) = vcpus(root).ok_or(DomainError::BadElement("vcpu"))?;
        let pages = child("memoryBacking").map(huge_pages).unwrap_or_default();
        let devices = memory_devices(root);
        let cells = cells(root, &vcpu_ids, &pages, &devices)?;
        let of_cells = cells.iter().fold(0u64, |sum, cell| sum.saturating_add(cell.memory_bytes));
        let stated = child("memory").and_then(amount);
        // libvirt computes the memory of a domain with guest nodes from them.
        let memory = Some(of_cells).filter(|_| !cells.is_empty()).or(stated).filter(|bytes| *bytes > 0);
        Ok(Self {
            name,
            vcpu_ids,
            maximum_vcpus,
            memory_bytes: memory.ok_or(DomainError::NoMemory)?,
            current_memory_bytes: child("currentMemory").and_then(amount),
            io_thread_ids: io_threads(root).ok_or(DomainError::BadElement("iothreads"))?,
            huge_page_bytes: page_of(&pages, 0),
            cells,
            has_memory_devices: !devices.is_empty(),
            refers_to_vcpus: refers_to_vcpus(root),
        })
    }

    /// Returns the numbers of `count` I/O threads: new ones have the lowest free numbers, as
    /// libvirt chooses them.
    pub fn io_threads(&self, count: u32) -> Vec<u32> {
        with_lowest_free(self.io_thread_ids.clone(), count)
    }
}

/// Returns the numbers of the virtual CPUs at the start, and their maximum number. A domain without
/// `<vcpu>` has one.
fn vcpus(root: Node) -> Option<(Vec<u32>, u32)> {
    let element = domain_children(root, "vcpu").next();
    let text = element.and_then(|node| node.text()).map(str::trim).filter(|text| !text.is_empty());
    let maximum = text.map_or(Some(1), |text| text.parse().ok());
    let maximum: u32 = maximum.filter(|count| (1..=MAX_VCPUS).contains(count))?;
    let current = element.and_then(|node| node.attribute("current"));
    let current = current.map_or(Some(maximum), |text| text.trim().parse().ok());
    let current = current.filter(|count| (1..=maximum).contains(count))?;
    let listed = domain_children(root, "vcpus").flat_map(|list| domain_children(list, "vcpu"));
    let is_enabled = |node: &Node| node.attribute("enabled") == Some("yes");
    let number = |node: Node| node.attribute("id")?.trim().parse().ok();
    let mut enabled: Vec<u32> = listed.filter(is_enabled).filter_map(number).collect();
    enabled.sort_unstable();
    enabled.dedup();
    if enabled.is_empty() {
        enabled = (0..current).collect();
    }
    enabled.iter().all(|id| *id < maximum).then_some((enabled, maximum))
}

/// Returns the numbers of the I/O threads: those of `<iothreadids>`, and the lowest free ones for
/// the rest of `<iothreads>`.
fn io_threads(root: Node) -> Option<Vec<u32>> {
    let text = domain_children(root, "iothreads").next().and_then(|node| node.text()).unwrap_or("0");
    let count = text.trim().parse().ok().filter(|count| *count <= MAX_IO_THREADS)?;
    let lists = domain_children(root, "iothreadids");
    let threads = lists.flat_map(|list| domain_children(list, "iothread"));
    let ids = threads.filter_map(|node| node.attribute("id")?.trim().parse().ok()).collect();
    Some(with_lowest_free(ids, count))
}

/// Adds the lowest free numbers from 1 on until there are `count`; returns them in order.
fn with_lowest_free(mut ids: Vec<u32>, count: u32) -> Vec<u32> {
    let missing = (count as usize).saturating_sub(ids.len());
    let free: Vec<u32> = (1..).filter(|id| !ids.contains(id)).take(missing).collect();
    ids.extend(free);
    ids.sort_unstable();
    ids
}

/// Returns the element that refers to single virtual CPUs, other than by their pins.
fn refers_to_vcpus(root: Node) -> Option<&'static str> {
    let has = |names: &[&'static str]| {
        let mut found = vec![root];
        for name in names {
            found =
                found.into_iter().flat_map(|node| domain_children(node, name).collect::<Vec<_>>()).collect();
        }
        !found.is_empty()
    };
    let paths: [(&[&'static str], &'static str); 5] = [
        (&["cpu", "numa"], "<numa>"),
        (&["vcpus"], "<vcpus>"),
        (&["cputune", "vcpusched"], "<vcpusched>"),
        (&["cputune", "cachetune"], "<cachetune>"),
        (&["cputune", "memorytune"], "<memorytune>"),
    ];
    paths.into_iter().find(|(path, _)| has(path)).map(|(_, name)| name)
}

/// Memory in bytes of each memory device of the host's memory, with the number of its guest node.
fn memory_devices(root: Node) -> Vec<(usize, u64)> {
    let devices = domain_children(root, "devices").flat_map(|devices| domain_children(devices, "memory"));
    // Others are files or memory of the processor.
    let is_of_host = |node: &Node| matches!(node.attribute("model"), Some("dimm" | "virtio-mem"));
    let device = |node: Node| {
        let target = domain_children(node, "target").next()?;
        let bytes = domain_children(target, "size").next().and_then(amount)?;
        let cell = domain_children(target, "node").next().and_then(|node| node.text()?.trim().parse().ok());
        Some((cell.unwrap_or(0), bytes))
    };
    devices.filter(is_of_host).filter_map(device).collect()
}

/// Returns the guest nodes by number. Virtual CPUs of no guest node are on the first, as libvirt
/// puts them.
fn cells(
    root: Node,
    vcpu_ids: &[u32],
    pages: &[DomainPages],
    devices: &[(usize, u64)],
) -> Result<Vec<DomainCell>, DomainError> {
    let numa = domain_children(root, "cpu").flat_map(|cpu| domain_children(cpu, "numa"));
    let elements: Vec<Node> = numa.flat_map(|numa| domain_children(numa, "cell")).collect();
    let mut cells = vec![DomainCell::default(); elements.len()];
    let mut unassigned = vcpu_ids.to_vec();
    for (index, element) in elements.iter().enumerate() {
        let id = element.attribute("id").map_or(Some(index), |id| id.trim().parse().ok());
        let cell = id.and_then(|id| cells.get_mut(id)).ok_or(DomainError::CellNumbers)?;
        let own = list_with_exclusions(element.attribute("cpus").unwrap_or_default());
        let unit = element.attribute("unit").unwrap_or("KiB");
        let bytes = element.attribute("memory").and_then(|number| scaled(number.trim(), unit));
        cell.memory_bytes = bytes.ok_or(DomainError::BadElement("cell"))?;
        (cell.vcpu_ids, unassigned) = unassigned.into_iter().partition(|id| own.contains(id));
    }
    for (id, cell) in cells.iter_mut().enumerate() {
        cell.huge_page_bytes = page_of(pages, id as u32);
        let of_devices = devices.iter().filter(|(of, _)| *of == id).map(|(_, bytes)| *bytes);
        cell.memory_bytes = of_devices.fold(cell.memory_bytes, u64::saturating_add);
    }
    if let Some(first) = cells.first_mut() {
        first.vcpu_ids.append(&mut unassigned);
        first.vcpu_ids.sort_unstable();
    }
    Ok(cells)
}

/// Parses a list of numbers such as `1-4,^3`.
fn list_with_exclusions(text: &str) -> Vec<u32> {
    let (excluded, included): (Vec<&str>, Vec<&str>) =
        text.split(',').map(str::trim).partition(|part| part.starts_with('^'));
    let excluded = numbers(&excluded.join(",").replace('^', ""));
    let mut found = numbers(&included.join(","));
    found.retain(|number| !excluded.contains(number));
    found
}

/// Huge pages of some guest nodes.
struct DomainPages {
    /// Their size in bytes.
    bytes: u64,
    /// Numbers of the guest nodes; `None` for all that no other entry lists.
    cells: Option<Vec<u32>>,
}

/// Returns the huge pages of a domain; the default size of x86-64 and aarch64 if none is stated.
fn huge_pages(backing: Node) -> Vec<DomainPages> {
    const DEFAULT: u64 = 2 << 20;
    let Some(element) = domain_children(backing, "hugepages").next() else { return Vec::new() };
    let page = |page: Node| {
        let bytes = scaled(page.attribute("size")?.trim(), page.attribute("unit").unwrap_or("KiB"))?;
        Some(DomainPages { bytes, cells: page.attribute("nodeset").map(list_with_exclusions) })
    };
    let stated: Vec<DomainPages> = domain_children(element, "page").filter_map(page).collect();
    match stated.is_empty() {
        true => vec![DomainPages { bytes: DEFAULT, cells: None }],
        false => stated,
    }
}

/// Returns the size of the huge pages of a guest node; `None` for ordinary pages.
fn page_of(pages: &[DomainPages], cell: u32) -> Option<u64> {
    let listed = pages.iter().find(|page| page.cells.as_ref().is_some_and(|cells| cells.contains(&cell)));
    listed.or_else(|| pages.iter().find(|page| page.cells.is_none())).map(|page| page.bytes)
}

/// Returns the amount of memory of an element, in KiB without a unit.
fn amount(node: Node) -> Option<u64> {
    scaled(node.text()?.trim(), node.attribute("unit").unwrap_or("KiB"))
}

/// Parses a number with a unit of libvirt (`scaledInteger`): `KiB`, `k`, `MB`, `b` and others.
fn scaled(number: &str, unit: &str) -> Option<u64> {
    let plain = matches!(unit, "b" | "bytes");
    let unit = if plain { "" } else { unit };
    number.bytes().all(|byte| byte.is_ascii_digit()).then(|| size(&format!("{number}{unit}"), 1)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOMAIN: &str =
        "<?xml version='1.0'?>\n<domain type='kvm' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>\
        <name>we&lt;b</name><memory unit='GiB'>2</memory><vcpu current='3'>8</vcpu><iothreads>2</iothreads>\
        <memoryBacking><hugepages><page size='1' unit='G'/></hugepages></memoryBacking>\
        <future><thing/></future><qemu:commandline/></domain>";

    #[test]
    fn reads_name_and_sizes() {
        let summary = DomainSummary::parse(DOMAIN).expect("a domain");
        assert_eq!((summary.name.as_str(), summary.memory_bytes), ("we<b", 2 << 30));
        assert_eq!((summary.vcpu_ids, summary.maximum_vcpus), (vec![0, 1, 2], 8));
        assert_eq!((summary.io_thread_ids, summary.huge_page_bytes), (vec![1, 2], Some(1 << 30)));
        let plain = "<domain><name>a</name><memory>1048576</memory><vcpu>1</vcpu></domain>";
        let summary = DomainSummary::parse(plain).expect("a domain");
        assert_eq!((summary.memory_bytes, summary.huge_page_bytes), (1 << 30, None));
    }

    fn summary(content: &str) -> Result<DomainSummary, DomainError> {
        DomainSummary::parse(&format!("<domain><name>a</name>{content}</domain>"))
    }

    #[test]
    fn numbers_vcpus_and_threads_as_libvirt_does() {
        let plain = summary("<memory>1024</memory>").expect("one vCPU");
        assert_eq!((plain.vcpu_ids, plain.maximum_vcpus, plain.io_thread_ids), (vec![0], 1, Vec::new()));
        let listed = "<memory>1024</memory><vcpu current='2'>4</vcpu><iothreads>4</iothreads><iothreadids>\
            <iothread id='5'/><iothread id='2'/></iothreadids><vcpus><vcpu id='0' enabled='yes'/>\
            <vcpu id='1' enabled='no'/><vcpu id='2' enabled='no'/><vcpu id='3' enabled='yes'/></vcpus>";
        let listed = summary(listed).expect("a domain");
        assert_eq!((&listed.vcpu_ids, &listed.io_thread_ids), (&vec![0, 3], &vec![1, 2, 3, 5]));
        assert_eq!((listed.io_threads(5), listed.refers_to_vcpus), (vec![1, 2, 3, 4, 5], Some("<vcpus>")));
        for bad in ["<vcpu current='3'>2</vcpu>", "<vcpu>x</vcpu>", "<vcpu>4294967295</vcpu>"] {
            let error = summary(&format!("<memory>1024</memory>{bad}")).expect_err(bad);
            assert_eq!(error, DomainError::BadElement("vcpu"));
        }
    }

    #[test]
    fn guest_nodes_have_their_vcpus_memory_and_pages() {
        let text =
            "<vcpu>6</vcpu><memoryBacking><hugepages><page size='1' unit='G' nodeset='1'/></hugepages>\
            </memoryBacking><cpu><numa><cell id='1' cpus='2-4,^3' memory='1' unit='GiB'/>\
            <cell id='0' cpus='0-1' memory='1024'/></numa></cpu><devices><memory model='dimm'><target>\
            <size unit='MiB'>512</size><node>1</node></target></memory></devices>";
        let found = summary(text).expect("a domain without <memory>");
        let first = DomainCell { vcpu_ids: vec![0, 1, 3, 5], memory_bytes: 1 << 20, huge_page_bytes: None };
        let second = DomainCell {
            vcpu_ids: vec![2, 4],
            memory_bytes: (1 << 30) + (512 << 20),
            huge_page_bytes: Some(1 << 30),
        };
        assert_eq!((found.memory_bytes, found.has_memory_devices), ((1 << 30) + (513 << 20), true));
        assert_eq!(found.cells, [first, second]);
        assert_eq!(summary("<vcpu>1</vcpu>").expect_err("no memory"), DomainError::NoMemory);
        let hole = "<cpu><numa><cell id='7' cpus='0' memory='1024'/></numa></cpu>";
        assert_eq!(summary(hole).expect_err("no cell 7"), DomainError::CellNumbers);
    }

    #[test]
    fn nesting_counts_elements_alone() {
        for (text, deepest) in [
            (DOMAIN, 3),
            ("<a/>", 0),
            ("<a><!-- <b><c><d> --><?x <b>?><![CDATA[<b><c>]]></a><a></a>", 1),
            ("<a b='>'><c d=\"/>\"></c></a>", 2),
            ("<a", 0),
            ("", 0),
        ] {
            assert_eq!(depth(text), deepest, "{text}");
        }
    }

    #[test]
    fn rejects_other_and_hostile_documents() {
        let error = |text: &str| DomainSummary::parse(text).expect_err(text).to_string();
        assert!(error("<network/>").contains("found <network>"));
        assert!(error("<domain>").contains("invalid XML"));
        assert!(error("<domain><name>a</name><vcpu>0</vcpu></domain>").contains("<vcpu>"));
        let entities = "<!DOCTYPE d [<!ENTITY a 'x'><!ENTITY b '&a;&a;'>]><domain><name>&b;</name></domain>";
        assert!(error(entities).contains("invalid XML"));
        let wide = format!("<domain>{}</domain>", "<a/>".repeat(MAX_DOMAIN_NODES as usize + 1));
        assert!(error(&wide).contains("invalid XML"));
        assert!(error(&" ".repeat(MAX_DOMAIN_BYTES + 1)).contains("more than"));
        let deep = format!("{}{}", "<domain>".repeat(20_000), "</domain>".repeat(20_000));
        assert!(error(&deep).contains("more than 100 deep"), "it would exhaust the stack");
        let hidden = deep.replace("<domain>", "<domain a='/>' b=\"</domain>\">");
        assert!(error(&hidden[..MAX_DOMAIN_BYTES]).contains("more than 100 deep"));
        let negative = "<domain><name>a</name><vcpu>1</vcpu><memory unit='KiB'>-1</memory></domain>";
        assert!(error(negative).contains("<memory>"));
    }
}
