//! Buffers bound to a NUMA node.

use super::free_memory::FreeMemory;
use super::page::page_bytes;
use super::policy::Policy;
use crate::interrupt::interrupted;
use numaio_machine::ids::NodeId;
use numaio_machine::probe::ProbeError;
use numaio_machine::workload::Pages;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::ptr;

/// Cache line size of x86-64 and of most aarch64 CPUs, in bytes.
const LINE: usize = 64;

/// Bytes touched between two checks of the interrupt flag.
const TOUCH_BYTES: usize = 32 << 20;

/// Anonymous memory of this process, bound to one node and unmapped when dropped.
#[derive(Debug)]
pub struct Buffer {
    node: NodeId,
    map: Range<usize>,
    start: usize,
    bytes: usize,
    page: usize,
    pages: Pages,
}

/// Page kind, alignment and size of a mapping.
#[derive(Debug, Clone, Copy)]
struct MappingRequest {
    pages: Pages,
    /// Page size in bytes.
    page: usize,
    /// Bytes between the start of a page and the start of the buffer.
    offset: usize,
    bytes: usize,
}

/// Node, size and offset of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferRequest {
    /// Node to bind to.
    pub node: NodeId,
    /// Length in bytes.
    pub bytes: u64,
    /// Cache lines between the start of the first page and the start of the buffer.
    pub offset_lines: usize,
}

/// Maps and binds buffers without touching them; the threads that use them do that.
///
/// Every call maps fresh memory, so that runs do not share the choice of physical pages.
///
/// # Errors
/// [`ProbeError::Refused`] if a node is missing or has too little free memory, or if the kernel
/// rejects the mapping or its binding.
pub fn map_buffers(
    free_memory: &FreeMemory,
    pages: Pages,
    wanted: &[BufferRequest],
) -> Result<Vec<Buffer>, ProbeError> {
    let page = match pages {
        Pages::Base => page_bytes() as u64,
        Pages::Transparent => free_memory.transparent_page_bytes(),
        Pages::Huge => free_memory.huge_page_bytes()?,
    };
    check(free_memory, pages, page, wanted)?;
    let shape = |wanted: &BufferRequest| MappingRequest {
        pages,
        page: page as usize,
        offset: wanted.offset_lines * LINE,
        bytes: wanted.bytes as usize,
    };
    wanted.iter().map(|wanted| Buffer::new(free_memory, wanted.node, shape(wanted))).collect()
}

/// Returns the offset, in lines, of the buffer that a thread writes; read buffers have an offset of
/// or near zero.
///
/// A load stalls on an earlier store to the same address modulo 4 KiB, so read and written buffers
/// must differ there. An odd number of lines from 33 to 63 keeps loads at least half a page from
/// the last stores, and spreads the buffers of all threads over the sets of a cache.
pub fn write_offset_lines(thread: usize) -> usize {
    33 + 2 * (thread % 16)
}

/// Checks that the nodes exist and have memory for all buffers.
fn check(
    free_memory: &FreeMemory,
    pages: Pages,
    page: u64,
    wanted: &[BufferRequest],
) -> Result<(), ProbeError> {
    let mut needs: BTreeMap<NodeId, u64> = BTreeMap::new();
    for BufferRequest { node, bytes, .. } in wanted {
        if !free_memory.has_node(*node) {
            let what = format!("memory of node {node}");
            return Err(ProbeError::Refused {
                call: what,
                reason: "the node does not exist or is offline".to_owned(),
            });
        }
        let whole = bytes.saturating_add(page_bytes() as u64).saturating_add(page - 1) & !(page - 1);
        let need = needs.entry(*node).or_default();
        *need = need.saturating_add(whole);
    }
    // Reserved huge pages have their own accounting (cgroup v2, hugetlb).
    if let Some(last) = wanted.last().filter(|_| pages != Pages::Huge) {
        free_memory
            .check_limit(last.node, needs.values().fold(0, |sum, bytes| sum.saturating_add(*bytes)))?;
    }
    needs.into_iter().try_for_each(|(node, bytes)| match pages {
        Pages::Huge => free_memory.check_huge(node, bytes, page),
        Pages::Base | Pages::Transparent => free_memory.check(node, bytes),
    })
}

