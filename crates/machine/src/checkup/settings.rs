//! Kernel settings and daemons.

use super::symptom::{of_machine, Fix, Symptom};
use crate::conditions::Conditions;
use crate::finding::{Finding, Severity};
use crate::sysfs::{Sysfs, SysfsExt};
use crate::topology::Topology;

/// Minimum share of a minute in which tasks waited for memory to report, in percent.
const PRESSURE: f64 = 5.0;

pub(super) fn symptoms(root: &dyn Sysfs, topology: &Topology, conditions: &Conditions) -> Vec<Symptom> {
    let several = topology.memory_nodes().len() > 1;
    let of_many = several.then(|| [zone_reclaim(root), irqbalance(root, topology, conditions)]);
    let of_any = [huge_pages_off(conditions), pressure(root)];
    of_many.into_iter().flatten().chain(of_any).flatten().collect()
}

/// Reports zone reclaim: the kernel reclaims a full node before it uses another one, which delays
/// allocations and shrinks the page cache (`Documentation/admin-guide/sysctl/vm.rst`,
/// `zone_reclaim_mode`).
fn zone_reclaim(root: &dyn Sysfs) -> Option<Symptom> {
    const FILE: &str = "/proc/sys/vm/zone_reclaim_mode";
    let mode = root.value::<u32>(FILE).ok().filter(|mode| *mode != 0)?;
    let what =
        "Zone reclaim is on: the kernel reclaims memory of a full node, which delays allocations, before it \
                uses another node's memory.";
    Some(of_machine(
        Finding::new(
            Severity::Warning,
            "zone-reclaim",
            "machine",
            what,
            format!("{FILE}: {mode}"),
            "Turn it off, unless cpusets bind every program to a node.",
        ),
        "it depends on how full the nodes are; compare the program with and without it",
        Fix::one("sysctl -w vm.zone_reclaim_mode=0", format!("sysctl -w vm.zone_reclaim_mode={mode}")),
    ))
}

/// Reports irqbalance, which moves interrupts by load regardless of numaio's settings.
fn irqbalance(root: &dyn Sysfs, topology: &Topology, conditions: &Conditions) -> Option<Symptom> {
    const SERVICES: [&str; 2] = ["/sys/fs/cgroup/system.slice", "/sys/fs/cgroup/systemd/system.slice"];
    let runs = conditions.irqbalance == Some(true);
    let moves = topology.devices.iter().any(|device| !device.irqs.is_empty());
    (runs && moves && topology.cpu_nodes().len() > 1).then(|| {
        let service = |slice: &str| Some(format!("{slice}/irqbalance.service")).filter(|it| root.exists(it));
        let evidence = SERVICES.into_iter().find_map(service).map(|path| format!("{path} exists"));
        of_machine(
            Finding::new(
                Severity::Note,
                "irqbalance-runs",
                "machine",
                "irqbalance is running: it moves interrupts by load and overrides manual placement.",
                evidence.unwrap_or_else(|| "/proc/*/comm: irqbalance".to_owned()),
                "Stop it before placing interrupts, or ban the interrupts listed by numaio irq plan.",
            ),
            "compare numaio irq show now and some minutes later to see whether it moves interrupts of the devices",
            Fix::one("systemctl stop irqbalance", "systemctl start irqbalance"),
        )
    })
}

/// Reports disabled transparent huge pages (`Documentation/admin-guide/mm/transhuge.rst`).
fn huge_pages_off(conditions: &Conditions) -> Option<Symptom> {
    const FILE: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
    (conditions.transparent_huge_pages.as_deref() == Some("never")).then(|| {
        of_machine(
            Finding::new(
                Severity::Note,
                "huge-pages-off",
                "machine",
                "Transparent huge pages are off: large buffers need 512 times as many TLB and IOMMU entries.",
                format!("{FILE}: never"),
                "Enable them for programs that request them.",
            ),
            "compare copies before and after with numaio model",
            Fix::one(format!("echo madvise > {FILE}"), format!("echo never > {FILE}")),
        )
    })
}

/// Reports memory pressure (`Documentation/accounting/psi.rst`).
fn pressure(root: &dyn Sysfs) -> Option<Symptom> {
    const FILE: &str = "/proc/pressure/memory";
    let text = root.optional(FILE)?;
    let line = text.lines().find(|line| line.starts_with("some "))?;
    let over_a_minute = line.split_whitespace().find_map(|word| word.strip_prefix("avg60="))?;
    over_a_minute.parse::<f64>().ok().filter(|percent| *percent >= PRESSURE)?;
    Some(of_machine(
        Finding::new(
            Severity::Warning,
            "memory-pressure",
            "machine",
            format!("Programs waited for memory during {over_a_minute} % of the last minute."),
            format!("{FILE}: {line}"),
            "Free memory, or run fewer programs at the same time; numaio topology shows which nodes are full.",
        ),
        "it depends on the waiting programs",
        Fix::none(),
    ))
}
