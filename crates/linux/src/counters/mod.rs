//! Open counters: events of threads, and of PMUs outside of the cores.

mod count_window;
mod open_counters;
mod perf_event;
mod perf_stat;

pub(crate) use count_window::CountWindow;
pub(crate) use open_counters::{Attachment, OpenCounters};
