//! Tests of numaio on emulated machines.

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
mod support;
mod sweep;
mod top;
mod vm;
