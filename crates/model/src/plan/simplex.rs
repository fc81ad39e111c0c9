//! Small linear programs, solved by the dual simplex method with bounded variables on a dense
//! tableau.
//!
//! Planning solves many programs with some tens of rows that differ only in bounds: after a change
//! of a bound, the last basis still satisfies the optimality conditions, and a few pivots restore
//! feasibility (Koberstein, *The Dual Simplex Method*, 2005; the ratio test skips variables that
//! can flip to their other bound, ibid. 3.4). All variables have finite bounds, so the basis of
//! slacks is always a valid start.

/// Tolerated violation of a bound. Programs are scaled so that values are near 1.
const FEASIBLE: f64 = 1e-9;
/// Reduced gain that counts as 0.
const EQUAL: f64 = 1e-14;
/// Smallest element to pivot on.
const PIVOT: f64 = 1e-8;

/// Maximizes `gain · x` such that all rows hold and every variable is within its bounds.
#[derive(Debug, Clone, Default)]
pub struct LinearProgram {
    /// Gain of each variable.
    pub gain: Vec<f64>,
    /// Much smaller gains that break ties and prevent cycling.
    pub tie: Vec<f64>,
    /// Bounds of each variable, both finite.
    pub bounds: Vec<(f64, f64)>,
    /// Rows.
    pub rows: Vec<Row>,
}

/// One constraint.
#[derive(Debug, Clone)]
pub struct Row {
    /// Variables and their factors, each variable once.
    pub terms: Vec<(usize, f64)>,
    /// Whether the row is an equality; otherwise the left side is at most the right side.
    pub equal: bool,
    /// Right side.
    pub right: f64,
}

/// State of a solution: a basis that satisfies the optimality conditions at all times.
#[derive(Debug, Clone)]
pub struct Tableau {
    columns: usize,
    /// Factors of nonbasic variables, row by row.
    table: Vec<f64>,
    /// Variable of each row; numbers from `columns` are slacks.
    basic: Vec<usize>,
    /// Value of each basic variable if all nonbasic variables are 0.
    right: Vec<f64>,
    /// Value of each basic variable.
    value: Vec<f64>,
    /// Variable of each column.
    nonbasic: Vec<usize>,
    /// Whether the column's variable is at its upper bound.
    high: Vec<bool>,
    /// Reduced gain of each column.
    reduced: Vec<f64>,
    /// Bounds of variables, then of slacks.
    bounds: Vec<(f64, f64)>,
    /// Gain at the current point, ties included.
    gain: f64,
    /// Pivots since the start.
    pub pivots: u64,
}

/// Outcome of solving a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The optimum was found.
    Best,
    /// The bound fell below the cutoff.
    Cut,
    /// The program is infeasible.
    Empty,
    /// Abandoned because of rounding errors; the bound still holds.
    Lost,
}

impl LinearProgram {
    /// Adds a variable with its gain and tie-breaking gain, and returns its number.
    pub fn variable(&mut self, gain: f64, tie: f64, bounds: (f64, f64)) -> usize {
        self.gain.push(gain);
        self.tie.push(tie);
        self.bounds.push(bounds);
        self.gain.len() - 1
    }

    /// Adds a row.
    pub fn row(&mut self, terms: Vec<(usize, f64)>, equal: bool, right: f64) {
        self.rows.push(Row { terms, equal, right });
    }

    /// Returns the basis of slacks.
    pub fn start(&self) -> Tableau {
        let columns = self.gain.len();
        let mut table = vec![0.0; columns * self.rows.len()];
        for (row, line) in self.rows.iter().zip(table.chunks_mut(columns.max(1))) {
            for (variable, factor) in &row.terms {
                line[*variable] += factor;
            }
        }
        let slack = |row: &Row| (0.0, if row.equal { 0.0 } else { f64::INFINITY });
        let mut tableau = Tableau {
            columns,
            table,
            basic: (columns..columns + self.rows.len()).collect(),
            right: self.rows.iter().map(|row| row.right).collect(),
            value: vec![0.0; self.rows.len()],
            nonbasic: (0..columns).collect(),
            high: vec![false; columns],
            reduced: self.gain.iter().zip(&self.tie).map(|(gain, tie)| gain + tie).collect(),
            bounds: self.bounds.iter().copied().chain(self.rows.iter().map(slack)).collect(),
            gain: 0.0,
            pivots: 0,
        };
        tableau.recompute(self);
        tableau
    }

