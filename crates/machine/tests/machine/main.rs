//! Tests of recorded machines, topology, id sets and handle resolution.

mod corpus;
mod malformed_files;
mod near;
mod read_cost;
mod set;
mod support;
mod tape;
mod topology;
mod truth;
