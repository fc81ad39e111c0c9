//! Caches of CPUs (`Documentation/ABI/testing/sysfs-devices-system-cpu`, `cache/index*`).

use super::files::{numbered, set_of, CPUS};
use super::parts::{Cache, Cpu};
use crate::ids::CpuId;
use crate::set::CpuSet;
use crate::sysfs::{Sysfs, SysfsExt};
use std::collections::{BTreeMap, BTreeSet};

/// Common attributes of the caches of one index and size, read once for all of them.
#[derive(Clone)]
struct Model {
    level: u32,
    kind: String,
    line_bytes: u32,
    ways: Option<u32>,
}

/// Caches found so far.
#[derive(Default)]
struct Found {
    caches: Vec<Cache>,
    /// The CPU and index from which each cache was read, by level, kind and CPUs.
    seen: BTreeMap<(u32, String, CpuSet), (CpuId, u32)>,
    /// By CPU: the `index*` numbers of its known caches, read from the CPU itself or one that
    /// shares them.
    indices: BTreeMap<CpuId, BTreeSet<u32>>,
    models: BTreeMap<(u32, String), Option<Model>>,
}

/// A cache as reported by one CPU.
struct NewCache {
    index: u32,
    /// Size as text of the kernel.
    size: String,
    cache: Cache,
}

/// The caches of a core.
struct Pattern {
    /// Indices of private caches, ascending; never empty.
    own: Vec<NewCache>,
    /// Indices of caches shared with other cores.
    shared: Vec<u32>,
    /// The first missing index.
    beyond: u32,
}

/// Reads each cache of the online CPUs once, ordered by level, kind and first CPU.
///
/// A cache is read from the first CPU that has it. Hardware threads with as many known caches as
/// the first thread of their core are skipped. If all CPUs are `alike`, a core has the private
/// caches of the first core if its last index matches and no further index exists; the others are
/// not read.
pub(super) fn read(root: &dyn Sysfs, cpus: &[Cpu], alike: bool) -> Vec<Cache> {
    let online: CpuSet = cpus.iter().filter(|cpu| cpu.online).map(|cpu| cpu.id).collect();
    let mut found = Found::default();
    let mut pattern = None;
    for (number, cpu) in cpus.iter().filter(|cpu| cpu.online).enumerate() {
        let known = |id: CpuId| found.indices.get(&id).map_or(0, BTreeSet::len);
        let first = cpu.siblings.first().unwrap_or(cpu.id);
        if first != cpu.id && known(cpu.id) > 0 && known(cpu.id) >= known(first) {
            continue;
        }
        let reader = Reader { root, cpu, online: &online, directory: format!("{CPUS}/cpu{}/cache", cpu.id) };
        if pattern.as_ref().is_some_and(|pattern| found.add_alike(&reader, pattern)) {
            continue;
        }
        let new = found.add_all(&reader);
        if number == 0 && alike {
            pattern = Pattern::of(new, cpu);
        }
    }
    let key = |cache: &Cache| (cache.level, cache.kind.clone(), cache.cpus.first());
    found.caches.sort_by_key(key);
    found.caches
}

impl Pattern {
    fn of(new: Vec<NewCache>, cpu: &Cpu) -> Option<Self> {
        let (mut own, shared): (Vec<NewCache>, Vec<NewCache>) =
            new.into_iter().partition(|new| new.cache.cpus == cpu.siblings);
        own.sort_by_key(|new| new.index);
        let shared: Vec<u32> = shared.into_iter().map(|new| new.index).collect();
        let beyond = own.iter().map(|new| new.index).chain(shared.iter().copied()).max()? + 1;
        (!own.is_empty()).then_some(Self { own, shared, beyond })
    }
}

/// Reads the caches of one CPU.
struct Reader<'a> {
    root: &'a dyn Sysfs,
    cpu: &'a Cpu,
    online: &'a CpuSet,
    directory: String,
}

impl Reader<'_> {
    fn indices(&self) -> Vec<u32> {
        let names = self.root.names(&self.directory);
        names.iter().filter_map(|name| numbered(name, "index")).collect()
    }

    fn path(&self, index: u32) -> String {
        format!("{}/index{index}", self.directory)
    }

    fn id(&self, index: u32) -> Option<u32> {
        self.root.value(&format!("{}/id", self.path(index))).ok()
    }

    fn size(&self, index: u32) -> Option<String> {
        self.root.optional(&format!("{}/size", self.path(index)))
    }

    /// Returns the online CPUs that share a cache.
    fn sharers(&self, index: u32) -> CpuSet {
        // Prefer the mask: every kernel has it, and lists in edited recordings can be outdated.
        // Some Itaniums report an empty mask; hardware threads of a core share all its caches.
        set_of(self.root, &self.path(index), &["shared_cpu_map", "shared_cpu_list"])
            .map(|cpus| cpus.intersection(self.online))
            .filter(|cpus| cpus.contains(self.cpu.id))
            .unwrap_or_else(|| self.cpu.siblings.clone())
    }
}

