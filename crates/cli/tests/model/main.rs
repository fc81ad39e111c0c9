//! Tests of `numaio compare`, `predict`, `validate` and `plan`.

mod compare;
mod plan;
mod predict;
#[path = "../support/mod.rs"]
mod support;
