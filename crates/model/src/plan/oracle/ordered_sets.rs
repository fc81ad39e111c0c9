//! Branch and bound for linear programs with special ordered sets: variables that add up to 1, of
//! which one is taken (Beale and Tomlin, 1970).
//!
//! Each part of the search is an interval of members per set, which is nothing but bounds of
//! variables: the parent's basis is a valid start.

use crate::plan::search::{Effort, TOLERANCE};
use crate::plan::simplex::{End, LinearProgram, Tableau};
use std::rc::Rc;

/// Share of a member that counts as taken.
const TAKEN: f64 = 1.0 - 1e-7;

/// A linear program in which one member of each set is 1 and the others are 0.
#[derive(Debug, Default)]
pub(crate) struct SetProgram {
    /// The program.
    pub linear: LinearProgram,
    /// Variables of each set, in order.
    pub sets: Vec<Vec<usize>>,
}

/// Result of a search.
#[derive(Debug)]
pub(crate) struct SetOptimum<T> {
    /// The best candidate and its gain.
    pub best: Option<(f64, T)>,
    /// Upper bound of the gain of all candidates.
    pub bound: f64,
    /// Linear programs solved.
    pub programs: u64,
}

/// An open part: the first and last member of each set, and a bound on its gain.
struct Part {
    bound: f64,
    members: Vec<(usize, usize)>,
    warm: Rc<Tableau>,
}

impl SetProgram {
    /// Adds a set with one member for each tie-breaking gain, and returns its variables.
    pub fn set(&mut self, ties: impl Iterator<Item = f64>) -> &[usize] {
        let set: Vec<usize> = ties.map(|tie| self.linear.variable(0.0, tie, (0.0, 1.0))).collect();
        self.linear.row(set.iter().map(|member| (*member, 1.0)).collect(), true, 1.0);
        self.sets.push(set);
        &self.sets[self.sets.len() - 1]
    }

    /// Searches for the candidate with the greatest gain. `candidate` returns that of a point at
    /// which every set has a member, with its exact gain.
    pub fn solve<T>(&self, effort: Effort, candidate: impl Fn(&[f64]) -> Option<(f64, T)>) -> SetOptimum<T> {
        let members = self.sets.iter().map(|set| (0, set.len() - 1)).collect();
        let mut open = vec![Part { bound: f64::INFINITY, members, warm: Rc::new(self.linear.start()) }];
        let mut found = SetOptimum { best: None, bound: f64::NEG_INFINITY, programs: 0 };
        while let Some(part) = open.pop() {
            let enough = found.best.as_ref().map_or(f64::NEG_INFINITY, |(gain, _)| above(*gain));
            if part.bound <= enough {
                continue;
            }
            if found.programs > 0 && effort.late() {
                found.bound = found.bound.max(part.bound);
                continue;
            }
            found.programs += 1;
            let Some((bound, tableau)) = self.relax(&part, enough) else { continue };
            let point = tableau.point();
            if let Some((set, last)) = self.widest(&point, &part.members) {
                let halves = halves(&part.members, set, last, self.average(set, &point));
                let warm = Rc::new(tableau);
                open.extend(halves.map(|members| Part { bound, members, warm: Rc::clone(&warm) }));
                continue;
            }
            let better =
                candidate(&point).filter(|(gain, _)| found.best.as_ref().is_none_or(|(best, _)| gain > best));
            found.best = better.or(found.best);
            if found.best.as_ref().is_none_or(|(gain, _)| bound > above(*gain)) {
                found.bound = found.bound.max(bound);
            }
        }
        found.bound = found.best.as_ref().map_or(found.bound, |(gain, _)| found.bound.max(above(*gain)));
        found
    }

    /// Solves the linear program of a part, or returns `None` if its gain is at most `enough`.
    fn relax(&self, part: &Part, enough: f64) -> Option<(f64, Tableau)> {
        let mut tableau = Tableau::clone(&part.warm);
        let mut end = self.restrict_and_solve(&mut tableau, part, enough);
        if end == End::Lost {
            tableau = self.linear.start();
            end = self.restrict_and_solve(&mut tableau, part, enough);
        }
        let bound = self.linear.bound(&tableau).min(part.bound);
        (matches!(end, End::Best | End::Lost) && bound > enough).then_some((bound, tableau))
    }

    fn restrict_and_solve(&self, tableau: &mut Tableau, part: &Part, enough: f64) -> End {
        for (set, (first, last)) in self.sets.iter().zip(&part.members) {
            for (place, variable) in set.iter().enumerate() {
                let possible = (*first..=*last).contains(&place);
                tableau.set_bounds(*variable, (0.0, if possible { 1.0 } else { 0.0 }));
            }
        }
        tableau.recompute(&self.linear);
        tableau.solve(&self.linear, enough)
    }

