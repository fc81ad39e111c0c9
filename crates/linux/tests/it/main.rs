//! Integration tests that may share a process: workloads, disks, ports and seccomp sandboxes.
//!
//! A seccomp filter applies only to the thread that installs it and to the threads it starts.

#[path = "../support/allowed.rs"]
mod allowed;
mod buffers;
mod copy;
mod disk;
mod latency;
#[path = "../support/port_setup.rs"]
mod port_setup;
mod sandbox;
mod stream;
