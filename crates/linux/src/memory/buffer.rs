//! Buffers bound to a node.

use super::room::Room;
use crate::copy::Copier;
use crate::interrupt::interrupted;
use crate::page_bytes;
use crate::stream::Streamer;
use numaio_machine::ids::NodeId;
use numaio_machine::probe::ProbeError;
use numaio_machine::workload::Pages;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::ptr;

/// A cache line of x86-64 and of most aarch64.
const LINE: usize = 64;

/// Bytes touched between two looks at the interrupt flag.
const TOUCH_BYTES: usize = 32 << 20;

/// Anonymous memory of this process, bound to one node; given back when dropped.
#[derive(Debug)]
pub struct Buffer {
    node: NodeId,
    map: Range<usize>,
    start: usize,
    bytes: usize,
    page: usize,
    pages: Pages,
}

/// How a buffer is to be mapped.
#[derive(Debug, Clone, Copy)]
struct Shape {
    pages: Pages,
    /// Size of the pages asked for.
    page: usize,
    /// Bytes between a page's beginning and the buffer's.
    offset: usize,
    bytes: usize,
}

/// What buffers are wanted.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// Threads; each gets its own.
    pub threads: usize,
    /// Node and bytes of each of a thread's buffers: what is read first, what is written last.
    pub buffers: &'a [(NodeId, u64)],
    /// Pages behind them.
    pub pages: Pages,
}

/// The buffers of each thread, mapped and bound, but not touched: the thread does that.
///
/// Every call maps fresh memory, so that one run's luck with physical pages is not the next one's.
pub fn sets(room: &Room, wanted: Wanted) -> Result<Vec<Vec<Buffer>>, ProbeError> {
    let page = page_of(room, wanted.pages)?;
    check(room, &[wanted])?;
    let set = |thread| {
        let buffers = wanted.buffers.iter().enumerate().map(|(index, (node, bytes))| {
            let offset = offset(index, wanted.buffers.len(), thread);
            let shape = Shape { pages: wanted.pages, page: page as usize, offset, bytes: *bytes as usize };
            Buffer::new(room, *node, shape)
        });
        buffers.collect()
    };
    (0..wanted.threads).map(set).collect()
}

/// Size of the pages asked for.
fn page_of(room: &Room, pages: Pages) -> Result<u64, ProbeError> {
    match pages {
        Pages::Base => Ok(page_bytes() as u64),
        Pages::Transparent => Ok(room.transparent_page_bytes()),
        Pages::Huge => room.huge_page_bytes(),
    }
}

/// Offset of a thread's buffer in its first page, of `count` buffers.
///
/// A load that follows a store to the same place modulo 4 KiB waits for it, so what is written must not be like
/// what is read there. An odd number of lines, from 21 to 63, keeps a load at least a third of a page from the
/// last stores, and does not put the buffers of all threads into the same sets of a cache.
fn offset(index: usize, count: usize, thread: usize) -> usize {
    let lines = match (index, count) {
        (0, _) => 0,
        (1, 2) => 33 + 2 * (thread % 16),
        (1, _) => 22,
        _ => 43 + 2 * (thread % 8),
    };
    lines * LINE
}

/// Whether the nodes exist and have memory for all buffers of all wishes together.
pub fn check(room: &Room, wishes: &[Wanted]) -> Result<(), ProbeError> {
    let mut needs: BTreeMap<(NodeId, bool), u64> = BTreeMap::new();
    for wanted in wishes {
        let page = page_of(room, wanted.pages)?;
        for (node, bytes) in wanted.buffers {
            if !room.has(*node) {
                let what = format!("memory of node {node}");
                let why = "this machine has no such node online".to_owned();
                return Err(ProbeError::Refused { what, why });
            }
            let one = bytes.saturating_add(page_bytes() as u64).saturating_add(page - 1) & !(page - 1);
            let need = needs.entry((*node, wanted.pages == Pages::Huge)).or_default();
            *need = need.saturating_add(one.saturating_mul(wanted.threads as u64));
        }
    }
    let all = needs.iter().filter(|((_, huge), _)| !huge).map(|(_, bytes)| *bytes);
    if let Some(((node, _), _)) = needs.iter().rfind(|((_, huge), _)| !huge) {
        // Reserved huge pages are on an account of their own (cgroup v2, hugetlb).
        room.check_limit(*node, all.fold(0, u64::saturating_add))?;
    }
    needs.into_iter().try_for_each(|((node, huge), bytes)| match huge {
        true => room.check_huge(node, bytes, room.huge_page_bytes()?),
        false => room.check(node, bytes),
    })
}

