//! A small linear programme, solved by the dual simplex method with bounded variables on a dense tableau.
//!
//! Planning solves many programmes that differ in bounds alone, of some tens of rows: after a bound has moved, the
//! last basis still satisfies the optimality conditions, and a few pivots mend it (Koberstein, *The Dual Simplex
//! Method*, 2005; the ratio test passes over variables that may as well flip to their other bound, ibid. 3.4).
//! All variables have two finite bounds, so the basis of slacks is always a place to start from.

/// Violation of a bound that is none. Programmes are scaled so that figures are near 1.
const FEASIBLE: f64 = 1e-9;
/// Reduced gain that is none.
const EQUAL: f64 = 1e-14;
/// Smallest element to pivot on.
const PIVOT: f64 = 1e-8;

/// Maximise `gain · x` where rows hold and every variable stays within its bounds.
#[derive(Debug, Clone, Default)]
pub struct Programme {
    /// Gain of each variable.
    pub gain: Vec<f64>,
    /// Far smaller gains, that choose among points of equal gain and keep the method from turning in circles.
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
    /// Whether both sides are equal; else the left side is at most the right one.
    pub equal: bool,
    /// The right side.
    pub right: f64,
}

/// A programme in solution: a basis that meets the optimality conditions, at all times.
#[derive(Debug, Clone)]
pub struct Tableau {
    columns: usize,
    /// Factors of nonbasic variables, row by row.
    table: Vec<f64>,
    /// Variable of each row; a number from `columns` on is a slack.
    basic: Vec<usize>,
    /// Its value.
    value: Vec<f64>,
    /// Variable of each column.
    nonbasic: Vec<usize>,
    /// Whether it stands at its upper bound.
    high: Vec<bool>,
    /// Its reduced gain.
    reduced: Vec<f64>,
    /// Bounds of variables, then of slacks.
    bounds: Vec<(f64, f64)>,
    /// Gain at the present point, ties included.
    gain: f64,
    /// Pivots since the start.
    pub pivots: u64,
}

/// How a solution ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The best point is found.
    Best,
    /// The bound fell below the value that was of interest.
    Cut,
    /// There is no point.
    Empty,
    /// It was given up, as rounding errors grew; the bound still holds.
    Lost,
}

impl Programme {
    /// Adds a variable with its gain and what it counts among equals, and says its number.
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

    /// The basis of slacks.
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

