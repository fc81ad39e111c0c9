//! Formats placement plans for the tools that apply them, one module for each.
//!
//! Only numactl(8) supports every plan. Comments state what another format cannot express, and the
//! effect. All numbers of CPUs and nodes are the kernel's.

mod comment;
mod docker;
mod fio;
mod kernel;
mod kubernetes;
mod libvirt;
mod memory;
mod mpi;
mod numactl;
mod openmp;
mod slurm;
mod systemd;

pub use docker::docker;
pub use fio::fio;
pub use kubernetes::kubernetes;
pub use libvirt::libvirt;
pub use mpi::mpi;
pub use numactl::{numactl, numactl_notes};
pub use openmp::openmp;
pub use slurm::slurm;
pub use systemd::systemd;
