//! Observation of tasks, to verify their placement.

use numaio_machine::devices::{bytes_moved, Device, DeviceKind};
use numaio_machine::process::{self, Process};
use numaio_machine::sysfs::Sysfs;
use numaio_schema::{DeviceObservation, PlacementPlan, TaskObservation, Verification, VERIFICATION_SCHEMA};
use std::collections::BTreeMap;
use std::time::Duration;

/// Observes the tasks of a plan.
pub struct PlacementWatch<'a> {
    plan: &'a PlacementPlan,
    /// Counted devices with their initial counters of moved bytes.
    devices: Vec<(&'a Device, u64)>,
    tasks: Vec<TaskTracker>,
    samples: u32,
}

/// Observations of one task so far.
#[derive(Default)]
struct TaskTracker {
    task: TaskObservation,
    /// Ticks of each thread (process and thread ID) at the last sample.
    ticks: BTreeMap<(u32, u32), u64>,
}

impl<'a> PlacementWatch<'a> {
    /// Starts observing: reads the counters of the machine's `devices`.
    pub fn new(root: &dyn Sysfs, plan: &'a PlacementPlan, devices: &'a [Device]) -> Self {
        let counted = devices.iter().filter(|device| {
            matches!(device.kind, DeviceKind::Network | DeviceKind::Nvme | DeviceKind::Block)
        });
        let counted =
            counted.filter_map(|device| Some((device, bytes_moved(root, device.kind, &device.names)?)));
        let tasks = plan.tasks.iter().map(|_| TaskTracker::default()).collect();
        Self { plan, devices: counted.collect(), tasks, samples: 0 }
    }

    /// Samples the tasks once.
    ///
    /// `pids` are the processes of the plan's tasks in order; none for an ended task. The nodes of
    /// pages are only read with `pages`, since that is slow for large processes.
    pub fn sample(&mut self, root: &dyn Sysfs, pids: &[Option<u32>], pages: bool) {
        self.samples += 1;
        let running: Vec<(usize, u32)> =
            pids.iter().enumerate().filter_map(|(task, pid)| Some((task, (*pid)?))).collect();
        let roots: Vec<u32> = running.iter().map(|(_, pid)| *pid).collect();
        for ((task, _), family) in running.into_iter().zip(process::process_trees(root, &roots)) {
            let (Some(tracker), Some(placement)) = (self.tasks.get_mut(task), self.plan.tasks.get(task))
            else {
                continue;
            };
            let mut processes: Vec<Process> =
                family.into_iter().filter_map(|pid| process::threads(root, pid).ok()).collect();
            for process in processes.iter_mut().filter(|_| pages) {
                process.pages = process::pages(root, process.pid);
            }
            tracker.add_threads(
                &processes,
                |cpu| placement.cpus.contains(cpu),
                |cpus| cpus.is_subset(&placement.cpus),
            );
            if pages {
                tracker.add_pages(&processes, |node| placement.memory.nodes.contains(node));
            }
        }
    }

    /// Reads the counters of devices again and returns the result.
    pub fn finish(self, root: &dyn Sysfs, watched: Duration) -> Verification {
        let of_plan =
            |device: &Device| self.plan.targets.iter().any(|target| device.has_name(&target.device));
        let moved = self.devices.iter().filter_map(|(device, before)| {
            let bytes = bytes_moved(root, device.kind, &device.names)?.saturating_sub(*before);
            Some(DeviceObservation { device: device.name(), planned: of_plan(device), bytes })
        });
        let mut devices: Vec<DeviceObservation> =
            moved.filter(|device| device.planned || device.bytes > 0).collect();
        devices.sort_by_key(|device| (!device.planned, std::cmp::Reverse(device.bytes)));
        Verification {
            schema: VERIFICATION_SCHEMA.to_owned(),
            machine: self.plan.machine.fingerprint.clone(),
            seconds: watched.as_secs_f64(),
            samples: self.samples,
            tasks: self.tasks.into_iter().map(|tracker| tracker.task).collect(),
            devices,
        }
    }
}

impl TaskTracker {
    /// Adds CPU time since the last sample to the CPU on which each thread runs now.
    fn add_threads(
        &mut self,
        processes: &[Process],
        is_in_place: impl Fn(numaio_machine::ids::CpuId) -> bool,
        is_bound: impl Fn(&numaio_machine::set::CpuSet) -> bool,
    ) {
        let threads = || {
            processes.iter().flat_map(|process| process.threads.iter().map(|thread| (process.pid, thread)))
        };
        for (pid, thread) in threads() {
            let before = self.ticks.insert((pid, thread.tid), thread.ticks).unwrap_or(0);
            let ticks = thread.ticks.saturating_sub(before);
            self.task.ticks += ticks;
            self.task.ticks_in_place += if is_in_place(thread.cpu) { ticks } else { 0 };
        }
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let unbound = threads()
            .filter(|(_, thread)| thread.allowed.as_ref().is_some_and(|cpus| !is_bound(cpus)))
            .count();
        self.task.threads = self.task.threads.max(count(threads().count()));
        self.task.threads_unbound = self.task.threads_unbound.max(count(unbound));
    }

    /// Keeps the nodes of pages of the sample with most bytes.
    fn add_pages(
        &mut self,
        processes: &[Process],
        is_in_place: impl Fn(numaio_machine::ids::NodeId) -> bool,
    ) {
        let mut on = BTreeMap::new();
        for pages in processes.iter().filter_map(|process| process.pages.as_ref()) {
            for (node, bytes) in &pages.anonymous {
                *on.entry(*node).or_insert(0u64) += bytes;
            }
        }
        let sum = |on: &BTreeMap<_, u64>| on.values().sum::<u64>();
        if sum(&on) > sum(&self.task.bytes_on) {
            let in_place = on.iter().filter(|(node, _)| is_in_place(**node)).map(|(_, bytes)| bytes).sum();
            self.task.bytes_in_place = Some(in_place);
            self.task.bytes_on = on;
        }
    }
}

#[cfg(test)]
mod tests;
