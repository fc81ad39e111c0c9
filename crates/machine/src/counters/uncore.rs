//! PMUs outside of the cores: memory controllers and links between packages.

use super::codes::EVENT_SOURCES;
use super::core_family::CoreFamily;
use super::counter::{Counter, CounterSource, MissingCounter};
use super::kernel_files::NodeCpus;

use crate::ids::{CpuId, NodeId};
use crate::set::CpuSet;
use crate::sysfs::{Sysfs, SysfsExt};

/// Largest number of PMUs to search, and of CPUs that read one: one per package.
const MAX_PMUS: usize = 4096;
const MAX_CPUS: usize = 256;

/// Bytes of a command of a memory controller: a cache line.
const LINE_BYTES: f64 = 64.0;
/// Bytes of a data packet of the AMD data fabric (AMD PPR, DFEvent "Remote Link Controller").
const DF_PACKET_BYTES: f64 = 32.0;
/// Bytes of a flit of UPI: nine flits carry a line (perf's metric `upi_data_transmit_bw`).
const UPI_FLIT_BYTES: f64 = 64.0 / 9.0;

/// An event of a PMU outside of the cores, on one CPU that reads it.
#[derive(Debug, Clone, PartialEq)]
pub struct UncoreEvent {
    /// The counter.
    pub counter: Counter,
    /// Name of the PMU and the event, as in `uncore_imc_0/cas_count_read/`.
    pub event: String,
    /// `perf_event_attr.type`.
    pub pmu: u32,
    /// `perf_event_attr.config`.
    pub config: u64,
    /// CPU through which the kernel reads it (`cpumask`).
    pub cpu: CpuId,
    /// Node of that CPU; a PMU of a package with several nodes counts for all of them.
    pub node: Option<NodeId>,
    /// Bytes of one event.
    pub bytes: f64,
}

/// Finds the events of memory controllers and links that numaio can convert to bytes.
///
/// Returns them with the counters for which no PMU exists. Intel's `uncore_imc` describes its
/// events in sysfs; AMD's `amd_umc` and `amd_df` and Intel's `uncore_upi` have codes from perf's
/// tables.
pub fn uncore_events(
    root: &dyn Sysfs,
    family: CoreFamily,
    nodes: &NodeCpus,
) -> (Vec<UncoreEvent>, Vec<MissingCounter>) {
    let names = root.names(EVENT_SOURCES);
    let mut events = Vec::new();
    for name in names.iter().take(MAX_PMUS) {
        for (counter, event, config, bytes) in events_of(root, name, family) {
            let Ok(pmu) = root.value(&format!("{EVENT_SOURCES}/{name}/type")) else { continue };
            let cpus = root.optional(&format!("{EVENT_SOURCES}/{name}/cpumask")).unwrap_or_default();
            for cpu in CpuSet::parse_list(&cpus).unwrap_or_default().iter().take(MAX_CPUS) {
                let event = format!("{name}/{event}/");
                events.push(UncoreEvent {
                    counter,
                    event,
                    pmu,
                    config,
                    cpu,
                    node: nodes.node_of(cpu),
                    bytes,
                });
            }
        }
    }
    let wanted = [Counter::MemoryReadBytes, Counter::MemoryWriteBytes, Counter::LinkBytes];
    let is_missing = |counter: &Counter| !events.iter().any(|event| event.counter == *counter);
    let missing = |counter| MissingCounter {
        counter,
        source: CounterSource::Uncore,
        reason: reason(&names, counter).to_owned(),
    };
    let missing = wanted.into_iter().filter(is_missing).map(missing).collect();
    (events, missing)
}

fn reason(names: &[String], counter: Counter) -> &'static str {
    let has = |prefix: &str| names.iter().any(|name| name.starts_with(prefix));
    match counter {
        _ if has("arm_cmn") => "numaio knows no event of arm_cmn that counts bytes",
        Counter::LinkBytes => "the kernel exposes no PMU of links between packages",
        _ => "the kernel exposes no PMU of memory controllers",
    }
}

