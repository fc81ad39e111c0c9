//! Files and outputs with counts: `perf stat -j`, numastat, vmstat, resctrl and PMUs in sysfs.

use numaio_machine::counters::{
    parse_mbm_bytes, parse_numastat, parse_perf_stat, parse_vmstat_numa, uncore_events, CoreFamily,
    KernelCounts, NodeCpus,
};
use numaio_machine::tree::Tree;

const PERF_STAT: &str = r#"{"counter-value" : "50.000000", "unit" : "", "event" : "page-faults", "event-runtime" : 573784, "pcnt-running" : 62,50}
{"counter-value" : "<not supported>", "unit" : "", "event" : "cycles", "event-runtime" : 0, "pcnt-running" : 100.00}
"#;

/// Returns inputs of each format.
pub fn seeds() -> Vec<Vec<u8>> {
    let texts = [
        PERF_STAT,
        "numa_hit 1\nnuma_miss 2\nnuma_foreign 3\ninterleave_hit 4\nlocal_node 5\nother_node 6\n",
        "numa_hint_faults 1\nnuma_pages_migrated 2\n",
        "event=0x04,umask=0x03\n",
        "vendor_id : GenuineIntel\ncpu family : 6\nmodel : 85\n",
        "0-3\n",
        "17\n",
    ];
    texts.map(|text| text.as_bytes().to_vec()).to_vec()
}

/// Parses the input as each format, and as every file of a machine with PMUs.
pub fn counters(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    for count in parse_perf_stat(text) {
        assert!((0.0..=1.0).contains(&count.share), "{count:?}");
        assert!(count.value.is_err() || count.value.is_ok_and(|value| value >= 0.0 && value.is_finite()));
    }
    drop((parse_numastat(text), parse_vmstat_numa(text), parse_mbm_bytes(text)));
    let family = CoreFamily::parse(text);
    let mut root = Tree::new();
    let pmus = "/sys/bus/event_source/devices";
    for path in [
        "/sys/devices/system/node/node0/cpulist",
        "/sys/devices/system/node/node0/numastat",
        "/sys/devices/system/cpu/cpu0/cache/index3/id",
        "/sys/fs/resctrl/mon_data/mon_L3_00/mbm_local_bytes",
        "/proc/vmstat",
        &format!("{pmus}/uncore_imc_0/type"),
        &format!("{pmus}/uncore_imc_0/cpumask"),
        &format!("{pmus}/uncore_imc_0/events/cas_count_read"),
        &format!("{pmus}/amd_df/type"),
        &format!("{pmus}/amd_df/cpumask"),
    ] {
        root.file(path, input);
    }
    let nodes = NodeCpus::read(&root);
    let counts = KernelCounts::read(&root, &nodes);
    assert!(counts.since(&counts).iter().all(|(_, _, count)| count.value == 0));
    drop(uncore_events(&root, family, &nodes));
}
