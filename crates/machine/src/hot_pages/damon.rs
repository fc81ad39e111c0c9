//! Settings and results of DAMON in sysfs (Documentation/admin-guide/mm/damon/usage.rst,
//! Documentation/ABI/testing/sysfs-kernel-mm-damon).

use super::monitor::MonitoredProcess;
use super::ranges::AccessedRange;
use crate::sysfs::{Sysfs, SysfsExt};

/// Folder of all monitors.
pub const DAMON: &str = "/sys/kernel/mm/damon/admin/kdamonds";

/// Number of monitors: writing it removes all and creates new ones.
pub const NR_KDAMONDS: &str = "/sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds";

/// Monitoring of addresses that are not extended to new mappings.
const OPERATIONS: &str = "fvaddr";

/// Maximum number of regions to read.
const MAX_REGIONS: usize = 1 << 16;

/// Times of a monitor in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DamonIntervals {
    /// Time between samples of each region.
    pub sample_us: u64,
    /// Time over which samples are counted.
    pub aggregation_us: u64,
}

/// Returns the folder of a monitor.
pub fn kdamond_folder(index: usize) -> String {
    format!("{DAMON}/{index}")
}

/// Returns the settings of the monitor of a process, in the order of their writes: paths below the
/// monitor's folder, and values. A scheme without an action makes the regions readable.
pub fn damon_settings(process: &MonitoredProcess, intervals: DamonIntervals) -> Vec<(String, String)> {
    let context = "contexts/0";
    let attributes = format!("{context}/monitoring_attrs");
    let target = format!("{context}/targets/0");
    let pattern = format!("{context}/schemes/0/access_pattern");
    let regions = process.ranges.len().max(3);
    let mut settings: Vec<(String, String)> = Vec::new();
    let mut set = |path: String, value: &dyn ToString| settings.push((path, value.to_string()));
    set("contexts/nr_contexts".to_owned(), &1);
    set(format!("{context}/operations"), &OPERATIONS);
    set(format!("{attributes}/intervals/sample_us"), &intervals.sample_us);
    set(format!("{attributes}/intervals/aggr_us"), &intervals.aggregation_us);
    set(format!("{attributes}/intervals/update_us"), &intervals.aggregation_us.saturating_mul(10));
    // The maximum first: the kernel compares both when the monitor starts only.
    set(format!("{attributes}/nr_regions/max"), &regions.saturating_mul(4));
    set(format!("{attributes}/nr_regions/min"), &regions);
    set(format!("{context}/targets/nr_targets"), &1);
    set(format!("{target}/pid_target"), &process.pid);
    set(format!("{target}/regions/nr_regions"), &process.ranges.len());
    for (index, range) in process.ranges.iter().enumerate() {
        set(format!("{target}/regions/{index}/start"), &range.start);
        set(format!("{target}/regions/{index}/end"), &range.end);
    }
    set(format!("{context}/schemes/nr_schemes"), &1);
    set(format!("{context}/schemes/0/action"), &"stat");
    set(format!("{pattern}/sz/max"), &u64::MAX);
    set(format!("{pattern}/nr_accesses/max"), &u32::MAX);
    set(format!("{pattern}/age/max"), &u32::MAX);
    settings
}

/// Returns whether the monitors are exactly those of these processes, with this sampling interval;
/// others belong to another program.
pub fn monitored_by(root: &dyn Sysfs, pids: &[u32], sample_us: u64) -> bool {
    let count = root.value::<usize>(NR_KDAMONDS).unwrap_or(0);
    count == pids.len()
        && pids.iter().enumerate().all(|(index, pid)| {
            let context = format!("{}/contexts/0", kdamond_folder(index));
            let value = |path: &str| root.optional(&format!("{context}/{path}"));
            value("operations").as_deref() == Some(OPERATIONS)
                && value("targets/0/pid_target") == Some(pid.to_string())
                && value("monitoring_attrs/intervals/sample_us") == Some(sample_us.to_string())
        })
}