/// Events of a PMU: counter, name, code and bytes of one event.
fn events_of(root: &dyn Sysfs, pmu: &str, family: CoreFamily) -> Vec<(Counter, String, u64, f64)> {
    let is = |prefix: &str| pmu.strip_prefix(prefix).is_some_and(is_index);
    if is("uncore_imc") || is("uncore_imc_free_running") {
        return memory_controller_events(root, pmu);
    }
    if is("amd_umc") {
        // umc_cas_cmd: event 0x0a in bits 0 to 7, rdwrmask in bits 8 and 9.
        return vec![
            (Counter::MemoryReadBytes, "event=0x0a,rdwrmask=0x1".to_owned(), 0x10a, LINE_BYTES),
            (Counter::MemoryWriteBytes, "event=0x0a,rdwrmask=0x2".to_owned(), 0x20a, LINE_BYTES),
        ];
    }
    if is("uncore_upi") {
        // UNC_UPI_TxL_FLITS.ALL_DATA, the same from Skylake to Granite Rapids.
        return vec![(Counter::LinkBytes, "event=0x02,umask=0x0f".to_owned(), 0x0f02, UPI_FLIT_BYTES)];
    }
    let has_controllers = matches!(family, CoreFamily::Zen1 | CoreFamily::Zen2 | CoreFamily::Zen3);
    if pmu == "amd_df" && has_controllers {
        // remote_outbound_data_controller_0 to 3; bits 8 to 11 of the event are at bit 32.
        let controllers = [0x7c7u64, 0x807, 0x847, 0x887].into_iter().map(|event| {
            let config = event & 0xff | 0x02 << 8 | (event >> 8) << 32;
            (Counter::LinkBytes, format!("event={event:#x},umask=0x02"), config, DF_PACKET_BYTES)
        });
        return controllers.collect();
    }
    Vec::new()
}

