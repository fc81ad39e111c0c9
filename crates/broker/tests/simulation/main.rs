//! Random transfers between the brokers of two hosts, which agree by messages that arrive late.
//!
//! Failures name their seed: `NUMAIO_SEED=N` runs only that one, `NUMAIO_SEEDS=N` runs this number.

mod chance;
mod world;

use chance::Chance;
use std::time::Duration;
use world::{Settings, World};

/// Runs a property for a number of seeds.
fn seeds(usual: u64, mut property: impl FnMut(u64)) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    if let Some(seed) = number("NUMAIO_SEED") {
        return property(seed);
    }
    (0..number("NUMAIO_SEEDS").unwrap_or(usual)).for_each(property);
}

/// Every transfer ends although connections are cut and brokers crash, in any order of messages.
#[test]
fn no_transfers_wait_for_each_other_and_no_capacity_is_lost() {
    let (mut suspended, mut crashed, mut cut) = (0, 0, 0);
    seeds(150, |seed| {
        let mut chance = Chance::new(seed);
        let settings = Settings::random(&mut chance);
        let mut world = World::new(&mut chance, settings, seed);
        world.run(Duration::from_secs(1_000_000));
        world.assert_empty();
        suspended += world.suspended;
        crashed += world.crashed;
        cut += world.cut;
    });
    let is_single = std::env::var("NUMAIO_SEED").is_ok();
    assert!(
        is_single || [suspended, crashed, cut].iter().all(|count| *count > 20),
        "{suspended} {crashed} {cut}"
    );
}

/// Once no message is in flight, both hosts have the same rates, and these are max-min fair.
#[test]
fn rates_of_both_hosts_converge_to_max_min_shares() {
    let mut compared = 0;
    seeds(150, |seed| {
        let mut chance = Chance::new(1_000_000 + seed);
        let settings = Settings { endless: true, faults: false, ..Settings::random(&mut chance) };
        let mut world = World::new(&mut chance, settings, seed);
        world.submit_all();
        world.deliver_all();
        compared += world.assert_max_min_fair();
    });
    assert!(std::env::var("NUMAIO_SEED").is_ok() || compared > 500, "{compared}");
}

/// A transfer of the lowest priority starts within a bounded time, although others of higher
/// priority arrive without end.
#[test]
fn waiting_is_bounded() {
    seeds(100, |seed| {
        let mut chance = Chance::new(2_000_000 + seed);
        world::assert_bounded_waiting(&mut chance, seed);
    });
}
