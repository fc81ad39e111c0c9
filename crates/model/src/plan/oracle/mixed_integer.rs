//! Mixed-integer program: each thread count is a choice, so that bytes over threads become linear.
//! It shares only the instance and the linear programs with the other method.

use super::ordered_sets::SetProgram;
use crate::plan::branch_and_bound::divide;
use crate::plan::instance::{Assignment, Instance};
use crate::plan::plan_document::Solution;
use crate::plan::search::Effort;
use crate::plan::validation::PlanError;
use numaio_schema::Objective;
use std::time::Instant;

/// Cost of a thread among plans of equal value: fewer are better.
const THREAD: f64 = 1e-12;

/// A program and the variables of each path. Its gain is the inverse of the least time, or the
/// negative least sum, in units of `scale`.
struct Built {
    program: SetProgram,
    scale: f64,
    /// Variables of each path and their factors, which add up to its rate or amount.
    carried: Vec<Vec<(usize, f64)>>,
}

/// Solves an instance.
pub(crate) fn mixed(instance: &Instance, effort: Effort) -> Result<Solution, PlanError> {
    let built = build(instance);
    let found = built.program.solve(effort, |point| {
        let assignment = built.assignment(instance, point)?;
        Some((built.gain(instance, instance.value(&assignment)), assignment))
    });
    match found.best {
        Some((_, assignment)) => {
            let value = instance.value(&assignment);
            let bound = built.value(instance, found.bound).clamp(f64::MIN_POSITIVE, value);
            Ok(Solution { assignment, value, bound, programs: found.programs })
        }
        None if found.bound == f64::NEG_INFINITY => Err(PlanError::NoThreads),
        // Without a plan in time: the immediate result of the other method.
        None => divide(instance, Effort { until: Some(Instant::now()), ..effort }),
    }
}

fn build(instance: &Instance) -> Built {
    match instance.objective {
        Objective::Time => time(instance),
        Objective::Sum => sum(instance),
    }
}

impl Built {
    fn new(instance: &Instance, scale: f64) -> Self {
        let mut program = SetProgram::default();
        for path in &instance.paths {
            // Convex costs: adjacent counts are preferred to others of the same average.
            program.set((0..=path.most_threads).map(|threads| -THREAD * f64::from(threads).powi(2)));
        }
        Self { program, scale, carried: Vec::new() }
    }

    fn gain(&self, instance: &Instance, value: f64) -> f64 {
        match instance.objective {
            Objective::Time => 1.0 / (value * self.scale),
            Objective::Sum => -value / self.scale,
        }
    }

    fn value(&self, instance: &Instance, gain: f64) -> f64 {
        match instance.objective {
            Objective::Time => 1.0 / (gain * self.scale),
            Objective::Sum => -gain * self.scale,
        }
    }

    fn assignment(&self, instance: &Instance, point: &[f64]) -> Option<Assignment> {
        let taken = |set: &Vec<usize>| {
            let most = set.iter().enumerate().max_by(|a, b| point[*a.1].total_cmp(&point[*b.1]));
            most.map_or(0, |(threads, _)| threads as u32)
        };
        let threads = self.program.sets.iter().map(taken).collect();
        let sum = |terms: &Vec<(usize, f64)>| -> f64 {
            terms.iter().map(|(variable, factor)| point[*variable] * factor).sum()
        };
        let carried: Vec<f64> = self.carried.iter().map(sum).collect();
        instance.assignment(threads, &carried)
    }

    /// Returns terms that add up to what some paths carry, divided by `unit`.
    fn terms(&self, paths: impl Iterator<Item = usize>, unit: f64) -> Vec<(usize, f64)> {
        let of_path = |path: usize| self.carried[path].iter().map(move |(one, factor)| (*one, factor / unit));
        paths.flat_map(of_path).collect()
    }

    /// Limits the threads of each via, and balances its input and output.
    fn limit_vias(&mut self, instance: &Instance) {
        for (via, (_, threads)) in instance.vias.iter().enumerate() {
            let paths = instance.reads_at(via).chain(instance.sends_at(via));
            let of_path = |path: usize| self.program.sets[path].iter().copied().zip((0..).map(f64::from));
            let counts = paths.flat_map(of_path).collect();
            self.program.linear.row(counts, false, f64::from(*threads));
            let paths = instance.reads_at(via).chain(instance.sends_at(via));
            let factors = paths.flat_map(|path| self.carried[path].iter().map(|(_, factor)| *factor));
            let unit = factors.fold(f64::MIN_POSITIVE, f64::max);
            let mut terms = self.terms(instance.reads_at(via), unit);
            terms.extend(self.terms(instance.sends_at(via), -unit));
            self.program.linear.row(terms, true, 0.0);
        }
    }
}

