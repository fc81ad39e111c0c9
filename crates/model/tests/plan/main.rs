//! Planning: errors, certificates, properties, an exhaustive oracle and simulation.

mod bad_input;
mod checked;
mod oracle;
mod properties;
mod simulated;
mod support;
