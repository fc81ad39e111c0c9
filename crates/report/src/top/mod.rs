//! Snapshots of a running machine as text, and the cells of a live view.

mod cells;
mod columns;
mod explanation;
mod text;

pub use cells::{device_cells, format_rate, node_cells, pressure_line, program_cells, transfer_cells};
pub use columns::{
    fit_columns, FittedColumn, TopColumn, DEVICE_COLUMNS, NODE_COLUMNS, PROGRAM_COLUMNS, TRANSFER_COLUMNS,
};
pub use explanation::program_explanation;
pub use text::top_text;

#[cfg(test)]
mod tests;
