//! Tests of `numaio model --confirm`, `compare`, `predict`, `validate` and `plan`.

mod compare;
mod confirm;
mod plan;
mod predict;
#[path = "../support/mod.rs"]
mod support;
