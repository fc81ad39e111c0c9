//! `numaio stream`, `latency`, `bench` and `record --bench` at the command line.

mod bench_disk;
mod bench_gpu;
mod bench_mmio;
mod bench_net;
mod bench_ping;
mod counters;
mod loads_table;
mod recorded_io;
mod simulated_tape;
mod stream_latency;
#[path = "../support/mod.rs"]
mod support;
mod sweep;
mod under_load;
