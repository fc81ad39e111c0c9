//! Divide and conquer: ranges of thread counts are cut in two and given up where their bound is no better than a plan
//! that is known.
//!
//! The search is the same however many processors work on it: open parts are worked on in batches whose members do
//! not hear of each other, and what they found is gathered in order.

use super::instance::{Assignment, Instance};
use super::ranges::{Cut, Ranges};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;
use std::time::Instant;

/// Relative difference of two values that is none: a bound closer to a plan than this proves it.
pub(crate) const TOLERANCE: f64 = 1e-7;
/// Parts of one batch.
const BATCH: usize = 8;
/// Programmes that one member of a batch may solve.
const SHARE: u64 = 150;

/// Bounds from below for ranges.
pub(crate) trait Relaxation: Sync {
    /// What a part of a range can take over from the whole.
    type Warm: Clone;

    /// The bound of a range, a plan in or near it, and where to cut it. A plan that is not below `incumbent` is of
    /// no interest.
    fn relax(&self, ranges: &Ranges, warm: Option<&Self::Warm>, incumbent: f64) -> Relaxed<Self::Warm>;
}

/// What a relaxation says of a range.
pub(crate) struct Relaxed<W> {
    /// No plan of the range takes less.
    pub bound: f64,
    /// A plan.
    pub candidate: Option<Assignment>,
    /// Where to cut; none if the candidate is the best of the range.
    pub cut: Option<Cut>,
    /// What parts may take over.
    pub warm: W,
}

/// What a search found.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    /// The best plan and its value.
    pub best: Option<(f64, Assignment)>,
    /// No plan takes less.
    pub bound: f64,
    /// Relaxations solved.
    pub programmes: u64,
}

/// When to stop, and on how many processors to work.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    /// When the time is over.
    pub until: Option<Instant>,
    /// Threads that search.
    pub workers: usize,
}

impl Effort {
    /// Whether the time is over.
    pub fn late(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }
}

struct Open {
    bound: f64,
    ranges: Ranges,
}

/// Searches all of an instance for the best plan, from one that is known.
pub(crate) fn search<R: Relaxation>(
    instance: &Instance,
    relaxation: &R,
    known: Option<(f64, Assignment)>,
    effort: Effort,
) -> Found {
    let mut all = Ranges::all(instance);
    let possible = (0..instance.vias.len()).all(|via| all.narrow(via, instance));
    let mut open: Vec<Open> = if possible { vec![Open { bound: 0.0, ranges: all }] } else { Vec::new() };
    let mut found = Found { best: known, bound: f64::INFINITY, programmes: 0 };
    let enough = |found: &Found| found.programmes > 0 && found.best.is_some() && effort.late();
    while !(open.is_empty() || enough(&found)) {
        // The most promising parts first; the sort keeps the order of equals.
        open.sort_by(|a, b| a.bound.total_cmp(&b.bound));
        let batch: Vec<Open> = open.drain(..open.len().min(BATCH)).collect();
        let value = found.best.as_ref().map_or(f64::INFINITY, |(value, _)| *value);
        for result in
            in_parallel(&batch, effort.workers, |part| explore(instance, relaxation, part, value, effort))
        {
            found.programmes += result.programmes;
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

/// What must be undercut to count as better.
fn below(value: f64) -> f64 {
    value * (1.0 - TOLERANCE)
}

struct Explored {
    best: Option<(f64, Assignment)>,
    open: Vec<Open>,
    /// Least bound of parts that could not be cut although no plan of theirs reaches it: rounding errors.
    left: f64,
    programmes: u64,
}

/// Bound of the whole that a range is half of, the range, and what it may take over from the whole.
type Half<W> = (f64, Ranges, Option<Rc<W>>);

/// Works on one part, depth first, until it is done or the share of work is used up.
fn explore<R: Relaxation>(
    instance: &Instance,
    relaxation: &R,
    part: &Open,
    value: f64,
    effort: Effort,
) -> Explored {
    let mut result = Explored { best: None, open: Vec::new(), left: f64::INFINITY, programmes: 0 };
    let mut value = value;
    let mut stack: Vec<Half<R::Warm>> = vec![(part.bound, part.ranges.clone(), None)];
    while let Some((bound, ranges, warm)) = stack.pop() {
        if bound >= below(value) {
            continue;
        }
        // Even if the time is over there is a bound for each part that was begun, and a plan if there is any.
        let over = result.programmes > 0 && value.is_finite() && effort.late();
        if result.programmes >= SHARE || over {
            result.open.push(Open { bound, ranges });
            continue;
        }
        result.programmes += 1;
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
        // The last one pushed is searched first: more threads, as fewer may starve the rest.
        let halves = ranges.halves(cut, instance).into_iter().flatten();
        stack.extend(halves.map(|half| (bound, half, Some(warm.clone()))));
    }
    result
}

/// Does the same to every item, on some threads; results in the order of the items.
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
