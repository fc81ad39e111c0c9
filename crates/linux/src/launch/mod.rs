//! Starting programs in their place: CPU affinity and memory policy are set before they are executed.

mod program_group;

pub use program_group::{exit_by_signal, ProgramExit, ProgramGroup};

use crate::affinity::Mask;
use crate::memory::Policy;
use crate::process::{heed_children, ignore_children_again};
use numaio_machine::set::CpuSet;
use numaio_machine::workload::MemoryPlace;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::panic::resume_unwind;
use std::process::Command;
use std::thread;

/// Asks a program to end.
pub const SIGTERM: i32 = libc::SIGTERM;

/// A program and its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Name on PATH, or path.
    pub name: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Variables added to its environment.
    pub env: Vec<(String, String)>,
}

/// A place that this kernel takes.
#[derive(Debug, Clone)]
pub struct ProgramBinding {
    mask: Mask,
    /// None where a sandbox forbids policies, and the place is not strict.
    policy: Option<Policy>,
    /// What is done otherwise than asked, and why.
    pub notes: Vec<String>,
}

/// Why a program cannot have its place.
#[derive(Debug, thiserror::Error)]
pub enum BindingError {
    /// Affinity.
    #[error("CPUs {cpus}: {why}")]
    Cpus {
        /// The CPUs.
        cpus: CpuSet,
        /// The kernel's words.
        why: io::Error,
    },
    /// Memory policy.
    #[error("memory on nodes {}: {why}", place.nodes)]
    Memory {
        /// The place.
        place: MemoryPlace,
        /// The kernel's words.
        why: io::Error,
    },
}

impl ProgramBinding {
    /// Finds out what this kernel takes of a place; nothing is changed.
    ///
    /// # Errors
    /// [`BindingError`]. Where a sandbox forbids memory policies, only a place that is strict is refused: the kernel's
    /// own choice, the node of the CPU, is what the others prefer.
    pub fn probe(cpus: &CpuSet, memory: &MemoryPlace, strict: bool) -> Result<Self, BindingError> {
        thread::scope(|scope| scope.spawn(|| Self::apply_here(cpus, memory, strict)).join())
            .unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// The same, found out by doing it to the calling thread: sooner, for one that is to become the program.
    ///
    /// # Errors
    /// As [`ProgramBinding::probe`].
    pub fn apply_here(cpus: &CpuSet, memory: &MemoryPlace, strict: bool) -> Result<Self, BindingError> {
        let mask = Mask::of(cpus);
        mask.apply().map_err(|why| BindingError::Cpus { cpus: cpus.clone(), why })?;
        match Policy::apply_of(memory) {
            Ok((policy, note)) => Ok(Self { mask, policy: Some(policy), notes: note.into_iter().collect() }),
            Err(why) if strict || !forbidden(&why) => {
                Err(BindingError::Memory { place: memory.clone(), why })
            }
            Err(why) => Ok(Self {
                mask,
                policy: None,
                notes: vec![format!(
                    "no memory policy ({why}): pages lie where the CPUs are that touch them first"
                )],
            }),
        }
    }

    /// For the calling thread and what it executes. Between fork and exec it allocates nothing.
    fn apply(&self) -> io::Result<()> {
        self.mask.apply()?;
        self.policy.as_ref().map_or(Ok(()), Policy::apply)
    }
}

/// Whether memory policies are kept from us, or this kernel has none.
fn forbidden(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOSYS))
}

/// Turns this process into the program, in its place. It only returns if that fails.
pub fn become_program(program: &Program, place: &ProgramBinding) -> io::Error {
    if let Err(error) = place.apply() {
        return error;
    }
    // It finds this as it would without us.
    ignore_children_again();
    let error = command(program).exec();
    heed_children();
    error
}

fn command(program: &Program) -> Command {
    let mut command = Command::new(&program.name);
    command.args(&program.args).envs(program.env.iter().map(|(name, value)| (name, value)));
    command
}

#[cfg(test)]
mod tests;
