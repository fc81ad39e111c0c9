//! Tests of numaio on emulated machines.
#![allow(clippy::print_stdout, reason = "figures in the log of a test")]

mod aarch64;
mod balance;
mod copy;
mod cost;
mod doctor;
mod filesystems;
mod irq;
mod measure;
mod mmio;
mod near;
mod packages;
mod place;
mod predict;
mod rdma;
mod sweep;
mod top;
mod vm;
