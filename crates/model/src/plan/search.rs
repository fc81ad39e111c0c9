//! Branch and bound: ranges of thread counts are divided, and discarded unless their bound is
//! better than a known plan.
//!
//! The result does not depend on the number of workers: open parts are processed in batches of
//! independent members, whose results are merged in order.

use super::instance::{Assignment, Instance};
use super::ranges::{Cut, Ranges};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;
use std::time::Instant;

/// Relative difference of equal values: a bound this close to a plan proves it optimal.
pub(crate) const TOLERANCE: f64 = 1e-7;
/// Parts per batch.
const BATCH: usize = 8;
/// Linear programs per member of a batch.
const SHARE: u64 = 150;

/// Lower bounds for ranges.
pub(crate) trait Relaxation: Sync {
    /// State that halves of a range can reuse.
    type Warm: Clone;

    /// Returns the bound of a range, a plan in or near it, and the branching step. Plans that are
    /// not below `incumbent` are ignored.
    fn relax(&self, ranges: &Ranges, warm: Option<&Self::Warm>, incumbent: f64) -> Relaxed<Self::Warm>;
}

/// Relaxation of a range.
pub(crate) struct Relaxed<W> {
    /// Lower bound of all plans of the range.
    pub bound: f64,
    /// A candidate plan.
    pub candidate: Option<Assignment>,
    /// Branching step, or `None` if the candidate is the best of the range.
    pub cut: Option<Cut>,
    /// State that the halves can reuse.
    pub warm: W,
}

/// Result of a search.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    /// The best plan and its value.
    pub best: Option<(f64, Assignment)>,
    /// Lower bound of all plans.
    pub bound: f64,
    /// Relaxations solved.
    pub programs: u64,
}

/// Time limit and number of workers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    /// Deadline.
    pub until: Option<Instant>,
    /// Number of search threads.
    pub workers: usize,
}

impl Effort {
    /// Whether the deadline has passed.
    pub fn late(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }
}

struct Open {
    bound: f64,
    ranges: Ranges,
}

/// Searches an instance for the best plan, starting from a known one.
pub(crate) fn search<R: Relaxation>(
    instance: &Instance,
    relaxation: &R,
    known: Option<(f64, Assignment)>,
    effort: Effort,
) -> Found {
    let mut all = Ranges::all(instance);
    let possible = (0..instance.vias.len()).all(|via| all.narrow(via, instance));
    let mut open: Vec<Open> = if possible { vec![Open { bound: 0.0, ranges: all }] } else { Vec::new() };
    let mut found = Found { best: known, bound: f64::INFINITY, programs: 0 };
    let enough = |found: &Found| found.programs > 0 && found.best.is_some() && effort.late();
    while !(open.is_empty() || enough(&found)) {
        // Most promising parts first; the sort is stable.
        open.sort_by(|a, b| a.bound.total_cmp(&b.bound));
        let batch: Vec<Open> = open.drain(..open.len().min(BATCH)).collect();
        let value = found.best.as_ref().map_or(f64::INFINITY, |(value, _)| *value);
        for result in
            in_parallel(&batch, effort.workers, |part| explore(instance, relaxation, part, value, effort))
        {
            found.programs += result.programs;
            found.bound = found.bound.min(result.left);
            open.extend(result.open);
            let best = found.best.as_ref().map_or(f64::INFINITY, |(value, _)| *value);
            found.best = result.best.filter(|(value, _)| *value < best).or(found.best);
        }
        let worth = found.best.as_ref().map_or(f64::INFINITY, |(value, _)| below(*value));
        open.retain(|part| part.bound < worth);
    }
    let value = found.best.as_ref().map_or(f64::INFINITY, |(value, _)| *value);
    found.bound = open.iter().map(|part| part.bound).fold(below(value).min(found.bound), f64::min);
    found
}

/// Returns the value that a better plan must undercut.
fn below(value: f64) -> f64 {
    value * (1.0 - TOLERANCE)
}

struct Explored {
    best: Option<(f64, Assignment)>,
    open: Vec<Open>,
    /// Least bound of parts that could not be divided although no plan of theirs reaches it,
    /// because of rounding errors.
    left: f64,
    programs: u64,
}

/// Bound of the parent range, the range, and the parent's reusable state.
type Half<W> = (f64, Ranges, Option<Rc<W>>);

/// Explores one part, depth first, until it is done or its share of work is used up.
fn explore<R: Relaxation>(
    instance: &Instance,
    relaxation: &R,
    part: &Open,
    value: f64,
    effort: Effort,
) -> Explored {
    let mut result = Explored { best: None, open: Vec::new(), left: f64::INFINITY, programs: 0 };
    let mut value = value;
    let mut stack: Vec<Half<R::Warm>> = vec![(part.bound, part.ranges.clone(), None)];
    while let Some((bound, ranges, warm)) = stack.pop() {
        if bound >= below(value) {
            continue;
        }
        // Even after the deadline each started part has a bound, and a plan if there is any.
        let over = result.programs > 0 && value.is_finite() && effort.late();
        if result.programs >= SHARE || over {
            result.open.push(Open { bound, ranges });
            continue;
        }
        result.programs += 1;
        let relaxed = relaxation.relax(&ranges, warm.as_deref(), below(value));
        let bound = bound.max(relaxed.bound);
        let candidate = relaxed.candidate.map(|candidate| (instance.value(&candidate), candidate));
        if let Some((better, candidate)) = candidate.filter(|(candidate, _)| *candidate < value) {
            value = better;
            result.best = Some((value, candidate));
        }
        if bound >= below(value) {
            continue;
        }
        let Some(cut) = relaxed.cut else {
            result.left = result.left.min(bound);
            continue;
        };
        let warm = Rc::new(relaxed.warm);
        // The last half pushed is explored first: more threads, as fewer may starve other paths.
        let halves = ranges.halves(cut, instance).into_iter().flatten();
        stack.extend(halves.map(|half| (bound, half, Some(warm.clone()))));
    }
    result
}

/// Maps items on several threads; the results are in the order of the items.
fn in_parallel<T: Sync, U: Send>(items: &[T], workers: usize, work: impl Fn(&T) -> U + Sync) -> Vec<U> {
    let workers = workers.min(items.len());
    if workers <= 1 {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::with_capacity(items.len()));
    let take = || loop {
        let index = next.fetch_add(1, Ordering::Relaxed);
        let Some(item) = items.get(index) else { break };
        let result = work(item);
        results.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((index, result));
    };
    std::thread::scope(|scope| {
        for _ in 1..workers {
            scope.spawn(take);
        }
        take();
    });
    let mut results = results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}
