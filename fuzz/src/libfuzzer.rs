//! Runs the target that `NUMAIO_FUZZ` names with libFuzzer.
#![no_main]

use libfuzzer_sys::fuzz_target;
use numaio_fuzz::{Target, TARGETS};
use std::sync::LazyLock;

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("NUMAIO_FUZZ").unwrap_or_default();
    TARGETS.into_iter().find(|(target, _)| *target == name).expect("NUMAIO_FUZZ names a target")
});

fuzz_target!(|input: &[u8]| (TARGET.1)(input));
