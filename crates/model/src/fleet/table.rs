//! Figures of a group as a table: a row for each quantity, a column for each host.

use numaio_schema::{FigureKey, FigureRow, FleetData};

/// Fewest hosts that are compared with each other.
pub(super) const LEAST_HOSTS: usize = 3;

/// Values of quantities (rows) on hosts (columns), as logarithms with the sign such that more is
/// better; NaN where a value is missing.
#[derive(Debug, Clone, Default)]
pub(super) struct Table {
    pub rows: usize,
    pub columns: usize,
    /// Column by column, because most passes are over the values of a host.
    values: Vec<f64>,
    /// Standard error of each value, from its own interval.
    errors: Vec<f32>,
}

impl Table {
    /// Creates a table without values.
    pub fn new(rows: usize, columns: usize) -> Self {
        Self { rows, columns, values: vec![f64::NAN; rows * columns], errors: vec![0.0; rows * columns] }
    }

    /// Returns the index of a cell in parallel lists.
    pub fn cell(&self, row: usize, column: usize) -> usize {
        column * self.rows + row
    }

    /// Returns the values of a column, by row.
    pub fn column(&self, column: usize) -> &[f64] {
        &self.values[column * self.rows..(column + 1) * self.rows]
    }

    /// Returns a value; NaN if it is missing.
    pub fn value(&self, row: usize, column: usize) -> f64 {
        self.values[self.cell(row, column)]
    }

    /// Returns the standard error of a value.
    pub fn error(&self, row: usize, column: usize) -> f64 {
        f64::from(self.errors[self.cell(row, column)])
    }

    /// Sets a value and its standard error.
    pub fn set(&mut self, row: usize, column: usize, value: f64, error: f64) {
        let cell = self.cell(row, column);
        (self.values[cell], self.errors[cell]) = (value, error as f32);
    }
}

/// The newest figures of a group of hosts, and how far they moved from the hosts' past.
#[derive(Debug, Default)]
pub(super) struct GroupTables {
    /// Index of the key of each row.
    pub keys: Vec<u32>,
    /// The newest values.
    pub newest: Table,
    /// Index of the newest figure of each cell; `u32::MAX` without one.
    pub figures: Vec<u32>,
    /// The newest value less the median of the host's past values.
    pub moves: Table,
    /// Number of past values of each cell; empty without any past.
    pub past: Vec<u16>,
    /// The figures of groups of few hosts, by column, key and time.
    cells: Vec<Cell>,
    /// Figures that are not positive, and so cannot be compared by ratios.
    pub not_positive: usize,
}

/// Which figures are the newest, and which are the past.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub since: Option<u64>,
    pub baseline: Option<u64>,
}

impl Times {
    /// Returns the newest figure of one host and key, and the past ones, of figures by time.
    fn split<'a>(&self, data: &FleetData, figures: &'a [Cell]) -> Option<(u32, &'a [Cell])> {
        let (newest, earlier) = figures.split_last()?;
        let time = newest.time;
        if self.since.is_some_and(|since| time < since) || self.baseline.is_some_and(|end| time <= end) {
            return None;
        }
        let end = match self.baseline {
            Some(end) => earlier.partition_point(|cell| cell.time <= end),
            None => earlier.partition_point(|cell| cell.time < time),
        };
        debug_assert!((newest.figure as usize) < data.figures.len());
        Some((newest.figure, &earlier[..end]))
    }
}

/// A figure, with what orders it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cell {
    column: u32,
    key: u32,
    time: u64,
    figure: u32,
}

/// Returns the figures of each group, given the group and the column of each host.
pub(super) fn cells_by_group(data: &FleetData, places: &[(u32, u32)], groups: usize) -> Vec<Vec<u32>> {
    let mut counts = vec![0; groups];
    let group = |figure: &FigureRow| places.get(figure.host as usize).map(|place| place.0 as usize);
    data.figures.iter().filter_map(group).for_each(|group| counts[group] += 1);
    let mut cells: Vec<Vec<u32>> = counts.into_iter().map(Vec::with_capacity).collect();
    for (index, figure) in data.figures.iter().enumerate() {
        if let Some(group) = group(figure).filter(|_| (figure.key as usize) < data.keys.len()) {
            cells[group].push(index as u32);
        }
    }
    cells
}

