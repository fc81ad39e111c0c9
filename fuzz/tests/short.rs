//! Every target, for a short time and with the same inputs each time. A fuzzer with coverage goes further: `tools/fuzz`.

use numaio_fuzz::{conversation, seeds, TARGETS};
use numaio_sim::mover::Chance;

/// How often each seed is changed; less often for targets that make directories and threads.
const TIMES: u32 = 1000;
const FEW: u32 = 100;

/// Some bytes changed, put in, left out, or doubled.
fn mutate(input: &mut Vec<u8>, chance: &mut Chance) {
    for _ in 0..=chance.below(4) {
        let at = chance.below(input.len() as u64 + 1) as usize;
        let end = (at + chance.below(9) as usize).min(input.len());
        match chance.below(5) {
            0 => input.truncate(at),
            1 => drop(input.drain(at..end)),
            2 => input.insert(at, chance.below(256) as u8),
            3 => {
                let again = input[at..end].to_vec();
                input.splice(at..at, again);
            }
            _ => input[at..end].iter_mut().for_each(|byte| *byte ^= 1 << chance.below(8)),
        }
    }
}

#[test]
fn a_conversation_has_packed_data() {
    let [to_sink, _, stream] = conversation();
    // What a frame of zstd begins with (RFC 8878, section 3.1.1).
    let is_packed = |bytes: &[u8]| bytes.windows(4).any(|part| part == [0x28, 0xb5, 0x2f, 0xfd]);
    assert!(is_packed(&to_sink) && is_packed(&stream));
}

#[test]
fn a_conversation_has_acls_with_names() {
    let [to_sink, _, stream] = conversation();
    let has_names = |bytes: &[u8]| bytes.windows(23).any(|part| part == b"numaio.posix_acl_access");
    assert!(has_names(&to_sink) && has_names(&stream));
}

#[test]
fn nothing_that_comes_makes_a_target_panic() {
    for (name, target) in TARGETS {
        let mut chance = Chance::new(2026);
        let times = if ["paths", "lanes"].contains(&name) { FEW } else { TIMES };
        for seed in seeds(name) {
            target(&seed);
            for _ in 0..times {
                let mut input = seed.clone();
                mutate(&mut input, &mut chance);
                target(&input);
            }
        }
    }
}
