//! Runs every target for a short time, with the same inputs each time.
//!
//! `tools/fuzz` runs targets with libFuzzer, guided by coverage.

use numaio_fuzz::{seeds, simulated_transfer, TARGETS};
use numaio_mover::simulator::Chance;

/// Mutations of each seed.
const MUTATIONS: u32 = 1000;
/// Mutations of each seed for targets that create files and threads, or have many seeds.
const SLOW_MUTATIONS: u32 = 100;

/// Changes, inserts, removes or doubles some bytes.
fn mutate(input: &mut Vec<u8>, chance: &mut Chance) {
    for _ in 0..=chance.below(4) {
        let at = chance.below(input.len() as u64 + 1) as usize;
        let end = (at + chance.below(9) as usize).min(input.len());
        match chance.below(5) {
            0 => input.truncate(at),
            1 => drop(input.drain(at..end)),
            2 => input.insert(at, chance.below(256) as u8),
            3 => {
                let copy = input[at..end].to_vec();
                input.splice(at..at, copy);
            }
            _ => input[at..end].iter_mut().for_each(|byte| *byte ^= 1 << chance.below(8)),
        }
    }
}

#[test]
fn simulated_transfer_has_compressed_data() {
    let [to_sink, _, stream] = simulated_transfer();
    // The magic number of a zstd frame (RFC 8878, section 3.1.1).
    let has_zstd = |bytes: &[u8]| bytes.windows(4).any(|part| part == [0x28, 0xb5, 0x2f, 0xfd]);
    assert!(has_zstd(&to_sink) && has_zstd(&stream));
}

#[test]
fn simulated_transfer_has_acls_with_names() {
    let [to_sink, _, stream] = simulated_transfer();
    let has_names = |bytes: &[u8]| bytes.windows(23).any(|part| part == b"numaio.posix_acl_access");
    assert!(has_names(&to_sink) && has_names(&stream));
}

#[test]
fn no_mutated_seed_makes_a_target_panic() {
    for (name, target) in TARGETS {
        let mut chance = Chance::new(2026);
        let mutations = if ["paths", "data-streams", "fleet-store", "documents"].contains(&name) {
            SLOW_MUTATIONS
        } else {
            MUTATIONS
        };
        for seed in seeds(name) {
            target(&seed);
            for _ in 0..mutations {
                let mut input = seed.clone();
                mutate(&mut input, &mut chance);
                target(&input);
            }
        }
    }
}
