//! Memory policies (Documentation/admin-guide/mm/numa_memory_policy.rst).

use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::workload::{MemoryBinding, MemoryPolicy};
use std::io;

/// Since Linux 5.15 (include/uapi/linux/mempolicy.h).
const MPOL_PREFERRED_MANY: libc::c_int = 5;
/// Since Linux 6.9.
const MPOL_WEIGHTED_INTERLEAVE: libc::c_int = 6;

/// Memory policy in the kernel's format. [`Policy::apply`] allocates nothing, so it may run between
/// fork and exec.
#[derive(Debug, Clone)]
pub struct Policy {
    pub(super) mode: libc::c_int,
    pub(super) mask: Vec<u64>,
}

impl Policy {
    /// Returns a strict binding to one node. `MPOL_F_STATIC_NODES` keeps the kernel from remapping
    /// the node after a change of the cpuset.
    pub fn bind(node: NodeId) -> Self {
        Self::of_nodes(libc::MPOL_BIND, &NodeSet::one(node))
    }

    fn of_nodes(mode: libc::c_int, nodes: &NodeSet) -> Self {
        let words = nodes.iter().next_back().map_or(1, |last| last.0 as usize / 64 + 1);
        let mut mask = vec![0u64; words];
        for node in nodes.iter() {
            mask[node.0 as usize / 64] |= 1 << (node.0 % 64);
        }
        Self { mode: mode | libc::MPOL_F_STATIC_NODES, mask }
    }

    /// Applies the policy for `place` to the calling thread; returns the accepted policy and a note
    /// if it deviates from the request.
    ///
    /// Older kernels accept only one preferred node and lack weighted interleaving.
    ///
    /// # Errors
    /// The kernel's error: unknown node, node outside the cpuset, or a sandbox forbids policies.
    pub fn apply_of(place: &MemoryBinding) -> io::Result<(Self, Option<String>)> {
        let nodes = &place.nodes;
        let first = || nodes.first().map_or_else(NodeSet::new, NodeSet::one);
        let wanted = match (place.policy, nodes.len()) {
            (MemoryPolicy::Bind, _) => Self::of_nodes(libc::MPOL_BIND, nodes),
            (MemoryPolicy::Preferred, 0 | 1) => Self::of_nodes(libc::MPOL_PREFERRED, nodes),
            (MemoryPolicy::Preferred, _) => Self::of_nodes(MPOL_PREFERRED_MANY, nodes),
            (MemoryPolicy::Interleave, _) => Self::of_nodes(libc::MPOL_INTERLEAVE, nodes),
            (MemoryPolicy::WeightedInterleave, _) => Self::of_nodes(MPOL_WEIGHTED_INTERLEAVE, nodes),
        };
        let instead = match place.policy {
            MemoryPolicy::Preferred if nodes.len() > 1 => Some((
                Self::of_nodes(libc::MPOL_PREFERRED, &first()),
                format!(
                    "this kernel supports one preferred node: using {} (several need Linux 5.15)",
                    first()
                ),
            )),
            MemoryPolicy::WeightedInterleave => Some((
                Self::of_nodes(libc::MPOL_INTERLEAVE, nodes),
                "this kernel interleaves without weights (weights need Linux 6.9)".to_owned(),
            )),
            _ => None,
        };
        match (wanted.apply(), instead) {
            (Ok(()), _) => Ok((wanted, None)),
            (Err(error), Some((other, note))) if error.raw_os_error() == Some(libc::EINVAL) => {
                other.apply()?;
                Ok((other, Some(note)))
            }
            (Err(error), _) => Err(error),
        }
    }

    /// Returns the mask length for the system call, which reads one bit less.
    pub(super) fn bits(&self) -> usize {
        self.mask.len() * 64 + 1
    }

    /// Applies the policy to future allocations of the calling thread (set_mempolicy(2)); exec
    /// keeps it.
    ///
    /// # Errors
    /// The kernel's error: unknown node, node outside the cpuset, or a sandbox forbids policies.
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