impl Buffer {
    fn new(room: &Room, node: NodeId, shape: Shape) -> Result<Self, ProbeError> {
        let refused = |what: &str, error: io::Error| ProbeError::Refused {
            what: format!("{what} {} bytes for node {node}", shape.bytes),
            why: error.to_string(),
        };
        let whole = (shape.offset + shape.bytes).next_multiple_of(shape.page);
        // Room to move the beginning to a boundary of transparent huge pages.
        let slack = if shape.pages == Pages::Transparent { shape.page } else { 0 };
        let map = map(whole + slack, shape.pages == Pages::Huge).map_err(|error| refused("map", error))?;
        let start = map.start.next_multiple_of(shape.page) + shape.offset;
        // From here on the buffer is dropped, and with it the memory given back, whatever fails.
        let Shape { pages, page, bytes, .. } = shape;
        let buffer = Self { node, map, start, bytes, page, pages };
        match bind(&buffer.map, node) {
            Err(error) if room.has_one_node() && not_offered(&error) => {}
            result => result.map_err(|error| refused_binding(node, &error))?,
        }
        match pages {
            // A kernel without transparent huge pages says EINVAL, and gives base pages.
            Pages::Base => drop(advise(&buffer.map, libc::MADV_NOHUGEPAGE)),
            Pages::Transparent => drop(advise(&buffer.map, libc::MADV_HUGEPAGE)),
            Pages::Huge => {}
        }
        Ok(buffer)
    }

    /// Node it is bound to.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Its first byte.
    pub fn start(&self) -> *mut u8 {
        ptr::with_exposed_provenance_mut(self.start)
    }

    /// Its length.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The addresses of the pages it lies on, and their size.
    pub fn pages(&self) -> (Range<usize>, usize) {
        // A transparent huge page may as well be many base pages.
        let page = if self.pages == Pages::Huge { self.page } else { page_bytes() };
        (self.start / page * page..(self.start + self.bytes).next_multiple_of(page), page)
    }

    /// Whether it lies on reserved huge pages.
    pub fn is_huge(&self) -> bool {
        self.pages == Pages::Huge
    }

    /// Makes every page be there, by the calling thread, and fills it: no page is left that the kernel
    /// backs by its one page of zeroes. A word in each line is enough, and eight times sooner done.
    pub fn fill(&mut self) -> Result<(), ProbeError> {
        self.take(|buffer, part| {
            for (index, line) in buffer.part(part).chunks_mut(LINE).enumerate() {
                let value = index as u64 | 0x0101_0101_0101_0101;
                match line.first_chunk_mut() {
                    Some(word) => *word = value.to_le_bytes(),
                    // The end may be less than a word, and the first byte of its page.
                    None => line.fill(1),
                }
            }
        })
    }

    /// Makes every page be there, by the calling thread: none is first touched while time is taken.
    pub fn touch(&mut self) -> Result<(), ProbeError> {
        self.take(|buffer, part| {
            let bytes = buffer.part(part);
            bytes.iter_mut().step_by(page_bytes()).for_each(|byte| *byte = 1);
            // Steps begin within a page, and may end before the last one.
            bytes.iter_mut().next_back().into_iter().for_each(|byte| *byte = 1);
        })
    }

