//! Settings and load of a machine during a measurement.

use crate::surroundings::Surroundings;
use crate::sysfs::{Sysfs, SysfsExt};
use crate::topology::cpuinfo::{self, CpuInfo};
use crate::topology::{cpu_throttling, CpuThrottling};
use serde::{Deserialize, Serialize};

/// Maximum number of processes to search for a daemon; on a busy machine the search takes too long.
const MAX_PROCESSES: usize = 2_000;

/// Settings and load that affect a measurement; `None` for values that the kernel does not report.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Conditions {
    /// Automatic NUMA balancing: 0 off, 1 on, 2 memory tiering, 3 both.
    pub numa_balancing: Option<u32>,
    /// Transparent huge pages: `always`, `madvise` or `never`.
    pub transparent_huge_pages: Option<String>,
    /// Active frequency governors.
    pub governors: Vec<String>,
    /// Whether turbo frequencies are enabled.
    pub turbo: Option<bool>,
    /// Whether the kernel runs under a hypervisor.
    pub virtual_machine: bool,
    /// Whether irqbalance is running.
    pub irqbalance: Option<bool>,
    /// Processor time so far, from /proc/stat and /proc/self/stat.
    pub processor_time: Option<ProcessorTime>,
    /// Current lowest and highest frequency of the CPUs, in MHz.
    pub frequency_mhz: Option<(u32, u32)>,
    /// Throttling by CPU quotas so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_throttling: Option<CpuThrottling>,
    /// Microcode revision of the first CPU, on x86.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub microcode: Option<String>,
    /// Version of the BIOS or other firmware, from DMI
    /// (`Documentation/ABI/testing/sysfs-firmware-dmi-tables`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub firmware: Option<String>,
}

/// Processor time since boot, in clock ticks, summed over CPUs
/// (`Documentation/filesystems/proc.rst`, 1.7).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ProcessorTime {
    /// Busy time: user, nice, system, irq, softirq.
    pub busy: u64,
    /// Time that the hypervisor gave to other guests.
    pub stolen: u64,
    /// Sum of busy, stolen, idle and iowait time.
    pub total: u64,
    /// The part of `busy` of this process and of its children that have exited (/proc/self/stat,
    /// utime, stime, cutime and cstime).
    pub own: u64,
}

/// Reads the current conditions; never fails, because unreadable values are `None`.
pub fn read(root: &dyn Sysfs) -> Conditions {
    let cpuinfo = cpuinfo::read(root);
    read_with(root, &cpuinfo, Surroundings::read(root, &cpuinfo.features).virtual_machine)
}

/// Reads the conditions with facts that the caller has read.
pub(crate) fn read_with(root: &dyn Sysfs, cpuinfo: &CpuInfo, virtual_machine: bool) -> Conditions {
    let policies = policies(root);
    Conditions {
        numa_balancing: root.value("/proc/sys/kernel/numa_balancing").ok(),
        transparent_huge_pages: root
            .optional("/sys/kernel/mm/transparent_hugepage/enabled")
            .and_then(|text| chosen(&text).map(str::to_owned)),
        governors: governors(root, &policies),
        turbo: turbo(root),
        virtual_machine,
        irqbalance: irqbalance(root),
        processor_time: processor_time(root),
        frequency_mhz: frequencies(root, &policies).or_else(|| range(cpuinfo_frequencies(cpuinfo))),
        cpu_throttling: cpu_throttling(root),
        microcode: (!cpuinfo.microcode.is_empty()).then(|| cpuinfo.microcode.clone()),
        firmware: root.optional("/sys/class/dmi/id/bios_version").filter(|version| !version.is_empty()),
    }
}

/// Returns the selected value in brackets: `always [madvise] never`
/// (`Documentation/admin-guide/mm/transhuge.rst`).
fn chosen(text: &str) -> Option<&str> {
    text.split_whitespace()
        .find_map(|word| word.strip_prefix('[')?.strip_suffix(']'))
        .filter(|word| !word.is_empty())
}

