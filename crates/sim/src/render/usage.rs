//! Processor time, which advances while workloads run: /proc/stat, /proc/uptime and this process's
//! own stat (`Documentation/filesystems/proc.rst`, 1.7 and 1.2).

use super::proc::OWN_PID;
use crate::spec::Spec;
use numaio_machine::ids::CpuId;
use numaio_machine::set::CpuSet;
use numaio_machine::tree::Tree;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Nanoseconds of a clock tick (`USER_HZ` is 100).
const TICK_NS: u64 = 10_000_000;

/// Processor time used so far.
#[derive(Debug, Clone)]
pub(crate) struct Usage {
    /// Nanoseconds since boot.
    pub now_ns: u64,
    /// Of those, used by this process, by CPU.
    own_ns: BTreeMap<CpuId, u64>,
    /// CPUs that other processes keep busy.
    others: CpuSet,
}

impl Usage {
    /// The usage one hour after boot.
    pub fn at_boot(spec: &Spec) -> Self {
        let others = spec.conditions.other_load.iter().flat_map(|load| load.cpus.iter()).collect();
        Self { now_ns: 3600 * 1_000_000_000, own_ns: BTreeMap::new(), others }
    }

    /// Advances the time, during which this process kept some CPUs busy.
    pub fn pass(&mut self, elapsed_ns: u64, cpus: &CpuSet) {
        self.now_ns = self.now_ns.saturating_add(elapsed_ns);
        for cpu in cpus.iter() {
            let own = self.own_ns.entry(cpu).or_default();
            *own = own.saturating_add(elapsed_ns);
        }
    }

    /// Returns the hours since boot.
    pub fn hours(&self) -> f64 {
        self.now_ns as f64 / 3.6e12
    }
}

/// Writes the files with processor times.
pub(crate) fn render(spec: &Spec, usage: &Usage, tree: &mut Tree) {
    let all = usage.now_ns / TICK_NS;
    let stolen = (all as f64 * spec.conditions.stolen) as u64;
    let mut lines = String::new();
    let (mut busy_sum, mut idle_sum) = (0, 0);
    let online = spec.online_cpus();
    for cpu in online.iter() {
        let own = usage.own_ns.get(&cpu).copied().unwrap_or(0) / TICK_NS;
        let wanted = if usage.others.contains(cpu) { all } else { own };
        let busy = wanted.min(all - stolen);
        let idle = all - stolen - busy;
        let _ = writeln!(lines, "cpu{cpu} {busy} 0 0 {idle} 0 0 0 {stolen} 0 0");
        (busy_sum, idle_sum) = (busy_sum + busy, idle_sum + idle);
    }
    let stolen = stolen * online.len() as u64;
    let text = format!(
        "cpu  {busy_sum} 0 0 {idle_sum} 0 0 0 {stolen} 0 0\n{lines}intr 0\nctxt 0\nbtime 1700000000\nprocesses 4242\n\
         procs_running 1\nprocs_blocked 0\n"
    );
    tree.file("/proc/stat", text);
    let seconds = usage.now_ns as f64 / 1e9;
    tree.file("/proc/uptime", format!("{seconds:.2} {:.2}\n", idle_sum as f64 / 100.0));
    let own: u64 = usage.own_ns.values().map(|ns| ns / TICK_NS).sum();
    let stat = format!(
        "{OWN_PID} (numaio) R 1 {OWN_PID} {OWN_PID} 0 -1 4194304 0 0 0 0 {own} 0 0 0 20 0 1 0 359000 0 0 0 0 0 0 0 \
         0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
    );
    tree.file(&format!("/proc/{OWN_PID}/stat"), stat);
}
