//! Settings of the kernel, and daemons.

use super::{finding, of_machine, Fix, Symptom};
use crate::conditions::Conditions;
use crate::findings::Severity;
use crate::sysfs::{Sysfs, SysfsExt};
use crate::topology::Topology;

/// Share of time in which something waited for memory, over a minute, from which it is told; in percent.
const PRESSURE: f64 = 5.0;

pub(super) fn symptoms(root: &dyn Sysfs, topology: &Topology, conditions: &Conditions) -> Vec<Symptom> {
    let several = topology.memory_nodes().len() > 1;
    let of_many = several.then(|| [zone_reclaim(root), irqbalance(root, topology, conditions)]);
    let of_any = [huge_pages_off(conditions), pressure(root)];
    of_many.into_iter().flatten().chain(of_any).flatten().collect()
}

/// A node that is full is cleaned before another one is used: allocations wait, and caches of files stay small
/// (`Documentation/admin-guide/sysctl/vm.rst`, `zone_reclaim_mode`).
fn zone_reclaim(root: &dyn Sysfs) -> Option<Symptom> {
    const FILE: &str = "/proc/sys/vm/zone_reclaim_mode";
    let mode = root.value::<u32>(FILE).ok().filter(|mode| *mode != 0)?;
    let what =
        "Zone reclaim is on: a node that is full is cleaned, and those who want memory wait, before another \
                node's memory is used.";
    Some(of_machine(
        finding(
            Severity::Warning,
            "zone-reclaim",
            "machine",
            what,
            format!("{FILE}: {mode}"),
            "Turn it off, unless every program is kept on a node by cpusets.",
        ),
        "it depends on how full the nodes are; compare the program itself with it and without",
        Fix::one("sysctl -w vm.zone_reclaim_mode=0", format!("sysctl -w vm.zone_reclaim_mode={mode}")),
    ))
}

/// It moves interrupts by load, and knows nothing of what numaio has set.
fn irqbalance(root: &dyn Sysfs, topology: &Topology, conditions: &Conditions) -> Option<Symptom> {
    const SERVICES: [&str; 2] = ["/sys/fs/cgroup/system.slice", "/sys/fs/cgroup/systemd/system.slice"];
    let runs = conditions.irqbalance == Some(true);
    let moves = topology.devices.iter().any(|device| !device.irqs.is_empty());
    (runs && moves && topology.cpu_nodes().len() > 1).then(|| {
        let service = |slice: &str| Some(format!("{slice}/irqbalance.service")).filter(|it| root.exists(it));
        let evidence = SERVICES.into_iter().find_map(service).map(|path| format!("{path} is there"));
        of_machine(
            finding(
                Severity::Note,
                "irqbalance-runs",
                "machine",
                "irqbalance runs: it moves interrupts by load, from where they were put, too.",
                evidence.unwrap_or_else(|| "/proc/*/comm: irqbalance".to_owned()),
                "Stop it, or ban the interrupts that numaio irq plan names, before interrupts are put anywhere.",
            ),
            "numaio irq show, now and some minutes later, tells whether it moves those of the devices",
            Fix::one("systemctl stop irqbalance", "systemctl start irqbalance"),
        )
    })
}

/// `Documentation/admin-guide/mm/transhuge.rst`.
fn huge_pages_off(conditions: &Conditions) -> Option<Symptom> {
    const FILE: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
    (conditions.transparent_huge_pages.as_deref() == Some("never")).then(|| {
        of_machine(
            finding(
                Severity::Note,
                "huge-pages-off",
                "machine",
                "Transparent huge pages are off: large buffers take 512 times as many entries of the TLB and of an IOMMU.",
                format!("{FILE}: never"),
                "Allow them to those who ask for them.",
            ),
            "numaio model, before and after, shows what it does to copies",
            Fix::one(format!("echo madvise > {FILE}"), format!("echo never > {FILE}")),
        )
    })
}

/// Pressure stall information (`Documentation/accounting/psi.rst`).
fn pressure(root: &dyn Sysfs) -> Option<Symptom> {
    const FILE: &str = "/proc/pressure/memory";
    let text = root.optional(FILE)?;
    let line = text.lines().find(|line| line.starts_with("some "))?;
    let over_a_minute = line.split_whitespace().find_map(|word| word.strip_prefix("avg60="))?;
    over_a_minute.parse::<f64>().ok().filter(|percent| *percent >= PRESSURE)?;
    Some(of_machine(
        finding(
            Severity::Warning,
            "memory-pressure",
            "machine",
            format!("Programs waited for memory during {over_a_minute} % of the last minute."),
            format!("{FILE}: {line}"),
            "Free memory, or run less at once; numaio topology shows which nodes are full.",
        ),
        "it depends on the programs that wait",
        Fix::none(),
    ))
}