    /// Takes the pages from the node, and has each part written while it is at it.
    fn take(&mut self, write: impl Fn(&mut Self, Range<usize>)) -> Result<(), ProbeError> {
        let (pages, page) = self.pages();
        let step = TOUCH_BYTES.next_multiple_of(page);
        for start in pages.clone().step_by(step) {
            if interrupted() {
                return Err(ProbeError::Interrupted);
            }
            let part = start..pages.end.min(start + step);
            populate(part.clone()).map_err(|error| ProbeError::Refused {
                what: format!("take {} bytes from node {}", self.bytes, self.node),
                why: error.to_string(),
            })?;
            write(self, part);
        }
        Ok(())
    }

    /// The part of the buffer within some addresses.
    fn part(&mut self, addresses: Range<usize>) -> &mut [u8] {
        let from = addresses.start.max(self.start) - self.start;
        let to = addresses.end.min(self.start + self.bytes) - self.start;
        // SAFETY: the range lies in this buffer's mapping, which is readable and writable, initialised by
        // the kernel, and ours alone by `&mut self`.
        unsafe { std::slice::from_raw_parts_mut(self.start().add(from), to - from) }
    }

    /// Copies a part of this buffer to the same part of another one; what reaches beyond either is left out.
    pub fn copy_part(&self, copier: Copier, sink: &mut Self, at: usize, bytes: usize) {
        let bytes = bytes.min(self.bytes.saturating_sub(at)).min(sink.bytes.saturating_sub(at));
        if bytes == 0 {
            return;
        }
        // SAFETY: both ranges lie in their buffers' mappings, which are distinct; the sink is ours alone by
        // `&mut`, and nobody writes the source while it is borrowed.
        unsafe { copier.copy_raw(self.start().add(at), sink.start().add(at), bytes) }
    }

    /// Runs an operation of STREAM on a part of these buffers and writes the same part of this one; what reaches
    /// beyond any of them is left out, and what is less than a double. An operation with one input passes the
    /// second one over.
    pub fn stream_part(&mut self, streamer: Streamer, inputs: [&Self; 2], at: usize, bytes: usize) {
        let shortest = inputs.iter().map(|input| input.bytes).fold(self.bytes, usize::min);
        let bytes = bytes.min(shortest.saturating_sub(at)) & !7;
        if bytes == 0 {
            return;
        }
        let [a, b] = inputs.map(|input| input.start().wrapping_add(at).cast_const().cast());
        // SAFETY: all ranges lie in their buffers' mappings, which are distinct and begin at a line; this one is
        // ours alone by `&mut`, and nobody writes the others while they are borrowed. Whatever bytes lie there
        // are doubles.
        unsafe { streamer.run_raw(a, b, self.start().add(at).cast(), bytes) }
    }

    /// Its bytes, to be written.
    pub fn as_mut_bytes(&mut self) -> &mut [u8] {
        let (start, bytes) = (self.start, self.bytes);
        self.part(start..start + bytes)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let start: *mut libc::c_void = ptr::with_exposed_provenance_mut(self.map.start);
        // SAFETY: the mapping is this buffer's own, made by `map`, and no reference into it outlives it.
        unsafe { libc::munmap(start, self.map.len()) };
    }
}

