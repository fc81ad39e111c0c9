//! Tests of `numaio fleet`, and of comparisons of one host over time.

mod add;
mod baseline;
mod host_reports;
mod show;
#[path = "../support/mod.rs"]
mod support;
