//! Hot memory of programs that would move: monitored for one interval, so that only what is in use
//! is moved.

use super::observer::SeenProgram;
use crate::options::Common;
use crate::{receipts, store};
use numaio_linux::{IdlePages, Kernel};
use numaio_machine::control::{AccessMonitor, Change, Control, ControlError, PageRun};
use numaio_machine::hot_pages::{
    hot_ranges, restrict, split_evenly, total_bytes, widen, AccessMonitorKind, AccessedRange,
    MonitoredProcess, MonitoredRange,
};
use numaio_machine::ids::NodeId;
use numaio_machine::programs::{huge_page_bytes, read_huge_mappings, read_movable_ranges};
use numaio_place::ApplyError;
use numaio_schema::{AppliedChange, HotMemory, MonitoredMemory};
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

/// ID of the receipt of a monitor, which exists while the monitor runs.
const RECEIPT: &str = "access-monitor";

/// Samples of one aggregation. A region with one of them is hot.
const SAMPLES: u32 = 20;

/// Aggregations per interval, so that one ends soon after the interval.
const AGGREGATIONS: u32 = 2;

/// Shortest and longest aggregation.
const AGGREGATION: Range<Duration> = Duration::from_millis(200)..Duration::from_secs(5);

/// Maximum number of processes to monitor at a time.
const MAX_PROCESSES: usize = 16;

/// Maximum amount of memory to monitor at a time.
const MAX_BYTES: u64 = 256 << 30;

/// Maximum number of regions of a process, and the unit of their length.
const REGIONS: u64 = 500;
const REGION_UNIT: u64 = 64 << 10;

/// Largest gap between hot ranges that are moved together.
const GAP: u64 = 64 << 10;

/// Time for which a result is used, and after which its pages are located again.
const VALID: Duration = Duration::from_secs(300);
const LOCATE_EVERY: Duration = Duration::from_secs(30);

/// Accesses to the memory of groups.
pub struct HotMemoryMonitor<'a> {
    common: &'a Common,
    kernel: &'a Kernel,
    machine: String,
    /// Whether memory that programs bound themselves is moved too.
    override_policies: bool,
    running: Option<RunningMonitor>,
    /// Hot memory of groups by their ids, with the time.
    known: BTreeMap<String, (Result<HotGroup, String>, Duration)>,
}

/// A monitor that runs.
struct RunningMonitor {
    state: MonitorState,
    /// The group of each process.
    groups: Vec<String>,
    processes: Vec<MonitoredProcess>,
}

enum MonitorState {
    Damon,
    IdlePages(IdlePages),
}

/// The hot memory of a group.
#[derive(Debug, Clone)]
pub struct HotGroup {
    monitor: AccessMonitorKind,
    /// Hot ranges by process.
    ranges: BTreeMap<u32, Vec<Range<u64>>>,
    monitored_bytes: u64,
    /// Hot bytes of each node, and when they were located.
    bytes_on: BTreeMap<NodeId, u64>,
    located_at: Duration,
}

/// A group to monitor.
pub struct MonitoredGroup<'s> {
    /// Its id.
    pub id: &'s str,
    /// Its programs.
    pub members: Vec<&'s SeenProgram>,
}

impl HotGroup {
    /// Returns the hot parts of movable ranges of a process.
    pub fn restrict(&self, pid: u32, movable: &[Range<u64>]) -> Vec<Range<u64>> {
        self.ranges.get(&pid).map(|hot| restrict(movable, hot)).unwrap_or_default()
    }

    /// Returns the hot bytes of each node.
    pub fn bytes_on(&self) -> &BTreeMap<NodeId, u64> {
        &self.bytes_on
    }

    /// Locates the hot pages again.
    fn locate(&mut self, kernel: &Kernel, at: Duration) {
        self.bytes_on.clear();
        self.located_at = at;
        for (pid, ranges) in &self.ranges {
            // An ended process has none.
            let runs: Vec<PageRun> = kernel.page_runs(*pid, ranges).unwrap_or_default();
            for run in runs {
                *self.bytes_on.entry(run.node).or_default() += run.bytes;
            }
        }
    }

    /// Summarizes it for documents.
    fn summary(&self) -> MonitoredMemory {
        let hot_bytes = self.ranges.values().map(|ranges| total_bytes(ranges)).sum();
        MonitoredMemory { monitor: self.monitor, hot_bytes, monitored_bytes: self.monitored_bytes }
    }
}

/// Describes the result of a monitor for documents.
pub fn describe_hot_memory(hot: Result<&HotGroup, &str>) -> HotMemory {
    match hot {
        Ok(found) => HotMemory::Monitored(found.summary()),
        Err(why) => HotMemory::NotMonitored(why.to_owned()),
    }
}