/// Returns the directories of the frequency policies, each for one or more CPUs
/// (`Documentation/admin-guide/pm/cpufreq.rst`).
pub(crate) fn policies(root: &dyn Sysfs) -> Vec<String> {
    /// Maximum number of frequency policies to read.
    const MAX_POLICIES: usize = 64;
    const POLICIES: &str = "/sys/devices/system/cpu/cpufreq";
    let names = root.names(POLICIES).into_iter().filter(|name| name.starts_with("policy"));
    let mut directories: Vec<String> = names.map(|name| format!("{POLICIES}/{name}")).collect();
    // Evenly spaced: on a large machine each CPU has a policy, and reading its frequency can wake
    // the CPU.
    let step = directories.len().div_ceil(MAX_POLICIES).max(1);
    directories = directories.into_iter().step_by(step).collect();
    // Kernels before 4.3 have them only below each CPU; the first CPU represents all.
    let of_first = "/sys/devices/system/cpu/cpu0/cpufreq";
    if directories.is_empty() && root.exists(of_first) {
        return vec![of_first.to_owned()];
    }
    directories
}

fn governors(root: &dyn Sysfs, policies: &[String]) -> Vec<String> {
    let mut governors: Vec<String> = policies
        .iter()
        .filter_map(|policy| root.optional(&format!("{policy}/scaling_governor")))
        .filter(|governor| !governor.is_empty())
        .collect();
    governors.sort();
    governors.dedup();
    governors
}

/// Reads whether turbo is enabled: `intel_pstate/no_turbo`
/// (`Documentation/admin-guide/pm/intel_pstate.rst`), or else `cpufreq/boost`
/// (`Documentation/admin-guide/pm/cpufreq.rst`).
fn turbo(root: &dyn Sysfs) -> Option<bool> {
    let switch = |path: &str| match root.optional(path).as_deref() {
        Some("0") => Some(false),
        Some("1") => Some(true),
        _ => None,
    };
    let forbidden = switch("/sys/devices/system/cpu/intel_pstate/no_turbo");
    forbidden.map(|forbidden| !forbidden).or_else(|| switch("/sys/devices/system/cpu/cpufreq/boost"))
}

/// Returns whether irqbalance is running, as a systemd service or else as a process.
///
/// `None` if not all processes are visible (a container, where kernel threads are absent) or there
/// are too many.
fn irqbalance(root: &dyn Sysfs) -> Option<bool> {
    // A service has a control group exactly while it runs; this avoids a search of all processes.
    for services in ["/sys/fs/cgroup/system.slice", "/sys/fs/cgroup/systemd/system.slice"] {
        if root.exists(services) {
            return Some(root.exists(&format!("{services}/irqbalance.service")));
        }
    }
    if root.optional("/proc/2/comm").as_deref() != Some("kthreadd") {
        return None;
    }
    let names = root.names("/proc");
    let processes: Vec<&String> =
        names.iter().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())).collect();
    if processes.len() > MAX_PROCESSES {
        return None;
    }
    let runs = |name: &&String| root.optional(&format!("/proc/{name}/comm")).as_deref() == Some("irqbalance");
    Some(processes.iter().any(runs))
}

fn processor_time(root: &dyn Sysfs) -> Option<ProcessorTime> {
    let time = parse_stat(&root.optional("/proc/stat")?)?;
    let own = root.optional("/proc/self/stat").and_then(|text| parse_own(&text)).unwrap_or(0);
    Some(ProcessorTime { own, ..time })
}

/// Parses the line `cpu` of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal, and
/// guest times, which are part of user. Old kernels have fewer fields.
fn parse_stat(text: &str) -> Option<ProcessorTime> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let fields: Vec<u64> = line.split_whitespace().map_while(|field| field.parse().ok()).collect();
    if fields.len() < 4 {
        return None;
    }
    let sum = |which: &[usize]| {
        which
            .iter()
            .filter_map(|index| fields.get(*index))
            .fold(0u64, |sum, ticks| sum.saturating_add(*ticks))
    };
    let (busy, stolen) = (sum(&[0, 1, 2, 5, 6]), sum(&[7]));
    let total = busy.saturating_add(stolen).saturating_add(sum(&[3, 4]));
    Some(ProcessorTime { busy, stolen, total, own: 0 })
}

/// Parses fields 14 to 17 of /proc/self/stat (`Documentation/filesystems/proc.rst`, 1.1).
///
/// Field 2, the name in parentheses, can contain any character; therefore fields are counted from
/// the last parenthesis.
fn parse_own(text: &str) -> Option<u64> {
    let (_, after) = text.rsplit_once(')')?;
    let fields: Vec<u64> =
        after.split_whitespace().skip(11).take(4).map(|field| field.parse().ok()).collect::<Option<_>>()?;
    (fields.len() == 4).then(|| fields.into_iter().fold(0, u64::saturating_add))
}

