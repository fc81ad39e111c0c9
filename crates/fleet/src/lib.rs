//! Many hosts: one store of their documents, and runs on all of them.
//!
//! [`store`] is the database of a fleet; its documents stay the truth, and it can be built again
//! from them. [`launch`] runs a command of numaio on each host through Slurm or ssh, and records
//! which hosts have reported.

pub mod launch;
pub mod store;