impl<'a> HotMemoryMonitor<'a> {
    /// Creates a monitor for a machine with a fingerprint.
    pub fn new(common: &'a Common, kernel: &'a Kernel, machine: &str, override_policies: bool) -> Self {
        let machine = machine.to_owned();
        Self { common, kernel, machine, override_policies, running: None, known: BTreeMap::new() }
    }

    /// Stops DAMON if a killed balancer left it; the caller has the lock of balancers.
    pub fn recover(&self) {
        self.stop();
    }

    /// Returns whether a monitor runs for a group.
    pub fn is_running_for(&self, group: &str) -> bool {
        self.running.as_ref().is_some_and(|running| running.groups.iter().any(|id| id == group))
    }

    /// Returns the hot memory of a group; the reason why all of its memory counts; `None` if it was
    /// not monitored.
    pub fn of(&self, group: &str) -> Option<Result<&HotGroup, &str>> {
        self.known.get(group).map(|(found, _)| found.as_ref().map_err(String::as_str))
    }

    /// Locates the hot memory of a group after its move.
    pub fn expire_place(&mut self, group: &str, at: Duration) {
        if let Some((Ok(found), _)) = self.known.get_mut(group) {
            found.locate(self.kernel, at);
        }
    }

    /// Starts to monitor groups until the next call of [`Self::collect`]. A group that cannot be
    /// monitored gets the reason.
    pub fn start(&mut self, groups: Vec<MonitoredGroup<'_>>, interval: Duration, at: Duration) {
        if groups.is_empty() || self.running.is_some() {
            return;
        }
        let kind = self.kernel.available_monitor();
        let (mut ids, mut processes, mut bytes) = (Vec::new(), Vec::new(), 0u64);
        for group in groups {
            let prepared = kind.as_ref().map_err(String::clone).and_then(|kind| self.prepare(&group, *kind));
            let too_many = "too many processes or too much memory to monitor".to_owned();
            let prepared = prepared.and_then(|(found, size)| {
                let fits =
                    processes.len() + found.len() <= MAX_PROCESSES && bytes.saturating_add(size) <= MAX_BYTES;
                fits.then_some((found, size)).ok_or(too_many)
            });
            match prepared {
                Ok((found, size)) => {
                    bytes += size;
                    ids.extend(found.iter().map(|_| group.id.to_owned()));
                    processes.extend(found);
                }
                Err(why) => drop(self.known.insert(group.id.to_owned(), (Err(why), at))),
            }
        }
        if processes.is_empty() {
            return;
        }
        let started = match kind {
            Ok(AccessMonitorKind::IdlePages) => {
                let marked = self.kernel.mark_idle(processes.clone());
                marked.map(MonitorState::IdlePages).map_err(|error| error.to_string())
            }
            _ => self.start_damon(&processes, interval).map(|()| MonitorState::Damon),
        };
        match started {
            Ok(state) => self.running = Some(RunningMonitor { state, groups: ids, processes }),
            Err(why) => self.known.extend(ids.into_iter().map(|id| (id, (Err(why.clone()), at)))),
        }
    }

    /// Ends monitoring, and stores what was found. Forgets old results.
    pub fn collect(&mut self, at: Duration) {
        self.known.retain(|_, (_, found_at)| at.saturating_sub(*found_at) < VALID);
        for group in self.known.values_mut().filter_map(|(found, _)| found.as_mut().ok()) {
            if at.saturating_sub(group.located_at) >= LOCATE_EVERY {
                group.locate(self.kernel, at);
            }
        }
        let Some(running) = self.running.take() else { return };
        let RunningMonitor { state, groups, processes } = running;
        let (kind, found) = match state {
            MonitorState::Damon => {
                let found = self.kernel.monitored_regions(processes.len()).map_err(|error| error.to_string());
                self.stop();
                (AccessMonitorKind::Damon, found)
            }
            MonitorState::IdlePages(idle) => {
                let found = self.kernel.accessed_since(idle).map_err(|error| error.to_string());
                (AccessMonitorKind::IdlePages, found)
            }
        };
        match found {
            Ok(found) => self.store(kind, &groups, &processes, &found, at),
            Err(why) => self.known.extend(groups.into_iter().map(|id| (id, (Err(why.clone()), at)))),
        }
    }

