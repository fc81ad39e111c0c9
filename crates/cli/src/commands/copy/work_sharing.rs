//! Chooses which worker group an idle group helps.

use numaio_model::{rebalance, Helper};
use numaio_mover_linux::port::GroupLoad;

/// Returns the group whose work the `idle` group finishes earlier than it would finish by waiting.
///
/// A group's speed on another group's data is known once it has tried. A group that has not
/// finished anything has no known speed.
pub fn pick_group_to_help(loads: &[GroupLoad], idle: usize) -> Option<usize> {
    let pool = |load: &GroupLoad| numaio_model::Pool {
        waiting_bytes: load.waiting,
        bytes_per_s: load.per_second.unwrap_or_default(),
    };
    let own = loads.get(idle).and_then(|load| load.helped_per_second);
    let helper = |(from, load): (usize, &GroupLoad)| Helper {
        from,
        to: idle,
        bytes_per_s: load.helped_per_second.or(own).unwrap_or(f64::MAX),
    };
    let pools: Vec<numaio_model::Pool> = loads.iter().map(pool).collect();
    let helpers: Vec<Helper> = loads.iter().enumerate().map(helper).collect();
    // In operations, not in bytes: an operation is a block, or a bundle of small files.
    rebalance(&pools, &helpers, 1).first().map(|handover| handover.from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_groups_help_where_that_is_faster() {
        let load =
            |waiting, per_second, helped_per_second| GroupLoad { waiting, per_second, helped_per_second };
        let idle = load(0, Some(100.0), Some(50.0));
        // Ten operations wait for 1 s each; the idle group takes 0.1 s.
        assert_eq!(pick_group_to_help(&[load(10, Some(1.0), Some(10.0)), idle], 1), Some(0));
        // The group finishes its only operation earlier than the idle one would.
        assert_eq!(pick_group_to_help(&[load(1, Some(20.0), Some(10.0)), idle], 1), None);
        // A group without progress is helped, and an untried combination is tried.
        assert_eq!(pick_group_to_help(&[load(1, None, None), idle], 1), Some(0));
        assert_eq!(pick_group_to_help(&[load(4, Some(10.0), None), idle], 1), Some(0));
        assert_eq!(pick_group_to_help(&[idle, idle], 1), None);
    }
}