/// Returns the tables of a group of `columns` hosts.
pub(super) fn tables(
    data: &FleetData,
    figures: &[u32],
    places: &[(u32, u32)],
    columns: usize,
    times: Times,
) -> GroupTables {
    let cell = |&figure: &u32| {
        let row = &data.figures[figure as usize];
        Cell { key: row.key, column: places[row.host as usize].1, time: row.measured_at, figure }
    };
    let mut cells: Vec<Cell> = figures.iter().map(cell).collect();
    cells.sort_unstable();
    let mut rows: Vec<Option<usize>> = vec![None; data.keys.len()];
    cells.iter().for_each(|cell| rows[cell.key as usize] = Some(0));
    let used = rows.iter_mut().enumerate().filter(|(_, row)| row.is_some());
    let keys: Vec<u32> = used
        .zip(0..)
        .map(|((key, row), number)| {
            *row = Some(number);
            key as u32
        })
        .collect();
    let mut tables = GroupTables {
        newest: Table::new(keys.len(), columns),
        figures: vec![u32::MAX; keys.len() * columns],
        moves: Table::new(0, columns),
        keys,
        ..GroupTables::default()
    };
    for cells in cells.chunk_by(|a, b| (a.key, a.column) == (b.key, b.column)) {
        let row = rows[cells[0].key as usize];
        if let (Some(row), Some((newest, past))) = (row, times.split(data, cells)) {
            tables.fill(data, row, cells[0].column as usize, newest, past);
        }
    }
    if columns < LEAST_HOSTS {
        tables.cells = cells;
    }
    tables
}

/// Returns the past values of each host with the newest one in the last column, for hosts with at
/// least three past values; the j-th column from the right has the j-th newest value of each row.
pub(super) fn own_past(data: &FleetData, tables: &GroupTables, times: Times) -> Vec<Option<Table>> {
    let columns = tables.newest.columns;
    let mut own = vec![None; columns];
    for (column, table) in own.iter_mut().enumerate() {
        let cells = tables.cells.iter().filter(|cell| cell.column as usize == column).copied();
        let cells: Vec<Cell> = cells.collect();
        let split = |cells: &'_ [Cell]| times.split(data, cells).map_or(0, |(_, past)| past.len());
        let same = |a: &Cell, b: &Cell| a.key == b.key;
        let most = cells.chunk_by(same).map(split).max().unwrap_or(0);
        if most < LEAST_PAST {
            continue;
        }
        let filled = table.insert(Table::new(tables.keys.len(), most + 1));
        for cells in cells.chunk_by(same) {
            let Some((newest, past)) = times.split(data, cells) else { continue };
            let Ok(row) = tables.keys.binary_search(&cells[0].key) else { continue };
            let key = &data.keys[cells[0].key as usize];
            let figures = past.iter().map(|cell| cell.figure).chain([newest]).rev();
            for (at, figure) in (0..=most).rev().zip(figures) {
                if let Some((value, error)) = logarithm(key, &data.figures[figure as usize]) {
                    filled.set(row, at, value, error);
                }
            }
        }
    }
    own
}

/// Fewest past values with which a host without like hosts is compared.
const LEAST_PAST: usize = 3;

impl GroupTables {
    fn fill(&mut self, data: &FleetData, row: usize, column: usize, newest: u32, past: &[Cell]) {
        let key = &data.keys[self.keys[row] as usize];
        let Some((value, error)) = logarithm(key, &data.figures[newest as usize]) else {
            self.not_positive += 1;
            return;
        };
        self.newest.set(row, column, value, error);
        let cell = self.newest.cell(row, column);
        self.figures[cell] = newest;
        let past: Vec<f64> = past
            .iter()
            .filter_map(|cell| logarithm(key, &data.figures[cell.figure as usize]))
            .map(|(value, _)| value)
            .collect();
        if let Some(median) = numaio_schema::median(&past) {
            if self.past.is_empty() {
                self.moves = Table::new(self.keys.len(), self.newest.columns);
                self.past = vec![0; self.figures.len()];
            }
            self.moves.set(row, column, value - median, error);
            self.past[cell] = past.len().min(u16::MAX.into()) as u16;
        }
    }
}

/// Returns the logarithm of a positive value, negative if less is better, and its standard error.
fn logarithm(key: &FigureKey, figure: &FigureRow) -> Option<(f64, f64)> {
    let is_usable = figure.value > 0.0 && figure.value.is_finite();
    let value = is_usable.then(|| figure.value.ln())?;
    let (low, high) = figure.interval;
    // Half the width of a 95 % interval is 1.96 standard errors.
    let error = match low > 0.0 && high.is_finite() && high > low {
        true => (high / low).ln() / 2.0 / 1.96,
        false => 0.0,
    };
    Some((if key.more_is_better { value } else { -value }, error))
}
