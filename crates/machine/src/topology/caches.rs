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

/// Reads the caches of all online CPUs, each once, by level, kind and first CPU.
///
/// A cache is read from the first CPU that has it, and a hardware thread is not looked at when as many caches
/// are known of it as of the first thread of its core.
pub(super) fn read(root: &dyn Sysfs, cpus: &[Cpu]) -> Vec<Cache> {
    let online: CpuSet = cpus.iter().filter(|cpu| cpu.online).map(|cpu| cpu.id).collect();
    let mut found = Found::default();
    for cpu in cpus.iter().filter(|cpu| cpu.online) {
        let known = |id: CpuId| found.indices.get(&id).map_or(0, BTreeSet::len);
        let first = cpu.siblings.first().unwrap_or(cpu.id);
        if first != cpu.id && known(cpu.id) > 0 && known(cpu.id) >= known(first) {
            continue;
        }
        found.add_all(root, cpu, &online);
    }
    let key = |cache: &Cache| (cache.level, cache.kind.clone(), cache.cpus.first());
    found.caches.sort_by_key(key);
    found.caches
}

impl Found {
    fn add_all(&mut self, root: &dyn Sysfs, cpu: &Cpu, online: &CpuSet) {
        let directory = format!("{CPUS}/cpu{}/cache", cpu.id);
        let indices = root.names(&directory).into_iter().filter_map(|name| numbered(&name, "index"));
        for index in indices {
            let known = self.indices.get(&cpu.id).is_some_and(|known| known.contains(&index));
            if !known {
                self.add(root, &format!("{directory}/index{index}"), index, cpu, online);
            }
        }
    }

    fn add(&mut self, root: &dyn Sysfs, directory: &str, index: u32, cpu: &Cpu, online: &CpuSet) {
        let Some(size) = root.optional(&format!("{directory}/size")) else { return };
        let Some(bytes) = parse_size(&size) else { return };
        let model = self.models.entry((index, size)).or_insert_with(|| model(root, directory));
        let Some(Model { level, kind, line_bytes, ways }) = model.clone() else { return };
        // The mask first: every kernel has it, and lists in recordings made by hand are not always kept in step.
        // Some Itaniums give an empty one; hardware threads of a core share all it has.
        let cpus = set_of(root, directory, &["shared_cpu_map", "shared_cpu_list"])
            .map(|cpus| cpus.intersection(online))
            .filter(|cpus| cpus.contains(cpu.id))
            .unwrap_or_else(|| cpu.siblings.clone());
        for sharer in cpus.iter() {
            self.indices.entry(sharer).or_default().insert(index);
        }
        // CPUs of different kinds may count one cache under different indices.
        if self.seen.insert((level, kind.clone(), cpus.clone())) {
            self.caches.push(Cache { level, kind, bytes, line_bytes, ways, cpus });
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
