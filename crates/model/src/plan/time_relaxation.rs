//! Bound and candidates for the least time of the slowest stage.
//!
//! With rates x = β / T the least time is the greatest rate λ at which all sources drain together:
//! a linear program in rates for known thread counts, and a relaxation of the problem for
//! fractional threads. A path costs x / B0 threads; those that its range guarantees are paid in
//! advance.

use super::instance::{Assignment, Instance};
use super::ranges::{Cut, Ranges};
use super::search::{Effort, Relaxation, Relaxed};
use super::simplex::{End, LinearProgram, Tableau};

/// Cost of a thread among plans of equal time: fewer are better.
const THREAD: f64 = 1e-9;
/// Relative gain that counts as 0.
const CLOSE: f64 = 1e-9;
/// Branching steps between two candidate plans.
const PLANS_EVERY: usize = 4;
/// Linear programs per node for improving one plan.
const CLIMB: u64 = 100;
/// Maximum number of dives for a plan.
const DIVES: usize = 8;
/// Fractions of a thread that are rounding errors.
const WHOLE: f64 = 1e-7;

/// The linear program of an instance.
pub(crate) struct TimeRelaxation<'a> {
    instance: &'a Instance,
    program: LinearProgram,
    start: Tableau,
    columns: Vec<Columns>,
    vias: Vec<ViaColumns>,
    rate: usize,
}

/// Variables of a path: rates in threads.
#[derive(Clone, Copy)]
struct Columns {
    /// Rate of threads that the range guarantees.
    paid: usize,
    /// Rate of further threads that add B0 each.
    whole: usize,
    /// Rate of the last thread, which adds the remainder to Bmax.
    last: usize,
}

/// Variables of a via.
struct ViaColumns {
    /// Throughput of the via.
    through: usize,
    /// Threads that serve storage.
    split: usize,
    /// Threads of both kinds that ranges guarantee: constants.
    paid: [usize; 2],
}

impl<'a> TimeRelaxation<'a> {
    /// Creates the relaxation of an instance.
    pub fn new(instance: &'a Instance) -> Self {
        let mut program = LinearProgram::default();
        let most = if instance.floor > 0.0 { 1.0 / instance.floor } else { f64::INFINITY };
        let ways_most: f64 = instance.paths[..instance.reads].iter().map(|path| path.most).sum();
        let rate = program.variable(1.0, 0.0, (0.0, most.min(ways_most)));
        let mut columns = Vec::new();
        for _ in &instance.paths {
            let mut variable = |tie: f64| program.variable(0.0, tie, (0.0, 0.0));
            columns.push(Columns { paid: variable(0.0), whole: variable(-THREAD), last: variable(-THREAD) });
        }
        let mut vias = Vec::new();
        for _ in &instance.vias {
            let mut variable = || program.variable(0.0, 0.0, (0.0, 0.0));
            vias.push(ViaColumns { through: variable(), split: variable(), paid: [variable(), variable()] });
        }
        let mut relaxation = Self { instance, start: program.start(), program, columns, vias, rate };
        relaxation.rows();
        relaxation.start = relaxation.program.start();
        relaxation
    }

    fn rows(&mut self) {
        for (source, (_, amount)) in self.instance.sources.iter().enumerate() {
            let paths = (0..self.instance.reads).filter(|path| self.instance.paths[*path].end == source);
            let mut terms = self.rates(paths);
            terms.push((self.rate, -amount));
            self.program.row(terms, true, 0.0);
        }
        for (via, own) in self.vias.iter().enumerate() {
            let reads: Vec<usize> = self.instance.reads_at(via).collect();
            let sends: Vec<usize> = self.instance.sends_at(via).collect();
            let threads = f64::from(self.instance.vias[via].1);
            for (paths, paid, split, right) in
                [(reads, own.paid[0], -1.0, 0.0), (sends, own.paid[1], 1.0, threads)]
            {
                let mut terms = self.rates(paths.iter().copied());
                terms.push((own.through, -1.0));
                self.program.row(terms, true, 0.0);
                let busy =
                    paths.iter().flat_map(|path| [self.columns[*path].whole, self.columns[*path].last]);
                let mut terms: Vec<(usize, f64)> = busy.map(|variable| (variable, 1.0)).collect();
                terms.extend([(paid, 1.0), (own.split, split)]);
                self.program.row(terms, false, right);
            }
        }
        for limit in &self.instance.limits {
            self.program.row(self.rates(limit.paths.iter().copied()), false, limit.rate);
        }
    }

