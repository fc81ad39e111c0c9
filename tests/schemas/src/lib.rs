//! Checks of the JSON Schemas: they are generated from the types, and accept what numaio reads.
//!
//! `UPDATE_EXPECTED=1 cargo test -p numaio-schemas` generates them again.

#[cfg(test)]
mod agreement;
#[cfg(test)]
mod current;
#[cfg(test)]
mod support;
#[cfg(test)]
mod validity;
