//! Codes of the events of threads, for perf_event_open(2).

use super::core_family::CoreFamily;
use super::counter::Counter;
use crate::sysfs::{Sysfs, SysfsExt};

/// Directory of the kernel's PMUs
/// (Documentation/ABI/testing/sysfs-bus-event_source-devices-events).
pub const EVENT_SOURCES: &str = "/sys/bus/event_source/devices";

/// `PERF_TYPE_*` of include/uapi/linux/perf_event.h.
const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;
const HARDWARE_CACHE: u32 = 3;
const RAW: u32 = 4;

/// Counters that are counted at the same time, so that their ratios are exact.
///
/// Groups are small: the kernel never counts a group with more events than a core has counters.
pub const GROUPS: [&[Counter]; 11] = [
    &[Counter::Cycles, Counter::Instructions, Counter::StallCycles],
    &[Counter::LlcLoads, Counter::LlcLoadMisses],
    &[Counter::NodeLoads, Counter::NodeLoadMisses],
    &[Counter::NodeStores, Counter::NodeStoreMisses],
    &[Counter::LocalDramLoads, Counter::RemoteDramLoads, Counter::RemoteCacheLoads],
    &[Counter::SnoopResponses],
    &[Counter::Prefetches],
    &[Counter::TscTicks],
    &[Counter::PageFaults],
    &[Counter::CpuMigrations],
    &[Counter::ContextSwitches],
];

/// An event that perf_event_open(2) can count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventCode {
    /// Name with the code, as in `RESOURCE_STALLS.ANY (r01a2)`.
    pub event: String,
    /// `perf_event_attr.type`.
    pub pmu: u32,
    /// `perf_event_attr.config`.
    pub config: u64,
    /// `perf_event_attr.config1`: the filter of events that have one, else 0.
    pub config1: u64,
    /// Whether the event is counted in user mode only. Others happen in the kernel.
    pub is_user_only: bool,
}

impl EventCode {
    fn new(event: &str, pmu: u32, config: u64) -> Self {
        Self { event: event.to_owned(), pmu, config, config1: 0, is_user_only: pmu != SOFTWARE }
    }
}

/// Returns the event of a counter of threads on this machine; a raw one of the core's family if
/// there is one, else the kernel's generic one.
///
/// # Errors
/// The reason why there is no event.
pub fn thread_event(root: &dyn Sysfs, family: CoreFamily, counter: Counter) -> Result<EventCode, String> {
    if counter == Counter::TscTicks {
        return tsc(root).ok_or_else(|| "the kernel has no msr PMU".to_owned());
    }
    if let Some(raw) = raw_event(family, counter) {
        let pmu = raw_type(root, family).unwrap_or(RAW);
        return Ok(EventCode { pmu, ..raw });
    }
    generic_event(counter).ok_or_else(|| "numaio knows no event for these cores".to_owned())
}

/// Returns the type of raw events: PMUs of Arm cores have dynamic types.
fn raw_type(root: &dyn Sysfs, family: CoreFamily) -> Option<u32> {
    match family {
        CoreFamily::Neoverse => root.value(&format!("{EVENT_SOURCES}/armv8_pmuv3_0/type")).ok(),
        _ => None,
    }
}

/// Returns the time stamp counter's event of the msr PMU (arch/x86/events/msr.c, event 0).
fn tsc(root: &dyn Sysfs) -> Option<EventCode> {
    let pmu = root.value(&format!("{EVENT_SOURCES}/msr/type")).ok()?;
    // The PMU cannot exclude the kernel.
    Some(EventCode { is_user_only: false, ..EventCode::new("msr/tsc/", pmu, 0) })
}

