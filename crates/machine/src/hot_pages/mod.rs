//! Which memory of a program is in use: address ranges with the accesses that a monitor of the
//! kernel found, and the hot ones among them.
//!
//! DAMON samples address ranges (Documentation/admin-guide/mm/damon/usage.rst). Idle page tracking
//! has a bit for each page (Documentation/admin-guide/mm/idle_page_tracking.rst).

mod damon;
mod monitor;
mod page_frames;
mod ranges;

pub use damon::{
    damon_settings, kdamond_folder, monitored_by, read_tried_regions, DamonIntervals, DAMON, NR_KDAMONDS,
};
pub use monitor::{AccessMonitorKind, MonitoredProcess, MonitoredRange};
pub use page_frames::{frame_heads, frame_of, is_direct_io, IdleWords};
pub use ranges::{hot_ranges, restrict, split_evenly, total_bytes, widen, AccessedRange};