    /// An upper bound on the gain within the tableau's bounds, by weak duality: whatever errors the tableau has
    /// gathered, it holds up to the rounding of this one sum.
    pub fn bound(&self, tableau: &Tableau) -> f64 {
        let prices = tableau.prices();
        let mut reduced = self.gain.clone();
        let mut bound = 0.0;
        for (row, price) in self.rows.iter().zip(&prices) {
            // The price of an inequality may not be negative; a rounding error that is costs nothing to drop.
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
    /// Moves the bounds of a variable. Call [`Tableau::recompute`] after the last one.
    pub fn set_bounds(&mut self, variable: usize, bounds: (f64, f64)) {
        self.bounds[variable] = bounds;
    }

    /// Values of all variables.
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

    /// Price of each row.
    pub fn prices(&self) -> Vec<f64> {
        let mut prices = vec![0.0; self.basic.len()];
        for (variable, reduced) in self.nonbasic.iter().zip(&self.reduced) {
            if *variable >= self.columns {
                prices[*variable - self.columns] = -reduced;
            }
        }
        prices
    }

    /// Reckons values and gain from the bounds at which nonbasic variables stand.
    pub fn recompute(&mut self, programme: &Programme) {
        for column in 0..self.columns {
            let (_, upper) = self.bounds[self.nonbasic[column]];
            let gains = self.reduced[column];
            let stays = gains.abs() < EQUAL && self.high[column];
            self.high[column] = upper.is_finite() && (gains >= EQUAL || stays);
        }
        let slacks = self.columns;
        let mut right = vec![0.0; self.basic.len()];
        for (row, line) in self.table.chunks(self.columns.max(1)).enumerate() {
            // B^-1 is the part of the table under the slacks; a slack that is basic is a unit column.
            for (factor, variable) in line.iter().zip(&self.nonbasic) {
                if *variable >= slacks {
                    right[row] += factor * programme.rows[*variable - slacks].right;
                }
            }
            if self.basic[row] >= slacks {
                right[row] += programme.rows[self.basic[row] - slacks].right;
            }
        }
        self.fill(programme, right);
    }

    fn fill(&mut self, programme: &Programme, right: Vec<f64>) {
        let at: Vec<f64> = (0..self.columns).map(|column| self.at(column)).collect();
        for (row, line) in self.table.chunks(self.columns.max(1)).enumerate() {
            self.value[row] = right[row] - line.iter().zip(&at).map(|(factor, at)| factor * at).sum::<f64>();
        }
        let gain = |variable: usize| match programme.gain.get(variable) {
            Some(gain) => gain + programme.tie[variable],
            None => 0.0,
        };
        let of_basic = self.basic.iter().zip(&self.value).map(|(variable, value)| gain(*variable) * value);
        let of_others = self.nonbasic.iter().zip(&at).map(|(variable, at)| gain(*variable) * at);
        self.gain = of_basic.sum::<f64>() + of_others.sum::<f64>();
    }

    /// Pivots until the best point is found, or the gain is known to be at most `cut`.
    pub fn solve(&mut self, programme: &Programme, cut: f64) -> End {
        let most = self.pivots + 200 + 20 * (self.columns + self.basic.len()) as u64;
        let mut passed = Vec::new();
        while self.pivots < most {
            let Some((row, short)) = self.leaving() else { return End::Best };
            if self.gain <= cut && programme.bound(self) <= cut {
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

    /// The row that breaks its bound most, and by how much: negative below the lower one.
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

    /// The column that enters for a row, by the ratio test; `passed` becomes the columns to flip before.
    fn entering(&self, row: usize, excess: f64, passed: &mut Vec<usize>) -> Option<usize> {
        passed.clear();
        let line = &self.table[row * self.columns..(row + 1) * self.columns];
        let mut ratios: Vec<(f64, usize)> = Vec::with_capacity(32);
        for (column, factor) in line.iter().enumerate() {
            let (low, high) = self.bounds[self.nonbasic[column]];
            // What grows must lower the basic variable if that is too high, and so on.
            let helps = if self.high[column] { -factor } else { *factor };
            if helps * excess > 0.0 && factor.abs() > PIVOT && high > low {
                ratios.push((self.reduced[column].abs() / factor.abs(), column));
            }
        }
        let mut left = excess.abs();
        while !ratios.is_empty() {
            // Among nearly equal ratios the largest element is the safest.
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

    /// Sends columns to their other bound.
    fn flip(&mut self, columns: &[usize]) {
        for &column in columns {
            let (low, high) = self.bounds[self.nonbasic[column]];
            let step = if self.high[column] { low - high } else { high - low };
            self.high[column] = !self.high[column];
            self.step(column, step);
        }
    }

    /// Moves a nonbasic variable by a step.
    fn step(&mut self, column: usize, step: f64) {
        for row in 0..self.basic.len() {
            self.value[row] -= self.table[row * self.columns + column] * step;
        }
        self.gain += self.reduced[column] * step;
    }

    /// Takes the column's variable into the basis and the row's out of it, to the bound that it breaks.
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
        let subtract = |target: &mut [f64]| {
            let factor = std::mem::replace(&mut target[column], 0.0);
            if factor != 0.0 {
                for (value, step) in target.iter_mut().zip(&line) {
                    *value -= factor * step;
                }
            }
        };
        self.table
            .chunks_mut(columns)
            .enumerate()
            .filter(|(other, _)| *other != row)
            .for_each(|(_, it)| subtract(it));
        subtract(&mut self.reduced);
        self.table[row * columns..(row + 1) * columns].copy_from_slice(&line);
    }
}
