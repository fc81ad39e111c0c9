//! Rounds of visits until results are precise: the stopping rule of all campaigns.
//!
//! A round visits each unsettled task, in random order and with fresh buffers. A visit counts as
//! one value, since the machine's state varies more between visits than within one: the median of
//! its samples, or of I/O all bytes over all time. A task is settled when the 95 % interval of the
//! median of its visits' medians is within the precision; with few visits the pooled noise of all
//! tasks is used ([`PooledNoise`]). A settled task that differs from comparable ones is rechecked.
//!
//! The time limit applies after the first visit. If the first round does not fit, tasks are visited
//! group by group, so that a few groups are complete instead of all being partial; tasks not
//! reached have no result and record the reason.

mod state;
mod task;
mod visit;

use crate::setting::{Event, Setting};
use crate::visit_order::VisitOrder;
use numaio_machine::probe::ProbeError;
use numaio_machine::workload::Workload;
use numaio_schema::{median, PooledNoise};
use state::State;
use std::collections::BTreeMap;
pub use task::Rule;
pub(crate) use task::{Finished, Measured, NodeCell, StopReason, Task};
pub(crate) use visit::{mean, misplaced, of_outcome, VisitOutcome};

/// Relative difference from comparable tasks at which a task is rechecked.
const OUT_OF_PATTERN: f64 = 0.20;
/// Minimum number of comparable tasks.
const LEAST_ALIKE: usize = 3;

/// Callbacks that perform visits.
pub(crate) struct Visits<'a> {
    /// Visits the task of an index once.
    pub visit: &'a dyn Fn(usize, &Workload) -> Result<VisitOutcome, ProbeError>,
    /// Returns whether a resource other than time is exhausted.
    pub is_exhausted: &'a dyn Fn() -> bool,
}

/// Measures tasks in rounds. `spent_ns` counts time already spent, as in a trial.
pub(crate) fn run(
    setting: &Setting,
    rule: &Rule,
    tasks: Vec<Task>,
    spent_ns: u64,
    report: &mut dyn FnMut(&Event),
) -> Finished {
    let visits =
        Visits { visit: &|_, workload| visit::run_visit(setting.probe, workload), is_exhausted: &|| false };
    run_by(setting, rule, tasks, spent_ns, &visits, report)
}

/// Measures tasks in rounds with custom visits.
pub(crate) fn run_by(
    setting: &Setting,
    rule: &Rule,
    tasks: Vec<Task>,
    spent_ns: u64,
    by: &Visits,
    report: &mut dyn FnMut(&Event),
) -> Finished {
    let mut campaign = Campaign {
        setting,
        by,
        rule,
        states: tasks.into_iter().map(State::new).collect(),
        order: VisitOrder::new(rule.seed),
        round: 0,
        spent_ns,
        elapsed_ns: spent_ns,
        visits: 0,
        busy_mhz: None,
        stop_reason: None,
    };
    campaign.run(report);
    let Campaign { states, round, elapsed_ns, busy_mhz, stop_reason, .. } = campaign;
    let measured = states.into_iter().map(|state| state.measured(stop_reason)).collect();
    Finished { measured, rounds: round, elapsed_ns, stop_reason, busy_mhz }
}

struct Campaign<'a> {
    setting: &'a Setting<'a>,
    by: &'a Visits<'a>,
    rule: &'a Rule,
    states: Vec<State>,
    order: VisitOrder,
    round: u32,
    /// Before the first visit.
    spent_ns: u64,
    /// In total.
    elapsed_ns: u64,
    visits: u32,
    busy_mhz: Option<(u32, u32)>,
    stop_reason: Option<StopReason>,
}

