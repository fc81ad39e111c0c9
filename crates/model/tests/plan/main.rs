//! Planning: errors, certificates, agreement of the methods, an exhaustive oracle and simulation.

mod bad_input;
mod checked;
mod methods;
mod oracle;
mod simulated;
mod support;