/// Returns the kernel's generic event (perf_event_open(2), `PERF_COUNT_*`).
fn generic_event(counter: Counter) -> Option<EventCode> {
    const LL: u64 = 2;
    const NODE: u64 = 6;
    const WRITE: u64 = 1 << 8;
    const MISS: u64 = 1 << 16;
    let (event, pmu, config) = match counter {
        Counter::Cycles => ("cycles", HARDWARE, 0),
        Counter::Instructions => ("instructions", HARDWARE, 1),
        Counter::StallCycles => ("stalled-cycles-backend", HARDWARE, 8),
        Counter::LlcLoads => ("LLC-loads", HARDWARE_CACHE, LL),
        Counter::LlcLoadMisses => ("LLC-load-misses", HARDWARE_CACHE, LL | MISS),
        Counter::NodeLoads => ("node-loads", HARDWARE_CACHE, NODE),
        Counter::NodeLoadMisses => ("node-load-misses", HARDWARE_CACHE, NODE | MISS),
        Counter::NodeStores => ("node-stores", HARDWARE_CACHE, NODE | WRITE),
        Counter::NodeStoreMisses => ("node-store-misses", HARDWARE_CACHE, NODE | WRITE | MISS),
        Counter::PageFaults => ("page-faults", SOFTWARE, 2),
        Counter::ContextSwitches => ("context-switches", SOFTWARE, 3),
        Counter::CpuMigrations => ("cpu-migrations", SOFTWARE, 4),
        _ => return None,
    };
    let code = EventCode::new(event, pmu, config);
    // Page faults happen in user mode, switches and migrations in the kernel.
    Some(EventCode { is_user_only: code.is_user_only || counter == Counter::PageFaults, ..code })
}

