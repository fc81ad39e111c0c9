//! Mixed-integer program, solved by microlp: each thread count is a choice, so that bytes over
//! threads become linear. It shares only the instance with the other method.

use super::branch_and_bound::divide;
use super::instance::{Assignment, Instance};
use super::plan_document::Solution;
use super::search::Effort;
use super::validation::PlanError;
use microlp::{ComparisonOp, OptimizationDirection, Problem, SolveOptions, SolveOutcome, Variable};
use numaio_schema::Objective;
use std::time::Instant;

/// Scale of amounts in the program for the sum: its solver has absolute tolerances.
const FINE: f64 = 1e3;
/// Relative error of the bound due to the solver's tolerances.
const SOLVER: f64 = 5e-7;

/// A program and the variables of each path.
struct Built {
    problem: Problem,
    /// Choices of a thread count, from 1.
    choices: Vec<Vec<Variable>>,
    /// Variables that add up to the path's rate or amount.
    carried: Vec<Vec<Variable>>,
}

/// Solves an instance.
pub(crate) fn mixed(instance: &Instance, effort: Effort) -> Result<Solution, PlanError> {
    let built = match instance.objective {
        Objective::Time => time(instance),
        Objective::Sum => sum(instance),
    };
    let time_limit = effort.until.map(|until| until.saturating_duration_since(Instant::now()));
    let mut options = SolveOptions::default();
    options.time_limit = time_limit;
    let outcome = match built.problem.solve_with(options) {
        Ok(outcome) => outcome,
        Err(microlp::Error::Infeasible) => return Err(PlanError::NoThreads),
        Err(error) => return Err(PlanError::Solver(error.to_string())),
    };
    match read(instance, &built, &outcome) {
        Some(solution) => Ok(solution),
        // Without a plan in time: the immediate result of the other method.
        None => divide(instance, Effort { until: Some(Instant::now()), ..effort }),
    }
}

fn read(instance: &Instance, built: &Built, outcome: &SolveOutcome) -> Option<Solution> {
    let solution = outcome.solution()?;
    let threads_of = |choices: &Vec<Variable>| {
        let chosen = choices.iter().position(|choice| solution.var_value(*choice) > 0.5);
        chosen.map_or(0, |place| place as u32 + 1)
    };
    let threads: Vec<u32> = built.choices.iter().map(threads_of).collect();
    let sum =
        |variables: &Vec<Variable>| variables.iter().map(|variable| solution.var_value(*variable)).sum();
    let carried: Vec<f64> = built.carried.iter().map(sum).collect();
    let assignment: Assignment = instance.assignment(threads, &carried)?;
    let value = instance.value(&assignment);
    let best = outcome.stats().best_bound.unwrap_or_else(|| solution.objective());
    let bound = match instance.objective {
        Objective::Time => 1.0 / best,
        Objective::Sum => best / FINE,
    };
    let bound = (bound * (1.0 - SOLVER)).clamp(f64::MIN_POSITIVE, value);
    let programs = outcome.stats().nodes_solved;
    Some(Solution { assignment, value, bound, programs })
}

/// Adds the choices of a path's threads, at most one of which is taken.
fn choices(problem: &mut Problem, most: u32) -> Vec<Variable> {
    let choices: Vec<Variable> = (0..most).map(|_| problem.add_binary_var(0.0)).collect();
    let one: Vec<(Variable, f64)> = choices.iter().map(|choice| (*choice, 1.0)).collect();
    problem.add_constraint(one, ComparisonOp::Le, 1.0);
    choices
}

/// Limits the threads of each node.
fn limit_threads(instance: &Instance, built: &mut Built) {
    for (via, (_, threads)) in instance.vias.iter().enumerate() {
        let paths = instance.reads_at(via).chain(instance.sends_at(via));
        let counts = paths.flat_map(|path| {
            built.choices[path].iter().enumerate().map(|(place, choice)| (*choice, place as f64 + 1.0))
        });
        let counts: Vec<(Variable, f64)> = counts.collect();
        built.problem.add_constraint(counts, ComparisonOp::Le, f64::from(*threads));
    }
}

/// Balances the input and output of each via.
fn conserve(instance: &Instance, built: &mut Built) {
    for via in 0..instance.vias.len() {
        let all =
            |path: usize, factor: f64| built.carried[path].iter().map(move |variable| (*variable, factor));
        let comes = instance.reads_at(via).flat_map(|path| all(path, 1.0));
        let goes = instance.sends_at(via).flat_map(|path| all(path, -1.0));
        let terms: Vec<(Variable, f64)> = comes.chain(goes).collect();
        built.problem.add_constraint(terms, ComparisonOp::Eq, 0.0);
    }
}