    fn rates(&self, paths: impl Iterator<Item = usize>) -> Vec<(usize, f64)> {
        let of_path = |number: usize| {
            let (path, columns) = (&self.instance.paths[number], self.columns[number]);
            let last = path.last().unwrap_or(path.unit);
            [(columns.paid, path.unit), (columns.whole, path.unit), (columns.last, last)]
        };
        paths.flat_map(of_path).collect()
    }

    fn set(&self, tableau: &mut Tableau, ranges: &Ranges) {
        for ((path, (low, high)), columns) in self.instance.paths.iter().zip(&ranges.paths).zip(&self.columns)
        {
            let partial = path.last().is_some();
            let whole = if partial { (*high).min(path.most_threads - 1) } else { *high };
            tableau.set_bounds(columns.paid, (0.0, path.rate(*low) / path.unit));
            tableau.set_bounds(columns.whole, (0.0, f64::from(whole.saturating_sub(*low))));
            let last = partial && *high == path.most_threads && *low < *high;
            tableau.set_bounds(columns.last, (0.0, f64::from(u8::from(last))));
        }
        for (via, own) in self.vias.iter().enumerate() {
            let paid = |low: u32| (f64::from(low), f64::from(low));
            let low =
                |paths: &mut dyn Iterator<Item = usize>| paths.map(|path| ranges.paths[path].0).sum::<u32>();
            tableau.set_bounds(own.paid[0], paid(low(&mut self.instance.reads_at(via))));
            tableau.set_bounds(own.paid[1], paid(low(&mut self.instance.sends_at(via))));
            let (low, high) = ranges.split[via];
            tableau.set_bounds(own.split, (f64::from(low), f64::from(high)));
            tableau.set_bounds(own.through, (0.0, ranges.through(via, self.instance)));
        }
        tableau.recompute(&self.program);
    }

    /// Returns the rate of each path at a point.
    fn path_rates(&self, point: &[f64]) -> Vec<f64> {
        let rate = |number: usize| -> f64 {
            self.rates(std::iter::once(number))
                .into_iter()
                .map(|(variable, rate)| point[variable] * rate)
                .sum()
        };
        (0..self.columns.len()).map(rate).collect()
    }

    /// Returns the used threads at a point, including fractions.
    fn usage(&self, point: &[f64]) -> Vec<f64> {
        let sum = |columns: &Columns| point[columns.paid] + point[columns.whole] + point[columns.last];
        self.columns.iter().map(sum).collect()
    }

    /// Returns a plan near a point: whole threads, the rest where most is missing, then new rates.
    fn rounded(
        &self,
        tableau: &Tableau,
        usage: &[f64],
        ranges: &Ranges,
        incumbent: f64,
    ) -> Option<Assignment> {
        let mut threads: Vec<u32> = Vec::with_capacity(usage.len());
        for (usage, (low, high)) in usage.iter().zip(&ranges.paths) {
            threads.push(((usage + WHOLE).floor() as u32).clamp(*low, *high));
        }
        for via in 0..self.vias.len() {
            self.give_rest(via, usage, ranges, &mut threads);
        }
        self.with_threads(tableau, threads, incumbent).map(|(plan, _)| plan)
    }

    fn give_rest(&self, via: usize, usage: &[f64], ranges: &Ranges, threads: &mut [u32]) {
        let mut paths: Vec<usize> = self.instance.reads_at(via).chain(self.instance.sends_at(via)).collect();
        let given: u32 = paths.iter().map(|path| threads[*path]).sum();
        let mut rest = self.instance.vias[via].1.saturating_sub(given);
        let missing =
            |path: &usize| (usage[*path] - f64::from(threads[*path])) * self.instance.paths[*path].unit;
        paths.retain(|path| missing(path) > WHOLE && threads[*path] < ranges.paths[*path].1);
        paths.sort_by(|a, b| missing(b).total_cmp(&missing(a)));
        for path in paths {
            if rest > 0 {
                threads[path] += 1;
                rest -= 1;
            }
        }
    }