/// A raw event: counter, name, event number, unit mask, counter mask.
type RawEvent = (Counter, &'static str, u16, u8, u8);

use Counter::{
    LocalDramLoads, NodeLoadMisses, Prefetches, RemoteCacheLoads, RemoteDramLoads, SnoopResponses,
    StallCycles,
};

/// Intel perfmon, `JKT/events/Jaketown_core.json`.
const SANDY_BRIDGE_EP: &[RawEvent] = &[
    (StallCycles, "RESOURCE_STALLS.ANY", 0xa2, 0x01, 0),
    (LocalDramLoads, "MEM_LOAD_UOPS_LLC_MISS_RETIRED.LOCAL_DRAM", 0xd3, 0x01, 0),
    (RemoteDramLoads, "MEM_LOAD_UOPS_LLC_MISS_RETIRED.REMOTE_DRAM", 0xd3, 0x04, 0),
    (Prefetches, "L2_RQSTS.ALL_PF", 0x24, 0xc0, 0),
];

/// Intel perfmon, `IVT/events/ivytown_core.json`; remote caches: `REMOTE_HITM` and `REMOTE_FWD`.
const IVY_BRIDGE_EP: &[RawEvent] = &[
    (StallCycles, "RESOURCE_STALLS.ANY", 0xa2, 0x01, 0),
    (LocalDramLoads, "MEM_LOAD_UOPS_LLC_MISS_RETIRED.LOCAL_DRAM", 0xd3, 0x03, 0),
    (RemoteDramLoads, "MEM_LOAD_UOPS_LLC_MISS_RETIRED.REMOTE_DRAM", 0xd3, 0x0c, 0),
    (RemoteCacheLoads, "MEM_LOAD_UOPS_LLC_MISS_RETIRED.REMOTE_*", 0xd3, 0x30, 0),
    (Prefetches, "L2_RQSTS.ALL_PF", 0x24, 0xc0, 0),
];

/// Intel perfmon, `HSX/events/haswellx_core.json` and `BDX/events/broadwellx_core.json`.
const HASWELL_EP: &[RawEvent] = &[
    (StallCycles, "RESOURCE_STALLS.ANY", 0xa2, 0x01, 0),
    (LocalDramLoads, "MEM_LOAD_UOPS_L3_MISS_RETIRED.LOCAL_DRAM", 0xd3, 0x01, 0),
    (RemoteDramLoads, "MEM_LOAD_UOPS_L3_MISS_RETIRED.REMOTE_DRAM", 0xd3, 0x04, 0),
    (RemoteCacheLoads, "MEM_LOAD_UOPS_L3_MISS_RETIRED.REMOTE_*", 0xd3, 0x30, 0),
    (Prefetches, "L2_RQSTS.ALL_PF", 0x24, 0xf8, 0),
];

/// Intel perfmon, `SKX/events/skylakex_core.json` and `CLX/events/cascadelakex_core.json`.
const SKYLAKE_SP: &[RawEvent] = &[
    (StallCycles, "RESOURCE_STALLS.ANY", 0xa2, 0x01, 0),
    (LocalDramLoads, "MEM_LOAD_L3_MISS_RETIRED.LOCAL_DRAM", 0xd3, 0x01, 0),
    (RemoteDramLoads, "MEM_LOAD_L3_MISS_RETIRED.REMOTE_DRAM", 0xd3, 0x02, 0),
    (RemoteCacheLoads, "MEM_LOAD_L3_MISS_RETIRED.REMOTE_*", 0xd3, 0x0c, 0),
    (SnoopResponses, "CORE_SNOOP_RESPONSE.*", 0xef, 0x7f, 0),
    (Prefetches, "L2_RQSTS.ALL_PF", 0x24, 0xf8, 0),
];

/// Intel perfmon, `ICX/events/icelakex_core.json`, which has no event for all L2 prefetches.
const ICE_LAKE_SP: &[RawEvent] = &[
    (StallCycles, "CYCLE_ACTIVITY.STALLS_TOTAL", 0xa3, 0x04, 4),
    (LocalDramLoads, "MEM_LOAD_L3_MISS_RETIRED.LOCAL_DRAM", 0xd3, 0x01, 0),
    (RemoteDramLoads, "MEM_LOAD_L3_MISS_RETIRED.REMOTE_DRAM", 0xd3, 0x02, 0),
    (RemoteCacheLoads, "MEM_LOAD_L3_MISS_RETIRED.REMOTE_*", 0xd3, 0x0c, 0),
    (SnoopResponses, "CORE_SNOOP_RESPONSE.*", 0xef, 0x7f, 0),
];

/// Intel perfmon, `SPR/events/sapphirerapids_core.json`; `EMR` and `GNR` have the same codes.
const SAPPHIRE_RAPIDS: &[RawEvent] = &[
    (StallCycles, "CYCLE_ACTIVITY.STALLS_TOTAL", 0xa3, 0x04, 4),
    (LocalDramLoads, "MEM_LOAD_L3_MISS_RETIRED.LOCAL_DRAM", 0xd3, 0x01, 0),
    (RemoteDramLoads, "MEM_LOAD_L3_MISS_RETIRED.REMOTE_DRAM", 0xd3, 0x02, 0),
    (RemoteCacheLoads, "MEM_LOAD_L3_MISS_RETIRED.REMOTE_*", 0xd3, 0x0c, 0),
    (SnoopResponses, "CORE_SNOOP_RESPONSE.*", 0x27, 0x7f, 0),
    (Prefetches, "L2_RQSTS.HWPF_MISS", 0x24, 0x30, 0),
];

/// AMD PPR for Family 17h Models 30h-3Fh, PMCx043 and PMCx05A (as perf's `amdzen2/memory.json`).
const ZEN_2: &[RawEvent] = &[
    (LocalDramLoads, "ls_refills_from_sys.ls_mabresp_lcl_dram", 0x43, 0x08, 0),
    (RemoteDramLoads, "ls_refills_from_sys.ls_mabresp_rmt_dram", 0x43, 0x40, 0),
    (RemoteCacheLoads, "ls_refills_from_sys.ls_mabresp_rmt_cache", 0x43, 0x10, 0),
    (Prefetches, "ls_hw_pf_dc_fill.*", 0x5a, 0x5b, 0),
];

/// AMD PPR for Families 19h and 1Ah, PMCx043 and PMCx05A (as perf's `amdzen5/load-store.json`).
const ZEN_3: &[RawEvent] = &[
    (LocalDramLoads, "ls_dmnd_fills_from_sys.dram_io_near", 0x43, 0x08, 0),
    (RemoteDramLoads, "ls_dmnd_fills_from_sys.dram_io_far", 0x43, 0x40, 0),
    (RemoteCacheLoads, "ls_dmnd_fills_from_sys.far_cache", 0x43, 0x10, 0),
    (Prefetches, "ls_hw_pf_dc_fills.all", 0x5a, 0xdf, 0),
];

/// Arm Neoverse TRMs, PMU events: an access to another socket, and cycles without an operation
/// because of the backend.
const NEOVERSE: &[RawEvent] =
    &[(StallCycles, "STALL_BACKEND", 0x24, 0, 0), (NodeLoadMisses, "REMOTE_ACCESS", 0x31, 0, 0)];

/// Intel's event of requests that leave a core. `config1` is the value of `MSR_OFFCORE_RSP_0`: its
/// requests, suppliers and snoop responses (perfmon, and `intel_snbep_extra_regs` of the kernel).
const OFFCORE_RESPONSE: u64 = 0x01b7;

/// Requests of [`OFFCORE_RESPONSE`]: demand reads and L2 prefetches of data, ownership and code.
const OFFCORE_READS: u64 = 0x77;

/// Returns the filter of reads that missed the last-level cache and drew a snoop response: miss,
/// hit, forward or modified. Cores before Skylake count no responses that they give.
///
/// It unites the published filters for local and remote DRAM, forwarded and modified lines:
/// `JKT/events/Jaketown_core.json`, `IVT/events/ivytown_core.json`,
/// `HSX/events/haswellx_core.json`.
fn offcore_snoops(family: CoreFamily) -> Option<u64> {
    const ANSWERED: u64 = 0xf << 33;
    match family {
        CoreFamily::SandyBridgeEp | CoreFamily::IvyBridgeEp => Some(ANSWERED | 0x7fc2_0000),
        CoreFamily::HaswellEp => Some(ANSWERED | 0x3fc0_0000),
        _ => None,
    }
}

fn raw_event(family: CoreFamily, counter: Counter) -> Option<EventCode> {
    let events: &[RawEvent] = match family {
        CoreFamily::SandyBridgeEp => SANDY_BRIDGE_EP,
        CoreFamily::IvyBridgeEp => IVY_BRIDGE_EP,
        CoreFamily::HaswellEp => HASWELL_EP,
        CoreFamily::SkylakeSp => SKYLAKE_SP,
        CoreFamily::IceLakeSp => ICE_LAKE_SP,
        CoreFamily::SapphireRapids => SAPPHIRE_RAPIDS,
        CoreFamily::Zen2 => ZEN_2,
        CoreFamily::Zen3 | CoreFamily::Zen4 => ZEN_3,
        CoreFamily::Neoverse => NEOVERSE,
        CoreFamily::Zen1 | CoreFamily::Other => &[],
    };
    if counter == SnoopResponses {
        if let Some(responses) = offcore_snoops(family) {
            let name = "OFFCORE_RESPONSE.ALL_DEMAND_MLC_PREF_READS.LLC_MISS.SNOOP_*";
            let config1 = OFFCORE_READS | responses;
            let event = format!("{name} (r{OFFCORE_RESPONSE:04x}, offcore_rsp={config1:#x})");
            return Some(EventCode { config1, ..EventCode::new(&event, RAW, OFFCORE_RESPONSE) });
        }
    }
    let (_, name, event, umask, cmask) = events.iter().find(|(of, ..)| *of == counter)?;
    // Bits 8 to 11 of AMD's event number are at bit 32; no other family uses them.
    let high = u64::from(event >> 8) << 32;
    let config = u64::from(event & 0xff) | u64::from(*umask) << 8 | u64::from(*cmask) << 24 | high;
    Some(EventCode::new(&format!("{name} (r{config:04x})"), RAW, config))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    #[test]
    fn every_counter_of_threads_is_in_one_group() {
        let grouped: Vec<Counter> = GROUPS.iter().flat_map(|group| group.iter().copied()).collect();
        let threads = Counter::ALL
            .iter()
            .filter(|counter| counter.scope() == super::super::counter::CounterScope::Threads);
        assert_eq!(grouped.len(), threads.clone().count());
        assert!(threads.into_iter().all(|counter| grouped.contains(counter)));
    }

    #[test]
    fn raw_codes_precede_generic_ones() {
        let root = Tree::new();
        let code = |family, counter| thread_event(&root, family, counter);
        let stalls = code(CoreFamily::SkylakeSp, Counter::StallCycles).expect("an event");
        assert_eq!((stalls.event.as_str(), stalls.pmu), ("RESOURCE_STALLS.ANY (r01a2)", RAW));
        let stalls = code(CoreFamily::IceLakeSp, Counter::StallCycles).expect("an event");
        assert_eq!(stalls.config, 0x0400_04a3, "with the counter mask");
        let stalls = code(CoreFamily::Zen4, Counter::StallCycles).expect("an event");
        assert_eq!((stalls.pmu, stalls.config), (HARDWARE, 8));
        let faults = code(CoreFamily::Other, Counter::PageFaults).expect("an event");
        assert!(faults.pmu == SOFTWARE && faults.is_user_only);
        assert!(!code(CoreFamily::Other, Counter::ContextSwitches).expect("an event").is_user_only);
        assert!(code(CoreFamily::Other, Counter::SnoopResponses).is_err());
        assert!(code(CoreFamily::Other, Counter::TscTicks).is_err(), "no msr PMU");
    }

    #[test]
    fn snoops_of_older_servers_have_a_filter() {
        let root = Tree::new();
        let code = |family, counter| thread_event(&root, family, counter);
        // LOCAL_DRAM, REMOTE_DRAM, REMOTE_HITM and REMOTE_HIT_FORWARD of data reads.
        let sandy_bridge = [0x6_0040_0001, 0x6_7f80_0001, 0x10_7fc0_0001, 0x8_7f82_0001];
        let haswell = [0x6_0040_0091, 0x6_3f80_0091, 0x10_3fc0_0091, 0x8_3fc0_0091];
        for (family, filters) in [
            (CoreFamily::SandyBridgeEp, sandy_bridge),
            (CoreFamily::IvyBridgeEp, sandy_bridge),
            (CoreFamily::HaswellEp, haswell),
        ] {
            let snoops = code(family, Counter::SnoopResponses).expect("an event");
            let responses: u64 = filters.iter().fold(0, |all, filter| all | filter & !0xffff);
            assert_eq!((snoops.config, snoops.config1), (0x01b7, responses | 0x77), "{family:?}");
            assert_eq!(snoops.config1 & !0x3f_ffff_8fff, 0, "the kernel rejects other bits");
        }
        let own = code(CoreFamily::SkylakeSp, Counter::SnoopResponses).expect("an event");
        assert_eq!((own.config, own.config1), (0x7fef, 0));
    }

    #[test]
    fn pmus_with_dynamic_types() {
        let mut root = Tree::new();
        root.file("/sys/bus/event_source/devices/msr/type", "9\n")
            .file("/sys/bus/event_source/devices/armv8_pmuv3_0/type", "11\n");
        let tsc = thread_event(&root, CoreFamily::Other, Counter::TscTicks).expect("an event");
        assert_eq!((tsc.pmu, tsc.config), (9, 0));
        let remote = thread_event(&root, CoreFamily::Neoverse, Counter::NodeLoadMisses).expect("an event");
        assert_eq!((remote.pmu, remote.config), (11, 0x31));
    }
}
