//! Memory policies (Documentation/admin-guide/mm/numa_memory_policy.rst).

use numaio_machine::ids::NodeId;
use std::io;

/// A policy in the kernel's form. Applying it allocates nothing, so that it may happen between fork and exec.
#[derive(Debug, Clone)]
pub struct Policy {
    pub(super) mode: libc::c_int,
    pub(super) mask: Vec<u64>,
}

impl Policy {
    /// Memory of one node and no other. Static: a later change of the cpuset may take the memory's right to exist,
    /// but not map the node to another one.
    pub fn bind(node: NodeId) -> Self {
        let mut mask = vec![0u64; node.0 as usize / 64 + 1];
        mask[node.0 as usize / 64] = 1 << (node.0 % 64);
        Self { mode: libc::MPOL_BIND | libc::MPOL_F_STATIC_NODES, mask }
    }

    /// Bits of the mask as the kernel wants them told: it takes one bit less than that.
    pub(super) fn bits(&self) -> usize {
        self.mask.len() * 64 + 1
    }

    /// For all that the calling thread allocates from now on, and what it executes (set_mempolicy(2)).
    ///
    /// # Errors
    /// The kernel's: no such node, a node outside the cpuset, or a sandbox that forbids it.
    pub fn apply(&self) -> io::Result<()> {
        // SAFETY: the mask holds `bits - 1` bits and lives through the call.
        let result =
            unsafe { libc::syscall(libc::SYS_set_mempolicy, self.mode, self.mask.as_ptr(), self.bits()) };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }
}
