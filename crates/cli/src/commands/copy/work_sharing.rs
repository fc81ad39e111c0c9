//! Which crew helps which.

use numaio_linux::port::GroupLoad;
use numaio_model::{rebalance, Helper};

/// Work goes to an idle crew if it is done sooner there than by waiting. What a crew does with the data of another
/// one is seen when it has tried once; nothing is known of a crew that has not ended anything.
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
    // In operations, not in bytes: one is a block, or a bundle of small files.
    rebalance(&pools, &helpers, 1).first().map(|handover| handover.from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_goes_where_it_is_done_sooner() {
        let load = |waiting, per_second, helped_per_second| GroupLoad { waiting, per_second, helped_per_second };
        let idle = load(0, Some(100.0), Some(50.0));
        // Ten wait for a second each, and here one takes a tenth of a second.
        assert_eq!(pick_group_to_help(&[load(10, Some(1.0), Some(10.0)), idle], 1), Some(0));
        // One that waits is done there before it would be here.
        assert_eq!(pick_group_to_help(&[load(1, Some(20.0), Some(10.0)), idle], 1), None);
        // Who stands still is helped, and who was never helped is tried.
        assert_eq!(pick_group_to_help(&[load(1, None, None), idle], 1), Some(0));
        assert_eq!(pick_group_to_help(&[load(4, Some(10.0), None), idle], 1), Some(0));
        assert_eq!(pick_group_to_help(&[idle, idle], 1), None);
    }
}
