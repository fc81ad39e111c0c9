//! Help, output and errors of the command line.

mod commands;
#[path = "../support/mod.rs"]
mod support;
mod wrong_input;