    /// Returns the set that is divided most, and the last member of its first half; `None` if every
    /// set has taken a member.
    fn widest(&self, point: &[f64], members: &[(usize, usize)]) -> Option<(usize, usize)> {
        let mut widest = (0.0, None);
        for (number, set) in self.sets.iter().enumerate() {
            let (first, last) = members[number];
            if first == last || set.iter().any(|variable| point[*variable] >= TAKEN) {
                continue;
            }
            let average = self.average(number, point);
            let spread =
                |(place, variable): (usize, &usize)| point[*variable] * (place as f64 - average).powi(2);
            let spread: f64 = set.iter().enumerate().map(spread).sum();
            if spread > widest.0 {
                widest = (spread, Some((number, (average as usize).clamp(first, last - 1))));
            }
        }
        widest.1
    }

    fn average(&self, set: usize, point: &[f64]) -> f64 {
        self.sets[set].iter().enumerate().map(|(place, variable)| place as f64 * point[*variable]).sum()
    }
}

/// Divides a set after a member. The half nearer to the average comes last: it is explored first.
fn halves(
    members: &[(usize, usize)],
    set: usize,
    last: usize,
    average: f64,
) -> impl Iterator<Item = Vec<(usize, usize)>> {
    let (mut low, mut high) = (members.to_vec(), members.to_vec());
    low[set].1 = last;
    high[set].0 = last + 1;
    let halves = if average > last as f64 + 0.5 { [low, high] } else { [high, low] };
    halves.into_iter()
}

/// Returns the gain that a better candidate must exceed.
fn above(gain: f64) -> f64 {
    gain + gain.abs() * TOLERANCE
}

#[cfg(test)]
mod tests {
    use super::*;
    use microlp::{ComparisonOp, OptimizationDirection, Problem, Variable};
    use proptest::prelude::*;

    const SETS: usize = 4;
    const MEMBERS: usize = 3;
    const ALL: usize = SETS * MEMBERS + 2;

    /// Random programs of some sets and two more variables.
    fn programs() -> impl Strategy<Value = SetProgram> {
        let row = (prop::collection::vec(-2i32..4, ALL), any::<bool>(), 0i32..8);
        let gains = prop::collection::vec(-3i32..6, ALL);
        (prop::collection::vec(row, 1..5), gains).prop_map(|(rows, gains)| {
            let mut program = SetProgram::default();
            for _ in 0..SETS {
                program.set([0.0; MEMBERS].into_iter());
            }
            for _ in SETS * MEMBERS..ALL {
                program.linear.variable(0.0, 0.0, (0.0, 3.0));
            }
            program.linear.gain = gains.into_iter().map(f64::from).collect();
            for (factors, equal, right) in rows {
                let terms = factors.into_iter().map(f64::from).enumerate().collect();
                program.linear.row(terms, equal, f64::from(right));
            }
            program
        })
    }

    /// Returns microlp's optimum, or `None` if the program is infeasible.
    fn optimum(program: &SetProgram) -> Option<f64> {
        let mut problem = Problem::new(OptimizationDirection::Maximize);
        let variable = |(number, gain): (usize, &f64)| match number < SETS * MEMBERS {
            true => problem.add_binary_var(*gain),
            false => problem.add_var(*gain, (0.0, 3.0)),
        };
        let variables: Vec<Variable> = program.linear.gain.iter().enumerate().map(variable).collect();
        for row in &program.linear.rows {
            let terms = row.terms.iter().map(|(variable, factor)| (variables[*variable], *factor));
            let relation = if row.equal { ComparisonOp::Eq } else { ComparisonOp::Le };
            problem.add_constraint(terms.collect::<Vec<_>>(), relation, row.right);
        }
        Some(problem.solve().ok()?.into_solution().ok()?.objective())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn agrees_with_another_solver(program in programs()) {
            let gain = |point: &[f64]| {
                program.linear.gain.iter().zip(point).map(|(gain, value)| gain * value).sum::<f64>()
            };
            let found = program.solve(Effort { until: None, workers: 1 }, |point| Some((gain(point), ())));
            match (found.best, optimum(&program)) {
                (Some((gain, ())), Some(other)) => {
                    prop_assert!((gain - other).abs() < 1e-5, "{gain} {other}");
                    prop_assert!((found.bound - gain).abs() < 1e-5, "{} {gain}", found.bound);
                }
                (None, None) => prop_assert_eq!(found.bound, f64::NEG_INFINITY),
                (best, other) => prop_assert!(false, "{best:?} {other:?}"),
            }
        }
    }
}
