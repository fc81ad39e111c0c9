//! Open events of a workload.

use super::perf_event::{EventRequest, EventSubject, OpenEvent};
use super::perf_stat::PerfStat;
use crate::clock::nanoseconds;
use crate::refusal::refused;
use crate::Root;
use numaio_machine::counters::{
    perf_event_paranoid, perf_names, thread_event, uncore_events, CoreFamily, Count, Counter, CounterScope,
    CounterSource, MissingCounter, NodeCpus, GROUPS,
};
use numaio_machine::ids::NodeId;
use numaio_machine::probe::ProbeError;
use numaio_machine::process;
use numaio_machine::sysfs::SysfsExt;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// To what counters of threads are attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attachment {
    /// Threads that the calling thread starts.
    NewThreads,
    /// Programs that the calling thread starts.
    NewPrograms,
    /// All threads of a running process.
    Process(u32),
}

/// An open event of a counter.
struct CounterEvent {
    counter: Counter,
    node: Option<NodeId>,
    source: CounterSource,
    event: String,
    /// Factor from events to the counter's unit.
    scale: f64,
    open: OpenEvent,
}

/// Time in which counters were enabled.
#[derive(Default)]
struct CountingTime {
    enabled_at: Option<Instant>,
    total_ns: u64,
}

/// Counters of a workload, disabled at first.
pub(crate) struct OpenCounters {
    events: Vec<CounterEvent>,
    missing: Vec<MissingCounter>,
    attachment: Attachment,
    perf_stat: Option<PerfStat>,
    time: Mutex<CountingTime>,
}

impl OpenCounters {
    /// Opens the events of counters. Those that fail are missing, with the reason.
    ///
    /// # Errors
    /// The process to count does not exist.
    pub fn open(
        root: &Root,
        nodes: &NodeCpus,
        counters: &[Counter],
        attachment: Attachment,
    ) -> Result<Self, ProbeError> {
        let subjects = subjects(root, attachment)?;
        let family = CoreFamily::parse(&root.optional("/proc/cpuinfo").unwrap_or_default());
        // Before any event is open, which perf would inherit.
        let perf_stat = start_perf_stat(root, family, counters, attachment);
        let time = Mutex::default();
        let mut opened = Self { events: Vec::new(), missing: Vec::new(), attachment, perf_stat, time };
        for group in GROUPS {
            let wanted: Vec<Counter> =
                group.iter().copied().filter(|counter| counters.contains(counter)).collect();
            for subject in &subjects {
                opened.open_group(root, family, &wanted, *subject);
            }
        }
        if counters.iter().any(|counter| counter.scope() == CounterScope::Node) {
            opened.open_uncore(root, family, nodes, counters);
        }
        opened.missing.sort_by_key(|missing| missing.counter);
        opened.missing.dedup_by_key(|missing| missing.counter);
        Ok(opened)
    }

    /// Opens events that are counted at the same time. An event that does not fit into the group is
    /// opened alone.
    fn open_group(&mut self, root: &Root, family: CoreFamily, counters: &[Counter], subject: EventSubject) {
        let mut leader: Option<usize> = None;
        for counter in counters {
            let source = CounterSource::PerfEvent;
            let code = match thread_event(root, family, *counter) {
                Ok(code) => code,
                Err(reason) => {
                    self.missing.push(MissingCounter { counter: *counter, source, reason });
                    continue;
                }
            };
            let request = EventRequest {
                pmu: code.pmu,
                config: code.config,
                config1: code.config1,
                is_user_only: code.is_user_only,
                subject,
            };
            let of_leader = leader.and_then(|at| self.events.get(at)).map(|event| &event.open);
            let open = match OpenEvent::open(&request, of_leader) {
                Err(Errno::INVAL) if of_leader.is_some() => OpenEvent::open(&request, None),
                open => open,
            };
            match open {
                Ok(open) => {
                    leader = leader.or(Some(self.events.len()));
                    let (counter, event) = (*counter, code.event);
                    self.events.push(CounterEvent { counter, node: None, source, event, scale: 1.0, open });
                }
                // A thread that ended meanwhile.
                Err(Errno::SRCH) => {}
                Err(errno) => {
                    let reason = reason(root, errno);
                    self.missing.push(MissingCounter { counter: *counter, source, reason });
                }
            }
        }
    }

    fn open_uncore(&mut self, root: &Root, family: CoreFamily, nodes: &NodeCpus, counters: &[Counter]) {
        let (events, missing) = uncore_events(root, family, nodes);
        self.missing.extend(missing);
        let source = CounterSource::Uncore;
        for event in events.into_iter().filter(|event| counters.contains(&event.counter)) {
            let request = EventRequest {
                pmu: event.pmu,
                config: event.config,
                config1: 0,
                is_user_only: false,
                subject: EventSubject::Cpu(event.cpu.0),
            };
            let (counter, node, scale) = (event.counter, event.node, event.bytes);
            match OpenEvent::open(&request, None) {
                Ok(open) => {
                    let event = event.event;
                    self.events.push(CounterEvent { counter, node, source, event, scale, open });
                }
                Err(errno) => {
                    let reason = reason(root, errno);
                    self.missing.push(MissingCounter { counter, source, reason });
                }
            }
        }
    }

    /// Starts counting.
    pub fn enable(&self) {
        self.perf_stat.iter().for_each(PerfStat::enable);
        self.time().enabled_at = Some(Instant::now());
        // Programs are counted from their exec on, without the threads that start them.
        let starts_at_exec = |event: &&CounterEvent| {
            self.attachment == Attachment::NewPrograms && event.source == CounterSource::PerfEvent
        };
        self.events.iter().filter(|event| !starts_at_exec(event)).for_each(|event| event.open.enable());
    }

