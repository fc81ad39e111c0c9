//! `numaio near`, `devices`, `doctor` and `export` at the command line.

mod consistency;
mod devices;
mod doctor;
mod export;
mod hwloc_corpus;
mod near;
mod top;
// Tests of crates/machine use the rest of these modules.
#[allow(dead_code)]
#[path = "../../../machine/tests/machine/support/mod.rs"]
mod recorded;
#[allow(dead_code)]
#[path = "../../../machine/tests/machine/near/machine.rs"]
mod stacks;
#[path = "../support/mod.rs"]
mod support;
