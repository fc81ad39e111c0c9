//! CPU affinity and memory policy of a program.

use crate::affinity::Mask;
use crate::memory::Policy;
use numaio_machine::set::CpuSet;
use numaio_machine::workload::MemoryBinding;
use std::io;
use std::panic::resume_unwind;
use std::thread;

/// CPU affinity and memory policy that this kernel accepts for a program.
#[derive(Debug, Clone)]
pub struct ProgramBinding {
    mask: Mask,
    /// `None` if a sandbox forbids policies and the binding is not strict.
    policy: Option<Policy>,
    /// Deviations from the request, with reasons.
    pub notes: Vec<String>,
}

/// Error of binding a program.
#[derive(Debug, thiserror::Error)]
pub enum BindingError {
    /// The CPU affinity cannot be set.
    #[error("cannot bind to CPUs {cpus}: {why}")]
    Cpus {
        /// The CPUs.
        cpus: CpuSet,
        /// The kernel's error.
        why: io::Error,
    },
    /// The memory policy cannot be set.
    #[error("cannot bind memory to nodes {}: {why}", place.nodes)]
    Memory {
        /// The requested memory placement.
        place: MemoryBinding,
        /// The kernel's error.
        why: io::Error,
    },
}

impl ProgramBinding {
    /// Determines the binding that this kernel accepts, without changing the calling thread.
    ///
    /// # Errors
    /// [`BindingError`]. Where a sandbox forbids memory policies, only strict bindings fail: the
    /// kernel's default, the node of the CPU, matches the preference of the others.
    pub fn probe(cpus: &CpuSet, memory: &MemoryBinding, strict: bool) -> Result<Self, BindingError> {
        thread::scope(|scope| scope.spawn(|| Self::apply_here(cpus, memory, strict)).join())
            .unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Applies the binding to the calling thread: faster, for a process that becomes the program.
    ///
    /// # Errors
    /// See [`ProgramBinding::probe`].
    pub fn apply_here(cpus: &CpuSet, memory: &MemoryBinding, strict: bool) -> Result<Self, BindingError> {
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
                    "memory policy not set ({why}): pages are allocated on the node of the CPU that touches them first"
                )],
            }),
        }
    }

    /// Applies the binding to the calling thread; it survives exec. Allocates nothing, so it may
    /// run between fork and exec.
    pub(super) fn apply(&self) -> io::Result<()> {
        self.mask.apply()?;
        self.policy.as_ref().map_or(Ok(()), Policy::apply)
    }
}

/// Whether memory policies are forbidden or unsupported.
fn forbidden(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOSYS))
}