/// Events of an Intel memory controller that count cache lines, as the kernel describes them.
///
/// Servers have `cas_count_read`, from Granite Rapids on one for each subchannel
/// (`cas_count_read_sch0`). Clients have `data_reads`, or `data_read` of a free-running PMU
/// (`arch/x86/events/intel/uncore_snb.c` and `uncore_snbep.c`).
fn memory_controller_events(root: &dyn Sysfs, pmu: &str) -> Vec<(Counter, String, u64, f64)> {
    let folder = format!("{EVENT_SOURCES}/{pmu}/events");
    let event = |name: String| {
        let stem = match name.rsplit_once("_sch") {
            Some((stem, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => stem,
            _ => name.as_str(),
        };
        let counter = match stem {
            "cas_count_read" | "data_reads" | "data_read" => Counter::MemoryReadBytes,
            "cas_count_write" | "data_writes" | "data_write" => Counter::MemoryWriteBytes,
            _ => return None,
        };
        let config = parse_event(&root.optional(&format!("{folder}/{name}"))?)?;
        Some((counter, name, config, LINE_BYTES))
    };
    root.names(&folder).into_iter().filter_map(event).collect()
}

/// Returns whether this is the end of a PMU's name: nothing, or an index as in `_3`.
fn is_index(end: &str) -> bool {
    let digits = end.strip_prefix('_');
    end.is_empty()
        || digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Parses an event file, as in `event=0x04,umask=0x03`, with Intel's layout of `config`: the event
/// in bits 0 to 7, the mask in bits 8 to 15.
fn parse_event(text: &str) -> Option<u64> {
    let mut config = 0;
    for term in text.trim().split(',') {
        let (name, value) = term.split_once('=')?;
        let value = value
            .strip_prefix("0x")
            .map_or_else(|| value.parse().ok(), |hex| u8::from_str_radix(hex, 16).ok());
        match name {
            "event" => config |= u64::from(value?),
            "umask" => config |= u64::from(value?) << 8,
            _ => return None,
        }
    }
    Some(config)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    fn machine() -> (Tree, NodeCpus) {
        let mut root = Tree::new();
        root.file("/sys/devices/system/node/node0/cpulist", "0-3\n")
            .file("/sys/devices/system/node/node1/cpulist", "4-7\n");
        let nodes = NodeCpus::read(&root);
        (root, nodes)
    }

    #[test]
    fn memory_controllers_of_intel() {
        let (mut root, nodes) = machine();
        let at = |name: &str| format!("{EVENT_SOURCES}/uncore_imc_1/{name}");
        root.file(&at("type"), "17\n")
            .file(&at("cpumask"), "0,4\n")
            .file(&at("events/cas_count_read"), "event=0x04,umask=0x03\n")
            .file(&at("events/cas_count_read.scale"), "6.103515625e-5\n")
            .file(&at("events/cas_count_write"), "event=0x04,umask=0x0c,unknown=1\n")
            .file(&format!("{EVENT_SOURCES}/uncore_imc_free_running_0/type"), "18\n");
        let (events, missing) = uncore_events(&root, CoreFamily::SkylakeSp, &nodes);
        let found: Vec<_> =
            events.iter().map(|event| (event.pmu, event.config, event.cpu, event.node)).collect();
        assert_eq!(found, [(17, 0x304, CpuId(0), Some(NodeId(0))), (17, 0x304, CpuId(4), Some(NodeId(1)))]);
        assert_eq!(events[0].event, "uncore_imc_1/cas_count_read/");
        let missing: Vec<Counter> = missing.iter().map(|missing| missing.counter).collect();
        assert_eq!(missing, [Counter::MemoryWriteBytes, Counter::LinkBytes], "an unknown term of an event");
    }

    #[test]
    fn links_of_amd_by_family() {
        let (mut root, nodes) = machine();
        root.file(&format!("{EVENT_SOURCES}/amd_df/type"), "12\n")
            .file(&format!("{EVENT_SOURCES}/amd_df/cpumask"), "0\n");
        let (events, _) = uncore_events(&root, CoreFamily::Zen3, &nodes);
        let configs: Vec<u64> = events.iter().map(|event| event.config).collect();
        assert_eq!(configs, [0x7_0000_02c7, 0x8_0000_0207, 0x8_0000_0247, 0x8_0000_0287]);
        assert!(uncore_events(&root, CoreFamily::Zen4, &nodes).0.is_empty(), "other codes");
    }

    #[test]
    fn reasons_without_pmus() {
        let (mut root, nodes) = machine();
        let (events, missing) = uncore_events(&root, CoreFamily::Other, &nodes);
        assert!(events.is_empty() && missing.len() == 3);
        assert!(missing[0].reason.contains("no PMU of memory controllers"));
        root.file(&format!("{EVENT_SOURCES}/arm_cmn_0/type"), "20\n");
        let (_, missing) = uncore_events(&root, CoreFamily::Neoverse, &nodes);
        assert!(missing[2].reason.contains("arm_cmn"));
    }

    #[test]
    fn memory_controllers_have_several_names() {
        for (pmu, names) in [
            ("uncore_imc_0", ["cas_count_read_sch0", "cas_count_read_sch1", "cas_count_write_sch1"]),
            ("uncore_imc", ["data_reads", "gt_requests", "data_writes"]),
            ("uncore_imc_free_running_1", ["data_read", "data_total", "data_write"]),
        ] {
            let (mut root, nodes) = machine();
            let folder = format!("{EVENT_SOURCES}/{pmu}");
            root.file(&format!("{folder}/type"), "98\n").file(&format!("{folder}/cpumask"), "0\n");
            for name in names {
                root.file(&format!("{folder}/events/{name}"), "event=0xff,umask=0x20\n");
                root.file(&format!("{folder}/events/{name}.scale"), "6.103515625e-5\n");
            }
            let (events, _) = uncore_events(&root, CoreFamily::SapphireRapids, &nodes);
            let found = |counter| events.iter().filter(|event| event.counter == counter).count();
            let expected = names.iter().filter(|name| name.contains("read")).count();
            assert_eq!(found(Counter::MemoryReadBytes), expected, "{pmu}");
            assert_eq!(found(Counter::MemoryWriteBytes), 1, "{pmu}");
        }
    }
}
