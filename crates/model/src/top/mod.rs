//! Snapshots of a running machine: rates from two samples, remote shares, order of programs.

mod arrange;
mod devices;
mod nodes;
mod programs;
mod transfers;

pub use arrange::{arrange, ProgramFilter, ProgramSort};
pub use devices::top_devices;
pub use nodes::{node_traffic, top_nodes, NodeSamples};
pub use programs::{
    inspection_order, move_commands, remote_advice, remote_share, top_program, MoveCommands,
    ProgramInspection,
};
pub use transfers::{add_transfer_rates, daemon_transfer, job_transfer};

use numaio_schema::TopSnapshot;

/// Removes programs without CPU time, I/O and remote share, and counts them.
pub fn without_idle_programs(mut snapshot: TopSnapshot) -> TopSnapshot {
    let before = snapshot.programs.len();
    snapshot.programs.retain(|program| program.is_active() || program.remote.is_some());
    let omitted = before - snapshot.programs.len();
    snapshot.omitted_programs += u64::try_from(omitted).unwrap_or(u64::MAX);
    snapshot
}

#[cfg(test)]
mod tests;
