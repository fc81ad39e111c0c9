//! Compares what numaio expects of a device on each node with published measurements.
//!
//! A set is one JSON file: a machine, a device, its I/O by node, and a matrix of the machine's
//! memory bandwidth if there is one (`data/README.md`). As on a real machine, one node of a device
//! is measured, its own, and numaio expects the others from the copies between the nodes.

mod comparison;
mod count;
mod engine;
mod expected;
#[cfg(test)]
mod interleave;
mod machine;
mod read;
mod report;
mod set;
mod text;
mod units;

pub use comparison::{Comparison, DeviceComparison, RowComparison, SetComparison};
pub use count::Count;
pub use read::{FieldError, SetError};
pub use report::{compare_folder, format_comparison};
pub use set::{MemoryMatrix, PublishedRow, PublishedSet, RowDirection};