/// Maps fresh anonymous memory. No page is taken yet.
fn map(bytes: usize, huge: bool) -> io::Result<Range<usize>> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | if huge { libc::MAP_HUGETLB } else { 0 };
    // SAFETY: without a wanted address the kernel takes unused addresses; no file is involved.
    let start =
        unsafe { libc::mmap(ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let start = start.expose_provenance();
    Ok(start..start + bytes)
}

/// Binds addresses to one node, strictly (mbind(2)). Static: a later change of the cpuset may take the
/// memory's right to exist, but not map the node to another one.
fn bind(map: &Range<usize>, node: NodeId) -> io::Result<()> {
    let mut mask = vec![0u64; node.0 as usize / 64 + 1];
    mask[node.0 as usize / 64] = 1 << (node.0 % 64);
    let mode = libc::MPOL_BIND | libc::MPOL_F_STATIC_NODES;
    // The kernel takes one bit less than it is told of.
    let bits = mask.len() * 64 + 1;
    // SAFETY: the addresses are a mapping of our own, the mask holds `bits - 1` bits and lives through the
    // call. A policy changes no content.
    let result =
        unsafe { libc::syscall(libc::SYS_mbind, map.start, map.len(), mode, mask.as_ptr(), bits, 0) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Whether the kernel has no memory policies, or a sandbox keeps them from us.
fn not_offered(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM))
}

fn refused_binding(node: NodeId, error: &io::Error) -> ProbeError {
    let cause = match error.raw_os_error() {
        Some(libc::EPERM) => {
            " (containers forbid it by default: it needs CAP_SYS_NICE or an own seccomp profile)"
        }
        Some(libc::EINVAL) => " (the node has no memory, or the cpuset of this process excludes it)",
        _ => "",
    };
    ProbeError::Refused { what: format!("mbind to node {node}"), why: format!("{error}{cause}") }
}

fn advise(part: &Range<usize>, advice: libc::c_int) -> io::Result<()> {
    let start = ptr::with_exposed_provenance_mut(part.start);
    // SAFETY: the addresses are a mapping of our own; none of the advice given here changes its content.
    match unsafe { libc::madvise(start, part.len(), advice) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Makes pages be there, and says so where they cannot: a mere write would end in SIGBUS when a pool of huge
/// pages ran dry. Kernels before 5.14 know no such call; there the write that follows does it.
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
    use crate::memory::residency::{look, merge};
    use crate::Root;
    use numaio_machine::sysfs::SysfsExt;

    fn some_sets(threads: usize, pages: Pages, bytes: &[u64]) -> Vec<Vec<Buffer>> {
        let root = Root::live().expect("/");
        let status = root.text("/proc/self/status").expect("a status");
        let list = status.lines().find_map(|line| line.strip_prefix("Mems_allowed_list:")).unwrap_or("0");
        let node = list.trim().split([',', '-']).next().and_then(|id| id.parse().ok()).map(NodeId);
        let node = node.expect("a node");
        let buffers: Vec<(NodeId, u64)> = bytes.iter().map(|bytes| (node, *bytes)).collect();
        sets(&Room::new(&root, None), Wanted { threads, buffers: &buffers, pages }).expect("buffers")
    }

    #[test]
    fn what_is_written_is_never_alike_modulo_a_page() {
        for (pages, count) in [(Pages::Base, 2), (Pages::Transparent, 2), (Pages::Base, 3)] {
            for set in some_sets(17, pages, &[100, 100, 100][..count]) {
                let places: Vec<usize> = set.iter().map(|buffer| buffer.start().addr()).collect();
                assert!(places.iter().all(|place| place % LINE == 0), "whole lines");
                for read in &places[..count - 1] {
                    let lines = places[count - 1].wrapping_sub(*read) % 4096 / LINE;
                    assert!(lines % 2 == 1 && (21..=63).contains(&lines), "{lines} lines apart");
                }
            }
        }
    }

    #[test]
    fn pages_are_there_after_filling_and_touching_and_not_before() {
        for pages in [Pages::Base, Pages::Transparent] {
            for bytes in [1, 4096, 300_000, 5 << 20] {
                let mut set = some_sets(1, pages, &[bytes, bytes]).remove(0);
                let (mut sink, mut source) = (set.remove(1), set.remove(0));
                for before in [look(&source), look(&sink)].map(|seen| merge([seen], 0)) {
                    assert_eq!(before.pages_misplaced, before.pages_checked.unwrap_or(0), "nothing is there");
                }
                source.fill().expect("filled");
                sink.touch().expect("touched");
                let after = merge([look(&source), look(&sink)], 0);
                assert_eq!((after.pages_misplaced, after.found_on), (0, None));
                let whole = source.start..source.start + source.bytes;
                assert!(source.part(whole).chunks(LINE).all(|line| line[0] != 0), "no zeroes to be shared");
            }
        }
    }
}
