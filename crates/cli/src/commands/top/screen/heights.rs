//! Division of the screen's lines among the tables.

/// Lines for programs, with their titles, that other tables leave.
const LEAST_PROGRAMS: usize = 6;
/// Lines of an explanation.
const EXPLANATION: usize = 12;

/// Numbers of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableNeeds {
    /// Nodes.
    pub nodes: usize,
    /// Devices.
    pub devices: usize,
    /// Transfers.
    pub transfers: usize,
    /// Whether a program is explained in place of the other tables.
    pub is_explaining: bool,
}

/// Lines of each table, with its titles; 0 if it is not shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TableHeights {
    /// The explanation.
    pub explanation: usize,
    /// Nodes.
    pub nodes: usize,
    /// Devices.
    pub devices: usize,
    /// Transfers.
    pub transfers: usize,
    /// Programs.
    pub programs: usize,
}

/// Divides lines: programs get what nodes, devices and transfers leave.
pub fn allocate(lines: usize, needs: TableNeeds) -> TableHeights {
    let mut heights = TableHeights::default();
    let mut left = lines.saturating_sub(LEAST_PROGRAMS);
    if needs.is_explaining {
        heights.explanation = left.min(EXPLANATION);
        heights.programs = lines - heights.explanation;
        return heights;
    }
    // Without space for all, half of the lines are left for devices and transfers.
    let others = table(needs.devices, left) + table(needs.transfers, left);
    heights.nodes = table(needs.nodes, left.saturating_sub(others.min(left / 2)));
    left -= heights.nodes;
    heights.devices = table(needs.devices, left);
    left -= heights.devices;
    heights.transfers = table(needs.transfers, left);
    left -= heights.transfers;
    heights.programs = left + LEAST_PROGRAMS.min(lines);
    heights
}

/// Returns the lines of a table with titles: none without rows, or without space for one.
fn table(rows: usize, left: usize) -> usize {
    match rows {
        0 => 0,
        _ if left < 2 => 0,
        // A line for the number of hidden rows would leave none for a row.
        rows if left == 2 && rows > 1 => 0,
        rows => left.min(rows + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEEDS: TableNeeds = TableNeeds { nodes: 8, devices: 2, transfers: 2, is_explaining: false };

    #[test]
    fn all_lines_are_used_and_programs_keep_theirs() {
        for lines in 0..80 {
            for is_explaining in [false, true] {
                let heights = allocate(lines, TableNeeds { is_explaining, ..NEEDS });
                let others = heights.nodes + heights.devices + heights.transfers + heights.explanation;
                assert_eq!(others + heights.programs, lines, "{heights:?}");
                assert!(heights.programs >= LEAST_PROGRAMS.min(lines), "{heights:?}");
            }
        }
    }

    #[test]
    fn nodes_leave_lines_for_devices_and_transfers() {
        let of = |lines| {
            let heights = allocate(lines, NEEDS);
            (heights.nodes, heights.devices, heights.transfers, heights.programs)
        };
        assert_eq!((of(21), of(12), of(8)), ((9, 3, 3, 6), (3, 3, 0, 6), (0, 0, 0, 8)));
    }
}
