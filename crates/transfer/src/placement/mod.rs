//! Placement of a side's threads and buffers: by a plan, by the model, or near the storage of its
//! files.

mod groups;
mod machine_view;
mod network;
mod placer;
mod plan;
mod side;
mod side_options;
mod storage;
mod worker_group;

pub use placer::{KernelPlacer, Placer};
pub use plan::SidePlan;
pub use side::SideSetup;
pub use side_options::SideOptions;
