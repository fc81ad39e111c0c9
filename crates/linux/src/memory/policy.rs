//! Memory policies (Documentation/admin-guide/mm/numa_memory_policy.rst).

use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::workload::{MemoryPlace, MemoryPolicy};
use std::io;

/// From Linux 5.15 on (include/uapi/linux/mempolicy.h).
const MPOL_PREFERRED_MANY: libc::c_int = 5;
/// From Linux 6.9 on.
const MPOL_WEIGHTED_INTERLEAVE: libc::c_int = 6;

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

    /// The policy that this kernel takes for a place, and what it does otherwise than asked, if it does. It is found
    /// by applying it to the calling thread.
    ///
    /// Older kernels prefer one node only, and interleave without weights.
    ///
    /// # Errors
    /// The kernel's: no such node, a node outside the cpuset, or a sandbox that forbids policies.
    pub fn apply_of(place: &MemoryPlace) -> io::Result<(Self, Option<String>)> {
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
                format!("this kernel prefers one node only: {} (Linux 5.15 prefers several)", first()),
            )),
            MemoryPolicy::WeightedInterleave => Some((
                Self::of_nodes(libc::MPOL_INTERLEAVE, nodes),
                "this kernel interleaves without weights (Linux 6.9 has them)".to_owned(),
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
