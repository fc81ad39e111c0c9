//! The figures of a group of hosts, ready for comparison.

use super::deviations::{families, scopes, Comparison};
use super::table::{own_past, GroupTables, Table, Times, LEAST_HOSTS};
use numaio_schema::{CheckOptions, ComparedWith, FigureKey, FleetData};

/// The figures of a group, ready for comparison.
pub(super) struct GroupFigures {
    /// Index of the key of each row.
    pub keys: Vec<u32>,
    /// Index of the newest figure of each cell; `u32::MAX` without one.
    pub figures: Vec<u32>,
    /// Number of past values of each cell; empty without any.
    pub past: Vec<u16>,
    /// The newest figures, compared with the group.
    pub newest: Option<Comparison>,
    /// The moves from each host's past, compared with those of the group.
    pub moves: Option<Comparison>,
    /// In groups of too few hosts: the newest figures of each host, compared with its own past. The
    /// last column is the newest.
    pub alone: Vec<Option<Comparison>>,
}

impl GroupFigures {
    /// Returns the index of a cell in `figures` and `past`.
    pub fn cell(&self, row: usize, column: usize) -> usize {
        column * self.keys.len() + row
    }

    /// Prepares the comparisons of a group; `references` states which hosts have the structure of
    /// the group.
    pub fn new(
        data: &FleetData,
        tables: GroupTables,
        references: &[bool],
        options: &CheckOptions,
        times: Times,
    ) -> Self {
        let keys: Vec<&FigureKey> = tables.keys.iter().map(|&key| &data.keys[key as usize]).collect();
        let (families, scopes) = (families(&keys), scopes(&keys));
        let columns = references.len();
        let alone = match columns < LEAST_HOSTS {
            true => own_past(data, &tables, times)
                .into_iter()
                .map(|table| {
                    let table = table?;
                    let past = (0..table.columns - 1).collect();
                    Some(Comparison::new(table, families.clone(), scopes.clone(), past, options.least))
                })
                .collect(),
            false => Vec::new(),
        };
        let GroupTables { keys, newest, figures, moves, past, .. } = tables;
        let compare = |table: Table| {
            let has_value = |column: &usize| table.column(*column).iter().any(|value| !value.is_nan());
            let all: Vec<usize> = (0..columns).filter(has_value).collect();
            let good: Vec<usize> = all.iter().copied().filter(|&column| references[column]).collect();
            // Too few hosts without a difference in structure: all of them are compared.
            let references = if good.len() >= LEAST_HOSTS { good } else { all };
            (references.len() >= LEAST_HOSTS)
                .then(|| Comparison::new(table, families.clone(), scopes.clone(), references, options.least))
        };
        Self { newest: compare(newest), moves: compare(moves), alone, keys, figures, past }
    }

    /// Returns the comparisons of a host, with the column that it has in each.
    pub fn comparisons(&self, column: usize) -> impl Iterator<Item = (ComparedWith, &Comparison, usize)> {
        let newest = self.newest.iter().map(move |it| (ComparedWith::Group, it, column));
        let moves = self.moves.iter().map(move |it| (ComparedWith::Past, it, column));
        let alone = self.alone.get(column).into_iter().flatten();
        let alone = alone.map(|it| (ComparedWith::Past, it, it.table().columns - 1));
        newest.chain(moves).chain(alone)
    }
}