/// Reads the regions of a monitor with their accesses in the last aggregation.
pub fn read_tried_regions(root: &dyn Sysfs, folder: &str) -> Vec<AccessedRange> {
    let folder = format!("{folder}/contexts/0/schemes/0/tried_regions");
    let read = |name: &String| {
        name.parse::<u32>().ok()?;
        let value = |of: &str| root.value::<u64>(&format!("{folder}/{name}/{of}")).ok();
        let accesses = u32::try_from(value("nr_accesses")?).unwrap_or(u32::MAX);
        Some(AccessedRange { range: value("start")?..value("end")?, accesses })
    };
    root.names(&folder).iter().take(MAX_REGIONS).filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::super::monitor::MonitoredRange;
    use super::*;
    use crate::tree::Tree;

    const INTERVALS: DamonIntervals = DamonIntervals { sample_us: 50_000, aggregation_us: 1_000_000 };

    fn process(pid: u32) -> MonitoredProcess {
        let ranges = [(4096, 8192), (16384, 20480)].map(|(start, end)| MonitoredRange { start, end });
        MonitoredProcess { pid, ranges: ranges.to_vec() }
    }

    /// Returns the files that the kernel has after the settings were written.
    fn tree(pids: &[u32]) -> Tree {
        let mut tree = Tree::new();
        tree.file(NR_KDAMONDS, format!("{}\n", pids.len()));
        for (index, pid) in pids.iter().enumerate() {
            for (path, value) in damon_settings(&process(*pid), INTERVALS) {
                tree.file(&format!("{}/{path}", kdamond_folder(index)), format!("{value}\n"));
            }
        }
        tree
    }

    #[test]
    fn settings_name_process_regions_and_a_scheme_without_an_action() {
        let settings = damon_settings(&process(70), INTERVALS);
        let value = |path: &str| {
            let found = settings.iter().find(|(known, _)| known == path);
            found.map(|(_, value)| value.as_str())
        };
        assert_eq!(value("contexts/0/targets/0/pid_target"), Some("70"));
        assert_eq!(value("contexts/0/targets/0/regions/nr_regions"), Some("2"));
        assert_eq!(value("contexts/0/targets/0/regions/1/end"), Some("20480"));
        assert_eq!(value("contexts/0/schemes/0/action"), Some("stat"));
        let position = |path: &str| settings.iter().position(|(known, _)| known == path);
        assert!(
            position("contexts/0/targets/0/regions/nr_regions")
                < position("contexts/0/targets/0/regions/0/start")
        );
    }

    #[test]
    fn monitors_of_other_programs_are_recognized() {
        let ours = |tree: &Tree| monitored_by(tree, &[70, 71], INTERVALS.sample_us);
        assert!(ours(&tree(&[70, 71])));
        assert!(!ours(&tree(&[70])) && !ours(&tree(&[70, 72])) && !ours(&tree(&[70, 71, 72])));
        let mut physical = tree(&[70, 71]);
        physical.file(&format!("{DAMON}/1/contexts/0/operations"), "paddr\n");
        assert!(!ours(&physical));
        assert!(!ours(&Tree::new()));
        assert!(!monitored_by(&tree(&[70, 71]), &[70, 71], 5000), "another sampling interval");
    }

    #[test]
    fn reads_regions_and_skips_malformed_ones() {
        let mut tree = Tree::new();
        let folder = kdamond_folder(0);
        let regions = format!("{folder}/contexts/0/schemes/0/tried_regions");
        tree.file(&format!("{regions}/total_bytes"), "8192\n");
        for (name, start, end, accesses) in
            [("0", "4096", "8192", "7"), ("1", "8192", "x", "1"), ("2", "12288", "16384", "0")]
        {
            tree.file(&format!("{regions}/{name}/start"), start);
            tree.file(&format!("{regions}/{name}/end"), end);
            tree.file(&format!("{regions}/{name}/nr_accesses"), accesses);
        }
        let found = read_tried_regions(&tree, &folder);
        let expected =
            [(4096..8192, 7), (12288..16384, 0)].map(|(range, accesses)| AccessedRange { range, accesses });
        assert_eq!(found, expected);
    }
}