    /// Returns an upper bound on the gain within the tableau's bounds, by weak duality. It holds
    /// regardless of the tableau's errors, up to the rounding of this sum.
    pub fn bound(&self, tableau: &Tableau) -> f64 {
        let prices = tableau.prices();
        let mut reduced = self.gain.clone();
        let mut bound = 0.0;
        for (row, price) in self.rows.iter().zip(&prices) {
            // The price of an inequality must not be negative; dropping rounding errors is valid.
            let price = if row.equal { *price } else { price.max(0.0) };
            bound += price * row.right;
            for (variable, factor) in &row.terms {
                reduced[*variable] -= price * factor;
            }
        }
        let at_best = |(gain, (low, high)): (&f64, &(f64, f64))| (gain * low).max(gain * high);
        bound + reduced.iter().zip(&tableau.bounds).map(at_best).sum::<f64>()
    }
}

impl Tableau {
    /// Changes the bounds of a variable. Call [`Tableau::recompute`] after the last change.
    pub fn set_bounds(&mut self, variable: usize, bounds: (f64, f64)) {
        self.bounds[variable] = bounds;
    }

    /// Returns the values of all variables.
    pub fn point(&self) -> Vec<f64> {
        let mut point = vec![0.0; self.columns];
        for column in 0..self.columns {
            if self.nonbasic[column] < self.columns {
                point[self.nonbasic[column]] = self.at(column);
            }
        }
        for (variable, value) in self.basic.iter().zip(&self.value) {
            if *variable < self.columns {
                let (low, high) = self.bounds[*variable];
                point[*variable] = value.clamp(low, high);
            }
        }
        point
    }

    /// Returns the price of each row.
    pub fn prices(&self) -> Vec<f64> {
        let mut prices = vec![0.0; self.basic.len()];
        for (variable, reduced) in self.nonbasic.iter().zip(&self.reduced) {
            if *variable >= self.columns {
                prices[*variable - self.columns] = -reduced;
            }
        }
        prices
    }

    /// Recomputes values and gain from the bounds of nonbasic variables.
    pub fn recompute(&mut self, program: &LinearProgram) {
        for column in 0..self.columns {
            let (_, upper) = self.bounds[self.nonbasic[column]];
            let gains = self.reduced[column];
            let stays = gains.abs() < EQUAL && self.high[column];
            self.high[column] = upper.is_finite() && (gains >= EQUAL || stays);
        }
        let at: Vec<f64> = (0..self.columns).map(|column| self.at(column)).collect();
        for (row, line) in self.table.chunks(self.columns.max(1)).enumerate() {
            self.value[row] =
                self.right[row] - line.iter().zip(&at).map(|(factor, at)| factor * at).sum::<f64>();
        }
        let gain = |variable: usize| match program.gain.get(variable) {
            Some(gain) => gain + program.tie[variable],
            None => 0.0,
        };
        let of_basic = self.basic.iter().zip(&self.value).map(|(variable, value)| gain(*variable) * value);
        let of_others = self.nonbasic.iter().zip(&at).map(|(variable, at)| gain(*variable) * at);
        self.gain = of_basic.sum::<f64>() + of_others.sum::<f64>();
    }

    /// Pivots until the optimum is found or the gain is known to be at most `cut`.
    pub fn solve(&mut self, program: &LinearProgram, cut: f64) -> End {
        let most = self.pivots + 200 + 20 * (self.columns + self.basic.len()) as u64;
        let mut passed = Vec::new();
        while self.pivots < most {
            let Some((row, short)) = self.leaving() else { return End::Best };
            if self.gain <= cut && program.bound(self) <= cut {
                return End::Cut;
            }
            let Some(column) = self.entering(row, short, &mut passed) else { return End::Empty };
            if self.table[row * self.columns + column].abs() < PIVOT {
                return End::Lost;
            }
            self.flip(&passed);
            self.pivot(row, column, short);
        }
        End::Lost
    }

    fn at(&self, column: usize) -> f64 {
        let (low, high) = self.bounds[self.nonbasic[column]];
        if self.high[column] {
            high
        } else {
            low
        }
    }

