//! Pure arithmetic on readings: bandwidth classes of nodes, after Li et al. (ICPP 2013).
//!
//! Everything here is exact and deterministic: the same record gives the same model, to the bit.

mod classes;
mod fit;
mod interleave;

pub use classes::{classify, Point};
pub use fit::{fit, refit, Rule};
pub use interleave::interleave_weights;