/// Reads `scaling_cur_freq` of every policy, in kHz.
fn frequencies(root: &dyn Sysfs, policies: &[String]) -> Option<(u32, u32)> {
    let kilohertz =
        policies.iter().filter_map(|policy| root.value::<u32>(&format!("{policy}/scaling_cur_freq")).ok());
    range(kilohertz.map(|kilohertz| kilohertz / 1000))
}

fn cpuinfo_frequencies(cpuinfo: &CpuInfo) -> impl Iterator<Item = u32> + '_ {
    // Float casts saturate, and convert NaN to 0, which `range` ignores.
    cpuinfo.processors.iter().filter_map(|processor| processor.mhz).map(|mhz| mhz.round() as u32)
}

fn range(values: impl Iterator<Item = u32>) -> Option<(u32, u32)> {
    values.filter(|mhz| *mhz > 0).fold(None, |range, mhz| {
        let (least, most) = range.unwrap_or((mhz, mhz));
        Some((least.min(mhz), most.max(mhz)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    #[test]
    fn reads_all_conditions() {
        let cpu = "/sys/devices/system/cpu";
        let mut tree = Tree::new();
        tree.file("/proc/sys/kernel/numa_balancing", "1\n")
            .file("/proc/cpuinfo", "processor: 0\nmicrocode: 0xb000040\nprocessor: 1\nmicrocode: 0x1\n")
            .file("/sys/class/dmi/id/bios_version", "2.14.2\n")
            .file("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")
            .file(&format!("{cpu}/cpufreq/policy0/scaling_governor"), "powersave\n")
            .file(&format!("{cpu}/cpufreq/policy1/scaling_governor"), "performance\n")
            .file(&format!("{cpu}/cpufreq/policy2/scaling_governor"), "powersave\n")
            .file(&format!("{cpu}/cpufreq/policy0/scaling_cur_freq"), "3100000\n")
            .file(&format!("{cpu}/cpufreq/policy1/scaling_cur_freq"), "800123\n")
            .file(&format!("{cpu}/intel_pstate/no_turbo"), "1\n")
            .file("/proc/2/comm", "kthreadd\n")
            .file("/proc/812/comm", "irqbalance\n")
            .file("/proc/stat", "cpu  10 20 30 1000 100 4 5 6 7 8\ncpu0 1 2 3 4\n")
            .file("/proc/self/stat", "812 (a) b) R 1 1 1 0 -1 0 0 0 0 0 21 12 3 4 20 0\n");
        let expected = Conditions {
            numa_balancing: Some(1),
            transparent_huge_pages: Some("madvise".into()),
            governors: vec!["performance".into(), "powersave".into()],
            turbo: Some(false),
            virtual_machine: false,
            irqbalance: Some(true),
            processor_time: Some(ProcessorTime { busy: 69, stolen: 6, total: 1175, own: 40 }),
            frequency_mhz: Some((800, 3100)),
            cpu_throttling: None,
            microcode: Some("0xb000040".into()),
            firmware: Some("2.14.2".into()),
        };
        assert_eq!(read(&tree), expected);
        tree.remove("/proc/812");
        assert_eq!(read(&tree).irqbalance, Some(false));
        // Without kernel threads this is a container, which does not show all processes.
        tree.remove("/proc/2");
        assert_eq!(read(&tree).irqbalance, None);
    }

    #[test]
    fn reads_a_virtual_machine_without_cpufreq() {
        let mut tree = Tree::new();
        tree.file("/proc/cpuinfo", "processor: 0\nflags: fpu hypervisor\nvendor_id: x\ncpu MHz: 2399.9\n");
        let conditions = read(&tree);
        assert!(conditions.virtual_machine);
        assert_eq!(conditions.frequency_mhz, Some((2400, 2400)));
        assert_eq!(read(&Tree::new()), Conditions::default());
    }

    #[test]
    fn finds_irqbalance_as_systemd_service() {
        let mut tree = Tree::new();
        tree.dir("/sys/fs/cgroup/system.slice/ssh.service");
        assert_eq!(read(&tree).irqbalance, Some(false));
        tree.dir("/sys/fs/cgroup/system.slice/irqbalance.service");
        assert_eq!(read(&tree).irqbalance, Some(true));
    }

    #[test]
    fn reads_boost_without_pstate_driver() {
        let mut tree = Tree::new();
        tree.file("/sys/devices/system/cpu/cpufreq/boost", "1\n");
        assert_eq!(read(&tree).turbo, Some(true));
        tree.file("/sys/devices/system/cpu/cpufreq/boost", "?\n");
        assert_eq!(read(&tree).turbo, None);
    }
}
