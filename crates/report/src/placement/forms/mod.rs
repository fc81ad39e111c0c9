//! Places of tasks in the words of the programs that put them there, one program a file.
//!
//! No program but numactl(8) has words for every plan. What one cannot say stands in a comment of its form, with
//! what happens in its place. Numbers of CPUs and nodes are the kernel's in all of them.

mod comment;
mod docker;
mod fio;
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
pub use numactl::numactl;
pub use openmp::openmp;
pub use slurm::slurm;
pub use systemd::systemd;