impl Buffer {
    fn new(free_memory: &FreeMemory, node: NodeId, shape: MappingRequest) -> Result<Self, ProbeError> {
        let refused = |what: &str, error: io::Error| ProbeError::Refused {
            call: format!("{what} {} bytes for node {node}", shape.bytes),
            reason: error.to_string(),
        };
        let whole = (shape.offset + shape.bytes).next_multiple_of(shape.page);
        // Slack to align the start to a transparent huge page.
        let slack = if shape.pages == Pages::Transparent { shape.page } else { 0 };
        let map = map(whole + slack, shape.pages == Pages::Huge).map_err(|error| refused("map", error))?;
        let start = map.start.next_multiple_of(shape.page) + shape.offset;
        // From here on an error drops the buffer, which unmaps the memory.
        let MappingRequest { pages, page, bytes, .. } = shape;
        let buffer = Self { node, map, start, bytes, page, pages };
        match bind(&buffer.map, node) {
            Err(error) if free_memory.has_one_node() && policy_unavailable(&error) => {}
            result => result.map_err(|error| refused_binding(node, &error))?,
        }
        match pages {
            // Without transparent huge pages, madvise returns EINVAL and base pages are used.
            Pages::Base => drop(advise(&buffer.map, libc::MADV_NOHUGEPAGE)),
            Pages::Transparent => drop(advise(&buffer.map, libc::MADV_HUGEPAGE)),
            Pages::Huge => {}
        }
        // After a fork, each first write of a measured loop would copy a page.
        drop(advise(&buffer.map, libc::MADV_DONTFORK));
        Ok(buffer)
    }

    /// Returns the node of the binding.
    pub(crate) fn node(&self) -> NodeId {
        self.node
    }

    /// Returns the address of the first byte.
    pub fn start(&self) -> *mut u8 {
        ptr::with_exposed_provenance_mut(self.start)
    }

    /// Returns the length in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the address range of the buffer's pages, and the page size.
    pub(crate) fn pages(&self) -> (Range<usize>, usize) {
        // A transparent huge page may consist of base pages.
        let page = if self.pages == Pages::Huge { self.page } else { page_bytes() };
        (self.start / page * page..(self.start + self.bytes).next_multiple_of(page), page)
    }

    /// Whether the buffer uses reserved huge pages.
    pub(crate) fn is_huge(&self) -> bool {
        self.pages == Pages::Huge
    }

    /// Faults in every page on the calling thread and fills it, so that no page maps the shared
    /// zero page. One word per line suffices and takes an eighth of the time.
    pub(crate) fn fill(&mut self) -> Result<(), ProbeError> {
        self.populate_parts(|buffer, part| {
            for (index, line) in buffer.part(part).chunks_mut(LINE).enumerate() {
                let value = index as u64 | 0x0101_0101_0101_0101;
                match line.first_chunk_mut() {
                    Some(word) => *word = value.to_le_bytes(),
                    // The last line may be shorter than a word and start a page.
                    None => line.fill(1),
                }
            }
        })
    }

    /// Faults in every page on the calling thread, so that the measurement has no page faults.
    pub(crate) fn touch(&mut self) -> Result<(), ProbeError> {
        self.populate_parts(|buffer, part| {
            let bytes = buffer.part(part);
            bytes.iter_mut().step_by(page_bytes()).for_each(|byte| *byte = 1);
            // Steps begin within a page and may miss the last one.
            bytes.iter_mut().next_back().into_iter().for_each(|byte| *byte = 1);
        })
    }

    /// Populates the pages in steps and calls `write` for each step.
    fn populate_parts(&mut self, write: impl Fn(&mut Self, Range<usize>)) -> Result<(), ProbeError> {
        let (pages, page) = self.pages();
        let step = TOUCH_BYTES.next_multiple_of(page);
        for start in pages.clone().step_by(step) {
            if interrupted() {
                return Err(ProbeError::Interrupted);
            }
            let part = start..pages.end.min(start + step);
            populate(part.clone()).map_err(|error| ProbeError::Refused {
                call: format!("allocate {} bytes on node {}", self.bytes, self.node),
                reason: error.to_string(),
            })?;
            write(self, part);
        }
        Ok(())
    }

    /// Returns the content. Pages that are not populated are allocated on first access.
    pub(crate) fn content(&mut self) -> &mut [u8] {
        self.part(self.start..self.start + self.bytes)
    }