    /// Returns the row with the largest violation, and the violation: negative below the lower
    /// bound.
    fn leaving(&self) -> Option<(usize, f64)> {
        let mut worst = (FEASIBLE, None);
        for (row, (variable, value)) in self.basic.iter().zip(&self.value).enumerate() {
            let (low, high) = self.bounds[*variable];
            let excess = if *value < low { value - low } else { (value - high).max(0.0) };
            if excess.abs() > worst.0 {
                worst = (excess.abs(), Some((row, excess)));
            }
        }
        worst.1
    }

    /// Returns the entering column for a row, by the ratio test; `passed` receives the columns to
    /// flip.
    fn entering(&self, row: usize, excess: f64, passed: &mut Vec<usize>) -> Option<usize> {
        passed.clear();
        let line = &self.table[row * self.columns..(row + 1) * self.columns];
        let mut ratios: Vec<(f64, usize)> = Vec::with_capacity(32);
        for (column, factor) in line.iter().enumerate() {
            let (low, high) = self.bounds[self.nonbasic[column]];
            // An increase must lower the basic variable if that is too high, and so on.
            let helps = if self.high[column] { -factor } else { *factor };
            if helps * excess > 0.0 && factor.abs() > PIVOT && high > low {
                ratios.push((self.reduced[column].abs() / factor.abs(), column));
            }
        }
        let mut left = excess.abs();
        while !ratios.is_empty() {
            // Among nearly equal ratios the largest element is numerically safest.
            let least = ratios.iter().map(|(ratio, _)| *ratio).fold(f64::INFINITY, f64::min);
            let near = |(ratio, _): &&(f64, usize)| *ratio <= least + 1e-12;
            let size = |column: usize| line[column].abs();
            let chosen =
                ratios.iter().filter(near).max_by(|a, b| size(a.1).total_cmp(&size(b.1)).then(b.1.cmp(&a.1)));
            let column = chosen.map_or(0, |(_, column)| *column);
            let (low, high) = self.bounds[self.nonbasic[column]];
            left -= size(column) * (high - low);
            if left <= 0.0 || ratios.len() == 1 {
                return (left <= FEASIBLE || high == f64::INFINITY).then_some(column);
            }
            passed.push(column);
            ratios.retain(|(_, other)| *other != column);
        }
        None
    }

    /// Flips columns to their other bound.
    fn flip(&mut self, columns: &[usize]) {
        for &column in columns {
            let (low, high) = self.bounds[self.nonbasic[column]];
            let step = if self.high[column] { low - high } else { high - low };
            self.high[column] = !self.high[column];
            self.step(column, step);
        }
    }

    /// Changes a nonbasic variable by a step.
    fn step(&mut self, column: usize, step: f64) {
        for row in 0..self.basic.len() {
            self.value[row] -= self.table[row * self.columns + column] * step;
        }
        self.gain += self.reduced[column] * step;
    }

    /// Exchanges the column's variable with the row's, which moves to the bound that it violates.
    fn pivot(&mut self, row: usize, column: usize, excess: f64) {
        let (low, high) = self.bounds[self.basic[row]];
        let bound = if excess < 0.0 { low } else { high };
        let element = self.table[row * self.columns + column];
        let step = (self.value[row] - bound) / element;
        let entered = self.at(column) + step;
        self.step(column, step);
        self.value[row] = entered;
        self.high[column] = excess > 0.0;
        std::mem::swap(&mut self.basic[row], &mut self.nonbasic[column]);
        self.exchange(row, column, element);
        self.pivots += 1;
    }

