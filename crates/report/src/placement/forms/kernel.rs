//! Memory policies by kernel version.

use numaio_schema::PlacementPlan;

/// First version with several preferred nodes (`MPOL_PREFERRED_MANY`).
const PREFERRED_MANY: (u32, u32) = (5, 15);
/// First version with weighted interleave (`MPOL_WEIGHTED_INTERLEAVE`).
const WEIGHTED_INTERLEAVE: (u32, u32) = (6, 9);

/// The memory policies that the kernel of a plan supports; all for an unknown version.
#[derive(Debug, Clone, Copy)]
pub(super) struct KernelPolicies {
    /// Whether several nodes can be preferred.
    pub(super) preferred_many: bool,
    /// Whether interleaving has weights.
    pub(super) weighted_interleave: bool,
}

impl KernelPolicies {
    pub(super) fn of(plan: &PlacementPlan) -> Self {
        let version = version(&plan.machine.kernel);
        let since = |first: (u32, u32)| version.is_none_or(|version| version >= first);
        Self { preferred_many: since(PREFERRED_MANY), weighted_interleave: since(WEIGHTED_INTERLEAVE) }
    }
}

/// Parses the version of a release such as `5.14.0-427.el9.x86_64`.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_kernel_releases() {
        assert_eq!(version("5.14.0-427.el9.x86_64"), Some((5, 14)));
        assert_eq!(version("6.12-rc1"), Some((6, 12)));
        assert_eq!(version("4"), None);
        assert_eq!(version(""), None);
    }
}