/// Returns the paths of a source.
fn reads_of(instance: &Instance, source: usize) -> impl Iterator<Item = usize> + '_ {
    (0..instance.reads).filter(move |path| instance.paths[*path].end == source)
}

/// Builds the program for the greatest rate at which all data moves; its inverse is the least time.
fn time(instance: &Instance) -> Built {
    let most = |source: usize| -> f64 {
        reads_of(instance, source).map(|path| instance.paths[path].most).sum::<f64>()
            / instance.sources[source].1
    };
    let most = (0..instance.sources.len()).map(most).fold(1.0 / instance.floor, f64::min);
    let mut built = Built::new(instance, most);
    let rate = built.program.linear.variable(1.0, 0.0, (0.0, 1.0));
    for (number, path) in instance.paths.iter().enumerate() {
        // In threads, so that slow paths have values near 1 too.
        let linear = &mut built.program.linear;
        let carried = linear.variable(0.0, 0.0, (0.0, path.most / path.unit));
        let mut terms = vec![(carried, 1.0)];
        let rates = (0..).map(|threads| -path.rate(threads) / path.unit);
        terms.extend(built.program.sets[number].iter().copied().zip(rates));
        linear.row(terms, false, 0.0);
        built.carried.push(vec![(carried, path.unit)]);
    }
    for (source, (_, amount)) in instance.sources.iter().enumerate() {
        let mut terms = built.terms(reads_of(instance, source), amount * most);
        terms.push((rate, -1.0));
        built.program.linear.row(terms, true, 0.0);
    }
    for limit in &instance.limits {
        let terms = built.terms(limit.paths.iter().copied(), limit.rate);
        built.program.linear.row(terms, false, 1.0);
    }
    built.limit_vias(instance);
    built
}

/// Builds the program for the least printed sum over every pair of paths into and out of a node.
fn sum(instance: &Instance) -> Built {
    let amount = |path: usize| match path < instance.reads {
        true => instance.sources[instance.paths[path].end].1,
        false => 1.0,
    };
    let least = |source: usize| {
        let rates = reads_of(instance, source).map(|path| instance.paths[path].most);
        instance.sources[source].1 / rates.fold(f64::MIN_POSITIVE, f64::max)
    };
    let least: f64 = (0..instance.sources.len()).map(least).sum();
    let mut built = Built::new(instance, least);
    for path in 0..instance.paths.len() {
        let set = &built.program.sets[path];
        let linear = &mut built.program.linear;
        // Shares of the amount by number of threads; without threads, nothing is carried.
        let mut carried = Vec::new();
        for choice in &set[1..] {
            let share = linear.variable(0.0, 0.0, (0.0, 1.0));
            linear.row(vec![(share, 1.0), (*choice, -1.0)], false, 0.0);
            carried.push((share, amount(path)));
        }
        built.carried.push(carried);
    }
    for (source, (_, amount)) in instance.sources.iter().enumerate() {
        let terms = built.terms(reads_of(instance, source), *amount);
        built.program.linear.row(terms, true, 1.0);
    }
    built.limit_vias(instance);
    for via in 0..instance.vias.len() {
        for read in instance.reads_at(via) {
            for send in instance.sends_at(via) {
                let longest = |path: usize| amount(path) / instance.paths[path].unit;
                let most = longest(read).max(longest(send));
                let pair = built.program.linear.variable(-most / least, 0.0, (0.0, 1.0));
                at_least(instance, &mut built, (pair, most), read, send, longest(read));
                at_least(instance, &mut built, (pair, most), send, read, longest(send));
            }
        }
    }
    built
}

/// Bounds the time of a pair by that of one of its paths, if the other is used. `longest` is the
/// longest time of that path; the pair has a variable and its unit.
fn at_least(
    instance: &Instance,
    built: &mut Built,
    pair: (usize, f64),
    path: usize,
    other: usize,
    longest: f64,
) {
    let (pair, unit) = (pair.0, pair.1 / longest);
    let mut terms = vec![(pair, -unit)];
    let times = built.carried[path]
        .iter()
        .zip(1..)
        .map(|((share, amount), threads)| (*share, amount / instance.paths[path].rate(threads) / longest));
    terms.extend(times);
    // The choice of no threads lifts the bound.
    terms.push((built.program.sets[other][0], -1.0));
    built.program.linear.row(terms, false, 0.0);
}