/// Builds the program for the greatest rate at which all data moves; its inverse is the least time.
fn time(instance: &Instance) -> Built {
    let mut problem = Problem::new(OptimizationDirection::Maximize);
    let most = if instance.floor > 0.0 { 1.0 / instance.floor } else { f64::INFINITY };
    let rate = problem.add_var(1.0, (0.0, most));
    let mut built = Built { problem, choices: Vec::new(), carried: Vec::new() };
    for path in &instance.paths {
        let own = choices(&mut built.problem, path.most_threads);
        let carried = built.problem.add_var(0.0, (0.0, path.rate(path.most_threads)));
        let mut terms = vec![(carried, 1.0)];
        terms.extend(own.iter().zip(1..).map(|(choice, threads)| (*choice, -path.rate(threads))));
        built.problem.add_constraint(terms, ComparisonOp::Le, 0.0);
        built.choices.push(own);
        built.carried.push(vec![carried]);
    }
    for (source, (_, amount)) in instance.sources.iter().enumerate() {
        let paths = (0..instance.reads).filter(|path| instance.paths[*path].end == source);
        let mut terms: Vec<(Variable, f64)> = paths.map(|path| (built.carried[path][0], 1.0)).collect();
        terms.push((rate, -amount));
        built.problem.add_constraint(terms, ComparisonOp::Eq, 0.0);
    }
    for limit in &instance.limits {
        let terms: Vec<(Variable, f64)> =
            limit.paths.iter().map(|path| (built.carried[*path][0], 1.0)).collect();
        built.problem.add_constraint(terms, ComparisonOp::Le, limit.rate);
    }
    conserve(instance, &mut built);
    limit_threads(instance, &mut built);
    built
}

/// Builds the program for the least printed sum over every pair of paths into and out of a node.
fn sum(instance: &Instance) -> Built {
    let problem = Problem::new(OptimizationDirection::Minimize);
    let mut built = Built { problem, choices: Vec::new(), carried: Vec::new() };
    for (number, path) in instance.paths.iter().enumerate() {
        let most = if number < instance.reads { instance.sources[path.end].1 } else { 1.0 } * FINE;
        let own = choices(&mut built.problem, path.most_threads);
        let carried: Vec<Variable> = own.iter().map(|_| built.problem.add_var(0.0, (0.0, most))).collect();
        for (choice, carried) in own.iter().zip(&carried) {
            built.problem.add_constraint([(*carried, 1.0), (*choice, -most)], ComparisonOp::Le, 0.0);
        }
        built.choices.push(own);
        built.carried.push(carried);
    }
    for (source, (_, amount)) in instance.sources.iter().enumerate() {
        let paths = (0..instance.reads).filter(|path| instance.paths[*path].end == source);
        let terms = paths.flat_map(|path| built.carried[path].iter().map(|variable| (*variable, 1.0)));
        let terms: Vec<(Variable, f64)> = terms.collect();
        built.problem.add_constraint(terms, ComparisonOp::Eq, amount * FINE);
    }
    conserve(instance, &mut built);
    limit_threads(instance, &mut built);
    for via in 0..instance.vias.len() {
        for read in instance.reads_at(via) {
            for send in instance.sends_at(via) {
                let most = instance.sources[instance.paths[read].end].1 / instance.paths[read].unit;
                let pair = built.problem.add_var(1.0, (0.0, f64::INFINITY));
                at_least(instance, &mut built, pair, read, send, most * FINE);
                at_least(instance, &mut built, pair, send, read, FINE / instance.paths[send].unit);
            }
        }
    }
    built
}

/// Bounds the time of a pair by that of one of its paths, if the other is used. `most` is the
/// longest time of that path.
fn at_least(instance: &Instance, built: &mut Built, pair: Variable, path: usize, other: usize, most: f64) {
    let mut terms = vec![(pair, -1.0)];
    let times = built.carried[path]
        .iter()
        .zip(1..)
        .map(|(carried, threads)| (*carried, 1.0 / instance.paths[path].rate(threads)));
    terms.extend(times);
    terms.extend(built.choices[other].iter().map(|choice| (*choice, most)));
    built.problem.add_constraint(terms, ComparisonOp::Le, most);
}
