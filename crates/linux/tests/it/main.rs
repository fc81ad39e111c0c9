//! Integration tests that may share a process: workloads, disks and seccomp sandboxes.
//!
//! A seccomp filter applies only to the thread that installs it and to the threads it starts.

#[path = "../support/allowed.rs"]
mod allowed;
mod copy;
mod counters;
mod disk;
mod latency;
mod loaded;
mod program;
mod sandbox;
#[path = "../support/seccomp.rs"]
mod seccomp;
mod stream;
