//! Every target, for a short time and with the same inputs each time. A fuzzer with coverage goes further: `tools/fuzz`.

use numaio_fuzz::{conversation, packed_seed, TARGETS};
use numaio_sim::mover::Chance;

/// How often each seed is changed.
const TIMES: u32 = 1000;

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

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let [to_sink, to_source, stream] = conversation();
    match target {
        "sink" => vec![to_sink],
        "source" => vec![to_source],
        "stream" => vec![stream],
        "packed" => vec![packed_seed()],
        "rules" => vec![b"/a/**/b[!c-e]?*\na/x/bf1\n*.o\nd/e.o".to_vec()],
        "kernel" => {
            vec![b"0-3,7,9-11".to_vec(), b"7f00 bind:0 anon=3 dirty=3 N0=3 kernelpagesize_kB=4".to_vec()]
        }
        "documents" => [
            &include_bytes!("../../crates/schema/tests/fixtures/model-1.json")[..],
            include_bytes!("../../crates/schema/tests/fixtures/diagnosis-1.json"),
        ]
        .map(<[u8]>::to_vec)
        .to_vec(),
        _ => vec![Vec::new(), b"{}".to_vec()],
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
fn nothing_that_comes_makes_a_target_panic() {
    for (name, target) in TARGETS {
        let mut chance = Chance::new(2026);
        for seed in seeds(name) {
            target(&seed);
            for _ in 0..TIMES {
                let mut input = seed.clone();
                mutate(&mut input, &mut chance);
                target(&input);
            }
        }
    }
}
