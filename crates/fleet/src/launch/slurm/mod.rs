//! Runs through Slurm: one job for each host.
//!
//! Slurm has no option for a job array with one task on each of given nodes: `--nodelist` applies
//! to every task, and a task requests all nodes in it. So an array is submitted held, each task
//! gets its node as `ReqNodeList` by scontrol(1), and then the array is released. Each task then
//! starts when its own node is free, on no other, and the limit of the array (`--array=0-99%10`)
//! applies. One job of many nodes with `srun --ntasks-per-node=1` would start only when all nodes
//! are free at the same time, and end for all when one fails.

mod commands;
mod job_options;
pub mod job_script;
mod jobs;
mod nodes;
mod queries;
mod submission;
mod switches;

pub use job_options::{job_name, srun_command};
pub use jobs::{parse_jobs, parse_past_jobs, ExitCode, JobPhase, SlurmJob};
pub use nodes::{parse_nodes, NodeLine, NodeSelection};
pub use queries::{cancel, cancel_held, jobs, past_jobs, select_nodes, unusable_nodes};
pub use submission::{submit, RecordJobs};
pub use switches::parse_switches;