    fn exchange(&mut self, row: usize, column: usize, element: f64) {
        let columns = self.columns;
        let mut line: Vec<f64> = self.table[row * columns..(row + 1) * columns].to_vec();
        for factor in &mut line {
            *factor /= element;
        }
        line[column] = 1.0 / element;
        self.right[row] /= element;
        let right = self.right[row];
        let subtract = |target: &mut [f64]| {
            let factor = std::mem::replace(&mut target[column], 0.0);
            if factor != 0.0 {
                for (value, step) in target.iter_mut().zip(&line) {
                    *value -= factor * step;
                }
            }
            factor
        };
        for (other, target) in self.table.chunks_mut(columns).enumerate().filter(|(other, _)| *other != row) {
            self.right[other] -= subtract(target) * right;
        }
        subtract(&mut self.reduced);
        self.table[row * columns..(row + 1) * columns].copy_from_slice(&line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use microlp::{ComparisonOp, OptimizationDirection, Problem};
    use proptest::prelude::*;

    fn solved(program: &LinearProgram) -> (End, f64, Tableau) {
        let mut tableau = program.start();
        let end = tableau.solve(program, f64::NEG_INFINITY);
        (end, program.bound(&tableau), tableau)
    }

    /// Computed by hand: 3a + 2b, a + b <= 4, a + 3b <= 6, a <= 3: a = 3, b = 1.
    #[test]
    fn solves_a_program_of_two_variables() {
        let mut program = LinearProgram::default();
        let (a, b) = (program.variable(3.0, 0.0, (0.0, 3.0)), program.variable(2.0, 0.0, (0.0, 9.0)));
        program.row(vec![(a, 1.0), (b, 1.0)], false, 4.0);
        program.row(vec![(a, 1.0), (b, 3.0)], false, 6.0);
        let (end, bound, mut tableau) = solved(&program);
        assert_eq!((end, bound, tableau.point()), (End::Best, 11.0, vec![3.0, 1.0]));
        // A changed bound is handled from the last basis.
        tableau.set_bounds(a, (0.0, 1.0));
        tableau.recompute(&program);
        assert_eq!(tableau.solve(&program, 0.0), End::Best);
        assert!((program.bound(&tableau) - (3.0 + 10.0 / 3.0)).abs() < 1e-12);
        assert_eq!(tableau.solve(&program, 100.0), End::Best);
        tableau.set_bounds(b, (3.0, 9.0));
        tableau.recompute(&program);
        assert_eq!(tableau.solve(&program, f64::NEG_INFINITY), End::Empty);
    }

    fn programs() -> impl Strategy<Value = (LinearProgram, Vec<(f64, f64)>)> {
        let row = (prop::collection::vec(-2i32..4, 6), any::<bool>(), 0i32..12);
        let variable = || (-3i32..6, 0i32..3, 0i32..6);
        let all = (prop::collection::vec(row, 1..6), prop::collection::vec((variable(), variable()), 6));
        all.prop_map(|(rows, variables)| {
            let mut program = LinearProgram::default();
            let bounds = |(_, low, wide): (i32, i32, i32)| (f64::from(low), f64::from(low + wide));
            for (first, _) in &variables {
                program.variable(f64::from(first.0), 0.0, bounds(*first));
            }
            for (factors, equal, right) in rows {
                let terms =
                    factors.into_iter().enumerate().map(|(variable, factor)| (variable, f64::from(factor)));
                program.row(terms.collect(), equal, f64::from(right));
            }
            (program, variables.into_iter().map(|(_, second)| bounds(second)).collect())
        })
    }

    /// Returns microlp's optimum of a program with other bounds, or `None` if it is infeasible.
    fn witness(program: &LinearProgram, bounds: &[(f64, f64)]) -> Option<f64> {
        let mut problem = Problem::new(OptimizationDirection::Maximize);
        let variables: Vec<_> =
            program.gain.iter().zip(bounds).map(|(gain, bounds)| problem.add_var(*gain, *bounds)).collect();
        for row in &program.rows {
            let terms: Vec<_> =
                row.terms.iter().map(|(variable, factor)| (variables[*variable], *factor)).collect();
            let relation = if row.equal { ComparisonOp::Eq } else { ComparisonOp::Le };
            problem.add_constraint(terms, relation, row.right);
        }
        Some(problem.solve().ok()?.into_solution().ok()?.objective())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

        /// From the start, and again after changing all bounds, the optimum equals microlp's.
        #[test]
        fn agrees_with_another_solver((program, moved) in programs()) {
            let (end, bound, mut tableau) = solved(&program);
            let agrees = |end: End, bound: f64, other: Option<f64>| match other {
                Some(gain) => end == End::Best && (bound - gain).abs() < 1e-6,
                None => end == End::Empty,
            };
            let other = witness(&program, &program.bounds);
            prop_assert!(agrees(end, bound, other), "{end:?} {bound} {other:?}");
            for (variable, bounds) in moved.iter().enumerate() {
                tableau.set_bounds(variable, *bounds);
            }
            tableau.recompute(&program);
            let (end, other) = (tableau.solve(&program, f64::NEG_INFINITY), witness(&program, &moved));
            prop_assert!(agrees(end, program.bound(&tableau), other), "{end:?} {other:?}");
        }
    }
}