    fn store(
        &mut self,
        monitor: AccessMonitorKind,
        groups: &[String],
        processes: &[MonitoredProcess],
        found: &[Vec<AccessedRange>],
        at: Duration,
    ) {
        let unit = huge_page_bytes(self.kernel);
        let mut hot: BTreeMap<String, HotGroup> = BTreeMap::new();
        for ((id, process), found) in groups.iter().zip(processes).zip(found) {
            let of_group = hot.entry(id.clone()).or_insert_with(|| HotGroup {
                monitor,
                ranges: BTreeMap::new(),
                monitored_bytes: 0,
                bytes_on: BTreeMap::new(),
                located_at: at,
            });
            let huge = read_huge_mappings(self.kernel, process.pid);
            of_group.ranges.insert(process.pid, widen(&hot_ranges(found, 1, GAP), &huge, unit));
            of_group.monitored_bytes += total_bytes(&ranges_of(process));
        }
        for (id, mut group) in hot {
            group.locate(self.kernel, at);
            // A program that accessed nothing in the interval has no hot memory to prefer.
            let is_idle = group.summary().hot_bytes == 0;
            let found = if is_idle { Err("it accessed no memory meanwhile".to_owned()) } else { Ok(group) };
            self.known.insert(id, (found, at));
        }
    }

    /// Returns the processes of a group with their movable memory, and its size.
    fn prepare(
        &self,
        group: &MonitoredGroup<'_>,
        kind: AccessMonitorKind,
    ) -> Result<(Vec<MonitoredProcess>, u64), String> {
        let (mut processes, mut bytes) = (Vec::new(), 0u64);
        for seen in &group.members {
            let pid = seen.program.sample.pid;
            if seen.uses.as_ref().is_some_and(|uses| uses.may_pin) || self.kernel.uses_direct_io(pid) {
                return Err("devices access its buffers directly, which no monitor observes".to_owned());
            }
            let details = seen.program.sample.details.as_ref();
            let has_locked = details.is_some_and(|details| details.status.locked_bytes > 0);
            let ranges = read_movable_ranges(self.kernel, pid, has_locked, self.override_policies);
            let ranges = ranges.ok_or_else(|| "its memory maps cannot be read".to_owned())?;
            bytes = bytes.saturating_add(total_bytes(&ranges));
            let ranges = match kind {
                AccessMonitorKind::Damon => split_evenly(&ranges, REGIONS, REGION_UNIT),
                AccessMonitorKind::IdlePages => ranges,
            };
            let ranges =
                ranges.into_iter().map(|range| MonitoredRange { start: range.start, end: range.end });
            processes.push(MonitoredProcess { pid, ranges: ranges.collect() });
        }
        Ok((processes, bytes))
    }

    /// Starts DAMON with a receipt, so that the monitor of a killed balancer can be stopped.
    fn start_damon(&self, processes: &[MonitoredProcess], interval: Duration) -> Result<(), String> {
        let aggregation = (interval / AGGREGATIONS).clamp(AGGREGATION.start, AGGREGATION.end);
        let sample = aggregation / SAMPLES;
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let monitor = |processes: &[MonitoredProcess], on| {
            let processes = processes.to_vec();
            let (sample_us, aggregation_us) = (micros(sample), micros(sample) * u64::from(SAMPLES));
            Change::AccessMonitor(AccessMonitor { processes, sample_us, aggregation_us, enabled: on })
        };
        // The inverse needs no addresses.
        let plain: Vec<MonitoredProcess> =
            processes.iter().map(|it| MonitoredProcess { pid: it.pid, ranges: Vec::new() }).collect();
        let change = AppliedChange { change: monitor(processes, true), inverse: monitor(&plain, false) };
        let path = store::receipt(&self.machine, RECEIPT).map_err(|failure| failure.message)?;
        let receipt = receipts::planned_receipt(self.kernel, &self.machine, vec![change]);
        receipts::apply(self.kernel, receipt, &path).map(drop).map_err(|error| match error {
            ApplyError::Failed(ControlError::Refused { why, .. } | ControlError::Denied { why, .. }) => {
                format!("DAMON: {why}")
            }
            error => error.to_string(),
        })
    }

    /// Stops DAMON if its receipt exists.
    fn stop(&self) {
        if let Err(failure) = receipts::undo_by_id(self.common, self.kernel, RECEIPT) {
            crate::output::remark(self.common, &format!("{RECEIPT}: {}", failure.message));
        }
    }
}

impl Drop for HotMemoryMonitor<'_> {
    fn drop(&mut self) {
        if matches!(self.running.take(), Some(RunningMonitor { state: MonitorState::Damon, .. })) {
            self.stop();
        }
    }
}

fn ranges_of(process: &MonitoredProcess) -> Vec<Range<u64>> {
    process.ranges.iter().map(|range| range.start..range.end).collect()
}
