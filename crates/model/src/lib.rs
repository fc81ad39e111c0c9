//! Pure arithmetic on readings: bandwidth classes of nodes, after Li et al. (ICPP 2013), and how far views of a
//! target agree.
//!
//! Everything here is exact and deterministic: the same record gives the same model, to the bit.

mod classes;
mod compare;
mod diagnose;
mod fit;
mod interleave;
mod io;
mod newest;
mod pairs;
mod placement;
mod plan;
mod predict;
#[cfg(test)]
mod testing;
mod validate;
mod views;

pub use classes::{classify, Point};
pub use compare::{agreement, compare, About};
pub use diagnose::{about_devices, diagnose, Known};
pub use fit::{fit, refit, Rule};
pub use interleave::interleave_weights;
pub use io::io_ranks;
pub use newest::{model_that_counts, name_missing};
pub use pairs::pair_classes;
pub use placement::{best_nodes, place, Chosen, Near, NoPlace};
pub use plan::{
    check_plan, evaluate, place_plan, plan, plan_problem, rebalance, Handover, Helper, NoProblem,
    NotFeasible, NotHere, PlanOptions, PlanRequest, Pool, Refused, THREAD_BYTES_PER_S,
};
pub use predict::{
    best_mix, capacities, measured_mix, predict, saved_mix, telling_mix, Basis, CannotPredict, MOST_STREAMS,
    MOST_TO_DISTRIBUTE,
};
pub use validate::{note_represented, validate};
pub use views::{
    check, copy_views, derived, hmat_views, io_views, latency_views, slit_views, stream_views, NotThisView,
    Subject,
};
