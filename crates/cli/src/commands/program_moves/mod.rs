//! Observation of running programs, and moves to better nodes: shared by `balance` and `top`.

mod balancer_lock;
mod config;
mod group_inputs;
mod hot_memory;
mod network_observer;
mod observer;
mod program_mover;

pub use balancer_lock::lock;
pub use config::BalanceConfig;
pub use group_inputs::{
    build_problem, group_programs, members_of, Knowledge, MovedTogether, OriginalAffinity, ProgramGroup,
};
pub use hot_memory::{describe_hot_memory, HotMemoryMonitor, MonitoredGroup};
pub use network_observer::NetworkObserver;
pub use observer::{network_rates, BusyDevices, Observation, Observer, ProgramUses, SeenProgram};
pub use program_mover::{original_affinities, remove_ended, ProgramMover};