    /// Stops counting.
    pub fn disable(&self) {
        self.events.iter().for_each(|event| event.open.disable());
        let mut time = self.time();
        if let Some(enabled_at) = time.enabled_at.take() {
            time.total_ns += nanoseconds(enabled_at);
        }
        drop(time);
        self.perf_stat.iter().for_each(PerfStat::disable);
    }

    fn time(&self) -> MutexGuard<'_, CountingTime> {
        self.time.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time in which counters were enabled, in nanoseconds.
    pub fn counted_ns(&self) -> u64 {
        self.time().total_ns
    }

    /// Reads the counts, summed over threads and PMUs of a node.
    pub fn finish(&mut self) -> (Vec<Count>, Vec<MissingCounter>) {
        let mut sums: BTreeMap<(Counter, Option<NodeId>), Count> = BTreeMap::new();
        let mut missing = std::mem::take(&mut self.missing);
        for CounterEvent { counter, node, source, event, scale, open } in &self.events {
            let (counter, node, source) = (*counter, *node, *source);
            let reading = match open.read() {
                Ok(reading) => reading,
                Err(errno) => {
                    let reason = format!("the kernel does not return the count: {errno}");
                    missing.push(MissingCounter { counter, source, reason });
                    continue;
                }
            };
            let sum = sums.entry((counter, node)).or_insert_with(|| Count {
                counter,
                node,
                source,
                event: event.clone(),
                raw: 0,
                enabled_ns: 0,
                running_ns: 0,
            });
            sum.raw = sum.raw.saturating_add((reading.value as f64 * scale).round() as u64);
            sum.enabled_ns = sum.enabled_ns.saturating_add(reading.enabled_ns);
            sum.running_ns = sum.running_ns.saturating_add(reading.running_ns);
        }
        let mut counts: Vec<Count> = sums.into_values().collect();
        if let Some(perf_stat) = self.perf_stat.take() {
            counts.extend(perf_stat.finish());
        }
        (counts, missing)
    }
}

/// Starts perf for counters that numaio has no code for, if the cores count at all.
fn start_perf_stat(
    root: &Root,
    family: CoreFamily,
    counters: &[Counter],
    attachment: Attachment,
) -> Option<PerfStat> {
    let is_unknown = |counter: &&Counter| {
        !perf_names(**counter).is_empty() && thread_event(root, family, **counter).is_err()
    };
    let unknown: Vec<Counter> = counters.iter().filter(is_unknown).copied().collect();
    if unknown.is_empty() || !has_cores(root, family) {
        return None;
    }
    let known = |counter: &Counter| {
        // In user mode, as all events of the cores.
        let mut names = perf_names(*counter).iter().map(|name| format!("{name}:u"));
        Some((*counter, names.find(|name| PerfStat::can_count(name))?))
    };
    let events: Vec<(Counter, String)> = unknown.iter().filter_map(known).collect();
    let pid = match attachment {
        Attachment::Process(pid) => pid,
        Attachment::NewThreads | Attachment::NewPrograms => std::process::id(),
    };
    (!events.is_empty()).then(|| PerfStat::start(pid, events).ok()).flatten()
}

/// Returns whether the cores have a PMU that this process may use.
fn has_cores(root: &Root, family: CoreFamily) -> bool {
    let Ok(code) = thread_event(root, family, Counter::Cycles) else { return false };
    let subject = EventSubject::NewThreads;
    let request =
        EventRequest { pmu: code.pmu, config: code.config, config1: 0, is_user_only: true, subject };
    OpenEvent::open(&request, None).is_ok()
}

/// Returns the target of counters of threads.
fn subjects(root: &Root, attachment: Attachment) -> Result<Vec<EventSubject>, ProbeError> {
    let pid = match attachment {
        Attachment::NewThreads => return Ok(vec![EventSubject::NewThreads]),
        Attachment::NewPrograms => return Ok(vec![EventSubject::NewPrograms]),
        Attachment::Process(pid) => pid,
    };
    match process::threads(root, pid) {
        Ok(process) => Ok(process.threads.iter().map(|thread| EventSubject::Thread(thread.tid)).collect()),
        Err(_) => refused(&format!("count process {pid}"), "no such process"),
    }
}

/// Returns whether a seccomp filter rejects perf_event_open(2): the kernel itself reads the
/// attributes first and finds no memory at address 0, whatever the permissions.
fn is_filtered(root: &Root) -> bool {
    let status = root.optional("/proc/self/status").unwrap_or_default();
    let mode = status.lines().find_map(|line| line.strip_prefix("Seccomp:"));
    mode.is_some_and(|mode| mode.trim() == "2") && OpenEvent::is_rejected_unread()
}

/// Explains an error of perf_event_open(2).
fn reason(root: &Root, errno: Errno) -> String {
    match errno {
        Errno::PERM if is_filtered(root) => {
            "a seccomp filter of the container or service forbids perf_event_open(2)".to_owned()
        }
        Errno::ACCESS | Errno::PERM => match perf_event_paranoid(root) {
            Some(level) => format!("perf_event_paranoid is {level}, and numaio lacks CAP_PERFMON"),
            None => "no permission to count events".to_owned(),
        },
        Errno::NOENT | Errno::NODEV | Errno::OPNOTSUPP => {
            "the kernel has no PMU that counts it, as in most virtual machines".to_owned()
        }
        Errno::INVAL => "the PMU does not support this event".to_owned(),
        Errno::NOSYS => "the kernel or a sandbox forbids perf_event_open(2)".to_owned(),
        Errno::MFILE => "too many open files: raise the limit (ulimit -n)".to_owned(),
        errno => format!("perf_event_open: {errno}"),
    }
}