impl Found {
    fn knows(&self, cpu: CpuId, index: u32) -> bool {
        self.indices.get(&cpu).is_some_and(|known| known.contains(&index))
    }

    /// Adds the caches of a CPU except those known from others; returns the added ones.
    fn add_all(&mut self, reader: &Reader) -> Vec<NewCache> {
        let mut all = Vec::new();
        for index in reader.indices() {
            if !self.knows(reader.cpu.id, index) {
                all.extend(self.add(reader, index));
            }
        }
        all
    }

    /// Adds the caches of a CPU if its core matches the pattern; otherwise returns false and adds
    /// none.
    fn add_alike(&mut self, reader: &Reader, pattern: &Pattern) -> bool {
        let cpu = reader.cpu;
        let Some(last) = pattern.own.last() else { return false };
        let is_new = pattern.own.iter().all(|own| !self.knows(cpu.id, own.index));
        let is_same = is_new
            && reader.size(last.index).as_ref() == Some(&last.size)
            && reader.sharers(last.index) == cpu.siblings
            && reader.size(pattern.beyond).is_none();
        if !is_same {
            return false;
        }
        for own in &pattern.own {
            self.keep(reader, own.index, Cache { cpus: cpu.siblings.clone(), ..own.cache.clone() });
        }
        for index in &pattern.shared {
            if !self.knows(cpu.id, *index) {
                self.add(reader, *index);
            }
        }
        true
    }

    fn add(&mut self, reader: &Reader, index: u32) -> Option<NewCache> {
        let size = reader.size(index)?;
        let bytes = parse_size(&size)?;
        let model = self
            .models
            .entry((index, size.clone()))
            .or_insert_with(|| model(reader.root, &reader.path(index)));
        let Model { level, kind, line_bytes, ways } = model.clone()?;
        let cache = Cache { level, kind, bytes, line_bytes, ways, cpus: reader.sharers(index) };
        self.keep(reader, index, cache.clone());
        Some(NewCache { index, size, cache })
    }

    fn keep(&mut self, reader: &Reader, index: u32, cache: Cache) {
        for sharer in cache.cpus.iter() {
            self.indices.entry(sharer).or_default().insert(index);
        }
        // CPUs of different kinds can use different indices for the same cache. Two indices of one
        // CPU with different ids are two caches.
        let key = (cache.level, cache.kind.clone(), cache.cpus.clone());
        let (cpu, first) = *self.seen.entry(key).or_insert((reader.cpu.id, index));
        let is_new = cpu == reader.cpu.id
            && (first == index
                || reader.id(first).is_some_and(|id| reader.id(index).is_some_and(|other| other != id)));
        if is_new {
            self.caches.push(cache);
        }
    }
}

fn model(root: &dyn Sysfs, directory: &str) -> Option<Model> {
    let number = |name: &str| root.value::<u32>(&format!("{directory}/{name}")).ok();
    let kind = root.optional(&format!("{directory}/type"))?;
    if !["Data", "Instruction", "Unified"].contains(&kind.as_str()) {
        return None;
    }
    Some(Model {
        level: number("level")?,
        kind,
        line_bytes: number("coherency_line_size").unwrap_or(0),
        ways: number("ways_of_associativity").filter(|ways| *ways > 0),
    })
}

/// Parses a size such as `32K` or `1M` to bytes; `None` for zero.
fn parse_size(text: &str) -> Option<u64> {
    let (number, shift) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 10),
        b'M' => (&text[..text.len() - 1], 20),
        b'G' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let number: u64 = number.parse().ok()?;
    number.checked_mul(1 << shift).filter(|bytes| *bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_cache_sizes_with_suffixes() {
        assert_eq!(parse_size("32K"), Some(32768));
        assert_eq!(parse_size("1M"), Some(1 << 20));
        assert_eq!(parse_size("512"), Some(512));
        for text in ["", "K", "0K", "-1K", "99999999999999999999K", "18446744073709551615K", "1é"] {
            assert_eq!(parse_size(text), None, "{text}");
        }
    }
}
