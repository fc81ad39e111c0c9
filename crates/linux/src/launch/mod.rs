//! Programs started with CPU affinity and memory policy, both set before exec.

mod program;
mod program_binding;
mod program_group;

pub use program::Program;
pub use program_binding::{BindingError, ProgramBinding};
pub use program_group::{exit_by_signal, ProgramExit, ProgramGroup};

use crate::process::{reinstate_ignored_sigchld, restore_sigchld_default};
use std::io;
use std::os::unix::process::CommandExt;

/// Signal that requests termination.
pub const SIGTERM: i32 = libc::SIGTERM;

/// Replaces this process with the program; returns only on failure.
pub fn become_program(program: &Program, place: &ProgramBinding) -> io::Error {
    if let Err(error) = place.apply() {
        return error;
    }
    // Restores the disposition that the program would have without numaio.
    reinstate_ignored_sigchld();
    let error = program.command().exec();
    restore_sigchld_default();
    error
}

#[cfg(test)]
mod tests;
