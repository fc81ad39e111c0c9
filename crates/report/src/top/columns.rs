//! Columns of the tables of a snapshot, and the selection of those that fit.

/// A column of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopColumn {
    /// The title.
    pub title: &'static str,
    /// Whether cells are aligned to the right.
    pub is_right: bool,
    /// Smallest width.
    pub width: usize,
    /// Columns of lower values are shown first if not all fit; 0 is always shown.
    pub rank: u8,
    /// Whether the column grows if there is space.
    pub grows: bool,
}

/// A column with its width on the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FittedColumn {
    /// Index of the column.
    pub index: usize,
    /// Its width.
    pub width: usize,
}

/// Blanks between columns.
const GAP: usize = 1;
/// Largest width of a column that grows.
const WIDEST: usize = 32;

const fn column(title: &'static str, width: usize, rank: u8) -> TopColumn {
    TopColumn { title, is_right: true, width, rank, grows: false }
}

const fn text_column(title: &'static str, width: usize, rank: u8) -> TopColumn {
    TopColumn { title, is_right: false, width, rank, grows: false }
}

const fn wide_column(title: &'static str, width: usize, rank: u8) -> TopColumn {
    TopColumn { title, is_right: false, width, rank, grows: true }
}

/// Columns of nodes.
pub const NODE_COLUMNS: [TopColumn; 8] = [
    column("NODE", 4, 0),
    column("CPUS", 4, 3),
    column("BUSY", 6, 0),
    column("MEMORY", 9, 2),
    column("FREE", 9, 0),
    column("CACHE", 9, 5),
    column("TRAFFIC", 10, 4),
    column("DEVICES", 10, 1),
];

/// Columns of devices.
pub const DEVICE_COLUMNS: [TopColumn; 5] = [
    wide_column("DEVICE", 10, 0),
    text_column("KIND", 12, 3),
    column("NODE", 4, 0),
    column("READ", 10, 1),
    column("WRITE", 10, 2),
];

/// Columns of programs.
pub const PROGRAM_COLUMNS: [TopColumn; 10] = [
    column("PID", 7, 0),
    wide_column("PROGRAM", 12, 0),
    column("CPUS", 5, 0),
    text_column("RUNS ON", 12, 3),
    column("MEMORY", 9, 5),
    text_column("MEMORY ON", 12, 4),
    column("REMOTE", 6, 1),
    column("I/O", 10, 2),
    wide_column("DEVICES", 12, 6),
    wide_column("BALANCE", 16, 7),
];

/// Columns of transfers.
pub const TRANSFER_COLUMNS: [TopColumn; 7] = [
    text_column("FROM", 7, 3),
    text_column("USER", 8, 4),
    wide_column("TRANSFER", 12, 0),
    text_column("STATE", 12, 1),
    column("RATE", 10, 2),
    column("DATA", 9, 5),
    wide_column("USES", 12, 6),
];

/// Selects the columns that fit a width, and distributes the remaining width among those that grow.
pub fn fit_columns(columns: &[TopColumn], width: usize) -> Vec<FittedColumn> {
    let mut by_rank: Vec<usize> = (0..columns.len()).collect();
    by_rank.sort_by_key(|index| columns[*index].rank);
    let (mut used, mut chosen) = (0, Vec::new());
    for index in by_rank {
        let needed = columns[index].width + if chosen.is_empty() { 0 } else { GAP };
        if columns[index].rank > 0 && used + needed > width {
            break;
        }
        used += needed;
        chosen.push(index);
    }
    chosen.sort_unstable();
    let mut fitted: Vec<FittedColumn> =
        chosen.into_iter().map(|index| FittedColumn { index, width: columns[index].width }).collect();
    let mut rest = width.saturating_sub(used);
    while rest > 0 {
        let growing = fitted.iter_mut().filter(|fit| columns[fit.index].grows && fit.width < WIDEST);
        let Some(narrowest) = growing.min_by_key(|fit| fit.width) else { break };
        narrowest.width += 1;
        rest -= 1;
    }
    fitted
}