    /// Returns the best rates for thread counts, without unneeded threads, and their tableau; or
    /// `None` if they take as long as `incumbent` or longer.
    fn with_threads(
        &self,
        tableau: &Tableau,
        threads: Vec<u32>,
        incumbent: f64,
    ) -> Option<(Assignment, Tableau)> {
        let mut fixed = Ranges::all(self.instance);
        fixed.paths = threads.iter().map(|threads| (*threads, *threads)).collect();
        for via in 0..self.vias.len() {
            if !fixed.narrow(via, self.instance) {
                return None;
            }
        }
        let mut tableau = tableau.clone();
        self.set(&mut tableau, &fixed);
        if tableau.solve(&self.program, 1.0 / incumbent) != End::Best {
            return None;
        }
        let rates = self.path_rates(&tableau.point());
        let needed =
            |(path, rate): (usize, &f64)| self.instance.paths[path].threads_for(*rate).min(threads[path]);
        let threads = rates.iter().enumerate().map(needed).collect();
        Some((self.instance.assignment(threads, &rates)?, tableau))
    }

    /// Finds plans by fixing the threads of one via after another near the optimum of the open
    /// ones, each time starting with another via. Returns the best plan if it is better than
    /// `incumbent`, and the number of linear programs.
    pub fn dive(&self, incumbent: f64, effort: Effort) -> (Option<Assignment>, u64) {
        let vias = self.vias.len();
        let (mut best, mut programs) = ((incumbent, None), 0);
        for first in 0..vias.min(DIVES) {
            if effort.late() {
                break;
            }
            let order = (0..vias).map(|place| (place + first * vias / vias.min(DIVES)) % vias);
            if let Some(plan) = self.dive_in(order, best.0, &mut programs) {
                let value = self.instance.value(&plan);
                if value < best.0 {
                    best = (value, Some(plan));
                }
            }
        }
        (best.1, programs)
    }

    fn dive_in(
        &self,
        order: impl Iterator<Item = usize>,
        incumbent: f64,
        programs: &mut u64,
    ) -> Option<Assignment> {
        let mut ranges = Ranges::all(self.instance);
        let mut tableau = self.start.clone();
        let mut threads: Vec<u32> = vec![0; self.columns.len()];
        for via in order {
            self.set(&mut tableau, &ranges);
            *programs += 1;
            if tableau.solve(&self.program, 1.0 / incumbent) != End::Best {
                return None;
            }
            let usage = self.usage(&tableau.point());
            let paths: Vec<usize> = self.instance.reads_at(via).chain(self.instance.sends_at(via)).collect();
            for path in &paths {
                threads[*path] = ((usage[*path] + WHOLE).floor() as u32).min(ranges.paths[*path].1);
            }
            self.give_rest(via, &usage, &ranges, &mut threads);
            for path in paths {
                ranges.paths[path] = (threads[path], threads[path]);
            }
            if !ranges.narrow(via, self.instance) {
                return None;
            }
        }
        *programs += 1;
        self.with_threads(&tableau, threads, incumbent).map(|(plan, _)| plan)
    }

    /// Moves threads one by one between paths of the same via while that improves a plan. Returns
    /// the plan and the number of linear programs.
    pub fn climb(&self, plan: Assignment, effort: Effort) -> (Assignment, u64) {
        let most = CLIMB * self.vias.len() as u64;
        let mut programs = 1;
        // Neighbors differ by one thread: their rates are a few pivots away.
        let near = self.with_threads(&self.start, plan.threads.clone(), f64::INFINITY);
        let mut near = near.map_or_else(|| self.start.clone(), |(_, tableau)| tableau);
        let mut best = (self.instance.value(&plan), plan);
        loop {
            let before = best.0;
            for via in 0..self.vias.len() {
                let paths: Vec<usize> =
                    self.instance.reads_at(via).chain(self.instance.sends_at(via)).collect();
                for (from, to) in paths.iter().flat_map(|from| paths.iter().map(move |to| (*from, *to))) {
                    let Some(threads) = self.moved(&best.1.threads, via, from, to) else { continue };
                    if programs >= most || effort.late() {
                        return (best.1, programs);
                    }
                    programs += 1;
                    let enough = best.0 * (1.0 - CLOSE);
                    let Some((plan, tableau)) = self.with_threads(&near, threads, enough) else { continue };
                    let value = self.instance.value(&plan);
                    if value < enough {
                        best = (value, plan);
                        near = tableau;
                    }
                }
            }
            if best.0 >= before {
                return (best.1, programs);
            }
        }
    }

