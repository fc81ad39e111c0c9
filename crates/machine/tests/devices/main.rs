//! Tests of device discovery, findings and the checkup.

mod checkup;
mod corpus;
mod discovery;
mod findings;
mod read_cost;
mod support;