    /// Returns the part of the buffer within an address range.
    fn part(&mut self, addresses: Range<usize>) -> &mut [u8] {
        let from = addresses.start.max(self.start) - self.start;
        let to = addresses.end.min(self.start + self.bytes) - self.start;
        // SAFETY: the range is inside this buffer's mapping, which is readable and writable,
        // initialized by the kernel, and exclusively ours by `&mut self`.
        unsafe { std::slice::from_raw_parts_mut(self.start().add(from), to - from) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let start: *mut libc::c_void = ptr::with_exposed_provenance_mut(self.map.start);
        // SAFETY: `map` made this mapping for this buffer, and no reference into it outlives it.
        unsafe { libc::munmap(start, self.map.len()) };
    }
}

/// Maps fresh anonymous memory without allocating pages.
fn map(bytes: usize, huge: bool) -> io::Result<Range<usize>> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | if huge { libc::MAP_HUGETLB } else { 0 };
    // SAFETY: with a null hint the kernel picks unused addresses; no file is involved.
    let start =
        unsafe { libc::mmap(ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let start = start.expose_provenance();
    Ok(start..start + bytes)
}

/// Binds an address range to one node, strictly (mbind(2)). `MPOL_F_STATIC_NODES` keeps the kernel
/// from remapping the node after a change of the cpuset.
fn bind(map: &Range<usize>, node: NodeId) -> io::Result<()> {
    let policy = Policy::bind(node);
    // SAFETY: the range is our own mapping, and the mask holds `bits - 1` bits and lives through
    // the call. A policy does not change content.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mbind,
            map.start,
            map.len(),
            policy.mode,
            policy.mask.as_ptr(),
            policy.bits(),
            0,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Whether memory policies are unsupported by the kernel or forbidden by a sandbox.
fn policy_unavailable(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM))
}

fn refused_binding(node: NodeId, error: &io::Error) -> ProbeError {
    let cause = match error.raw_os_error() {
        Some(libc::EPERM) => {
            " (forbidden by default in containers: needs CAP_SYS_NICE or a custom seccomp profile)"
        }
        Some(libc::EINVAL) => " (the node has no memory or is outside the cpuset of this process)",
        _ => "",
    };
    ProbeError::Refused { call: format!("mbind to node {node}"), reason: format!("{error}{cause}") }
}

fn advise(part: &Range<usize>, advice: libc::c_int) -> io::Result<()> {
    let start = ptr::with_exposed_provenance_mut(part.start);
    // SAFETY: the range is our own mapping, and none of the advice used here changes its content.
    match unsafe { libc::madvise(start, part.len(), advice) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Faults in pages and reports failure, whereas a write would raise SIGBUS when the pool of huge
/// pages is empty. Kernels before 5.14 lack this call; there the following write faults them in.
fn populate(part: Range<usize>) -> io::Result<()> {
    match advise(&part, libc::MADV_POPULATE_WRITE) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS | libc::EPERM)) => {
            Ok(())
        }
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::residency::{locate_pages, merge};
    use crate::Root;
    use numaio_machine::process::smaps_values;
    use numaio_machine::sysfs::SysfsExt;

    /// Maps a buffer to read and a buffer to write for each thread.
    fn sample_buffers(threads: usize, pages: Pages, bytes: u64) -> Vec<Buffer> {
        let root = Root::live().expect("/");
        let status = root.text("/proc/self/status").expect("a status");
        let list = status.lines().find_map(|line| line.strip_prefix("Mems_allowed_list:")).unwrap_or("0");
        let node = list.trim().split([',', '-']).next().and_then(|id| id.parse().ok()).map(NodeId);
        let node = node.expect("a node");
        let wanted = |offset_lines| BufferRequest { node, bytes, offset_lines };
        let wanted: Vec<BufferRequest> =
            (0..threads).flat_map(|thread| [wanted(0), wanted(write_offset_lines(thread))]).collect();
        map_buffers(&FreeMemory::new(&root, None), pages, &wanted).expect("buffers")
    }

    #[test]
    fn read_and_written_buffers_differ_modulo_a_page() {
        for pages in [Pages::Base, Pages::Transparent] {
            for pair in sample_buffers(17, pages, 100).chunks(2) {
                let (source, sink) = (pair[0].start().addr(), pair[1].start().addr());
                assert_eq!((source % LINE, sink % LINE), (0, 0), "aligned to lines");
                let lines = sink.wrapping_sub(source) % 4096 / LINE;
                assert!(lines % 2 == 1 && lines >= 33, "{lines} lines apart");
            }
        }
    }

    /// The kernel shows `dc` for a mapping that a fork does not copy (proc_pid_smaps(5)).
    #[test]
    fn forks_do_not_copy_buffers() {
        for pages in [Pages::Base, Pages::Transparent] {
            for buffer in sample_buffers(1, pages, 1 << 20) {
                let smaps = Root::live().expect("/").text("/proc/self/smaps").expect("mappings");
                let start = buffer.map.start as u64;
                let mut flags = smaps_values(&smaps, "VmFlags:");
                let (_, flags) = flags.find(|(mapping, _)| mapping.contains(&start)).expect("its mapping");
                assert!(flags.split(' ').any(|flag| flag == "dc"), "{flags}");
            }
        }
    }

    #[test]
    fn filling_and_touching_populate_all_pages() {
        for pages in [Pages::Base, Pages::Transparent] {
            for bytes in [1, 4096, 300_000, 5 << 20] {
                let Ok([mut source, mut sink]) = <[Buffer; 2]>::try_from(sample_buffers(1, pages, bytes))
                else {
                    unreachable!("two buffers")
                };
                for before in [locate_pages(&source), locate_pages(&sink)].map(|seen| merge([seen], 0)) {
                    assert_eq!(
                        before.pages_misplaced,
                        before.pages_checked.unwrap_or(0),
                        "no page is populated"
                    );
                }
                source.fill().expect("filled");
                sink.touch().expect("touched");
                let after = merge([locate_pages(&source), locate_pages(&sink)], 0);
                assert_eq!((after.pages_misplaced, after.misplaced_on), (0, None));
                let whole = source.start..source.start + source.bytes;
                assert!(source.part(whole).chunks(LINE).all(|line| line[0] != 0), "no zero pages");
            }
        }
    }
}