    /// Returns the threads of a plan with one moved, or an idle one used, or `None` if impossible.
    fn moved(&self, threads: &[u32], via: usize, from: usize, to: usize) -> Option<Vec<u32>> {
        let mut threads = threads.to_vec();
        let used: u32 =
            self.instance.reads_at(via).chain(self.instance.sends_at(via)).map(|path| threads[path]).sum();
        let idle = self.instance.vias[via].1 - used;
        if threads[to] == self.instance.paths[to].most_threads || (from == to) != (idle > 0) {
            return None;
        }
        threads[to] += 1;
        if from != to {
            threads[from] = threads[from].checked_sub(1)?;
        }
        Some(threads)
    }

    /// Chooses the branching step: first the split of a via's threads, then the path whose
    /// fractional thread carries most.
    fn cut(&self, usage: &[f64], ranges: &Ranges) -> Option<Cut> {
        let part = |usage: f64| usage - (usage + WHOLE).floor();
        let mut best: (f64, Option<Cut>) = (0.0, None);
        for via in 0..self.vias.len() {
            let reads: Vec<usize> = self.instance.reads_at(via).collect();
            let paths: Vec<usize> = reads.iter().copied().chain(self.instance.sends_at(via)).collect();
            let up = |usage: f64| (usage - WHOLE).ceil().max(0.0) as u32;
            if paths.iter().map(|path| up(usage[*path])).sum::<u32>() <= self.instance.vias[via].1 {
                continue;
            }
            let reading: f64 = reads.iter().map(|path| usage[*path]).sum();
            let (low, high) = ranges.split[via];
            let floor = (reading + WHOLE).floor() as u32;
            if low < high && part(reading) > WHOLE && (low..high).contains(&floor) {
                let score = 10.0 + part(reading).min(1.0 - part(reading));
                if score > best.0 {
                    best = (score, Some(Cut::Split(via, floor)));
                }
            }
            let open = |path: &usize| ranges.paths[*path].0 < ranges.paths[*path].1;
            for path in paths.into_iter().filter(|path| open(path) && part(usage[*path]) > WHOLE) {
                let score = part(usage[path]).min(1.0 - part(usage[path])) * self.instance.paths[path].unit;
                if score > best.0 {
                    let (low, high) = ranges.paths[path];
                    let at = ((usage[path] + WHOLE).floor() as u32).clamp(low, high - 1);
                    best = (score, Some(Cut::Way(path, at)));
                }
            }
        }
        best.1
    }
}

impl Relaxation for TimeRelaxation<'_> {
    type Warm = Tableau;

    fn relax(&self, ranges: &Ranges, warm: Option<&Tableau>, incumbent: f64) -> Relaxed<Tableau> {
        let mut tableau = warm.unwrap_or(&self.start).clone();
        self.set(&mut tableau, ranges);
        let end = tableau.solve(&self.program, 1.0 / incumbent);
        let bound = match end {
            End::Empty => f64::INFINITY,
            _ => 1.0 / self.program.bound(&tableau).max(f64::MIN_POSITIVE),
        };
        if bound >= incumbent {
            return Relaxed { bound, candidate: None, cut: None, warm: tableau };
        }
        let usage = self.usage(&tableau.point());
        let cut = self.cut(&usage, ranges).or_else(|| if end == End::Best { None } else { any_cut(ranges) });
        // A plan costs as much as a bound, and plans of neighbors are similar.
        let worth = cut.is_none() || ranges.cuts(self.instance).is_multiple_of(PLANS_EVERY);
        let candidate = if worth { self.rounded(&tableau, &usage, ranges, incumbent) } else { None };
        Relaxed { bound, candidate, cut, warm: tableau }
    }
}

/// Divides the first open range, for a point with rounding errors.
fn any_cut(ranges: &Ranges) -> Option<Cut> {
    let open = ranges.paths.iter().position(|(low, high)| low < high)?;
    let (low, high) = ranges.paths[open];
    Some(Cut::Way(open, (low + high) / 2))
}
