//! Caches of CPUs (`Documentation/ABI/testing/sysfs-devices-system-cpu`, `cache/index*`).

use super::{numbered, set_of, Cache, Cpu, CPUS};
use crate::ids::CpuId;
use crate::set::CpuSet;
use crate::sysfs::{Sysfs, SysfsExt};
use std::collections::{BTreeMap, BTreeSet};

/// What caches of one index and size have in common; read once for all of them.
#[derive(Clone)]
struct Model {
    level: u32,
    kind: String,
    line_bytes: u32,
    ways: Option<u32>,
}

/// The caches found so far.
#[derive(Default)]
struct Found {
    caches: Vec<Cache>,
    seen: BTreeSet<(u32, String, CpuSet)>,
    /// By CPU: the `index*` numbers of its caches that are known, its own or those of a CPU that shares them.
    indices: BTreeMap<CpuId, BTreeSet<u32>>,
    models: BTreeMap<(u32, String), Option<Model>>,
}

/// One cache as one CPU tells it.
struct Told {
    index: u32,
    /// As the kernel writes it.
    size: String,
    cache: Cache,
}

/// What a core has.
struct Pattern {
    /// For itself alone, by ascending index; never empty.
    own: Vec<Told>,
    /// Indices of what it shares with other cores.
    shared: Vec<u32>,
    /// The first index that it has not.
    beyond: u32,
}

/// Reads the caches of all online CPUs, each once, by level, kind and first CPU.
///
/// A cache is read from the first CPU that has it, and a hardware thread is not looked at when as many caches
/// are known of it as of the first thread of its core. Where all CPUs are `alike`, a core has the same caches for
/// itself as the first core if the last of them is the same and there is none beyond: the others are not read.
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
        let told = found.add_all(&reader);
        if number == 0 && alike {
            pattern = Pattern::of(told, cpu);
        }
    }
    let key = |cache: &Cache| (cache.level, cache.kind.clone(), cache.cpus.first());
    found.caches.sort_by_key(key);
    found.caches
}

impl Pattern {
    fn of(told: Vec<Told>, cpu: &Cpu) -> Option<Self> {
        let (mut own, shared): (Vec<Told>, Vec<Told>) =
            told.into_iter().partition(|told| told.cache.cpus == cpu.siblings);
        own.sort_by_key(|told| told.index);
        let shared: Vec<u32> = shared.into_iter().map(|told| told.index).collect();
        let beyond = own.iter().map(|told| told.index).chain(shared.iter().copied()).max()? + 1;
        (!own.is_empty()).then_some(Self { own, shared, beyond })
    }
}

/// The caches of one CPU.
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

    fn size(&self, index: u32) -> Option<String> {
        self.root.optional(&format!("{}/size", self.path(index)))
    }

    /// The online CPUs that share a cache.
    fn sharers(&self, index: u32) -> CpuSet {
        // The mask first: every kernel has it, and lists in recordings made by hand are not always kept in step.
        // Some Itaniums give an empty one; hardware threads of a core share all it has.
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

    /// Adds what a CPU has, but for what is known from others; gives what it added.
    fn add_all(&mut self, reader: &Reader) -> Vec<Told> {
        let mut all = Vec::new();
        for index in reader.indices() {
            if !self.knows(reader.cpu.id, index) {
                all.extend(self.add(reader, index));
            }
        }
        all
    }

    /// Adds what a CPU has if its core is as the pattern says; false if not, and nothing is added then.
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
            self.keep(own.index, Cache { cpus: cpu.siblings.clone(), ..own.cache.clone() });
        }
        for index in &pattern.shared {
            if !self.knows(cpu.id, *index) {
                self.add(reader, *index);
            }
        }
        true
    }

    fn add(&mut self, reader: &Reader, index: u32) -> Option<Told> {
        let size = reader.size(index)?;
        let bytes = parse_size(&size)?;
        let model = self
            .models
            .entry((index, size.clone()))
            .or_insert_with(|| model(reader.root, &reader.path(index)));
        let Model { level, kind, line_bytes, ways } = model.clone()?;
        let cache = Cache { level, kind, bytes, line_bytes, ways, cpus: reader.sharers(index) };
        self.keep(index, cache.clone());
        Some(Told { index, size, cache })
    }

    fn keep(&mut self, index: u32, cache: Cache) {
        for sharer in cache.cpus.iter() {
            self.indices.entry(sharer).or_default().insert(index);
        }
        // CPUs of different kinds may count one cache under different indices.
        if self.seen.insert((cache.level, cache.kind.clone(), cache.cpus.clone())) {
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

/// A size as in `32K` or `1M`, in bytes; none for nothing.
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
    fn sizes_have_suffixes() {
        assert_eq!(parse_size("32K"), Some(32768));
        assert_eq!(parse_size("1M"), Some(1 << 20));
        assert_eq!(parse_size("512"), Some(512));
        for text in ["", "K", "0K", "-1K", "99999999999999999999K", "18446744073709551615K", "1é"] {
            assert_eq!(parse_size(text), None, "{text}");
        }
    }
}
