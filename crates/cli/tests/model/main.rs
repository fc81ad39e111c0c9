//! `numaio compare`, `predict`, `validate` and `plan`, as a user runs them.

mod compare;
mod plan;
mod predict;
#[path = "../support/mod.rs"]
mod support;
