//! Integration tests that may share a process.
//!
//! A seccomp filter applies only to the thread that installs it and to the threads it starts.

mod buffers;
#[path = "../support/port_setup.rs"]
mod port_setup;
mod sandbox;
#[path = "../../../linux/tests/support/seccomp.rs"]
mod seccomp;