impl Campaign<'_> {
    fn run(&mut self, report: &mut dyn FnMut(&Event)) {
        while self.stop_reason.is_none() {
            let mut due: Vec<usize> =
                (0..self.states.len()).filter(|index| self.states[*index].wants_visit(self.rule)).collect();
            if due.is_empty() && !self.request_rechecks() {
                return;
            }
            self.order.shuffle(&mut due);
            self.round += u32::from(!due.is_empty());
            self.visit_all(due, report);
            self.summarize();
        }
    }

    fn visit_all(&mut self, mut due: Vec<usize>, report: &mut dyn FnMut(&Event)) {
        let mut grouped = self.round > 1;
        for next in 0..due.len() {
            self.stop_reason = self.stop_reason.or_else(|| self.must_stop());
            if self.stop_reason.is_some() {
                return;
            }
            if !grouped && self.each_s() * (due.len() - next) as f64 > self.left_s() {
                due[next..].sort_by_key(|index| self.states[*index].task.group);
                grouped = true;
            }
            self.visit(due[next]);
            report(&self.progress());
        }
    }

    fn visit(&mut self, index: usize) {
        let state = &mut self.states[index];
        match (self.by.visit)(index, &state.task.workload) {
            Ok(taken) => {
                self.elapsed_ns = self.elapsed_ns.saturating_add(taken.elapsed_ns);
                self.visits += 1;
                state.add(self.round, taken, self.rule);
                if self.visits == 1 {
                    self.busy_mhz = self.setting.conditions().frequency_mhz;
                }
            }
            Err(ProbeError::Interrupted) => self.stop_reason = Some(StopReason::Interrupt),
            Err(error) => state.fail(error),
        }
    }

    fn must_stop(&self) -> Option<StopReason> {
        if (self.setting.stop)() {
            return Some(StopReason::Interrupt);
        }
        if (self.by.is_exhausted)() {
            return Some(StopReason::ByteLimit);
        }
        (self.visits > 0 && self.left_s() <= 0.0).then_some(StopReason::TimeLimit)
    }

    fn summarize(&mut self) {
        let values = PooledNoise::of(self.states.iter().map(|state| state.values.as_slice()));
        let medians = PooledNoise::of(self.states.iter().map(|state| state.medians.as_slice()));
        for state in &mut self.states {
            state.summarize([values, medians], self.rule);
        }
    }

    /// Requests rechecks, once, of tasks that differ from comparable ones; false if there are none.
    fn request_rechecks(&mut self) -> bool {
        if self.rule.fixed {
            return false;
        }
        let mut patterns: BTreeMap<_, Vec<f64>> = BTreeMap::new();
        for state in &self.states {
            if let (Some(alike), Some(value)) = (state.task.alike, state.median()) {
                patterns.entry((state.task.group, alike)).or_default().push(value);
            }
        }
        patterns.retain(|_, values| values.len() >= LEAST_ALIKE);
        let mut request = false;
        for state in &mut self.states {
            let pattern = state.task.alike.and_then(|alike| patterns.get(&(state.task.group, alike)));
            let middle = pattern.and_then(|values| median(values));
            let off = state.median().zip(middle).map(|(value, middle)| (value / middle - 1.0).abs());
            request |= off.is_some_and(|off| off > OUT_OF_PATTERN) && state.request_recheck();
        }
        request
    }

    fn elapsed_s(&self) -> f64 {
        self.elapsed_ns as f64 / 1e9
    }

    fn left_s(&self) -> f64 {
        self.rule.time_limit_s - self.elapsed_s()
    }

    /// Returns the mean time of a visit in seconds; 0 before the first.
    fn each_s(&self) -> f64 {
        self.elapsed_ns.saturating_sub(self.spent_ns) as f64 / 1e9 / f64::from(self.visits.max(1))
    }

    fn progress(&self) -> Event {
        let count = |which: &dyn Fn(&State) -> bool| self.states.iter().filter(|state| which(state)).count();
        let ahead: f64 = self.states.iter().map(|state| state.visits_ahead(self.rule)).sum();
        Event::Visited {
            round: self.round,
            reached: count(&State::reached),
            settled: count(&|state| !state.wants_visit(self.rule)),
            cells: self.states.len(),
            elapsed_s: self.elapsed_s(),
            remaining_s: (ahead * self.each_s()).min(self.left_s().max(0.0)),
        }
    }
}
