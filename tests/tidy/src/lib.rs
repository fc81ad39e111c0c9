//! Checks of the source tree that neither the compiler nor clippy makes.
//!
//! The package links no other crate of the workspace, so that `make check` stays fast.

#[cfg(test)]
mod circles;
#[cfg(test)]
mod files;
#[cfg(test)]
mod language;
#[cfg(test)]
mod links;
#[cfg(test)]
mod named_tests;
#[cfg(test)]
mod sizes;
#[cfg(test)]
mod tree;
#[cfg(test)]
mod units;
#[cfg(test)]
mod walls;
