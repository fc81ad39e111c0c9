//! Domains of libvirt in XML (libvirt.org, "Domain XML format").

use super::option_text::size;
use roxmltree::{Document, Node, ParsingOptions};

/// Maximum size of a domain's text; those of libvirt have some kilobytes.
const MAX_DOMAIN_BYTES: usize = 512 << 10;
/// Maximum number of its elements, attributes and texts.
const MAX_DOMAIN_NODES: u32 = 100_000;
/// Maximum nesting of its elements, since the parser recurses; those of libvirt are about ten deep.
const MAX_DOMAIN_DEPTH: usize = 100;

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
}

/// What a placement needs of a domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainSummary {
    /// Its name.
    pub name: String,
    /// Number of virtual CPUs.
    pub vcpus: u32,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Number of I/O threads.
    pub io_threads: u32,
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
    /// Reads the summary of a domain.
    ///
    /// # Errors
    /// [`DomainError`].
    pub fn parse(text: &str) -> Result<Self, DomainError> {
        let document = parse_domain(text)?;
        let root = document.root_element();
        let child = |name: &'static str| domain_children(root, name).next();
        let value = |name: &'static str| child(name).and_then(|node| node.text()).map(str::trim);
        let number = |name: &'static str| value(name).and_then(|text| text.parse::<u32>().ok());
        let vcpus = child("vcpu").and_then(|node| {
            let current = node.attribute("current").and_then(|text| text.trim().parse().ok());
            current.or_else(|| node.text()?.trim().parse().ok())
        });
        let memory = child("memory").and_then(|node| {
            // KiB without a unit.
            let unit = node.attribute("unit").unwrap_or("KiB");
            scaled(node.text()?.trim(), unit)
        });
        let named = value("name").filter(|name| !name.is_empty());
        Ok(Self {
            name: named.ok_or(DomainError::BadElement("name"))?.to_owned(),
            vcpus: vcpus.filter(|count| *count > 0).ok_or(DomainError::BadElement("vcpu"))?,
            memory_bytes: memory.filter(|bytes| *bytes > 0).ok_or(DomainError::BadElement("memory"))?,
            io_threads: number("iothreads").unwrap_or(0),
            huge_page_bytes: child("memoryBacking").and_then(huge_pages),
        })
    }
}

/// Returns the size of huge pages; the default of x86-64 and aarch64 if none is stated.
fn huge_pages(backing: Node) -> Option<u64> {
    const DEFAULT: u64 = 2 << 20;
    let pages = domain_children(backing, "hugepages").next()?;
    let page = domain_children(pages, "page").next();
    let stated =
        page.and_then(|page| scaled(page.attribute("size")?, page.attribute("unit").unwrap_or("KiB")));
    Some(stated.unwrap_or(DEFAULT))
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
        assert_eq!((summary.name.as_str(), summary.vcpus, summary.memory_bytes), ("we<b", 3, 2 << 30));
        assert_eq!((summary.io_threads, summary.huge_page_bytes), (2, Some(1 << 30)));
        let plain = "<domain><name>a</name><memory>1048576</memory><vcpu>1</vcpu></domain>";
        let summary = DomainSummary::parse(plain).expect("a domain");
        assert_eq!((summary.memory_bytes, summary.huge_page_bytes), (1 << 30, None));
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
        assert!(error("<domain><name>a</name><vcpu>1</vcpu><memory unit='KiB'>-1</memory></domain>")
            .contains("<memory>"));
    }
}
